"""Walks a server of other software once, by its standard API: brings changes, finds deletions.

A copy has the content that the server shows. The server is the authority of every copy, and this
node alone speaks for the authority: it continues the epochs where the server starts anew, and makes
the tombstones of deleted entities.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from catalog.client import ClientError
from catalog.model.entity import Origin
from catalog.model.masking import counted
from replication.deciding.copychecks import Incoming, MalformedCopy
from replication.deciding.decide import CONFLICTS
from replication.peers.linkbounds import Allowance
from replication.readers.reader import (
    ListingContradicts,
    Reading,
    WalkedCatalog,
    WalkedEntity,
    WalkedItem,
    WalkPart,
    WalkReader,
)
from replication.readers.walkedserver import (
    RequestLog,
    WalkedServer,
)
from replication.sources import walkedcopies
from replication.sources.copypages import CopyPage, without_content
from replication.sources.walkedcopies import ReadPart, WalkMemory
from replication.store import linkconflicts
from replication.transfer.linkrun import LinkRun

_MOST_COPIES = 500
_MOST_BYTES = 8 * 1024 * 1024
_PAGE = 1000
# The time limit of a stream.
_WALK_SECONDS = 7200.0


class WalkIncomplete(ClientError):
    """The server's own counts show that a listing is incomplete: nothing was deleted."""

    is_retryable = True


@dataclass(slots=True, kw_only=True)
class Walked:
    """The result of a walk: the numbers of read entities, of changes and of deletions.

    `unchanged` is the number of parts that the server called unchanged. `is_first` is true if no
    earlier walk of the link was successful.
    """

    is_first: bool = False
    entities: int = 0
    changes: int = 0
    deleted: int = 0
    unchanged: int = 0

    @property
    def text(self) -> str:
        read = f"{counted(self.entities, 'entities')} read"
        return f"{read}, {counted(self.changes, 'changes')}, {self.deleted} deleted"


