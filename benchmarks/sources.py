"""Many catalogs in one process: `python -m benchmarks.sources` can be followed at many addresses.

Each address of the loopback network is another catalog with one group. At 127.0.0.1,
`POST /change?every=N` changes every Nth of them once, and tells those who subscribed; `GET /state`
tells how many requests all have had, and in how many seconds the followers of these asked for what
comes after the change. With `--links N`, each tells that it follows the N catalogs after it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import time
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime

import aiohttp
import orjson
import uvloop
from aiohttp import web

from catalog.model.digest import DIGEST_VERSION
from catalog.model.entity import Entity
from catalog.operations.links import LinkAnswer
from replication.feed.feedlines import write_copy, write_end

OWN_HOST = "127.0.0.1"
_AT_ONCE = 50


def authority_of(host: str) -> str:
    return f"urn:source:{host}"


@dataclass(slots=True)
class _Catalog:
    """A catalog whose cursor is the epoch of its only group."""

    host: str
    instance: uuid.UUID = field(default_factory=uuid.uuid4)
    epoch: int = 1
    sink: str = ""
    has_changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def line(self) -> bytes:
        xid = f"/messagegroups/g{self.host.replace('.', '-')}"
        at = datetime.now(UTC)
        group = Entity(
            xid=xid,
            kind="group",
            authority=authority_of(self.host),
            origin=xid,
            epoch=self.epoch,
            attributes={},
            createdat=at,
            modifiedat=at,
        )
        return write_copy(group.sealed())


class _Sources:
    """All catalogs, the requests that they have had, and which of the followers that are awaited
    have the last change."""

    def __init__(self, links: int) -> None:
        self.catalogs: dict[str, _Catalog] = {}
        self.links = links
        self.requests = 0
        self.changed_at = 0.0
        self.awaited: set[str] = set()
        self.arrived: dict[str, float] = {}

    def of(self, request: web.Request) -> _Catalog:
        self.requests += 1
        host = request.host.partition(":")[0]
        return self.catalogs.setdefault(host, _Catalog(host))

    async def shake_hands(self, request: web.Request) -> web.Response:
        found = self.of(request)
        said = {"instance": str(found.instance), "authority": authority_of(found.host)}
        card = {"name": f"Catalog {found.host}", "region": f"region {found.host[-1]}"}
        told = {"digestversion": DIGEST_VERSION, "entities": 1, "card": card}
        return web.json_response({**said, **told})

    async def list_links(self, request: web.Request) -> web.Response:
        hosts = [*self.catalogs]
        place = hosts.index(self.of(request).host)
        followed = (hosts * 2)[place + 1 : place + 1 + self.links]
        shown = [_link_to(host).model_dump(exclude_none=True) for host in followed]
        return web.json_response({"links": shown})

    async def get_snapshot(self, request: web.Request) -> web.Response:
        found = self.of(request)
        return web.Response(body=found.line + write_end(str(found.epoch)))

    async def get_changes(self, request: web.Request) -> web.Response:
        found, after = self.of(request), int(request.query["after"])
        if after == found.epoch and found.host in self.awaited:
            self.arrived.setdefault(found.host, time.perf_counter() - self.changed_at)
        wait = float(request.query["wait"])
        if after == found.epoch and wait:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(found.has_changed.wait(), wait)
        line = b"" if after == found.epoch else found.line
        return web.Response(body=line + write_end(str(found.epoch), 0))

    async def subscribe(self, request: web.Request) -> web.Response:
        found, body = self.of(request), await request.json()
        found.sink = body["sink"]
        return web.json_response({"id": "1", **body}, status=201)

    async def get_subscription(self, request: web.Request) -> web.Response:
        return web.json_response({"id": "1", "sink": self.of(request).sink})

    async def unsubscribe(self, request: web.Request) -> web.Response:
        self.of(request).sink = ""
        return web.Response(status=204)

    async def get_state(self, _: web.Request) -> web.Response:
        state = {"requests": self.requests, "arrived": sorted(self.arrived.values())}
        return web.Response(body=orjson.dumps(state), content_type="application/json")

    async def change(self, request: web.Request) -> web.Response:
        changed = [*self.catalogs.values()][:: int(request.query["every"])]
        self.awaited = {catalog.host for catalog in changed}
        self.arrived.clear()
        self.changed_at = time.perf_counter()
        for catalog in changed:
            catalog.epoch += 1
            catalog.has_changed.set()
            catalog.has_changed = asyncio.Event()
        turns = asyncio.Semaphore(_AT_ONCE)
        async with aiohttp.ClientSession() as session, asyncio.TaskGroup() as group:
            for catalog in changed:
                if catalog.sink:
                    group.create_task(_notify(session, turns, catalog.sink))
        return web.Response(status=204)


def _link_to(host: str) -> LinkAnswer:
    """A link as another catalog shows it to operators; every fifth fails."""
    fails = host.endswith(("0", "5"))
    return LinkAnswer(
        id=host,
        direction="in",
        mode="events",
        authorities=[],
        scope=[],
        types=[],
        labels=[],
        prefix="",
        map={},
        addresses={},
        trust=[],
        authority=authority_of(host),
        state="behind" if fails else "current",
        lag=900.0 if fails else 0.0,
        applied=0,
        rate=0.0,
        bytes=0,
        conflicts=0,
        failures=int(fails),
        errors={},
        history=[],
    )


async def _notify(session: aiohttp.ClientSession, turns: asyncio.Semaphore, sink: str) -> None:
    async with turns, session.post(sink, data=b"{}") as answer:
        await answer.read()


async def _swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Take a request and never answer."""
    while await reader.read(65536):
        pass
    writer.close()


async def _serve(port: int, silent_port: int, links: int) -> None:
    sources, app = _Sources(links), web.Application()
    app.router.add_get("/replication", sources.shake_hands)
    app.router.add_get("/replication/snapshot", sources.get_snapshot)
    app.router.add_get("/replication/changes", sources.get_changes)
    if links:
        app.router.add_get("/replication/links", sources.list_links)
    app.router.add_post("/subscriptions", sources.subscribe)
    app.router.add_get("/subscriptions/1", sources.get_subscription)
    app.router.add_delete("/subscriptions/1", sources.unsubscribe)
    app.router.add_get("/state", sources.get_state)
    app.router.add_post("/change", sources.change)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    silent = await asyncio.start_server(_swallow, "0.0.0.0", silent_port)
    await web.TCPSite(runner, "0.0.0.0", port, backlog=2000).start()
    await silent.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--silent", type=int, required=True, help="at this port, nothing answers")
    parser.add_argument("--links", type=int, default=0, help="the links that each tells of")
    arguments = parser.parse_args()
    uvloop.run(_serve(arguments.port, arguments.silent, arguments.links))
