"""Links, the change feed and digests of a node."""

from __future__ import annotations

import asyncio
import csv
import math
from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import orjson

from catalog.client.connection import Answer, JsonObject, Params
from catalog.client.errors import BadAnswer, ClientError
from catalog.client.operationcalls import OperationCalls
from catalog.model.entity import Origin
from catalog.operations import feed, links, peers
from catalog.operations.feed import LONGEST_WAIT, MOST_CHANGES, CopyQuery
from catalog.operations.followers import FOLLOWER, FollowerName
from catalog.operations.links import (
    CopyConflict,
    DropQuery,
    ForceQuery,
    LinkAnswer,
    LinkChanges,
    LinkReset,
    NewLink,
    NewLinkQuery,
)
from catalog.operations.operation import LINES
from catalog.operations.peers import (
    Handshake,
    HandshakeQuery,
    KeyHistoryAnswer,
    KeysQuery,
    LearntKeys,
    ToldKeys,
    WantedOrigins,
)

_CURSOR = "Concord-Cursor"
_LARGEST_VERDICTS = 8 * 1024 * 1024
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

    `copies` are the changed entities and their ancestors, parents first, in the present state;
    deleted entities have `"deleted": true`. `cursor` is the beginning of the next page.
    """

    copies: Sequence[JsonObject]
    cursor: str


class ReplicationCalls(OperationCalls):
    """The calls for links and for the change feed."""

    async def push(
        self, body: bytes, *, authority: str, instance: str, params: Params = ()
    ) -> list[JsonObject]:
        """Send copies to the node, as lines; returns a verdict for each copy, and a last object.

        Args:
            authority: the authority of the sending catalog.
            instance: the instance of the sending catalog.

        Raises:
            Refused: the operator of the node does not accept copies of the authority, or the
                copies do not follow the copies of the previous push.
        """
        answer = await self.request(
            feed.PUSH.method,
            feed.PUSH.path,
            params=params,
            body=body,
            headers={"Content-Type": LINES, **_sender(authority, instance)},
            is_repeatable=feed.PUSH.is_repeatable,
            largest=_LARGEST_VERDICTS,
        )
        try:
            found = [orjson.loads(line) for line in answer.body.splitlines()]
        except orjson.JSONDecodeError as error:
            raise BadAnswer(self.at(feed.PUSH.path), "no lines of JSON") from error
        if not found or not all(isinstance(line, dict) for line in found):
            raise BadAnswer(self.at(feed.PUSH.path), "something else than verdicts")
        return found

    async def keys(self, authorities: Sequence[str] = ()) -> list[KeyHistoryAnswer]:
        """The key histories of the given authorities, or of every authority known to the node.

        The histories are not checked.
        """
        query = KeysQuery.model_construct(authority=[*authorities])
        return (await self.call(peers.LIST_KEYS, query=query)).keys

    async def tell_keys(
        self, keys: Sequence[KeyHistoryAnswer], *, authority: str, instance: str
    ) -> LearntKeys:
        """Tell the node the keys of authorities, before sending entities signed by the keys.

        Args:
            keys: histories as returned by `keys`.
            authority: the authority of the sending catalog.
            instance: the instance of the sending catalog.
        """
        named = _sender(authority, instance)
        return await self.call(peers.TELL_KEYS, ToldKeys(keys=[*keys]), headers=named)

    async def links(self) -> list[LinkAnswer]:
        return [link async for page in self.call_pages(links.LIST_LINKS) for link in page.links]

    async def link(self, id: str) -> LinkAnswer:
        return await self.call(links.GET_LINK, id=id)

    async def add_link(self, wanted: NewLink, *, force: bool = False) -> LinkAnswer:
        """Create a link; the answer has the id, and describes the source or target.

        Args:
            force: do not ask the source first, since the source may be unreachable at the moment.
        """
        return await self.call(links.CREATE_LINK, wanted, query=NewLinkQuery(force=force))

    async def change_link(
        self, id: str, changes: LinkChanges, *, force: bool = False
    ) -> LinkAnswer:
        """Change the content, the names, the source or the state of a link.

        Args:
            changes: the members that are set replace the members of the link.
            force: do not check first that a new URL leads to the same catalog.
        """
        return await self.call(links.CHANGE_LINK, changes, query=ForceQuery(force=force), id=id)

    async def reset_link(self, id: str, extent: LinkReset | None = None) -> LinkAnswer:
        """Let a link compare its copies with the source, and bring differing entities again."""
        return await self.call(links.RESET_LINK, extent or LinkReset(), id=id)

    async def pause_link(self, id: str, reason: str | None = None) -> LinkAnswer:
        """Pause a link until `resume_link`."""
        return await self.change_link(id, LinkChanges(paused=True, reason=reason))

    async def resume_link(self, id: str) -> LinkAnswer:
        """Let a paused link continue after its cursor."""
        return await self.change_link(id, LinkChanges(paused=False))

    async def run_link(self, id: str) -> LinkAnswer:
        """Let a link read its source at once, even if the link waits after a failure or stopped."""
        return await self.call(links.RUN_LINK, id=id)

    async def allow_link(self, id: str, digest: str) -> LinkAnswer:
        """Allow a link to delete the entities for which the link asks permission.

        Args:
            digest: the digest of the question of the link, which lists the entities.
        """
        return await self.change_link(id, LinkChanges(allow=digest))

    async def remove_link(self, id: str, *, drop: bool = False) -> None:
        """Delete a link; `drop` deletes the replicas of the link first, which takes time."""
        await self.call(links.DELETE_LINK, query=DropQuery(drop=drop), id=id)

    async def conflicts(self, link: str) -> list[CopyConflict]:
        """The copies that a link could not apply, each with the reason."""
        pages = self.call_pages(links.LIST_CONFLICTS, id=link)
        return [each async for page in pages for each in page.conflicts]

    async def handshake(self, *, count: bool = False) -> Handshake:
        """The identity and the log range of the node, with `count` also the number of entities."""
        return await self.call(peers.HANDSHAKE, query=HandshakeQuery(count=count))

    async def cursor(self) -> str:
        """The cursor at the end of the change feed; later changes come after the cursor."""
        # An empty range of buckets costs the node nothing; the answer has the cursor nevertheless.
        nothing = {"format": "csv", "from": "0", "to": "0"}
        answer = await self.request("GET", feed.READ_DIGESTS.path, params=nothing)
        if _CURSOR not in answer.headers:
            raise BadAnswer(self.at(feed.READ_DIGESTS.path), "no cursor")
        return answer.headers[_CURSOR]

    async def changes(
        self,
        after: str,
        *,
        wait_seconds: int = 0,
        limit: int = MOST_CHANGES,
        selection: CopyQuery | None = None,
    ) -> Changes:
        """The changes after a cursor, oldest first.

        Args:
            after: a cursor.
            wait_seconds: how long to wait if the page is empty, at most 30.
            limit: the largest number of changes in a page, at most 1000.
            selection: the entities to report; by default every entity.

        Raises:
            CursorExpired: the log of the node does not reach back to the cursor.
        """
        wanted = {} if selection is None else selection.model_dump()
        params = [
            ("after", after),
            ("wait", str(wait_seconds)),
            ("limit", str(limit)),
            *((name, value) for name, values in wanted.items() for value in values),
        ]
        answer = await self.request("GET", feed.READ_CHANGES.path, params=params)
        try:
            *copies, end = [orjson.loads(line) for line in answer.body.splitlines()]
            return Changes(copies=copies, cursor=end["cursor"])
        except (ValueError, KeyError, TypeError) as error:
            raise BadAnswer(self.at(feed.READ_CHANGES.path), "no feed") from error

    async def follow(
        self, after: str, *, selection: CopyQuery | None = None
    ) -> AsyncGenerator[Changes]:
        """The changes after a cursor, page by page and without end, on arrival.

        A page without copies only moves the cursor. An outage that lasts longer than the policy for
        repetitions ends the iteration with an error; `follow` then continues after the last cursor.

        Args:
            after: a cursor.
            selection: the entities to report; by default every entity.

        Raises:
            CursorExpired: the log of the node does not reach back to the cursor.
        """
        wait = max(1, min(LONGEST_WAIT, int(self.timeout_seconds / 2)))
        while True:
            page = await self.changes(after, wait_seconds=wait, selection=selection)
            if page.copies or page.cursor != after:
                yield page
            after = page.cursor

    def change_lines(
        self,
        after: str,
        *,
        limit: int,
        wait_seconds: float,
        filters: Iterable[tuple[str, str]] = (),
        follower: FollowerName | None = None,
    ) -> AsyncGenerator[bytes]:
        """The lines of one page of the change feed on arrival; see `lines`.

        The last line has the cursor, and the number of the remaining changes.

        Args:
            wait_seconds: how long to wait if the page is empty, rounded up to whole seconds.
            filters: the query parameters `authority`, `scope` and `type`, which may be repeated.
            follower: who has everything up to the cursor, and wants the node to know.

        Raises:
            CursorExpired: the log of the node does not reach back to the cursor.
        """
        wait = math.ceil(wait_seconds)
        page = [("after", after), ("limit", str(limit)), ("wait", str(wait)), ("behind", "")]
        parameters = [*page, *filters]
        return self.lines(
            "GET",
            feed.READ_CHANGES.path,
            params=parameters,
            headers=None if follower is None else {FOLLOWER: follower.header()},
            wait_seconds=wait_seconds,
        )

    def snapshot_lines(self, filters: Iterable[tuple[str, str]] = ()) -> AsyncGenerator[bytes]:
        """The lines of every entity, in unbounded time; see `lines`."""
        return self.lines("GET", feed.READ_SNAPSHOT.path, params=filters, is_bounded=False)

    def fetch_lines(self, origins: Iterable[Origin]) -> AsyncGenerator[bytes]:
        """The lines of single origins and their ancestors; see `lines`."""
        body = WantedOrigins.of(origins).model_dump()
        return self.lines(feed.FETCH.method, feed.FETCH.path, body=body)

    async def digest_rows(self, *, verify: bool = False) -> list[DigestRow]:
        """The state of every origin at the node in one snapshot, including deleted origins.

        Args:
            verify: let the node compute the digests from the content instead of stored digests.
        """
        params = {"format": "csv", **({"verify": "true"} if verify else {})}
        answer = await self.request("GET", feed.READ_DIGESTS.path, params=params)
        return [
            DigestRow(
                authority=row["authority"],
                origin=row["origin"],
                xid=row["xid"],
                epoch=int(row["epoch"]),
                is_deleted=row["deleted"].lower() in ("1", "t", "true"),
                digest=row["digest"],
            )
            for row in csv.DictReader(answer.body.decode().splitlines())
        ]

    async def merged_digests(self, params: Iterable[tuple[str, str]]) -> Answer:
        """The fingerprints of merged buckets, with the cursor of the snapshot in `Concord-Cursor`.

        Args:
            params: `bits`, `ranges`, and the filters of `change_lines`.
        """
        return await self.request("GET", feed.READ_DIGESTS.path, params=params)

    def digest_lines(
        self, ranges: str, filters: Iterable[tuple[str, str]] = ()
    ) -> AsyncGenerator[bytes]:
        """The lines of CSV with the state of each origin in ranges of buckets; see `lines`."""
        wanted = [("format", "csv"), ("ranges", ranges), *filters]
        return self.lines("GET", feed.READ_DIGESTS.path, params=wanted, is_bounded=False)

    async def is_ready(self) -> bool:
        """Whether the node answers within two seconds."""
        try:
            async with asyncio.timeout(_READY_SECONDS):
                await self.handshake()
        except (ClientError, TimeoutError):
            return False
        return True


def _sender(authority: str, instance: str) -> dict[str, str]:
    return dict(zip(peers.SENDER, (authority, instance), strict=True))
