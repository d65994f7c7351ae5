"""The result of an interaction whose drafts have passed every check."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from catalog.model.caller import Author
from catalog.model.change import changes_between
from catalog.model.entity import Entity, Origin, Tombstone
from catalog.model.record import record
from catalog.model.tracecontext import TraceContext
from catalog.model.xid import Xid
from catalog.store.changes import LogCursor
from catalog.store.writes import Write
from catalog.writing.drafts import Draft, Drafts


@record
class Outcome(Write):
    """The write of a decided interaction.

    Args:
        before: every touched entity, as stored.
        after: every entity that the interaction writes or deletes.
        left_alone: the xids of read-only entities that the interaction names and does not write.
        cursor: the position in the log of the last change of the interaction; a reader at the
            cursor has seen every change of the interaction. Without changes, the position of the
            last change that the interaction may have seen. `None` before the write.
    """

    before: Mapping[str, Entity]
    after: Mapping[str, Entity | Tombstone]
    left_alone: frozenset[str] = frozenset()
    cursor: LogCursor | None = None

    def is_new(self, xid: Xid) -> bool:
        return str(xid) not in self.before and isinstance(self.after.get(str(xid)), Entity)


def outcome_of(
    drafts: Drafts,
    interaction: str,
    author: Author,
    *,
    trace: TraceContext | None = None,
    tombstones: Mapping[Origin, Tombstone] | None = None,
    left_alone: Iterable[str] = (),
) -> Outcome:
    """Seal the written drafts, each with a new epoch, and derive the changes.

    Args:
        interaction: the id of the interaction.
        tombstones: the tombstones of new entities that existed before; the epochs of the new
            entities continue from the tombstones.
    """
    revived = tombstones or {}
    buried = [
        Tombstone(
            xid=draft.before.xid,
            kind=draft.before.kind,
            authority=draft.before.authority,
            origin=draft.before.origin,
            epoch=draft.before.epoch + 1,
            deletedat=drafts.now,
        )
        for draft in drafts.by_xid.values()
        if draft.is_deleted and draft.before is not None
    ]
    written = [d for d in drafts.by_xid.values() if d.is_written and not d.is_deleted]
    entities = [_sealed(draft, drafts, revived) for draft in written]
    sealed = zip(written, entities, strict=True)
    before = {**drafts.referred, **drafts.before} if drafts.referred else drafts.before
    after: dict[str, Entity | Tombstone] = {each.xid: each for each in entities}
    after |= {each.xid: each for each in buried}
    return Outcome(
        author=author,
        trace=trace,
        interaction=interaction,
        at=drafts.now,
        entities=entities,
        tombstones=buried,
        changes=changes_between(before, after, drafts.model),
        dropped_documents=[
            e.xid for draft, e in sealed if draft.had_document and e.document_sha256 is None
        ],
        revived=list(revived),
        before=drafts.before,
        after=after,
        left_alone=frozenset(left_alone),
    )


def _sealed(draft: Draft, drafts: Drafts, tombstones: Mapping[Origin, Tombstone]) -> Entity:
    xid = draft.key
    # Of two copies of an entity the higher epoch wins, also over an earlier life of the entity.
    earlier = draft.before or tombstones.get(Origin(drafts.authority, xid))
    epoch = max(earlier.epoch if earlier is not None else 0, draft.least_epoch) + 1
    entity = Entity(
        xid=xid,
        kind=draft.xid.kind,
        authority=drafts.authority,
        origin=xid,
        epoch=epoch,
        attributes=draft.attributes,
        createdat=draft.createdat,
        modifiedat=draft.modifiedat,
        document_sha256=draft.content_sha256,
        document=draft.document,
    )
    return replace(entity, digest=entity.content_digest())
