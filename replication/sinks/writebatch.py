"""Writes a batch of entities to a server where needed, and saves the answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from catalog.client import Refused
from catalog.context import Context
from catalog.model.entity import Origin
from catalog.operations.feed import Verdict
from catalog.store import entities, links
from catalog.store.links import Link
from replication.deciding.copychecks import Copy
from replication.deciding.provenance import CopyFilter
from replication.sinks.writeownership import OTHERS, Listing, ServerOwnership
from replication.sources.ownlog import sent_by
from replication.store import linkconflicts, writtenentities
from replication.store.linkconflicts import CopyFinding
from replication.store.writtenentities import WrittenEntity
from replication.targets.target import (
    Item,
    Target,
    Translation,
    Unwritable,
    holder_of,
    is_of_entity,
    said_in,
)
from replication.transfer.transfer import DryRun, outcome_of

_SAVED_AT_ONCE = 50
# The entities of resources in one request, and the bytes of the documents of each resource.
_CREATED_AT_ONCE = 100
_SMALL_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteLink:
    """A link and the server of its writes.

    Args:
        mark: the mark in the entities that the link brings.
        is_tolerant: persistent faults of the server count as refusals of single entities.
    """

    context: Context
    link: Link
    target: Target
    mark: str
    is_tolerant: bool = False

    def take_sent(self) -> int:
        """The bytes that were sent to the server since the last call."""
        sent, self.target.client.sent = self.target.client.sent, 0
        return sent

    @property
    def wanted(self) -> CopyFilter:
        """The copies that the link writes."""
        return sent_by(self.context, self.link.definition)


@dataclass(slots=True, kw_only=True)
class Results:
    """The results that are not saved yet."""

    written: list[WrittenEntity] = field(default_factory=list)
    settled: list[Origin] = field(default_factory=list)
    forgotten: list[Origin] = field(default_factory=list)
    conflicts: list[CopyFinding] = field(default_factory=list)
    applied: int = 0


async def save_results(flow: WriteLink, results: Results) -> None:
    """Save the answers of the server, and the new and settled conflicts."""
    id = flow.link.id
    async with flow.context.database.transaction() as connection:
        if results.written:
            await writtenentities.save(connection, id, results.written)
        if results.forgotten:
            await writtenentities.forget(connection, id, results.forgotten)
        await links.save_progress(
            connection,
            flow.link,
            cursor=None,
            applied=results.applied,
            at=datetime.now(UTC),
            copies=results.applied,
            size=flow.take_sent(),
            settled=results.settled,
        )
        if results.conflicts:
            await linkconflicts.add(connection, id, results.conflicts)


class WriteBatch:
    """The items of a page of copies on the way to a server.

    Args:
        compares: compare the entities with the server, and write where they differ. Otherwise,
            write only the changes of this catalog.
        listing: a listing that compares whole groups, shared by batches.
    """

    def __init__(self, flow: WriteLink, *, compares: bool, listing: Listing | None = None) -> None:
        self._flow = flow
        self._target = flow.target
        self._compares = compares
        self._listing = listing
        self._written: dict[Origin, WrittenEntity]
        self._paths: set[str]
        self._with_versions: set[str]
        self._ownership: ServerOwnership
        # The new entities of this batch, and the entities that a joint request has created.
        self._noted: set[Origin] = set()
        self._created: set[Origin] = set()
        self._documents: dict[str, bytes] = {}
        self._results = Results()
        self.applied = self.conflicts = 0

    async def write(self, copies: Sequence[Copy]) -> Translation:
        """Write the entities of a page; the plan has the remaining work, such as deletions."""
        plan = await self._plan(copies)
        try:
            for copy, reason in plan.faults:
                self._refuse(copy, Verdict.INVALID, reason)
            for kind in ("group", "version", "resource"):
                if kind == "version":
                    await self._create_resources([i for i in plan.items if i.xid.kind != "group"])
                items = [item for item in plan.items if item.xid.kind == kind]
                await self._write_all([i for i in items if i.origin not in self._created])
        finally:
            # After an error, the server still has the entities that were written before it.
            await self._save()
        return plan

    async def preview(self, copies: Sequence[Copy], result: DryRun) -> int:
        """Add the writes of a page to a result; return the number of entities.

        The server is read, and nothing is written or saved.
        """
        plan = await self._plan(copies)
        for copy, reason in plan.faults:
            self._refuse(copy, Verdict.INVALID, reason)
        for item in plan.items:
            await self._ownership.settle(item, plan.items)
            if await self._is_wanted(item):
                path = (self._written.get(item.origin) or self._as_new(item)).path
                is_there = path in (self._ownership[item].found or {})
                outcome = outcome_of(is_deletion=False, is_there=is_there)
                result.note(outcome, item.origin, item.entity.epoch, item.entity.xid)
        for refused in self._results.conflicts:
            result.add(refused.verdict.value, refused)
        return len(plan.items) + len(plan.faults)

    async def _plan(self, copies: Sequence[Copy]) -> Translation:
        database = self._flow.context.database
        async with database.snapshot(database.pools.tasks) as connection:
            plan = await self._target.plan(connection, copies)
            plan.items = [item for item in plan.items if self._flow.wanted.admits(item.entity)]
            holders = {holder_of(item.entity.xid) for item in plan.items}
            holders |= {str(item.xid.group) for item in plan.items}
            rows = await writtenentities.load_at(connection, self._flow.link.id, holders)
        self._written = {row.origin: row for row in rows}
        self._paths = {row.path for row in rows}
        self._with_versions = {item.holder for item in plan.items if item.xid.vid}
        self._ownership = ServerOwnership(
            self._target,
            plan.items,
            rows,
            self._flow.mark,
            listing=self._listing,
            compares=self._compares,
        )
        return plan

    async def _write_all(self, items: Sequence[Item]) -> None:
        """Write items of one kind. New items are noted before, in case the answer gets lost."""
        for start in range(0, len(items), _SAVED_AT_ONCE):
            chunk = items[start : start + _SAVED_AT_ONCE]
            for item in chunk:
                await self._ownership.settle(item, items)
            wanted = [item for item in chunk if await self._is_wanted(item)]
            noted = {i.origin: self._as_new(i) for i in wanted if i.origin not in self._written}
            await self._note(noted)
            for item in wanted:
                await self._write(item)
            await self._save()

    async def _create_resources(self, items: Sequence[Item]) -> None:
        """Create resources that the server lacks, many at once.

        If the server refuses the request, the resources are written one by one, so that the server
        names the resources at fault.
        """
        by_holder: dict[str, list[Item]] = {}
        for item in items:
            by_holder.setdefault(item.holder, []).append(item)
        batch: list[Item] = []
        for members in by_holder.values():
            versions = [each for each in members if each.xid.kind == "version"]
            await self._ownership.settle(members[0], versions or members)
            owned = self._ownership[members[0]]
            written = [self._written.get(each.origin) for each in members]
            is_known = any(each is not None and each.digest for each in written)
            if owned.is_there or owned.fault or is_known or not self._is_complete(members[-1]):
                continue
            if not await self._are_small(members):
                continue
            is_other_collection = batch and batch[0].collection != members[0].collection
            if is_other_collection or len(batch) + len(members) > _CREATED_AT_ONCE:
                await self._create(batch)
                batch = []
            batch += members
        if batch:
            await self._create(batch)

    def _is_complete(self, item: Item) -> bool:
        """Whether a resource can be created: without a version, a server would invent one."""
        return item.holder in self._with_versions or "xref" in item.content

    async def _are_small(self, items: Sequence[Item]) -> bool:
        """Whether the documents of a resource fit into a joint request."""
        hashed = [each.entity.xid for each in items if each.entity.document_sha256 is not None]
        if not hashed:
            return True
        async with self._flow.context.database.acquire() as connection:
            found = await entities.load_documents(connection, hashed)
        if len(found) < len(hashed) or sum(map(len, found.values())) > _SMALL_BYTES:
            return False
        self._documents |= found
        return True

    async def _create(self, items: Sequence[Item]) -> None:
        noted = {item.origin: self._as_new(item) for item in items}
        await self._note(noted)
        sent = [item.entity.xid for item in items if item.entity.document_sha256 is not None]
        documents = {xid: self._documents.pop(xid) for xid in sent}
        try:
            tags = await self._target.create(items, documents)
        except Refused as error:
            if not is_of_entity(error, is_tolerant=self._flow.is_tolerant):
                raise
            return
        if tags is None:
            return
        for item in items:
            self._created.add(item.origin)
            self._ownership[item].is_there = True
            self._took(item, replace(noted[item.origin], tag=tags.get(item.entity.xid, "")))
        await self._save()

    async def _note(self, noted: Mapping[Origin, WrittenEntity]) -> None:
        """Note entities before the first write."""
        if noted:
            async with self._flow.context.database.transaction() as connection:
                await writtenentities.save(connection, self._flow.link.id, [*noted.values()])
            self._noted |= noted.keys()
            self._written |= noted
            self._paths |= {row.path for row in noted.values()}

    def _took(self, item: Item, written: WrittenEntity) -> None:
        """Note that the server has taken an item."""
        self._results.applied += 1
        self._results.settled.append(item.origin)
        self._results.written.append(replace(written, digest=item.digest))

    def _as_new(self, item: Item) -> WrittenEntity:
        path = self._target.path_of(item)
        if path in self._paths:
            # The server numbers versions, and has a different version at this path. The path of the
            # new version is not known yet.
            path += f"#{item.xid.vid}"
        return WrittenEntity(
            origin=item.origin,
            holder=item.holder,
            xid=item.entity.xid,
            target=self._target.root,
            path=path,
        )

    async def _is_wanted(self, item: Item) -> bool:
        """Whether an item is to be written, as far as the server's state is known."""
        owned, written = self._ownership[item], self._written.get(item.origin)
        if item.xid.kind == "resource" and not owned.is_there and not self._is_complete(item):
            # The versions of the resource come with the next page, and bring the resource again.
            return False
        if owned.fault:
            is_others = owned.fault == OTHERS
            verdict = Verdict.COLLIDED if is_others else Verdict.REFUSED
            self._refuse(item.entity, verdict, owned.fault)
            return False
        if owned.found is None:
            is_same = written is not None and written.digest == item.digest
            if is_same:
                self._results.settled.append(item.origin)
            return not is_same
        base = written or self._as_new(item)
        there = owned.found.get(base.path)
        if there is None or not await self._ownership.is_same(item, base, there):
            is_others = there is not None and there.is_version and there.owner != self._flow.mark
            if written is None and is_others:
                self._refuse(item.entity, Verdict.COLLIDED, OTHERS)
            return not (written is None and is_others)
        self._results.settled.append(item.origin)
        if (base.digest, base.tag) != (item.digest, there.tag):
            is_adopted = (written is None and there.owner != self._flow.mark) or base.is_adopted
            kept = replace(base, digest=item.digest, tag=there.tag, is_adopted=is_adopted)
            self._written[item.origin] = kept
            self._results.written.append(kept)
        return False

    async def _write(self, item: Item) -> None:
        owned, written = self._ownership[item], self._written[item.origin]
        if owned.fault:
            return self._fail(item, Verdict.REFUSED, owned.fault)
        if item.xid.kind == "resource" and not owned.is_there and "xref" not in item.content:
            return self._fail(item, Verdict.REFUSED, "the server has none of its versions")
        document, xid = None, item.entity.xid
        if item.entity.document_sha256 is not None:
            async with self._flow.context.database.acquire() as connection:
                document = (await entities.load_documents(connection, [xid])).get(xid)
            if document is None:
                return self._fail(item, Verdict.INVALID, "its document is gone")
        is_new = item.origin in self._noted and written.path not in (owned.found or {})
        try:
            answer = await self._target.write(item, document, written, is_new=is_new)
        except Unwritable as error:
            return self._fail(item, Verdict.INVALID, str(error))
        except Refused as error:
            if not is_of_entity(error, is_tolerant=self._flow.is_tolerant):
                raise
            return self._fail(item, Verdict.REFUSED, said_in(error))
        owned.is_there = True
        return self._took(item, replace(written, path=answer.path, tag=answer.tag))

    def _fail(self, item: Item, verdict: Verdict, reason: str) -> None:
        """Refuse an item at its write; items below a missing group are refused, too."""
        owned = self._ownership[item]
        if item.xid.kind == "group" and not owned.is_there:
            owned.fault = reason
        if item.origin in self._noted:
            self._results.forgotten.append(item.origin)
        self._refuse(item.entity, verdict, reason)

    def _refuse(self, copy: Copy, verdict: Verdict, reason: str) -> None:
        self._results.conflicts.append(CopyFinding.about(copy, verdict, reason))

    async def _save(self) -> None:
        results, self._results = self._results, Results()
        self.applied += results.applied
        self.conflicts += len(results.conflicts)
        if results != Results():
            await save_results(self._flow, results)
