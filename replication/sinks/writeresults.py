"""A writing link, and the answers of its server that are not saved yet."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from catalog.context import Context
from catalog.model.entity import Origin
from catalog.operations.feed import Verdict
from catalog.store import links
from catalog.store.links import Link
from replication.deciding.batch import origin_of
from replication.deciding.provenance import Copy, CopyFilter
from replication.sources.ownlog import sent_by
from replication.store import linkconflicts, writtenentities
from replication.store.linkconflicts import LinkConflict
from replication.store.writtenentities import WrittenEntity
from replication.targets.target import Target


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
    conflicts: list[LinkConflict] = field(default_factory=list)
    applied: int = 0

    @property
    def size(self) -> int:
        saved = len(self.written) + len(self.settled)
        return saved + len(self.forgotten) + len(self.conflicts)


def conflict_of(copy: Copy, verdict: Verdict, detail: str) -> LinkConflict:
    return LinkConflict(
        origin=origin_of(copy),
        xid=copy.xid,
        epoch=copy.epoch,
        verdict=verdict.value,
        detail=detail,
        at=datetime.now(UTC),
    )


async def save_results(flow: WriteLink, results: Results) -> None:
    """Save the answers of the server, and the new and settled conflicts."""
    id = flow.link.id
    async with flow.context.database.transaction() as connection:
        if results.written:
            await writtenentities.save(connection, id, results.written)
        if results.forgotten:
            await writtenentities.forget(connection, id, results.forgotten)
        if results.settled:
            await linkconflicts.drop(connection, id, results.settled)
        if results.conflicts:
            await linkconflicts.add(connection, id, results.conflicts)
        await links.save_progress(
            connection,
            flow.link,
            cursor=None,
            applied=results.applied,
            at=datetime.now(UTC),
            copies=results.applied,
            size=flow.take_sent(),
        )
