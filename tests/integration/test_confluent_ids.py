"""Schema ids: unique, never given out twice, equal at every replica, and kept by native writes."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import orjson
import pytest

from catalog.dialects.confluent.nativeversions import run_native_versions
from catalog.monitoring.diagnosis import CheckedNode
from catalog.monitoring.nodechecks import check_schema_ids
from catalog.settings.settings import Settings
from replication.reconcile.inputs.databaseinput import DatabaseInput
from replication.reconcile.inputs.nodeinput import NodeInput
from replication.reconcile.job import ReconcileJob
from replication.routes import routes
from tests.integration.confluent import Registry, assert_error, record
from tests.integration.conftest import Node, start_node
from tests.integration.federation import (
    carries,
    databases,
    eventually,
    link,
    quick_timing,
    running,
)
from tests.integration.test_restricted_callers import holder


@pytest.fixture
def registry(node: Node) -> Registry:
    return Registry(node)


@pytest.fixture
async def regions(postgres_url: str, template: str) -> AsyncIterator[list[Registry]]:
    """Two nodes, of which the second one is to follow the first."""
    async with (
        databases(postgres_url, template, 2) as (one, two),
        start_node(one, routes=routes) as source,
        start_node(two, routes=routes) as target,
    ):
        yield [Registry(source), Registry(target)]


async def replicate(source: Registry, target: Registry) -> None:
    await link(target.node, source.node)
    async with running(target.node):
        await eventually(lambda: carries(target.node, source.node))


async def test_registrations_at_the_same_time_get_ids_of_their_own(registry: Registry) -> None:
    texts = [record(f"f{number}", name=f"R{number}") for number in range(12)]
    ids = await asyncio.gather(
        *(registry.register(f"s{number}", text) for number, text in enumerate(texts))
    )
    assert len({*ids}) == len(texts)
    same = await asyncio.gather(*(registry.register(f"t{n}", texts[0]) for n in range(8)))
    assert {*same} == {ids[0]}
    versions = await asyncio.gather(
        *(registry.register("one", record("a", *"bcdefgh"[:n], defaults=True)) for n in range(6))
    )
    assert len({*versions}) == 6
    assert await registry.get("/subjects/one/versions") == [1, 2, 3, 4, 5, 6]


async def test_an_id_of_a_deleted_schema_is_not_given_out_again(registry: Registry) -> None:
    first = await registry.register("s", record("a"))
    for query in ("", "?permanent=true"):
        await registry.delete(f"/subjects/s{query}")
    home = await home_of(registry)
    assert await registry.register("s", record("b")) == first + 1
    await registry.node.send("DELETE", f"{home}/schemas/s")
    assert await registry.register("s", record("c")) == first + 2


async def home_of(registry: Registry) -> str:
    groups = await registry.node.get("/schemagroups")
    [home] = [id for id, group in groups.items() if group["confluent"].get("home")]
    return f"/schemagroups/{home}"


async def test_a_restored_node_gives_out_no_id_twice(postgres_url: str, database_url: str) -> None:
    """The schemas that came after the backup are lost, but messages carry their ids."""
    parts = urlsplit(database_url)
    copy = f"{parts.path[1:]}_copy"
    connection = await asyncpg.connect(postgres_url)
    try:
        async with start_node(database_url) as node:
            await Registry(node).register("s0", record("a"))
        await connection.execute(f'CREATE DATABASE "{copy}" TEMPLATE "{parts.path[1:]}"')
        async with start_node(database_url) as node:
            before = {
                await Registry(node).register(f"s{n}", record(f"before{n}")) for n in range(1, 100)
            }
        async with start_node(parts._replace(path=f"/{copy}").geturl()) as node:
            restored = Registry(node)
            after = {await restored.register(f"s{n}", record(f"after{n}")) for n in range(1, 100)}
    finally:
        await connection.execute(f'DROP DATABASE IF EXISTS "{copy}" WITH (FORCE)')
        await connection.close()
    assert (len(before), len(after), before & after) == (99, 99, set())


async def test_small_ids_are_given_out_where_the_setting_says_so(database_url: str) -> None:
    async with start_node(database_url, confluent_first_id=1, confluent_group="kafka") as node:
        registry = Registry(node)
        assert [await registry.register("s", record("a")) for _ in range(2)] == [1, 1]
        assert await registry.register("t", record("b")) == 2
        assert await home_of(registry) == "/schemagroups/kafka"


async def test_authorities_that_have_taken_one_range_part_when_they_meet(
    postgres_url: str, template: str, tmp_path: Path
) -> None:
    async with (
        databases(postgres_url, template, 2) as (one, two),
        start_node(one, routes=routes, confluent_first_id=1) as first,
        start_node(two, routes=routes, confluent_first_id=1) as second,
    ):
        pairs = sorted(
            ((first, one), (second, two)), key=lambda pair: pair[0].database.node.authority
        )
        earlier, later = (Registry(node) for node, _ in pairs)
        assert [await each.register("s", record("a")) for each in (earlier, later)] == [1, 1]
        for each, field in ((earlier, "b"), (later, "c")):
            assert await each.register("t", record(field)) == 2
        await replicate(earlier, later)
        conflict = await later.send("GET", "/schemas/ids/2")
        assert_error(conflict, 409, "t version 1")
        assert (await later.get("/schemas/ids/1"))["schema"] == record("a")
        await assert_conflict_is_told(earlier.node, later.node, pairs[1][1], tmp_path)
        new = await later.register("u", record("d"))
        assert new >= 2**20
        assert await later.register("v", record("e")) == new + 1
        assert await earlier.register("u", record("f")) == 3


async def assert_conflict_is_told(
    earlier: Node, later: Node, database_url: str, report: Path
) -> None:
    """Doctor, the history of the link and the reconciliation name the id 2 and both versions."""
    homes = [
        f"schemas.{node.database.node.authority.rpartition(':')[2]}" for node in (earlier, later)
    ]
    told = [f"t version 1 in {home}" for home in sorted(homes)]
    expected = f"The schema id 2 names several schemas: {', '.join(told)}."
    found = await check_schema_ids(CheckedNode(Settings(), database_url, lambda _: None))
    assert [each.text for each in found] == [expected]
    [shown] = (await later.get("/replication/links"))["links"]
    assert [e["detail"] for e in shown["history"] if e["event"] == "schema id"] == [expected]
    job = ReconcileJob(
        inputs=[
            NodeInput(name="earlier", url=earlier.url),
            DatabaseInput(name="later", dsn=database_url),
        ],
        report=report,
        repair=False,
        master="",
        verify=True,
        settle_seconds=0,
        progress=lambda _: None,
    )
    summary = await asyncio.to_thread(job.run)
    assert {name: [each.text for each in ids] for name, ids in summary.schemaids.items()} == {
        "later": [expected]
    }
    conflict = orjson.loads((report / "summary.json").read_bytes())["schemaids"]["later"]
    assert [(each["id"], {*each["versions"].values()}) for each in conflict] == [(2, {"t"})]
    assert "1 schema id names several schemas" in summary.verdict()
    assert all(home in (report / "report.html").read_text() for home in homes)


async def test_a_replica_answers_with_the_same_ids_and_registers_nothing(
    regions: list[Registry],
) -> None:
    source, target = regions
    id = await source.register("orders-value", record("a"))
    await source.register("orders-value", record("a", "b", defaults=True))
    await source.put("/config/orders-value", {"compatibility": "FULL"})
    await source.register(":.team:s", record("t"))
    await replicate(source, target)

    assert await target.get("/subjects") == [":.team:s", "orders-value"]
    for path in (
        "/subjects/orders-value/versions/1",
        f"/schemas/ids/{id}",
        "/config/orders-value",
        "/subjects/:.team:s/versions/1",
    ):
        assert await target.get(path) == await source.get(path)
    # Producers register at every start.
    assert await target.register("orders-value", record("a")) == id
    assert await target.register(":.team:s", record("t")) == 1
    refused = await target.try_register("orders-value", record("a", "c", defaults=True))
    assert_error(refused, 42205, source.node.database.node.authority)
    assert_error(await target.send("DELETE", "/subjects/orders-value"), 42205)
    assert_error(await target.send("PUT", "/config/orders-value", {"compatibility": "NONE"}), 42205)
    assert await target.get("/mode/orders-value") == {"mode": "READONLY"}


async def test_both_regions_register_and_one_text_has_one_id(regions: list[Registry]) -> None:
    source, target = regions
    shared, own = record("shared"), record("own")
    id = await source.register("s", shared)
    await replicate(source, target)
    assert await target.register("t", shared) == id
    new = await target.register("u", own)
    assert new // 2**20 != id // 2**20
    home = await own_home(target)
    # The subject of the node's own home group comes before that of another one.
    await target.register("s2", own)
    assert (await target.get("/subjects")) == ["s", "s2", "t", "u"]
    assert f".{home}" not in await target.get("/contexts")
    [other] = [name for name in await target.get("/contexts") if name != "."]
    assert (await target.get(f"/subjects/:{other}:s/versions/1"))["id"] == id
    assert (await target.get(f"/schemas/ids/{new}"))["schema"] == own


async def own_home(registry: Registry) -> str:
    groups = await registry.node.get("/schemagroups")
    [home] = [id for id, g in groups.items() if g["confluent"].get("home") and "authority" not in g]
    return str(home)


async def test_native_clients_see_the_text_and_cannot_change_what_messages_name(
    registry: Registry,
) -> None:
    id = await registry.register("s", record("a"))
    xid = f"{await home_of(registry)}/schemas/s"
    node = registry.node
    native = await node.get(f"{xid}/versions/1$details")
    assert native["confluent"]["id"] == id
    assert (native["format"], native["formatvalidated"]) == ("Avro", True)
    assert (await node.send("GET", f"{xid}/versions/1")).body == record("a").encode()
    refused = await node.send("PUT", f"{xid}/versions/1", body=record("b").encode())
    assert refused.status == 400, refused.body
    assert f"schema id {id}" in refused.json["title"]
    described = {"description": "about it", "confluent": {"id": 7}}
    shown = await node.send("PATCH", f"{xid}/versions/1$details", described)
    assert shown.json["description"] == "about it"
    assert shown.json["confluent"] == native["confluent"]
    forged = {"format": "x", "confluent": {"id": 7, "guid": "x"}}
    await node.put("/schemagroups/g/schemas/forged$details", forged)
    assert "confluent" not in await node.get("/schemagroups/g/schemas/forged$details")
    assert (await registry.get("/subjects/s/versions/1"))["schema"] == record("a")


@pytest.mark.parametrize("number", ["1e22", "1.50", "1e2", "12345678901234567890123"])
async def test_what_natives_read_they_can_write_whatever_the_text_spells(
    registry: Registry, number: str
) -> None:
    """JSON in an attribute has another spelling than the text, which stays as it is."""
    text = f'{{"const":{number}}}'
    await registry.register("s", text, schemaType="JSON")
    shown = await registry.get("/subjects/s/versions/1")
    node, path = registry.node, f"{await home_of(registry)}/schemas/s"
    for place in (f"{path}$details", f"{path}/versions/1$details"):
        read = await node.send("GET", f"{place}?inline=schema")
        assert b'"schema":{' in read.body
        written = await node.send("PUT", place, body=read.body, Content_Type="application/json")
        assert written.status == 200, written.body
        assert written.json["confluent"]["id"] == shown["id"]
    assert (await node.send("GET", path)).body == shown["schema"].encode()
    changed = await node.send("PATCH", f"{path}$details", {"schema": {"const": 7}})
    assert changed.status == 400, changed.body
    assert f"schema id {shown['id']}" in changed.json["title"]
    assert {**await registry.get("/subjects/s/versions/1"), "ts": 0} == {**shown, "ts": 0}


async def test_two_texts_under_one_id_are_told_apart_by_their_subjects(
    regions: list[Registry],
) -> None:
    """Two registries without ranges both began at 1."""
    source, target = regions
    for registry, subject in ((source, "s"), (target, "t")):
        await registry.put("/mode", {"mode": "IMPORT"})
        await registry.register(subject, record(subject), id=1)
    await replicate(source, target)
    assert_error(await target.send("GET", "/schemas/ids/1"), 409, "s version 1, t version 1")
    for subject in ("s", "t"):
        found = await target.get(f"/schemas/ids/1?subject={subject}")
        assert found["schema"] == record(subject)


async def test_versions_of_native_clients_get_ids_and_keep_their_texts(registry: Registry) -> None:
    first = await registry.register(":.team:s", record("a"))
    node, text = registry.node, record("b").replace(",", ", ")
    path = "/schemagroups/team/schemas"
    for name, body in (
        ("t", {"format": "Avro/1.12", "schemabase64": _base64(text)}),
        ("u", {"format": "Other", "schema": {}}),
        ("v", {"format": "Avro", "schema": {"type": "string"}}),
    ):
        await node.put(f"{path}/{name}/versions/1$details", body)

    async def has_ids() -> bool:
        return bool(await registry.get("/subjects") == [":.team:s", ":.team:t", ":.team:v"])

    loop = asyncio.create_task(run_native_versions(node.context, timing=quick_timing()))
    try:
        await eventually(has_ids)
    finally:
        loop.cancel()
        await asyncio.wait([loop])
    shown = await registry.get("/subjects/:.team:t/versions/1")
    assert (shown["id"], shown["schema"]) == (first + 1, record("b"))
    assert (await node.send("GET", f"{path}/t/versions/1")).body == text.encode()
    assert await registry.register(":.team:t", record("b")) == shown["id"]
    assert await registry.register(":.team:w", record("b")) == shown["id"]
    assert await registry.register(":.team:t", record("b", "c", defaults=True)) == first + 3


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


async def test_a_caller_sees_and_writes_the_contexts_of_its_groups(database_url: str) -> None:
    async with start_node(database_url, open=False) as node:
        admin = await holder(node, "admin")
        for name in (".team", ".other"):
            answer = await admin.send(
                "POST", f"/confluent/subjects/:{name}:s/versions", {"schema": record("a")}
            )
            assert answer.status == 200, answer.body
        writer = await holder(node, "writer", "/schemagroups/team")
        reader = await holder(node, "reader", "/schemagroups/team")
        assert await reader.get("/confluent/contexts") == [".", ".team"]
        assert await reader.get("/confluent/subjects") == [":.team:s"]
        hidden = await reader.send("GET", "/confluent/subjects/:.other:s/versions/1")
        assert_error(hidden, 40401)
        path = "/confluent/subjects/:.team:s/versions"
        known = await reader.send("POST", path, {"schema": record("a")})
        assert known.json["id"] == 1
        new = {"schema": record("a", "b", defaults=True)}
        assert_error(await reader.send("POST", path, new), 403)
        assert (await writer.send("POST", path, new)).json["id"] == 2
        other = await writer.send("POST", "/confluent/subjects/:.other:s/versions", new)
        assert_error(other, 403)
        assert_error(await node.send("GET", "/confluent/subjects"), 401)
        assert_error(await node.send("GET", "/confluent/nowhere"), 401)
