"""A token endpoint of the tests' own (RFC 6749 6), and a sink that takes only valid tokens."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class TokenServer:
    """Gives an access token and a new refresh token for each refresh token, which it takes once.

    `answers` come before its own, one each. `grants` are the refresh tokens that it was asked
    with, `tokens` the access tokens that it gave out, `accepted` those that came to the sink. The
    sink takes the newest only, or none if it `refuses_all`.
    """

    def __init__(self, *, refresh: str = "refresh-0 s3cret", lifetime: Any = 3600) -> None:
        self.refresh = refresh
        self.lifetime = lifetime
        self.rotates = True
        self.refuses_all = False
        self.answers: list[Answer] = []
        self.grants: list[str] = []
        self.tokens: list[str] = []
        self.accepted: list[str] = []
        self.subjects: list[str] = []
        self.under_way = 0
        self.most_under_way = 0

    async def give(self, request: web.Request) -> web.StreamResponse:
        form = await request.post()
        self.grants.append(str(form["refresh_token"]))
        assert form["grant_type"] == "refresh_token"
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            if self.answers:
                return await self.answers.pop(0)(request)
            return self.token()
        finally:
            self.under_way -= 1

    def token(self) -> web.Response:
        if self.grants[-1] != self.refresh:
            return error("invalid_grant")
        token = f"access-{len(self.tokens) + 1}-s3cret"
        self.tokens.append(token)
        body = {"access_token": token, "token_type": "Bearer", "expires_in": self.lifetime}
        if self.rotates:
            self.refresh = f"refresh-{len(self.tokens)} s3cret"
            body["refresh_token"] = self.refresh
        return web.json_response(body)

    async def take(self, request: web.Request) -> web.Response:
        scheme, _, token = request.headers["Authorization"].partition(" ")
        if self.refuses_all or scheme != "Bearer" or token != self.tokens[-1]:
            return web.Response(status=401)
        self.accepted.append(token)
        self.subjects.append(request.headers["ce-subject"])
        return web.Response(status=204)

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator[str]:
        """The URL of the server: tokens at `/token`, the sink at `/sink`."""
        app = web.Application()
        app.router.add_post("/token", self.give)
        app.router.add_post("/sink", self.take)
        async with TestServer(app) as server:
            yield str(server.make_url("")).rstrip("/")


def error(name: str, **members: str) -> web.Response:
    return web.json_response({"error": name, **members}, status=400)


def answering(response: Callable[[], web.StreamResponse]) -> Answer:
    async def answer(_: web.Request) -> web.StreamResponse:
        return response()

    return answer


def text(body: str | bytes, status: int = 200, **headers: str) -> Answer:
    """An answer with any body."""
    data = body.encode() if isinstance(body, str) else body
    return answering(lambda: web.Response(body=data, status=status, headers=headers))


async def until(condition: Callable[[], Any]) -> None:
    """Wait until something is true."""
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)  # between two looks at it
