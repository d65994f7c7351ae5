"""Backstage, EventCatalog and DataHub show what a node has, by `deploy/portals`."""

from __future__ import annotations

import json
import os
import signal
import sys
from asyncio import create_subprocess_exec, to_thread
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import ClientSession

from catalog.operations.access import CREATE_TOKEN, NewToken, PathGrant
from tests.deploy.keptpython import kept_python
from tests.deploy.portals import SOURCE, Portals
from tests.e2e.nodes import NodeProcess, node_at, running, until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.asyncio(loop_scope="module"),
]
ROOT = Path(__file__).parents[2]
DOCUMENTS = (
    "catalog/demo/data/eu/dwd.xreg.json",
    "examples/orders.asyncapi.yaml",
    "tests/documents/codegen/inkjet-kafka-basemessageuri.xreg.json",
    "tests/documents/spec/inkjet-proto3.xreg.json",
    "tests/documents/spec/smartoven-xsd.xreg.json",
    "tests/documents/spec/windgenerator-kafka-avro.xreg.json",
)
JSON_SCHEMA = {"dataschemaformat": "JsonSchema/draft-07"}
FAR = {"type": "object", "properties": {"far": {"$ref": "http://127.0.0.1:9/never"}}}
_DATAHUB = "acryl-datahub==1.7.0.17"
_LINTER = "node_modules/@eventcatalog/linter/dist/cli/index.js"
_GENERATE = (
    "require(process.argv[2]).default({}, JSON.parse(process.argv[3]))"
    ".catch(error => { console.error(error); process.exit(1); })"
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def portals(tmp_path_factory: pytest.TempPathFactory) -> Portals:
    return await Portals.build(tmp_path_factory.mktemp("portals") / "packages")


async def import_documents(node: NodeProcess) -> None:
    process = await create_subprocess_exec(
        *(sys.executable, "-m", "catalog.cli", "import", "--migrate", "--keep-going", "--quiet"),
        *("--url", node.url, *DOCUMENTS),
        cwd=ROOT,
        env={**os.environ},
    )
    assert await process.wait() in (0, 1)


async def ids_of(node: NodeProcess) -> dict[str, list[str]]:
    """The ids of the groups, and the xids of messages and schemas."""
    async with node.client() as client:
        document = await client.export()
    found = {plural: [*document[plural]] for plural in ("endpoints", "messagegroups")}
    for plural, name in (("messagegroups", "messages"), ("schemagroups", "schemas")):
        groups = document[plural].values()
        found[name] = [each["xid"] for group in groups for each in group.get(name, {}).values()]
    return found


async def reader_token(node: NodeProcess) -> str:
    """Have the node ask who sends a request; the token of a portal."""

    async with node.client() as client:
        token, node.token = [
            (await client.call(CREATE_TOKEN, NewToken(grants=(PathGrant(role=each),)))).token
            for each in ("reader", "admin")
        ]
    assert token is not None
    await node.end(signal.SIGTERM)
    node.environment["CONCORD_OPEN"] = "false"
    await node.start()
    return token


@pytest.mark.parametrize("package", ["backstage", "eventcatalog"])
async def test_the_tests_of_the_package_pass(portals: Portals, package: str) -> None:
    assert "# fail 0" in await portals.run("--test", f"{package}/dist/{package}/test/")


async def test_backstage_shows_the_catalog_and_follows_it(
    portals: Portals, database_url: str, tmp_path: Path
) -> None:
    """What is imported, changed and deleted is soon so in Backstage, over an outage, too."""
    node = node_at(tmp_path)
    async with running(node):
        await import_documents(node)
        ids = await ids_of(node)
        log = tmp_path / "backstage.log"
        async with portals.backstage(node.url, database_url, log) as url, ClientSession() as http:

            async def entity(kind: str, name: str) -> Any:
                answer = await http.get(f"{url}/entities/by-name/{kind}/default/{name}")
                return await answer.json() if answer.status == 200 else None

            async def count() -> dict[str, int]:
                answer = await (await http.get(f"{url}/entity-facets?facet=kind")).json()
                return {each["value"]: each["count"] for each in answer["facets"]["kind"]}

            async def seen(what: str, condition: Callable[[], Any]) -> Any:
                return await until(condition, seconds=120, what=f"{what} in Backstage ({log})")

            apis = len(ids["messagegroups"]) + len(ids["schemas"])

            async def has_everything() -> bool:
                kinds = await count()
                return kinds.get("API") == apis and kinds["Component"] == len(ids["endpoints"])

            await seen("everything", has_everything)

            async def related() -> Any:
                found = await entity("api", "Orders.orders")
                return found and len(found.get("relations", ())) == 2 and found

            orders = await seen("the relations", related)
            assert {(each["type"], each["targetRef"]) for each in orders["relations"]} >= {
                ("apiConsumedBy", "component:default/orders.bill")
            }
            page = f"{node.url}/console/e/messagegroups/Orders.orders"
            assert orders["metadata"]["annotations"]["backstage.io/view-url"] == page
            async with http.get(page) as shown:
                assert shown.status == 200
            bill = await entity("component", "Orders.bill")
            [topic] = bill["spec"]["dependsOn"]
            assert topic.startswith("resource:default/shop.orders.v1-")
            [owner] = {bill["spec"]["owner"], orders["spec"]["owner"]}
            assert (await entity("group", owner.partition("/")[2]))["spec"]["type"]

            hostile = "<script>alert(1)</script> ${x}"
            async with node.client() as client:
                await client.update("/messagegroups/Orders.orders", {"description": hostile})
                await client.create("/messagegroups/new", {"documentation": "javascript:alert(1)"})
                await client.delete("/endpoints/Orders.bill")
            await seen("a new group", lambda: entity("api", "new"))
            assert len((await entity("api", "new"))["metadata"]["links"]) == 1

            async def is_changed() -> bool:
                found = await entity("api", "Orders.orders")
                return bool(found["metadata"].get("description", "").startswith("<script>"))

            await seen("a new text", is_changed)

            async def is_gone() -> bool:
                return await entity("component", "Orders.bill") is None

            await seen("a deletion", is_gone)

            # Another catalog at the same URL: the feed does not go on from the cursor.
            await node.end(signal.SIGKILL)
            node.environment["CONCORD_DATA_DIR"] = str(tmp_path / "other")
            await node.start()
            async with node.client() as client:
                await client.create("/messagegroups/other", {})

            async def is_other() -> bool:
                return (await count()).get("API") == 1 and await entity("api", "other") is not None

            await seen("the other catalog", is_other)


async def test_eventcatalog_shows_the_catalog_and_its_own_linter_agrees(
    portals: Portals, tmp_path: Path
) -> None:
    """A first and a second run write what the node has; the second removes what is gone."""
    node, shown = node_at(tmp_path), tmp_path / "shown"
    shown.mkdir()
    script = tmp_path / "generate.cjs"
    script.write_text(_GENERATE)

    async def generate() -> str:
        package = str(portals.directory / "eventcatalog")
        options = json.dumps({"url": node.url, "token": token})
        return await portals.run(str(script), package, options, cwd=shown)

    async with running(node):
        await import_documents(node)
        token = await reader_token(node)
        ids = await ids_of(node)
        assert "0 removed" in await generate()

        def pages(kind: str) -> list[Path]:
            return sorted((shown / kind).glob("*/index.mdx"))

        for kind, plural in (
            ("domains", "messagegroups"),
            ("services", "endpoints"),
            ("events", "messages"),
        ):
            assert len(pages(kind)) == len(ids[plural]), kind
        assert "✖ error" not in await portals.run(_LINTER, str(shown))
        formats = {path.name for path in shown.glob("events/*/schema.*")}
        assert formats == {"schema.json", "schema.avsc", "schema.proto", "schema.xsd"}
        [bill] = (shown / "services").glob("Orders.bill-*/index.mdx")
        [placed] = (shown / "events").glob("placed-*")
        assert placed.name in bill.read_text().partition("receives:")[2]

        async with node.client() as client:
            await client.delete("/endpoints/Orders.bill")
        assert "removed" in await generate()
        assert not bill.exists()
        assert len(pages("services")) == len(ids["endpoints"]) - 1


async def test_datahub_is_told_of_topics_with_fields_and_owners(tmp_path: Path) -> None:
    """DataHub's own ingestion runs the source, and writes what it found into a file."""
    python = await to_thread(kept_python, _DATAHUB, otherwise="put its python first on the PATH")
    node, found = node_at(tmp_path), tmp_path / "found.json"
    async with running(node):
        await import_documents(node)
        async with node.client() as client:
            await client.create(
                "/endpoints/far", {"protocol": "KAFKA", "protocoloptions": {"topic": "far"}}
            )
            await client.create("/endpoints/far/messages/far", {"dataschema": FAR, **JSON_SCHEMA})
        config = {"url": node.url, "token": await reader_token(node)}
        recipe = {
            "source": {"type": "concord_datahub.ConcordSource", "config": config},
            "sink": {"type": "file", "config": {"filename": str(found)}},
        }
        (tmp_path / "recipe.json").write_text(json.dumps(recipe))
        process = await create_subprocess_exec(
            *(str(python), "-m", "datahub", "ingest", "run", "-c", str(tmp_path / "recipe.json")),
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(tmp_path),
                "PYTHONPATH": str(SOURCE / "datahub"),
                "DATAHUB_TELEMETRY_ENABLED": "false",
            },
            stdout=PIPE,
            stderr=STDOUT,
        )
        output, _ = await process.communicate()
        assert process.returncode == 0, output.decode()
    told = {
        (each["entityUrn"], each["aspectName"]): each["aspect"]["json"]
        for each in json.loads(found.read_bytes())
    }
    topic = "urn:li:dataset:(urn:li:dataPlatform:kafka,shop.orders.v1,PROD)"
    fields = told[topic, "schemaMetadata"]["fields"]
    assert [each["fieldPath"].rpartition(".")[2] for each in fields][:2] == ["id", "total"]
    [link] = told[topic, "institutionalMemory"]["elements"]
    assert link["url"] == f"{node.url}/console/e/endpoints/Orders.bill"
    [owner] = told[topic, "ownership"]["owners"]
    assert told[owner["owner"], "corpGroupInfo"]["displayName"] == node.url
    far = told[topic.replace("shop.orders.v1", "far"), "schemaMetadata"]["fields"]
    # DataHub itself would fetch what a schema names, and fail.
    assert [each["fieldPath"].rpartition(".")[2] for each in far] == ["far"]
