"""`concord apply` and `concord diff`, run against a node: a directory is a catalog as code."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer
from typer.testing import CliRunner, Result

from catalog.cli import app
from tests.integration.conftest import Node, start_node

Concord = Callable[..., Awaitable[Result]]


def runner(url: str) -> Concord:
    async def run(*arguments: str) -> Result:
        """In a thread, since a command has a loop of its own."""
        invoke = CliRunner().invoke
        return await asyncio.to_thread(invoke, app, arguments, env={"CONCORD_URL": url})

    return run


@pytest.fixture
def concord(node: Node) -> Concord:
    return runner(node.url)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Two documents of one group."""
    write(tmp_path, "weather", name="Weather", messages={"alert": {"description": "A warning"}})
    write(tmp_path, "rain", messages={"rain": {"versions": {"1": {}, "2": {}}}, "hail": {}})
    return tmp_path


def write(repository: Path, file: str, **group: Any) -> None:
    document = {"messagegroups": {"weather": group}}
    (repository / f"{file}.xreg.json").write_bytes(orjson.dumps(document))


async def test_the_second_apply_has_nothing_to_do(
    node: Node, concord: Concord, repository: Path
) -> None:
    first = await concord("apply", str(repository))
    assert first.exit_code == 0, first.output
    assert first.stdout.splitlines() == [
        "+ messagegroups/weather",
        "└── messages",
        "    ├── + alert",
        "    ├── + hail",
        "    └── + rain  versions 1, 2",
        "4 created.",
    ]
    before = await node.state()
    again = await concord("apply", str(repository))
    assert (again.exit_code, again.stdout) == (0, "Nothing to do.\n")
    assert await node.state() == before


async def test_documents_win_whatever_epochs_they_have_unless_these_are_checked(
    node: Node, concord: Concord, tmp_path: Path
) -> None:
    await node.put("/messagegroups/weather", {"name": "Weather"})
    await node.put("/messagegroups/weather", {"name": "changed"})
    write(tmp_path, "weather", name="Weather", epoch=1)
    refused = await concord("apply", "--check-epochs", str(tmp_path))
    assert refused.exit_code == 1
    assert "leave --check-epochs out" in refused.stderr
    assert (await concord("apply", str(tmp_path))).exit_code == 0
    group = await node.get("/messagegroups/weather")
    assert (group["name"], group["epoch"]) == ("Weather", 3)


async def test_a_diff_says_what_an_apply_would_do_and_exits_with_1_if_that_is_anything(
    node: Node, concord: Concord, repository: Path
) -> None:
    await concord("apply", str(repository))
    assert (await concord("diff", "--prune", str(repository))).exit_code == 0
    write(repository, "weather", name="Rain", messages={"alert": {"description": "A warning"}})
    write(repository, "rain", messages={"rain": {"versions": {"2": {}}}})
    before = await node.state()
    told = await concord("diff", "--prune", str(repository))
    assert told.exit_code == 1
    assert told.stdout.splitlines() == [
        '~ messagegroups/weather  name: "Weather" → "Rain"',
        "└── messages",
        "    ├── - hail",
        "    └── rain/versions",
        "        ├── - 1",
        '        └── ~ 2  ancestorid: "1" → "2"',
        "Would be: 2 changed, 2 deleted.",
    ]
    dry = await concord("apply", "--dry-run", "--prune", "--json", str(repository))
    assert dry.exit_code == 1
    shown = orjson.loads(dry.stdout)
    assert (shown["dryrun"], shown["updated"], shown["deleted"]) == (True, 2, 3)
    assert await node.state() == before
    done = await concord("apply", "--prune", "--yes", "--json", str(repository))
    assert orjson.loads(done.stdout)["changes"] == shown["changes"]


async def test_deletions_are_shown_and_need_a_yes_where_nobody_can_be_asked(
    node: Node, concord: Concord, repository: Path
) -> None:
    await concord("apply", str(repository))
    (repository / "rain.xreg.json").unlink()
    before = await node.state()
    result = await concord("apply", "--prune", str(repository))
    assert result.exit_code == 2
    assert "├── - hail" in result.stderr
    assert "--yes" in result.stderr
    assert await node.state() == before
    assert (await concord("apply", "--prune", "--yes", str(repository))).exit_code == 0
    assert [*await node.get("/messagegroups/weather/messages")] == ["alert"]
    # Without deletions there is nothing to ask.
    assert (await concord("apply", "--prune", str(repository))).stdout == "Nothing to do.\n"


