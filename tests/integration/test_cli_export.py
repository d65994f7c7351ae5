"""`concord export`, `list` and `get`, and `concord delete` of replicas."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer
from typer.testing import CliRunner

from catalog.cli import app
from catalog.client import Client
from catalog.documents.serialization import parse_yaml
from tests.integration.commandline import concord
from tests.integration.conftest import Node
from tests.integration.federation import databases, link, link_is, running, start_member

pytestmark = pytest.mark.asyncio(loop_scope="module")

M1 = "/messagegroups/a/messages/m1"
SCHEMA = {"format": "JsonSchema/draft-07", "schema": {"type": "object"}}
OWN = {
    "messagegroups": {
        "a": {
            "name": "A",
            "messages": {
                "m1": {"versions": {"1": {"name": "one"}, "2": {"ancestorid": "1"}}},
                "m2": {},
                "far": {"meta": {"xref": "/messagegroups/theirs/messages/m"}},
            },
        },
        "b": {"messages": {"m": {}}},
        "empty": {},
    },
    "schemagroups": {"a": {"schemas": {"s": {"versions": {"1": SCHEMA}}}}},
    "endpoints": {"e": {"usage": ["consumer"], "messagegroups": ["/messagegroups/theirs"]}},
}
THEIRS = {
    "messagegroups": {"theirs": {"messages": {"m": {"name": "M"}}}, "theirs.empty": {}},
    "endpoints": {"theirs": {"usage": ["producer"], "messages": {"m": {}}}},
}


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def nodes(postgres_url: str, template: str) -> AsyncIterator[tuple[Node, Node]]:
    """A node with entities of its own and replicas, and a fresh one."""
    async with (
        databases(postgres_url, template, 3) as (first, second, third),
        start_member(first) as source,
        start_member(second) as node,
        start_member(third) as fresh,
    ):
        for target, groups in ((source, THEIRS), (node, OWN)):
            assert (await target.send("POST", "/", groups)).status == 200
        async with running(node):
            await link_is(node, (await link(node, source))["id"], "current")
        yield node, fresh


@pytest.fixture
def node(nodes: tuple[Node, Node]) -> Node:
    return nodes[0]


async def exported(node: Node, *arguments: str) -> dict[str, Any]:
    result = await concord(node, "export", *arguments)
    assert result.exit_code == 0, result.stderr
    document: dict[str, Any] = orjson.loads(result.stdout)
    return document


def ids(document: dict[str, Any]) -> dict[str, Any]:
    """What a document holds: groups by type, and resources in each."""
    return {
        plural: {
            gid: sorted(id for kind in ("messages", "schemas") for id in group.get(kind, {}))
            for gid, group in groups.items()
        }
        for plural, groups in document.items()
        if isinstance(groups, dict)
    }


def essence(value: Any) -> Any:
    """What an import carries over: all but what the node assigns."""
    if not isinstance(value, dict):
        return value
    assigned = ("epoch", "createdat", "modifiedat")
    return {name: essence(item) for name, item in value.items() if name not in assigned}


async def test_what_is_a_nodes_own_comes_back_from_a_fresh_node(
    nodes: tuple[Node, Node], tmp_path: Path
) -> None:
    node, fresh = nodes
    file = tmp_path / "ours.xreg.json"
    assert (await concord(node, "export", "--mine", "-o", str(file))).exit_code == 0
    ours = orjson.loads(file.read_bytes())
    assert ids(ours) == {
        "messagegroups": {"a": ["far", "m1", "m2"], "b": ["m"], "empty": []},
        "schemagroups": {"a": ["s"]},
        "endpoints": {"e": []},
    }
    result = await concord(fresh, "import", str(file))
    assert result.exit_code == 0, result.output
    assert essence(await exported(fresh, "--mine")) == essence(ours)


async def test_a_part_is_what_the_whole_export_has_there(node: Node) -> None:
    whole = await exported(node)
    part = await exported(node, "/messagegroups/a", "/schemagroups", "/endpoints/theirs")
    assert part == {
        "specversion": "1.0-rc4",
        "xid": "/",
        "endpoints": {"theirs": whole["endpoints"]["theirs"]},
        "messagegroups": {"a": whole["messagegroups"]["a"]},
        "schemagroups": whole["schemagroups"],
    }


async def test_a_clean_export_has_what_a_person_would_write_and_is_applied_without_a_change(
    nodes: tuple[Node, Node], tmp_path: Path
) -> None:
    node, fresh = nodes
    tree: dict[str, Any] = {"1": {}, "2": {"ancestorid": "1"}, "3": {"ancestorid": "1"}}
    sticky = {"defaultversionid": "2", "defaultversionsticky": True}
    message = {"description": "A warning", "envelope": "CloudEvents/1.0"}
    messages = {
        "one": message,
        "named": {"versions": {"v7": {"name": "N"}}},
        "tree": {"meta": {"labels": {"a": "b"}}, "versions": tree},
        "chosen": {"meta": sticky, "versions": {"1": {}, "2": {}, "3": {}}},
        "far": {"meta": {"xref": "/messagegroups/clean/messages/one"}},
    }
    assert (await node.send("PUT", "/messagegroups/clean", {"messages": messages})).status == 201
    file = tmp_path / "clean.xreg.yaml"
    result = await concord(node, "export", "--clean", "/messagegroups/clean", "-o", str(file))
    assert result.exit_code == 0, result.stderr
    found = parse_yaml(file.read_bytes())["messagegroups"]["clean"]["messages"]
    kept = found.pop("tree")
    assert found == {name: each for name, each in messages.items() if name != "tree"} | {
        "named": {"versionid": "v7", "name": "N"}
    }
    assert [*kept["versions"]["3"]] == ["createdat", "ancestorid"]
    assert (await concord(node, "diff", str(file))).stdout == "Nothing to do.\n"
    for target in (fresh, node):
        assert (await concord(target, "apply", str(file))).exit_code == 0
        again = await concord(target, "export", "--clean", "/messagegroups/clean")
        assert orjson.loads(again.stdout) == parse_yaml(file.read_bytes())
        assert (await target.send("DELETE", "/messagegroups/clean")).status == 204


async def test_resources_are_exported_inside_of_their_group(node: Node) -> None:
    whole = await exported(node)
    part = await exported(node, "/messagegroups/a/messages/m1", "/messagegroups/b/messages")
    group = whole["messagegroups"]["a"]
    assert part["messagegroups"] == {
        "a": {**group, "messages": {"m1": group["messages"]["m1"]}, "messagescount": 1},
        "b": whole["messagegroups"]["b"],
    }


async def test_what_is_within_another_part_is_exported_once(node: Node) -> None:
    paths = ("/messagegroups/a", "/messagegroups/a/messages/m1", "/messagegroups/a/")
    assert await exported(node, *paths) == await exported(node, "/messagegroups/a")


async def test_the_part_of_a_type_that_is_a_nodes_own(node: Node) -> None:
    assert ids(await exported(node, "--mine", "/endpoints")) == {"endpoints": {"e": []}}


async def test_a_group_of_another_authority_that_is_named_is_no_nodes_own(node: Node) -> None:
    result = await concord(node, "export", "--mine", "/messagegroups/theirs")
    assert result.exit_code == 2
    assert "/messagegroups/theirs is a replica" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "xids"),
    [
        ((), ["/endpoints", "/messagegroups", "/schemagroups"]),
        (("schemas",), ["/schemagroups/a/schemas/s"]),
        (("/messagegroups/a/messages/m1/versions",), [f"{M1}/versions/1", f"{M1}/versions/2"]),
        (("messagegroups", "--filter", "name=a*"), ["/messagegroups/a"]),
        (
            ("messages", "--filter", "messageid=m2", "--filter", "messageid=far"),
            ["/messagegroups/a/messages/far", "/messagegroups/a/messages/m2"],
        ),
        (("messages", "--filter", "name=nothing"), []),
    ],
)
async def test_a_list_has_what_is_of_a_type_wherever_it_is(
    node: Node, arguments: tuple[str, ...], xids: list[str]
) -> None:
    listed = await concord(node, "list", *arguments, "-o", "ids")
    assert (listed.exit_code, listed.stdout.splitlines()) == (0, xids)
    entities = orjson.loads((await concord(node, "list", *arguments, "-o", "json")).stdout)
    assert [each["xid"] for each in entities] == xids
    assert (
        parse_yaml((await concord(node, "list", *arguments, "-o", "yaml")).stdout_bytes) == entities
    )
    rows = (await concord(node, "list", *arguments)).stdout.splitlines()[1:]
    assert [row.split()[0] for row in rows] == xids


@pytest.mark.parametrize(
    ("type", "code", "reason"),
    [
        ("nonsense", 2, "There are endpoints, messagegroups, schemagroups, messages, schemas."),
        ("/messagegroups/a", 2, "concord get /messagegroups/a"),
        ("/messagegroups/nothing/messages", 1, "There is nothing at"),
    ],
)
async def test_what_cannot_be_listed_is_told(node: Node, type: str, code: int, reason: str) -> None:
    result = await concord(node, "list", type)
    assert (result.exit_code, result.stdout) == (code, "")
    assert reason in result.stderr


async def test_who_deletes_a_replica_is_told_where_it_is_from(node: Node) -> None:
    [link] = (await node.get("/replication/links"))["links"]
    result = await concord(node, "delete", "--yes", "/messagegroups/theirs")
    assert result.exit_code == 1
    assert f"concord delete /messagegroups/theirs --url {link['source']}" in result.stderr


async def test_nobody_can_put_an_own_resource_into_a_group_of_another_authority(
    node: Node,
) -> None:
    answer = await node.send("PUT", "/messagegroups/theirs/messages/mine", {})
    assert answer.error == "readonly"


@pytest.mark.parametrize(
    "path",
    [
        "/nonsense",
        "/messagegroups/nothing",
        "/messagegroups/A",
        "/messagegroups/a/messages/nothing",
        "/messagegroups/a/schemas",
    ],
)
@pytest.mark.parametrize("option", [(), ("--mine",)])
async def test_exporting_what_is_not_there_answers_no(
    node: Node, path: str, option: tuple[str, ...]
) -> None:
    result = await concord(node, "export", "/messagegroups/b", path, *option)
    assert (result.exit_code, result.stdout) == (1, "")


async def test_an_answer_that_is_no_document_is_told_in_one_sentence() -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.json_response({"messagegroups": {"g": {"messages": {"m": 1}}}})

    other = web.Application()
    other.add_routes([web.route("*", "/{path:.*}", answer)])
    async with TestServer(other) as server:
        arguments = ("export", "--edition", "0.4", "--url", str(server.make_url("")))
        result = await asyncio.to_thread(CliRunner().invoke, app, arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "is no document" in " ".join(result.stderr.split())


@pytest.mark.parametrize("path", ["/messagegroups/a/messages/m1/versions/1", "/endpoints?x"])
async def test_what_is_no_part_is_refused(node: Node, path: str) -> None:
    result = await concord(node, "export", path)
    assert (result.exit_code, result.stdout) == (2, "")


async def test_a_part_costs_what_it_holds(node: Node) -> None:
    lengths: dict[str, int] = {}

    class Counting(Client):
        async def request(self, method: str, path: str, **sent: Any) -> Any:
            answer = await super().request(method, path, **sent)
            lengths[path] = lengths.get(path, 0) + len(answer.body)
            return answer

    async with Counting.open(node.url) as client:
        await client.export("/endpoints/e")
        parts = dict(lengths)
        await client.export("/messagegroups", own=True)
    assert parts.keys() == {"/model", "/"}
    assert parts["/"] < 3000
    assert "/export" not in lengths


async def test_many_parts_are_read_in_requests_of_a_bounded_length(node: Node) -> None:
    many = {f"long-{'x' * 90}-{number}": {} for number in range(120)}
    await node.send("PATCH", "/schemagroups", many)
    async with Client.open(node.url) as client:
        document = await client.export(*(f"/schemagroups/{id}" for id in many))
        assert document["schemagroups"].keys() == many.keys()
        for id in many:
            await client.delete(f"/schemagroups/{id}")
