"""A catalog that a node pushes to answers with what no catalog would say."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from catalog.model.digest import DIGEST_VERSION
from tests.integration.conftest import Node
from tests.integration.federation import databases, eventually, link_is, running, start_member

Verdicts = Callable[[list[dict[str, Any]]], bytes]
_OWN = {"authority": "urn:other", "origin": "/messagegroups/x", "epoch": 1, "verdict": "applied"}
_END = orjson.dumps({"cursor": None, "changes": 0, "doubts": True})


def verdicts(copies: list[dict[str, Any]], verdict: object = "applied", **more: Any) -> bytes:
    lines = [
        {name: copy[name] for name in ("authority", "origin", "epoch")}
        | {"verdict": verdict, **more}
        for copy in copies
    ]
    return b"\n".join([*map(orjson.dumps, lines), _END])


@dataclass(slots=True)
class HostileTarget:
    """A target that accepts everything, and answers to copies as a test says."""

    answer: Verdicts
    instance: str = field(default_factory=lambda: str(uuid.uuid4()))
    seen: int = 0

    async def shake_hands(self, _: web.Request) -> web.Response:
        said = {"instance": self.instance, "authority": "urn:hostile", "pushbytes": 10_000_000}
        return web.json_response({**said, "digestversion": DIGEST_VERSION})

    async def post_entities(self, request: web.Request) -> web.Response:
        lines = [orjson.loads(line) for line in (await request.read()).splitlines()]
        copies = [line for line in lines if "cursor" not in line]
        self.seen += bool(copies)
        return web.Response(body=self.answer(copies) if copies else _END)

    @contextlib.asynccontextmanager
    async def served(self) -> AsyncIterator[str]:
        app = web.Application()
        app.add_routes(
            [
                web.get("/replication", self.shake_hands),
                web.post("/replication/entities", self.post_entities),
            ]
        )
        async with TestServer(app) as server:
            yield str(server.make_url("")).rstrip("/")


@pytest.fixture
async def node(postgres_url: str, template: str) -> AsyncIterator[Node]:
    async with databases(postgres_url, template, 1) as (dsn,), start_member(dsn) as started:
        await started.put("/messagegroups/g", {})
        await started.put("/messagegroups/h", {})
        yield started


SENSELESS: dict[str, Verdicts] = {
    "no verdicts": lambda _: _END,
    "one verdict of two": lambda copies: verdicts(copies[:1]),
    "of others": lambda _: orjson.dumps(_OWN) + b"\n" + _END,
    "unknown": lambda copies: verdicts(copies, "marvellous"),
    "no text": lambda copies: verdicts(copies, ["applied"]),
    "an odd detail": lambda copies: verdicts(copies, detail={"a": 1}),
    "no JSON": lambda _: b"<html>",
    "no object": lambda _: b"[]\n[]",
    "nothing": lambda _: b"",
    "too large": lambda _: b" " * 9_000_000,
}


@pytest.mark.parametrize("answer", SENSELESS.values(), ids=SENSELESS)
async def test_a_senseless_answer_is_refused_and_shown(node: Node, answer: Verdicts) -> None:
    target = HostileTarget(answer)
    async with target.served() as url:
        body = {"target": url, "mode": "push", "id": "to"}
        assert (await node.send("POST", "/replication/links", body)).status == 201
        async with running(node):
            await eventually(lambda: _is_refused_again(node, target))
    shown = await node.get("/replication/links/to")
    assert (shown.get("cursor"), shown["applied"], shown["conflicts"]) == (None, 0, 0)


async def _is_refused_again(node: Node, target: HostileTarget) -> bool:
    shown = await node.get("/replication/links/to")
    is_told = "/replication/entities answered with " in (shown.get("error") or "")
    return target.seen >= 2 and shown["state"] == "refused" and is_told


async def test_details_of_conflicts_are_cut_and_made_printable(node: Node) -> None:
    target = HostileTarget(
        lambda copies: verdicts(copies, "collided", detail="\x1b[2J\0" + "x" * 10_000)
    )
    async with target.served() as url:
        body = {"target": url, "mode": "push", "id": "to"}
        assert (await node.send("POST", "/replication/links", body)).status == 201
        async with running(node):
            await link_is(node, "to", "current")
    conflicts = (await node.get("/replication/links/to/conflicts"))["conflicts"]
    assert len(conflicts) == 2
    assert {conflict["detail"][:10] for conflict in conflicts} == {"\\x1b[2J\\x00"[:10]}
    assert max(len(conflict["detail"]) for conflict in conflicts) < 600