async def test_an_empty_directory_deletes_only_if_that_is_asked_for(
    node: Node, concord: Concord, repository: Path
) -> None:
    await concord("apply", "--set", "weather", str(repository))
    for file in ("weather", "rain"):
        (repository / f"{file}.xreg.json").unlink()
    prune = ("apply", "--set", "weather", "--prune", "--yes", str(repository))
    assert (await concord(*prune)).exit_code == 2
    assert await node.get("/messagegroups/weather")
    assert (await concord(*prune, "--allow-empty")).exit_code == 0
    assert (await node.send("GET", "/messagegroups/weather")).status == 404


async def test_documents_that_contradict_each_other_are_named(
    concord: Concord, repository: Path
) -> None:
    write(repository, "other", name="Wetter")
    result = await concord("diff", str(repository))
    assert result.exit_code == 2
    for part in ("/messagegroups/weather", "name", "other.xreg.json", "weather.xreg.json"):
        assert part in result.stderr


async def test_what_a_rule_forbids_is_listed_and_exits_with_1(
    node: Node, concord: Concord, repository: Path
) -> None:
    write(repository, "bad", messages={"bad": {"envelope": 1}, "worse": {"protocol": 2}})
    result = await concord("apply", str(repository))
    assert result.exit_code == 1
    assert "/messagegroups/weather/messages/bad" in result.stderr
    assert "/messagegroups/weather/messages/worse" in result.stderr
    assert (await node.send("GET", "/messagegroups/weather")).status == 404
    assert (await concord("diff", str(repository))).exit_code == 2
    told = orjson.loads((await concord("apply", "--json", str(repository))).stdout)
    assert len(told["violations"]) == 2


async def test_quiet_shows_nothing_where_nothing_is_wrong(
    concord: Concord, repository: Path
) -> None:
    result = await concord("apply", "--quiet", str(repository))
    assert (result.exit_code, result.output) == (0, "")


@pytest.fixture
async def small_node(database_url: str) -> AsyncIterator[Node]:
    """A node that takes no more than a message or two at a time."""
    async with start_node(database_url, max_body_bytes=3000) as running:
        yield running


def write_many(repository: Path, number: int) -> None:
    for each in range(number):
        messages = {f"m{each}": {"description": "x" * 900}}
        write(repository, f"m{each}", name="Weather", messages=messages)


async def test_what_is_too_large_for_one_interaction_goes_in_several(
    small_node: Node, repository: Path
) -> None:
    concord = runner(small_node.url)
    write_many(repository, 8)
    first = await concord("apply", "--json", str(repository))
    told = orjson.loads(first.stdout)
    assert len(told["interactions"]) > 2
    assert len(await small_node.get("/messagegroups/weather/messages")) == 11
    before = await small_node.state()
    assert (await concord("apply", str(repository))).stdout == "Nothing to do.\n"
    (repository / "m3.xreg.json").unlink()
    (repository / "rain.xreg.json").unlink()
    assert await small_node.state() == before
    pruned = await concord("apply", "--prune", "--yes", str(repository))
    assert pruned.stdout.splitlines()[-1] == "3 deleted."
    assert (await concord("diff", "--prune", str(repository))).exit_code == 0


async def test_after_a_lost_connection_it_is_told_what_was_done(
    small_node: Node, repository: Path
) -> None:
    write_many(repository, 8)
    async with ClientSession() as session, TestServer(_losing(small_node, session)) as server:
        concord = runner(str(server.make_url("")).rstrip("/"))
        result = await concord("apply", str(repository))
    assert result.exit_code == 2
    assert "Done: 1 of the interactions; the last was" in result.stderr
    assert "in doubt whether this one was done: /messagegroups/weather" in result.stderr
    assert "Not sent: /messagegroups/weather" in result.stderr
    assert "safe to run this again" in result.stderr
    assert 0 < len(await small_node.get("/messagegroups/weather/messages")) < 11
    # What was in doubt was done.
    again = await runner(small_node.url)("apply", str(repository))
    assert again.exit_code == 0
    assert len(await small_node.get("/messagegroups/weather/messages")) == 11


def _losing(node: Node, session: ClientSession) -> web.Application:
    """What passes requests on to a node, but loses the answers to all applies but the first."""
    applies = 0

    async def pass_on(request: web.Request) -> web.Response:
        nonlocal applies
        is_apply = request.method == "POST"
        applies += is_apply
        async with session.request(
            request.method,
            node.url + request.path_qs,
            data=await request.read(),
            headers={"Content-Type": "application/json"},
        ) as answer:
            body = await answer.read()
        if is_apply and applies > 1:
            assert request.transport is not None
            request.transport.abort()
        return web.Response(status=answer.status, body=body, content_type="application/json")

    server = web.Application()
    server.router.add_route("*", "/{path:.*}", pass_on)
    return server
