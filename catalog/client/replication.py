"""Links, the change feed and digests: what catalogs say of each other."""

from __future__ import annotations

import asyncio
import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

from catalog.client.connection import Connection, JsonObject
from catalog.client.errors import BadAnswer, ClientError

_CURSOR = "Concord-Cursor"
_READY_SECONDS = 2


class DigestRow(NamedTuple):
    """The state of one origin at a node."""

    authority: str
    origin: str
    xid: str
    epoch: int
    is_deleted: bool
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """A page of the change feed.

    `copies` are the entities that changed and those above them, parents first, as they are now;
    `{"deleted": true}` marks those that are gone. `cursor` is where the next page begins.
    """

    copies: Sequence[JsonObject]
    cursor: str


class ReplicationCalls(Connection):
    """The calls for links and for the change feed."""

    async def links(self) -> list[JsonObject]:
        return await self._members("/replication/links", "links")

    async def link(self, id: str) -> JsonObject:
        return await self.get(f"/replication/links/{id}")

    async def add_link(self, definition: Mapping[str, Any], *, force: bool = False) -> JsonObject:
        """Create a link into this node; the answer has its id, and what the source is.

        Args:
            force: do so without asking the source, which may not be there yet.
        """
        params = [("force", "")] if force else []
        return await self.post("/replication/links", definition, params)

    async def remove_link(self, id: str) -> None:
        await self.request("DELETE", f"/replication/links/{id}")

    async def conflicts(self, link: str) -> list[JsonObject]:
        """The copies that a link could not apply, each with its reason."""
        return await self._members(f"/replication/links/{link}/conflicts", "conflicts")

    async def url_of(self, authority: str) -> str:
        """Where an authority is: itself if it is a URL, else the source of the link to it.

        It is empty where no link of the node leads there.
        """
        if authority.startswith(("http://", "https://")):
            return authority
        sources = (link["source"] for link in await self.links() if link["authority"] == authority)
        return next(sources, "")

    async def handshake(self) -> JsonObject:
        """The node's identity, and the range of its change log."""
        return await self.get("/replication")

    async def cursor(self) -> str:
        """Where the change feed stands: what changes from now on comes after it."""
        nothing = {"format": "csv", "from": "0", "to": "0"}
        answer = await self.request("GET", "/replication/digests", params=nothing)
        if _CURSOR not in answer.headers:
            raise BadAnswer(self._at("/replication/digests"), "no cursor")
        return answer.headers[_CURSOR]

    async def changes(self, after: str, *, wait_seconds: int = 0, limit: int = 1000) -> Changes:
        """The changes after a cursor, oldest first.

        Args:
            after: a cursor.
            wait_seconds: how long to wait for a change if there is none yet, at most 30.
            limit: the most changes of one page, at most 1000.

        Raises:
            Refused: status 410, `cursor_gone`, if the node's log does not reach back so far.
        """
        params = {"after": after, "wait": str(wait_seconds), "limit": str(limit)}
        answer = await self.request("GET", "/replication/changes", params=params)
        try:
            *copies, end = [orjson.loads(line) for line in answer.body.splitlines()]
            return Changes(copies=copies, cursor=end["cursor"])
        except (ValueError, KeyError, TypeError) as error:
            raise BadAnswer(self._at("/replication/changes"), "no feed") from error

    async def digest_rows(self) -> list[DigestRow]:
        """The state of every origin at the node, deleted ones too, as of one moment."""
        answer = await self.request("GET", "/replication/digests", params={"format": "csv"})
        return _digest_rows(answer.body.decode())

    async def is_ready(self) -> bool:
        """Whether the node answers within two seconds."""
        try:
            async with asyncio.timeout(_READY_SECONDS):
                await self.handshake()
        except (ClientError, TimeoutError):
            return False
        return True

    async def _members(self, path: str, name: str) -> list[JsonObject]:
        """All pages of a list that is the member `name` of an object."""
        found: list[JsonObject] = []
        async for page in self.pages(path):
            found += page[name]
        return found


def _digest_rows(text: str) -> list[DigestRow]:
    return [
        DigestRow(
            authority=row["authority"],
            origin=row["origin"],
            xid=row["xid"],
            epoch=int(row["epoch"]),
            is_deleted=row["deleted"].lower() in ("1", "t", "true"),
            digest=row["digest"],
        )
        for row in csv.DictReader(text.splitlines())
    ]