@dataclass(slots=True, kw_only=True)
class Walk:
    """One walk of one server."""

    run: LinkRun
    server: WalkedServer
    catalog: WalkedCatalog
    memory: WalkMemory
    walked: Walked = field(default_factory=Walked)
    _reader: WalkReader = field(init=False)
    _maker: walkedcopies.CopyMaker = field(init=False)
    _conflicting: set[Origin] = field(default_factory=set)
    _unchanged: list[WalkPart] = field(default_factory=list)
    _read_parts: dict[WalkPart, ReadPart] = field(default_factory=dict)
    _ends: float = 0.0

    def __post_init__(self) -> None:
        context, policy = self.run.context, self.run.policy
        self._ends = asyncio.get_running_loop().time() + _WALK_SECONDS
        self.walked.is_first = self.run.link.currentat is None
        self._reader = self.catalog.reader(
            Reading(
                server=self.server,
                model=context.configuration.model,
                authority=policy.sender,
                scope=policy.scope,
                types=policy.types,
                allowance=Allowance.of(context.settings),
                levels=self.memory.levels,
                known=self.memory.known,
                settings=self.memory.settings,
                checks=partial(context.checked_requests.begin, self.run.link.id),
            )
        )
        self._maker = walkedcopies.CopyMaker(
            database=context.database, reader=self._reader, memory=self.memory
        )

    async def pages(self) -> AsyncGenerator[CopyPage]:
        """Every difference; then the tombstones of deleted entities, if the listing was complete.

        Raises:
            ClientError: the walk broke off, or was incomplete (`WalkIncomplete`); no entity counts
                as deleted.
        """
        async for page in self._read():
            yield page
        await self._end()
        self._check_complete()
        gone = await self._find_gone()
        if gone:
            yield CopyPage(losses=self.losses_among(gone))
            async for copies in walkedcopies.ends_of(self.run, gone):
                page = CopyPage(copies=copies)
                yield page
                self._note(page)
            self.walked.deleted = len(gone)
        self.memory.parts = self._read_parts
        conflicting = {_resource_of(origin.xid) for origin in self._conflicting}
        read = self._reader.known.items()
        self.memory.known = {xid: digest for xid, digest in read if xid not in conflicting}
        self.memory.reads_all = False
        self.memory.arrived.clear()
        if self.walked.entities or self.walked.is_first:
            yield self._page([], f"walked, {counted(self.walked.entities, 'entities')} read")

    async def preview(self) -> tuple[list[Incoming], list[str]]:
        """The effect of a walk, as `pages` would have it; nothing is written.

        Returns:
            the copies that a run would apply, without their content, and the xids of the entities
            that a run would delete, at their authority.
        """
        copies = [without_content(copy) async for page in self._read() for copy in page.copies]
        self._check_complete()
        return copies, await self._find_gone()

    async def _read(self) -> AsyncGenerator[CopyPage]:
        if faults := self._faults():
            page = self._page(faults)
            yield page
            self._note(page)
        while True:
            try:
                for part in self._reader.parts:
                    if await self._is_unchanged(part):
                        continue
                    self.server.log, before = RequestLog(), len(self._conflicting)
                    async for page in self._bring(self._reader.read_part(part)):
                        yield page
                    self._remember(part, self.server.log, before)
            except ListingContradicts:
                # The loop ends, since each kind of collection contradicts itself once: then nothing
                # is inlined.
                continue
            return

    def _check_complete(self) -> None:
        """Check that the listings agreed with the counts of the server."""
        if self._reader.faults:
            raise WalkIncomplete(
                f"{self.server.url} does not list what it has: {'; '.join(self._reader.faults)}.",
                "What it lists was brought, and nothing is deleted.",
            )

    def _faults(self) -> list[Incoming]:
        """The types that cannot be taken over, as conflicts."""
        authority = self.run.policy.sender
        return [
            MalformedCopy(
                authority=authority, origin=fault.path, xid=fault.path, epoch=0, reason=fault.reason
            )
            for fault in self.catalog.faults
            if self._reader.reading.selects(fault.path)
        ]

    async def _is_unchanged(self, part: WalkPart) -> bool:
        """Whether the server states that a part is unchanged since the last read.

        The requests of a part show the epochs of every group and resource, which rise if members
        come or go. For the set of groups, the epoch of the registry is compared.
        """
        last = self.memory.parts.get(part)
        if last is None or last.state != self._reader.state_of(part):
            return False
        if not await self.server.is_unchanged(last.log):
            return False
        self._read_parts[part] = last
        self._unchanged.append(part)
        self.walked.unchanged += 1
        return True

    def _remember(self, part: WalkPart, log: RequestLog, conflicts: int) -> None:
        """Remember a part after its read; `conflicts` is the number of earlier conflicts."""
        state = self._reader.state_of(part)
        if log.is_tagged and state is not None and len(self._conflicting) == conflicts:
            self._read_parts[part] = ReadPart(log, state)

    async def _bring(self, bundles: AsyncIterator[list[WalkedItem]]) -> AsyncGenerator[CopyPage]:
        """The read entities in pages; a resource and its versions stay together."""
        items: list[WalkedItem] = []
        size = 0
        async for bundle in bundles:
            if asyncio.get_running_loop().time() > self._ends:
                raise ClientError(
                    f"{self.server.url} could not be read within {_WALK_SECONDS:.0f} seconds.",
                    "Narrow the link's scope.",
                )
            items += bundle
            found = [item.entity.document for item in bundle if isinstance(item, WalkedEntity)]
            size += sum(len(document or b"") for document in found)
            if len(items) >= _MOST_COPIES or size >= _MOST_BYTES:
                async for page in self._made_of(items):
                    yield page
                items, size = [], 0
            await asyncio.sleep(0)
        if items:
            async for page in self._made_of(items):
                yield page

    async def _made_of(self, items: list[WalkedItem]) -> AsyncGenerator[CopyPage]:
        self.walked.entities += len(items)
        last = items[-1]
        at = last.entity.xid if isinstance(last, WalkedEntity) else last.xid
        copies = await self._maker.copies_of(items)
        if copies or self.walked.is_first:
            cursor = None
            if self.walked.is_first:
                cursor = f"walking, {counted(self.walked.entities, 'entities')} up to {at}"
            page = self._page(copies, cursor)
            yield page
            self._note(page)

    def _page(self, copies: list[Incoming], cursor: str | None = None) -> CopyPage:
        return CopyPage(copies=copies, cursor=cursor)

    def _note(self, page: CopyPage) -> None:
        """Note the outcome of a page."""
        if page.applied is not None:
            self.walked.changes += page.applied.changes
            self._conflicting |= {
                each.origin for each in page.applied.findings if each.verdict in CONFLICTS
            }

    async def _end(self) -> None:
        """Forget the conflicts of entities that are no longer in conflict, or do not exist."""
        async for found in self.run.conflicts(_PAGE):
            settled = [c.origin for c in found if c.origin not in self._conflicting]
            if settled:
                async with self.run.database.transaction() as connection:
                    await linkconflicts.drop(connection, self.run.link.id, settled)

    def losses_among(self, gone: Sequence[str]) -> list[Origin]:
        """The deleted entities without an arrived entity in their place, matched in pairs.

        An entity that moves to a different group keeps its path within the group.
        """
        conflicting = {origin.xid for origin in self._conflicting}
        came = Counter(map(_in_any_group, self.memory.arrived - conflicting))
        losses: list[Origin] = []
        for xid in gone:
            place = _in_any_group(xid)
            if came[place]:
                came[place] -= 1
            else:
                losses.append(Origin(self.run.policy.sender, xid))
        return losses

    async def _find_gone(self) -> list[str]:
        """The held entities that the server did not list, and confirms as deleted."""
        absent = await walkedcopies.find_absent(self.run, self._is_expected)
        return await walkedcopies.confirm_gone(self._reader, absent)

    def _is_expected(self, xid: str) -> bool:
        """Whether an entity exists, or the walk has not looked for it."""
        if self._reader.has_seen(xid) or not self._reader.reading.selects(xid):
            return True
        if any(part.covers(xid) for part in self._unchanged):
            return True
        return self._reader.is_unreadable(xid)


def _resource_of(xid: str) -> str:
    """The path of the resource of a version."""
    return "/".join(xid.split("/")[:5])


def _in_any_group(xid: str) -> str:
    """A path without the id of its group."""
    steps = xid.split("/")
    return "/".join([*steps[:2], *steps[3:]])
