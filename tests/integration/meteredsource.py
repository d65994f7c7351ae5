"""A way to a node that counts the requests, and the bytes of their answers."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp import hdrs, web
from aiohttp.test_utils import TestServer

from tests.integration.conftest import Node

_PASSED_ON = (hdrs.CONTENT_TYPE, "Concord-Cursor")


@dataclass(slots=True)
class MeteredSource:
    """Requests to `node` by path, the bytes `sent` with them, and those of all answers.

    `without` are paths that it does not offer. `meanwhile` is called before each answer. It leaves
    out the last line of lists of digests if it `cuts_lists`. Its pages have `page` changes. It
    answers with `refusals`, each a status with headers, before anything else, and with 429 to what
    is more than `most_per_second`, of which it counts those that it `slowed`.
    """

    node: Node
    session: aiohttp.ClientSession
    url: str = ""
    requests: Counter[str] = field(default_factory=Counter)
    bytes: int = 0
    sent: int = 0
    without: frozenset[str] = frozenset()
    meanwhile: Callable[[], Awaitable[None]] | None = None
    cuts_lists: bool = False
    page: int | None = None
    refusals: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    most_per_second: float | None = None
    slowed: int = 0
    _allowed_at: float = 0.0

    async def forward(self, request: web.Request) -> web.Response:
        if request.path in self.without:
            raise web.HTTPNotFound
        if self.refusals:
            status, headers = self.refusals.pop(0)
            return web.Response(status=status, headers=headers)
        if self._is_too_much():
            self.slowed += 1
            return web.Response(status=429)
        self.requests[request.path] += 1
        if self.meanwhile is not None:
            await self.meanwhile()
        sent = await request.read()
        self.sent += len(sent)
        of_pusher = {n: v for n, v in request.headers.items() if n.startswith("Concord-")}
        async with self.session.request(
            request.method,
            f"{self.node.url}{self._path_of(request)}",
            data=sent,
            headers={hdrs.CONTENT_TYPE: request.content_type, **of_pusher},
        ) as answer:
            body = await answer.read()
            if self.cuts_lists and "ranges" in request.query and b"authority," in body:
                body = b"".join(body.splitlines(keepends=True)[:-1])
            self.bytes += len(body)
            kept = {name: answer.headers[name] for name in _PASSED_ON if name in answer.headers}
            return web.Response(body=body, status=answer.status, headers=kept)

    def _path_of(self, request: web.Request) -> str:
        if self.page is None:
            return request.raw_path
        return request.raw_path.replace("limit=1000", f"limit={self.page}")

    def _is_too_much(self) -> bool:
        if self.most_per_second is None:
            return False
        now = asyncio.get_running_loop().time()
        if now < self._allowed_at:
            return True
        self._allowed_at = max(self._allowed_at, now - 1) + 1 / self.most_per_second
        return False

    def forget(self) -> None:
        """Count from zero again."""
        self.requests.clear()
        self.bytes = self.sent = 0


async def follow(target: Node, source: MeteredSource, **definition: Any) -> None:
    """Let `target` follow a source by the link "from"."""
    body = {"id": "from", "source": source.url, "mode": "pull", **definition}
    answer = await target.send("POST", "/replication/links", body)
    assert answer.status == 201, answer.body


@contextlib.asynccontextmanager
async def metered(node: Node) -> AsyncIterator[MeteredSource]:
    app = web.Application()
    async with aiohttp.ClientSession() as session:
        source = MeteredSource(node, session)
        app.router.add_route("*", "/{path:.*}", source.forward)
        async with TestServer(app) as server:
            source.url = str(server.make_url("")).rstrip("/")
            yield source
