"""Rows that were damaged behind the node's back: whatever they hold, only their own reads fail."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
import pytest_asyncio
import structlog
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from replication.routes import routes
from tests.integration.conftest import Node, start_node
from tests.integration.federation import digest_rows, execute, lines

pytestmark = pytest.mark.asyncio(loop_scope="module")
QUIET = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)

_EVENT = {
    "name": "it.happened",
    "envelope": "CloudEvents/1.0",
    "envelopemetadata": {"type": {"value": "it.happened"}},
}
_SCHEMA = {
    "format": "JsonSchema/draft-07",
    "contenttype": "application/json",
    "schema": {"type": "object"},
}
SEED = {
    "messagegroups": {
        group: {
            "messages": {
                message: {**_EVENT, "versions": {"1": _EVENT, "2": _EVENT}}
                for message in ("m", "other")
            }
        }
        for group in ("g", "other")
    },
    "schemagroups": {
        group: {
            "schemas": {
                schema: {
                    "versions": {
                        vid: {
                            "format": "JsonSchema/draft-07",
                            "contenttype": "application/json",
                            "schema": {"type": "object"},
                        }
                        for vid in ("1", "2")
                    }
                }
                for schema in ("s", "other")
            }
        }
        for group in ("g", "other")
    },
    "endpoints": {
        endpoint: {
            "name": f"an endpoint {endpoint}",
            "usage": ["subscriber"],
            "protocol": "HTTP",
            "messages": dict.fromkeys(("m", "other"), _EVENT),
        }
        for endpoint in ("e", "other")
    },
}
DAMAGED = [
    "/messagegroups/g",
    "/messagegroups/g/messages/m",
    "/messagegroups/g/messages/m/versions/1",
    "/messagegroups/g/messages/m/versions/2",
    "/messagegroups/g/messages/x",
    "/schemagroups/g",
    "/schemagroups/g/schemas/s",
    "/schemagroups/g/schemas/s/versions/1",
    "/schemagroups/g/schemas/s/versions/2",
    "/endpoints/e",
    "/endpoints/e/messages/m",
    "/endpoints/e/messages/m/versions/1",
]
# Reads that show more than what was damaged.
OF_MANY = [
    "/?inline=*",
    "/?doc&inline=*",
    "/?inline=*&binary",
    "/export",
    *(
        path + query
        for path in (
            "/messagegroups",
            "/messagegroups/g/messages",
            "/schemagroups",
            "/schemagroups/g/schemas",
            "/endpoints",
            "/endpoints/e/messages",
        )
        for query in ("", "?inline=*", "?inline=*&limit=10", "?sort=name", "?doc&inline=*")
    ),
    "/messagegroups?filter=messages.name=it.happened&inline=*",
    "/messagegroups/g/messages?filter=name=it*",
    "/schemagroups/g/schemas?filter=contenttype=application/json",
    "/messagegroups/g/messages/other/versions?inline=*",
    "/schemagroups/g/schemas/other/versions?inline=*",
    "/services",
    "/messagecatalog",
    "/messagecatalog/g/messagedefinitions",
    "/registry/0.4/definitionGroups",
    "/registry/0.4/definitionGroups?inline",
    "/registry/0.4/definitionGroups/g/definitions",
    "/registry/0.4/definitionGroups/g/definitions?inline",
    "/registry/0.4/schemaGroups?inline",
    "/registry/0.4/schemaGroups/g/schemas?inline",
    "/registry/0.4/endpoints?inline",
    "/registry/0.4?inline",
    "/replication/digests?format=csv&verify=true",
]
OF_ONE = [
    *(xid + query for xid in DAMAGED for query in ("", "?inline=*", "?doc")),
    *(f"{xid}/versions" for xid in DAMAGED if xid.count("/") == 4),
    *(f"{xid}/versions?inline=*" for xid in DAMAGED if xid.count("/") == 4),
    *(f"{xid}/meta" for xid in DAMAGED if xid.count("/") == 4),
    *(f"{xid}$details?inline=*" for xid in DAMAGED if "/schemas/" in xid),
    "/messagecatalog/g",
    "/messagecatalog/g/messagedefinitions/m",
    "/messagecatalog/g/messagedefinitions/m/versions",
    "/messagecatalog/g/messagedefinitions/m/versions/1",
    "/registry/0.4/definitionGroups/g?inline",
    "/registry/0.4/definitionGroups/g/definitions/m",
    "/registry/0.4/schemaGroups/g/schemas/s?meta",
    "/registry/0.4/endpoints/e",
]
SNAPSHOT = "/replication/snapshot"
OF_MANY.append(SNAPSHOT)
_ENTITIES = 39
PATHS = st.lists(st.sampled_from([*OF_MANY, *OF_ONE]), min_size=4, max_size=6, unique=True)
NAMES = [
    *("name", "description", "labels", "documentation", "deprecated", "ancestorid", "contenttype"),
    *("defaultversionid", "defaultversionsticky", "compatibility", "xref", "format", "schemaurl"),
    *("envelope", "envelopemetadata", "envelopeoptions", "protocol", "protocoloptions", "usage"),
    *("dataschema", "dataschemauri", "dataschemaxid", "dataschemaformat", "datacontenttype"),
    *("basemessage", "messagegroups", "constraints", "specversions", "channel", "tags"),
    *("messagecatalog", "discovery", "registry04", "formatvalidated", "unknown", "xid", "epoch"),
]
KEYS = st.sampled_from(["type", "value", "endpoints", "uri", "kept", "definition", "format", "a"])
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
    | st.sampled_from(["1", "2", "9", "HTTP", "CloudEvents/1.0", "AMQP/1.0", "/messagegroups/g"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
).map(lambda value: orjson.dumps(_in_range(value)).decode())
EXTREMES = st.sampled_from(
    ["[" * 300 + "]" * 300, "[" * 2000 + "]" * 2000, "1" + "0" * 400, "5", '"x"', "[]", "null"]
)


def _in_range(value: Any) -> Any:
    """The same value with integers that orjson can write."""
    if type(value) is int and not -(2**63) <= value < 2**63:
        return float(value)
    if isinstance(value, list):
        return [_in_range(item) for item in value]
    return {k: _in_range(v) for k, v in value.items()} if isinstance(value, dict) else value


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(shared_database_url: str) -> AsyncIterator[Node]:
    async with start_node(shared_database_url, routes=routes) as running:
        answer = await running.send("POST", "/", SEED)
        assert answer.status == 200, answer.body
        await running.put(
            "/messagegroups/g/messages/x", {"meta": {"xref": "/messagegroups/other/messages/m"}}
        )
        yield running


@contextlib.asynccontextmanager
async def damaged(node: Node, xid: str, attributes: str) -> AsyncIterator[None]:
    """Replace what the row of an entity has as its attributes."""
    async with node.database.acquire() as connection:
        before = await connection.fetchval(
            "SELECT attributes::text FROM entities WHERE xid = $1", xid
        )
    update = "UPDATE entities SET attributes = $2::text::jsonb WHERE xid = $1"
    await execute(node, update, xid, attributes)
    try:
        yield
    finally:
        await execute(node, update, xid, before)


async def read(node: Node, path: str) -> tuple[int, bytes]:
    answer = await node.send("GET", path, Cache_Control="no-cache")
    return answer.status, answer.body


async def assert_only_its_own_reads_fail(node: Node, paths: list[str]) -> None:
    for path in paths:
        # The tracebacks of tests show the values of variables, and these are deep.
        with structlog.testing.capture_logs():
            status, body = await read(node, path)
        if path in OF_MANY:
            assert status == 200, (path, body[:300])
            assert b"other" in body, (path, body)
        elif status == 500:
            assert orjson.loads(body)["title"], (path, body)
        else:
            assert status in (200, 303, 307, 404), (path, body)
        if path == SNAPSHOT:
            *found, end = body.splitlines()
            assert len(found) >= _ENTITIES - 1
            assert b"cursor" in end


@QUIET
@given(
    xid=st.sampled_from(DAMAGED),
    name=st.sampled_from(NAMES),
    value=VALUES | EXTREMES,
    paths=PATHS,
)
async def test_an_attribute_with_any_value_fails_no_read_of_another_entity(
    node: Node, xid: str, name: str, value: str, paths: list[str]
) -> None:
    async with node.database.acquire() as connection:
        before = await connection.fetchval(
            "SELECT (attributes - $2::text)::text FROM entities WHERE xid = $1", xid, name
        )
    attributes = f'{before[:-1]}{", " if before != "{}" else ""}"{name}": {value}}}'
    async with damaged(node, xid, attributes):
        await assert_only_its_own_reads_fail(node, paths)


@QUIET
@given(xid=st.sampled_from(DAMAGED), value=VALUES | EXTREMES, paths=PATHS)
async def test_attributes_that_are_any_value_fail_no_read_of_another_entity(
    node: Node, xid: str, value: str, paths: list[str]
) -> None:
    async with damaged(node, xid, value):
        await assert_only_its_own_reads_fail(node, paths)


async def test_an_entity_that_cannot_be_shown_is_a_problem_of_its_own_and_logged_once(
    node: Node,
) -> None:
    xid = "/schemagroups/g/schemas/s/versions/1"
    async with damaged(node, xid, '{"ancestorid": "1", "contenttype": 5}'):
        assert (await read(node, f"{xid}$details"))[0] == 200
        with structlog.testing.capture_logs() as logged:
            status, body = await read(node, f"{xid}$details?inline=schema")
        assert status == 500
        assert orjson.loads(body)["instance"].startswith("urn:uuid:")
        assert [entry["event"] for entry in logged] == ["request failed"]
        with structlog.testing.capture_logs() as logged:
            for _ in range(2):
                _, body = await read(node, "/schemagroups/g/schemas?inline=*")
                shown = orjson.loads(body)
                assert shown["s"]["versions"].keys() == {"2"}
                assert shown["s"]["versionscount"] == 1
        assert [entry["xid"] for entry in logged] == [xid]


async def test_a_damaged_document_is_left_out_of_exports(node: Node) -> None:
    xid = "/schemagroups/g/schemas/s/versions/2"
    async with node.database.acquire() as connection:
        body = await connection.fetchval("DELETE FROM documents WHERE xid = $1 RETURNING body", xid)
    try:
        status, text = await read(node, "/export")
        assert status == 200
        schemas = orjson.loads(text)["schemagroups"]["g"]["schemas"]
        assert schemas["s"]["versions"].keys() == {"1"}
        assert schemas["other"]["versions"].keys() == {"1", "2"}
    finally:
        await execute(node, "INSERT INTO documents (xid, body) VALUES ($1, $2)", xid, body)


async def test_a_damaged_row_is_told_apart_by_digests_and_left_out_of_the_feed(node: Node) -> None:
    xid = "/messagegroups/g/messages/m/versions/1"
    before = await digest_rows(node, verify=True)
    async with damaged(node, xid, "[" * 2000 + "]" * 2000):
        now = await digest_rows(node, verify=True)
        sent = {copy.get("xid") for copy in await lines(node, SNAPSHOT)}
    different = {origin[1] for origin in now if now[origin] != before[origin]}
    assert different == {xid}
    assert xid not in sent
    assert "/messagegroups/g/messages/m/versions/2" in sent
