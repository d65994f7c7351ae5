"""`concord delete`, against a node."""

from __future__ import annotations

import asyncio
import os
import pty
import sys
from collections.abc import AsyncIterator

import orjson
import pytest
import pytest_asyncio

from tests.integration.commandline import concord
from tests.integration.conftest import Node, start_node
from tests.integration.federation import execute

pytestmark = pytest.mark.asyncio(loop_scope="module")

AUTHORITY = "https://eu.example"
MESSAGES = {"m1": {}, "m2": {"versions": {"1": {}, "2": {}}}}


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def shared(shared_database_url: str) -> AsyncIterator[Node]:
    async with start_node(shared_database_url) as node:
        await node.put("/messagegroups/theirs", {"messages": {"m": {}}})
        await execute(node, "UPDATE entities SET authority = $1 WHERE xid ~ '/theirs'", AUTHORITY)
        yield node


@pytest_asyncio.fixture(loop_scope="module")
async def node(shared: Node) -> Node:
    await shared.put("/messagegroups/g", {})
    await shared.send("PATCH", "/messagegroups/g", {"messages": MESSAGES})
    await shared.put("/endpoints/e", {"usage": ["consumer"]})
    return shared


async def is_there(node: Node, xid: str) -> bool:
    return (await node.send("GET", xid)).status == 200


async def test_a_group_goes_with_all_below_it(node: Node) -> None:
    result = await concord(node, "delete", "--yes", "/messagegroups/g")
    assert result.exit_code == 0, result.stderr
    assert "Deleted /messagegroups/g (epoch" in result.stdout
    assert "with 2 messages" in result.stdout
    assert not await is_there(node, "/messagegroups/g/messages/m1")


async def test_several_of_all_kinds_go_in_one_command(node: Node) -> None:
    m2 = "/messagegroups/g/messages/m2"
    targets = (f"{m2}/versions/1", "/messagegroups/g/messages/m1", "/endpoints/e")
    result = await concord(node, "delete", "--yes", "--json", *targets)
    assert result.exit_code == 0, result.stderr
    told = orjson.loads(result.stdout)
    assert [(each["xid"], each["kind"], each["deleted"]) for each in told] == [
        (targets[0], "version", True),
        (targets[1], "resource", True),
        (targets[2], "group", True),
    ]
    assert told[1]["holds"] == {"versions": 1}
    assert await is_there(node, m2)
    assert not any([await is_there(node, each) for each in targets])


async def test_the_only_version_takes_its_resource_along_and_that_is_said(node: Node) -> None:
    result = await concord(node, "delete", "--yes", "/messagegroups/g/messages/m1/versions/1")
    assert result.exit_code == 0, result.stderr
    assert "and its resource, which has no other version" in result.stdout
    assert not await is_there(node, "/messagegroups/g/messages/m1")


async def test_without_a_terminal_nothing_is_deleted_unless_yes_is_said(node: Node) -> None:
    result = await concord(node, "delete", "/messagegroups/g")
    assert result.exit_code == 2
    assert "--yes" in result.stderr
    assert await is_there(node, "/messagegroups/g")


async def test_what_has_another_epoch_stays(node: Node) -> None:
    xid = "/messagegroups/g"
    result = await concord(node, "delete", "--yes", f"{xid}=999")
    assert result.exit_code == 1
    assert "999" in result.stderr
    assert await is_there(node, xid)
    epoch = str((await node.get(xid))["epoch"])
    assert (await concord(node, "delete", "--yes", f"{xid}={epoch}")).exit_code == 0


async def test_the_epoch_that_is_shown_of_a_resource_is_the_one_that_guards_it(node: Node) -> None:
    xid = "/messagegroups/g/messages/m1"
    await node.send("PATCH", xid, {"name": "changed"})
    epoch = (await node.get(f"{xid}/meta"))["epoch"]
    assert (await concord(node, "delete", "--yes", f"{xid}={epoch}")).exit_code == 0


async def test_nothing_is_deleted_where_one_of_several_is_not_there(node: Node) -> None:
    result = await concord(node, "delete", "--yes", "/endpoints/e", "/endpoints/nothing")
    assert result.exit_code == 1
    assert "/endpoints/nothing" in result.stderr
    assert await is_there(node, "/endpoints/e")


@pytest.mark.parametrize("as_json", [False, True])
async def test_what_was_deleted_before_a_refusal_is_told(node: Node, as_json: bool) -> None:
    targets = ("/endpoints/e", "/messagegroups/theirs", "/messagegroups/g")
    options = ("--json",) if as_json else ()
    result = await concord(node, "delete", "--yes", *options, *targets)
    assert result.exit_code == 1
    assert AUTHORITY in result.stderr
    assert "concord delete /messagegroups/theirs --url https://eu.example" in result.stderr
    assert "ignore=" not in result.stderr
    if as_json:
        told = {each["xid"]: each["deleted"] for each in orjson.loads(result.stdout)}
        assert told == dict(zip(targets, (True, False, False), strict=True))
    else:
        assert result.stdout.startswith("Deleted /endpoints/e")
        assert "Not deleted: /messagegroups/theirs, /messagegroups/g." in result.stderr
    assert await is_there(node, "/messagegroups/g")


@pytest.mark.parametrize(
    "arguments",
    [
        ("/",),
        ("/messagegroups",),
        ("messagegroups/g",),
        ("/messagegroups/g=",),
        ("/messagegroups/g=x",),
        ("/messagegroups/g/messages/m1/meta",),
        ("/messagegroups/g", "/messagegroups/g"),
        ("/messagegroups/g", "/messagegroups/g/messages/m1"),
    ],
)
async def test_a_command_that_is_misused_deletes_nothing(
    node: Node, arguments: tuple[str, ...]
) -> None:
    before = await node.logged()
    result = await concord(node, "delete", "--yes", *arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: ")
    assert await node.logged() == before


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 1)])
async def test_at_a_terminal_it_shows_what_goes_and_asks(
    node: Node, answer: str, code: int
) -> None:
    terminal, end = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "catalog.cli", "delete", "/messagegroups/g"),
        stdin=end,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "CONCORD_URL": node.url},
    )
    os.close(end)
    os.write(terminal, answer.encode())
    try:
        async with asyncio.timeout(60):
            _, shown = await process.communicate()
    finally:
        os.close(terminal)
    assert process.returncode == code, shown
    assert b"/messagegroups/g (epoch" in shown
    assert b"with 2 messages" in shown
    assert b"Delete? [y/N]" in shown
    assert await is_there(node, "/messagegroups/g") == bool(code)
