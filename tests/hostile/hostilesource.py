"""A catalog that offers replication and says whatever a test wants it to."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from catalog.model.digest import DIGEST_VERSION
from catalog.model.entity import Entity, Tombstone
from catalog.model.xid import Xid
from catalog.operations.operation import LINES
from replication.deciding.copychecks import Copy
from replication.feed.feedlines import write_copy, write_end

GREATEST = 2**53 - 1
"""The epoch that no client of an authority ever gets above."""
_NOW = datetime(2030, 1, 1, tzinfo=UTC)
_NEEDED: dict[str, dict[str, Any]] = {
    "group": {},
    "resource": {"defaultversionid": "1", "defaultversionsticky": False},
    "version": {"ancestorid": "1"},
}


@dataclass(slots=True)
class HostileSource:
    """A source at `url` that claims an authority, and has `copies`, the oldest first.

    Its cursors are positions in `copies`. Its answers break off if it `breaks_off`; it has
    forgotten the beginning of its log if it `forgets`. On the way, what it `spoils` becomes
    something else. `keys` are the histories of keys that it shows.
    """

    authority: str
    copies: list[Copy] = field(default_factory=list)
    instance: uuid.UUID = field(default_factory=uuid.uuid4)
    url: str = ""
    breaks_off: bool = False
    forgets: bool = False
    spoils: tuple[bytes, bytes] | None = None
    keys: list[dict[str, Any]] = field(default_factory=list)

    async def shake_hands(self, _: web.Request) -> web.Response:
        said = {"instance": str(self.instance), "authority": self.authority}
        return web.json_response({**said, "digestversion": DIGEST_VERSION})

    async def get_snapshot(self, _: web.Request) -> web.Response:
        return self._answer(self.copies)

    async def get_changes(self, request: web.Request) -> web.Response:
        if self.forgets:
            self.forgets = False
            raise web.HTTPGone
        return self._answer(self.copies[int(request.query["after"]) :])

    async def post_fetch(self, request: web.Request) -> web.Response:
        body = await request.json()
        wanted = {(each["authority"], each["origin"]) for each in body["origins"]}
        newest = {(copy.authority, copy.origin): copy for copy in self.copies}
        return self._answer([copy for origin, copy in newest.items() if origin in wanted])

    async def get_keys(self, _: web.Request) -> web.Response:
        return web.json_response({"keys": self.keys})

    def _answer(self, copies: list[Copy]) -> web.Response:
        end = b"" if self.breaks_off else write_end(str(len(self.copies)))
        body = b"".join(map(write_copy, copies)) + end
        if self.spoils is not None:
            body = body.replace(*self.spoils)
        return web.Response(body=body, content_type=LINES)


@contextlib.asynccontextmanager
async def hostile_source(authority: str, *copies: Copy) -> AsyncIterator[HostileSource]:
    source = HostileSource(authority, list(copies))
    app = web.Application()
    app.router.add_get("/replication", source.shake_hands)
    app.router.add_get("/replication/keys", source.get_keys)
    app.router.add_get("/replication/snapshot", source.get_snapshot)
    app.router.add_get("/replication/changes", source.get_changes)
    app.router.add_post("/replication/fetch", source.post_fetch)
    async with TestServer(app) as server:
        source.url = str(server.make_url("")).rstrip("/")
        yield source


def forged(authority: str, xid: str, *, epoch: int = GREATEST, text: str = "forged") -> Entity:
    """An entity in the name of an authority, with the digest that its content has."""
    kind = Xid.parse(xid).kind
    return Entity(
        xid=xid,
        kind=kind,
        authority=authority,
        origin=xid,
        epoch=epoch,
        attributes={"description": text, **_NEEDED[kind]} if kind != "resource" else _NEEDED[kind],
        createdat=_NOW,
        modifiedat=_NOW,
    ).sealed()


def forged_end(authority: str, xid: str, *, epoch: int = GREATEST) -> Tombstone:
    """A deletion in the name of an authority."""
    kind = Xid.parse(xid).kind
    return Tombstone(
        xid=xid, kind=kind, authority=authority, origin=xid, epoch=epoch, deletedat=_NOW
    )


def forged_message(authority: str, group: str, id: str, *, epoch: int = GREATEST) -> list[Entity]:
    """A group with a message, all of it in the name of an authority."""
    path = f"/messagegroups/{group}/messages/{id}"
    xids = (f"/messagegroups/{group}", path, f"{path}/versions/1")
    return [forged(authority, xid, epoch=epoch) for xid in xids]
