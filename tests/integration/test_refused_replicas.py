"""A refused write to a replica says where its authority has the entity."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from replication.routes import routes
from tests.integration.conftest import Answer, Node, assert_problem, start_node
from tests.integration.federation import carries, databases, eventually, execute, link, running

MESSAGE = "/messagegroups/g/messages/m"


@pytest.fixture
async def nodes(postgres_url: str, template: str) -> AsyncIterator[list[Node]]:
    """A source, a replica of it, and a replica of that."""
    async with databases(postgres_url, template, 3) as urls, contextlib.AsyncExitStack() as stack:
        source, hub, target = [
            await stack.enter_async_context(start_node(url, routes=routes)) for url in urls
        ]
        await source.put(MESSAGE, {"description": "first"})
        await link(hub, source)
        await link(target, hub, authorities=[source.database.node.authority])
        async with running(hub, target):
            await eventually(lambda: carries(hub, source))
            await eventually(lambda: carries(target, source))
        yield [source, hub, target]


REFUSED: list[tuple[str, str, Any]] = [
    ("PUT", MESSAGE, {"description": "second"}),
    ("PATCH", MESSAGE, {"description": "second"}),
    ("DELETE", MESSAGE, None),
    ("POST", "/apply", {"messagegroups": {"g": {"messages": {"m": {"description": "x"}}}}}),
]


@pytest.mark.parametrize(("method", "path", "body"), REFUSED)
async def test_a_refusal_has_the_url_at_the_authority(
    nodes: list[Node], method: str, path: str, body: Any
) -> None:
    source, hub, _ = nodes
    answer = await hub.send(method, path, body)
    assert answer.error == "readonly", answer.body
    url = told(answer)["url"]
    assert url.startswith(f"{source.url}/messagegroups/g")
    assert f"<{url}>;rel=edit" in answer.headers.getall("Link")
    there = await source.send("GET", url.removeprefix(source.url))
    assert there.status == 200


async def test_each_violation_has_its_own_url(nodes: list[Node]) -> None:
    source, hub, _ = nodes
    body = {"messagegroups": {"g": {"name": "x", "messages": {"m": {"description": "x"}}}}}
    answer = await hub.send("POST", "/", body)
    assert answer.error == "readonly", answer.body
    listed = answer.json.get("violations", [answer.json])
    assert listed
    for violation in listed:
        url = f"{source.url}{violation['args']['origin']}"
        assert violation["args"]["url"] == url


async def test_a_dialect_says_it_too(nodes: list[Node]) -> None:
    source, hub, _ = nodes
    answer = await hub.send("DELETE", "/messagecatalog/g")
    assert answer.error == "readonly", answer.body
    assert told(answer)["url"] == f"{source.url}/messagegroups/g"


async def test_an_authority_that_nobody_here_follows_has_no_url(nodes: list[Node]) -> None:
    source, _, target = nodes
    answer = await target.send("DELETE", MESSAGE)
    assert told(answer).keys() == {"authority", "origin"}
    assert told(answer)["origin"] == MESSAGE
    assert source.url not in answer.body.decode()


async def test_an_authority_that_is_a_url_says_where_it_is(nodes: list[Node]) -> None:
    _, _, target = nodes
    await execute(
        target, "UPDATE entities SET authority = 'https://a.example/x' WHERE kind <> 'registry'"
    )
    answer = await target.send("DELETE", MESSAGE)
    assert told(answer)["url"] == f"https://a.example/x{MESSAGE}"


async def test_no_header_can_be_forged_by_the_name_of_an_authority(nodes: list[Node]) -> None:
    _, _, target = nodes
    for forged in ("https://a>;rel=x, <y", 'https://a"b', "https://a\r\nX: y", "javascript:x"):
        await execute(target, "UPDATE entities SET authority = $1 WHERE kind <> 'registry'", forged)
        answer = await target.send("DELETE", MESSAGE)
        assert answer.error == "readonly"
        for value in answer.headers.getall("Link"):
            assert value.count(">") == value.count("<") == 1
        assert "X" not in answer.headers
        assert not told(answer).get("url", "").startswith("javascript")


def told(answer: Answer) -> dict[str, str]:
    args: dict[str, str] = assert_problem(answer)["args"]
    return args
