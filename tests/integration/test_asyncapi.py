"""AsyncAPI documents at a node: imported, applied, exported, and read by the official parser."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import pytest_asyncio

from catalog.client import Client
from catalog.commands.documentfile import read_document, write_asyncapi
from catalog.commands.import_.importing import import_document
from catalog.commands.referencedparts import export_asyncapi
from catalog.documents.asyncapi.fromentities import EDITIONS, from_entities
from catalog.documents.serialization import parse_json, parse_yaml
from tests.brokers.asyncapiparser import parse_errors
from tests.integration.conftest import Node, assert_problem, shared_node
from tests.pages import ROOT

pytestmark = pytest.mark.asyncio(loop_scope="module")
DOCUMENTS = ROOT / "tests" / "documents"
ORDERS = ROOT / "examples" / "orders.asyncapi.yaml"
PUBLISHED = [ORDERS, *sorted((DOCUMENTS / "asyncapi").glob("*.yml"))]
NATIVE = sorted(DOCUMENTS.glob("codegen/*"))
JSON = "application/vnd.aai.asyncapi+json;version=3.0.0"
YAML = "application/vnd.aai.asyncapi+yaml;version=3.0.0"


node = shared_node()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(node: Node) -> AsyncIterator[Client]:
    async with Client.open(node.url) as opened:
        yield opened


async def test_the_official_parser_accepts_every_export_and_an_import_of_it_changes_nothing(
    client: Client, tmp_path: Path
) -> None:
    exports = []
    for path in PUBLISHED:
        document = read_document(path)
        [group] = document.groups["schemagroups"]
        result = await import_document(client, document)
        assert (result.is_imported, result.document.losses) == (True, ())
        for edition in EDITIONS:
            exported = await export_asyncapi(
                client, [f"/schemagroups/{group}"], own=False, edition=edition
            )
            exports.append(tmp_path / f"{path.stem}.{edition}.asyncapi.json")
            exports[-1].write_bytes(write_asyncapi(exported, "asyncapi.json"))
            if edition == EDITIONS[0]:
                assert exported.losses == ()
                again = await import_document(client, read_document(exports[-1]))
                assert (again.is_imported, again.written) == (True, 0)
        for plural, groups in document.groups.items():
            for id in groups:
                await client.delete(f"/{plural}/{id}")
    for path in NATIVE:
        for edition in EDITIONS:
            groups = read_document(path, migrate=True).groups
            exports.append(tmp_path / f"{path.name}.{edition}.yaml")
            exported = from_entities(groups, title=path.name, edition=edition)
            exports[-1].write_bytes(write_asyncapi(exported, "asyncapi.yaml"))
    errors = await parse_errors(tmp_path, exports)
    # The document describes examples that its own schema refuses; 2.6 holds examples to schemas.
    lax = "kraken-websocket-request-reply-message-filter-in-reply-asyncapi.2.6.asyncapi.json"
    assert [path.name for path, found in zip(exports, errors, strict=True) if found] == [lax]


@pytest.mark.parametrize(("media_type", "parse"), [(JSON, parse_json), (YAML, parse_yaml)])
async def test_a_node_takes_asyncapi_documents_where_it_takes_groups(
    node: Node, media_type: str, parse: Any
) -> None:
    source = parse_yaml(ORDERS.read_bytes())
    body = orjson.dumps(source) if parse is parse_json else ORDERS.read_bytes()
    answer = await node.send("POST", "/apply", body=body, **{"Content-Type": media_type})
    assert answer.status == 200, answer.body
    assert (await node.get("/endpoints/Orders.bill"))["usage"] == ["consumer"]
    again = await node.send("POST", "/", body=body, **{"Content-Type": media_type})
    assert again.status == 200, again.body


@pytest.mark.parametrize(
    ("accept", "media_type", "version"),
    [
        (YAML, YAML, "3.0.0"),
        (JSON, JSON, "3.0.0"),
        ("application/vnd.aai.asyncapi+json", JSON, "3.0.0"),
        (f"application/json;q=0.5, {YAML.replace('3.0.0', '2.6.0')}", None, "2.6.0"),
    ],
)
async def test_a_node_exports_asyncapi_to_those_who_accept_it(
    node: Node, accept: str, media_type: str | None, version: str
) -> None:
    answer = await node.send("POST", "/apply", body=ORDERS.read_bytes(), **{"Content-Type": YAML})
    assert answer.status == 200, answer.body
    exported = await node.send("GET", "/export", Accept=accept)
    assert exported.status == 200, exported.body
    if media_type is not None:
        assert exported.headers["Content-Type"] == media_type
    assert "Accept" in exported.headers["Vary"]
    parse = parse_json if "+json" in exported.headers["Content-Type"] else parse_yaml
    document = parse(exported.body)
    assert document["asyncapi"] == version
    if version == "3.0.0":
        body = {"body": exported.body, "Content-Type": media_type}
        again = await node.send("POST", "/apply", **body)
        assert (again.json["created"], again.json["updated"]) == (0, 0)


async def test_an_export_as_asyncapi_tells_what_it_lacks(node: Node, client: Client) -> None:
    schema = {"format": "JsonSchema/draft-07", "schema": {}}
    versions = {"versions": {"1": schema, "2": {**schema, "schema": {"title": "2"}}}}
    await client.create("/schemagroups/two", {"schemas": {"s": versions}})
    answer = await node.send("GET", "/export", Accept=JSON)
    assert (
        'lost;pointer="/schemagroups/two/schemas/s/versions/1"' in answer.headers["Concord-Notes"]
    )
    await client.delete("/schemagroups/two")
    # A version that nobody writes is not chosen, and only an export is an AsyncAPI document.
    for path, accept in [("/export", JSON.replace("3.0.0", "1.2.0")), ("/", JSON)]:
        answer = await node.send("GET", path, Accept=accept)
        assert answer.headers["Content-Type"].startswith("application/json")


async def test_a_node_refuses_what_would_be_lost(node: Node) -> None:
    lost = {"$ref": "./elsewhere.yaml#/channel"}
    document = {"asyncapi": "3.0.0", "info": {"title": "Lost", "version": "1"}}
    document |= {"channels": {"c": lost}}
    headers = {"Content-Type": JSON}
    answer = await node.send("POST", "/apply", body=orjson.dumps(document), **headers)
    assert answer.status == 400
    assert "/channels/c: its target is in another document" in assert_problem(answer)["title"]
    assert (await node.send("GET", "/schemagroups/Lost")).status == 404
    older = {**document, "asyncapi": "1.0.0"}
    answer = await node.send("POST", "/apply", body=orjson.dumps(older), **headers)
    assert "is not read" in assert_problem(answer)["title"]
    answer = await node.send("PUT", "/", body=orjson.dumps(document), **headers)
    assert "are posted" in assert_problem(answer)["title"]


async def test_payloads_are_validated_by_schemas_that_refer_to_each_other(
    node: Node, client: Client
) -> None:
    await import_document(client, read_document(ORDERS))
    path = "/validate/messagegroups/Orders.orders/messages/placed"
    total: dict[str, Any] = {"amount": 1, "currency": "EUR"}
    message = {"headers": {"correlation-id": "7"}, "payload": {"id": "7", "total": total}}
    answer = await node.send("POST", path, message)
    assert answer.json["valid"], answer.body
    total["amount"] = "1"
    answer = await node.send("POST", path, message)
    assert not answer.json["valid"]
    assert "/total/amount" in answer.body.decode()


async def test_a_part_is_exported_with_all_that_it_refers_to(client: Client) -> None:
    await import_document(client, read_document(ORDERS))
    whole = await export_asyncapi(client, ["/schemagroups/Orders"], own=False, edition="3.0")
    part = await export_asyncapi(client, ["/endpoints/Orders.bill"], own=False, edition="3.0")
    assert part.losses == whole.losses == ()
    assert part.document["operations"] == whole.document["operations"]
    assert part.document["components"] == whole.document["components"]
    assert part.document["channels"]["orders"]["address"] == "shop.orders.v1"
