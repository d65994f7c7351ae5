"""A server that a link writes to: a node behind a proxy, which counts requests and misbehaves."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import orjson
from aiohttp import hdrs, web
from aiohttp.test_utils import TestServer

from tests.integration.conftest import Node
from tests.integration.federation import eventually

# What belongs to one connection, or is written anew.
_NOT_PASSED_ON = {hdrs.HOST, hdrs.CONTENT_LENGTH, hdrs.TRANSFER_ENCODING, hdrs.CONNECTION}

Fault = Callable[[web.Request], web.Response | None]


@dataclass(slots=True)
class ForeignTarget:
    """Requests to `node`, each with its method and path.

    Args:
        fault: answers a request in the node's place.
        loses: whether the answer to a request that the node carried out gets lost.
        carried: all that the node carried out, each with its method, path, headers and body.
    """

    node: Node
    session: aiohttp.ClientSession
    url: str = ""
    requests: list[tuple[str, str]] = field(default_factory=list)
    carried: list[tuple[str, str, list[tuple[str, str]], bytes]] = field(default_factory=list)
    fault: Fault | None = None
    loses: Callable[[web.Request], bool] | None = None

    @property
    def writes(self) -> list[tuple[str, str]]:
        """The requests that change something."""
        return [each for each in self.requests if each[0] != "GET"]

    async def forward(self, request: web.Request) -> web.Response:
        self.requests.append((request.method, request.path))
        assert not request.path.startswith("/replication"), "a link uses published APIs only"
        answer = self.fault(request) if self.fault is not None else None
        if answer is not None:
            return answer
        headers, sent = _passed_on(request.headers), await request.read()
        self.carried.append((request.method, request.raw_path, headers, sent))
        async with self.session.request(
            request.method,
            f"{self.node.url}{request.raw_path}",
            data=sent,
            headers=headers,
            allow_redirects=False,
            skip_auto_headers=[hdrs.CONTENT_TYPE],
        ) as found:
            body = await found.read()
            if self.loses is not None and self.loses(request):
                assert request.transport is not None, "it is connected"
                request.transport.close()
            return web.Response(body=body, status=found.status, headers=_passed_on(found.headers))

    async def carry_again(self, method: str) -> list[int]:
        """Send requests of a method to the node once more, as if they came late; return the status
        of each answer."""
        statuses = []
        for each, path, headers, body in self.carried:
            if each == method:
                url = f"{self.node.url}{path}"
                async with self.session.request(each, url, data=body, headers=headers) as answer:
                    statuses.append(answer.status)
        return statuses


def _passed_on(headers: Any) -> list[tuple[str, str]]:
    return [(name, value) for name, value in headers.items() if name not in _NOT_PASSED_ON]


def problem(status: int, title: str, **headers: str) -> web.Response:
    """An error as other software answers it."""
    return web.Response(
        status=status,
        body=orjson.dumps({"title": title, "status": status}),
        content_type="application/problem+json",
        headers={name.replace("_", "-"): value for name, value in headers.items()},
    )


@contextlib.asynccontextmanager
async def foreign(node: Node) -> AsyncIterator[ForeignTarget]:
    app = web.Application(client_max_size=2**26)
    async with aiohttp.ClientSession() as session:
        target = ForeignTarget(node, session)
        app.router.add_route("*", "/{path:.*}", target.forward)
        async with TestServer(app) as server:
            target.url = str(server.make_url("")).rstrip("/")
            yield target


async def write_to(source: Node, target: str, **definition: Any) -> dict[str, Any]:
    """Let `source` write to a server by the link "out"."""
    body = {"target": target, "mode": "write", "id": "out", **definition}
    answer = await source.send("POST", "/replication/links", body)
    assert answer.status == 201, answer.body
    made: dict[str, Any] = answer.json
    return made


async def has_written_all(source: Node) -> None:
    """Wait until the link "out" has written all that was here before this call."""
    answer = await source.send("PUT", "/messagegroups/last", {"name": "the last change"})
    position = answer.headers["Concord-Position"].partition(".")[2]

    async def is_past() -> bool:
        link = await source.get("/replication/links/out")
        cursor = (link.get("cursor") or "").partition("@")[0].partition(".")[2]
        return link["state"] == "current" and _numbers(cursor) >= _numbers(position)

    await eventually(is_past, timeout_seconds=40)


def _numbers(position: str) -> tuple[int, ...]:
    return tuple(int(part) for part in position.split(".") if part)


async def conflicts(source: Node) -> dict[str, tuple[str, str]]:
    """The verdict and the detail of each conflict of the link "out", by xid."""
    found = (await source.get("/replication/links/out/conflicts?limit=500"))["conflicts"]
    return {each["xid"]: (each["verdict"], each["detail"]) for each in found}
