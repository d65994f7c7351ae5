"""Makes copies of the entities of a walk, and tombstones of the entities that are gone.

A missing entity in a listing is no proof: the server is asked for each entity, or for its parent.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from catalog.client import ClientError, JsonObject, Refused
from catalog.model.digest import canonical
from catalog.model.entity import Entity, Origin, Tombstone
from catalog.model.xid import depth, group_path
from catalog.store import entities as store
from catalog.store.database import Connection, Database
from replication.deciding.copychecks import Incoming, MalformedCopy
from replication.deciding.provenance import MOST_LEAP
from replication.peers.linkerrors import may_pass
from replication.readers.reader import WalkedEntity, WalkPart, WalkReader, with_document
from replication.readers.walkedserver import AnswerMalformed, AnswerTooLarge, RequestLog
from replication.store import copies as stored_copies
from replication.store import handovers
from replication.transfer.linkrun import LinkRun

_Held = Mapping[Origin, Entity | Tombstone]
_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class ReadPart:
    """A part that was read by the requests of `log`, while the server showed the `state`."""

    log: RequestLog
    state: Hashable


@dataclass(slots=True)
class WalkMemory:
    """The knowledge of one server for later walks; without it, the next walk reads everything.

    Args:
        levels: the levels of inlining that the server supported, by the kind of collection.
        epochs: the server's epochs of versions whose copies have different epochs, by xid.
        reads_all: the next walk reads every document again.
        parts: the parts that a walk has read to the end without a conflict.
        arrived: the xids of new entities since the last successful walk.
        known, settings: as in `Reading`.
    """

    levels: dict[str, int] = field(default_factory=dict)
    epochs: dict[str, int] = field(default_factory=dict)
    reads_all: bool = False
    parts: dict[WalkPart, ReadPart] = field(default_factory=dict)
    arrived: set[str] = field(default_factory=set)
    known: dict[str, bytes] = field(default_factory=dict)
    settings: dict[str, JsonObject] = field(default_factory=dict)

    def forget_parts(self) -> None:
        """Let the next walk read everything, even parts that the server calls unchanged."""
        self.parts.clear()
        self.known.clear()
        self.settings.clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyMaker:
    """Makes the copies of a batch of walked entities, without entities that are unchanged."""

    database: Database
    reader: WalkReader
    memory: WalkMemory

    async def copies_of(self, items: Sequence[WalkedEntity | MalformedCopy]) -> list[Incoming]:
        """The copies to apply: changed entities and malformed copies."""
        entities = [item.entity for item in items if isinstance(item, WalkedEntity)]
        origins = [Origin(entity.authority, entity.origin) for entity in entities]
        async with self.database.acquire() as connection:
            live = await store.load_by_origin(connection, origins)
            held: _Held = {**await store.load_tombstones(connection, origins), **live}
            copies: list[Incoming] = await _ends_of_versions(connection, entities, live)
        for item in items:
            if isinstance(item, MalformedCopy):
                copies.append(item)
            elif (copy := await self._copy_of(item, held)) is not None:
                copies.append(copy)
        return copies

    async def _copy_of(self, item: WalkedEntity, held: _Held) -> Incoming | None:
        entity = item.entity
        here = held.get(Origin(entity.authority, entity.origin))
        if item.lacks_times:
            entity = _with_times(entity, here)
        try:
            if item.lacks_document:
                if self._is_read(entity, here):
                    return None
                entity = with_document(entity, await self.reader.document(entity.xid))
            copy = sealed_copy(entity, here)
        # Numbers without a canonical form, and documents that cannot be read.
        except (ValueError, Refused, AnswerMalformed, AnswerTooLarge) as error:
            if isinstance(error, ClientError) and may_pass(error):
                raise
            return _malformed(entity, str(error))
        if copy.epoch == item.entity.epoch:
            self.memory.epochs.pop(copy.xid, None)
        elif item.lacks_document:
            self.memory.epochs[copy.xid] = item.entity.epoch
        if not isinstance(here, Entity):
            self.memory.arrived.add(entity.origin)
            return copy
        return None if here.digest == copy.digest else copy

    def _is_read(self, entity: Entity, here: Entity | Tombstone | None) -> bool:
        """Whether the held copy has the present document of a version, as far as known."""
        if self.memory.reads_all or not isinstance(here, Entity):
            return False
        epoch = self.memory.epochs.get(entity.xid, here.epoch)
        return entity.epoch == epoch and is_same_content(entity, here)


async def _ends_of_versions(
    connection: Connection, entities: Sequence[Entity], live: Mapping[Origin, Entity]
) -> list[Incoming]:
    """The tombstones of the versions of resources that have become cross references.

    The server shows the versions of the target resource in their place, so a request cannot confirm
    the deletion.
    """
    changed = [
        here.xid
        for entity in entities
        if "xref" in entity.attributes
        and (here := live.get(Origin(entity.authority, entity.origin))) is not None
        and "xref" not in here.attributes
    ]
    if not changed:
        return []
    below = await store.load_subtrees(connection, changed)
    now = datetime.now(UTC)
    return [end_of(version, now) for version in below if version.kind == "version"]


def _with_times(entity: Entity, here: Entity | Tombstone | None) -> Entity:
    """An entity of a server without times: the times of the held copy while it is unchanged."""
    now = datetime.now(UTC)
    if not isinstance(here, Entity) or here.damage:
        return replace(entity, createdat=now, modifiedat=now)
    dated = replace(entity, createdat=here.createdat, modifiedat=here.modifiedat)
    return dated if is_same_content(dated, here) else replace(dated, modifiedat=now)


def end_of(entity: Entity, at: datetime) -> Tombstone:
    """The deletion of an entity by its server, as a tombstone of this node."""
    return Tombstone(
        xid=entity.origin,
        kind=entity.kind,
        authority=entity.authority,
        origin=entity.origin,
        epoch=entity.epoch + 1,
        deletedat=at,
    )


def _malformed(entity: Entity, reason: str) -> MalformedCopy:
    return MalformedCopy(
        authority=entity.authority,
        origin=entity.origin,
        xid=entity.xid,
        epoch=min(entity.epoch, 2**62),
        reason=reason[:500].replace("\0", ""),
    )


async def find_absent(run: LinkRun, is_expected: Callable[[str], bool]) -> list[str]:
    """The xids of the source's held entities for which `is_expected` is false, in order.

    A group that this node has given to the source, and that the source has not taken yet, is not
    absent.
    """
    absent: list[str] = []
    after = Origin("", "")
    while True:
        async with run.database.acquire() as connection:
            found = await stored_copies.page_entities(
                connection, [run.policy.sender], after, _AT_ONCE
            )
        if not found:
            break
        absent += [origin.xid for origin in found if not is_expected(origin.xid)]
        after = found[-1]
    async with run.database.acquire() as connection:
        given = await handovers.read_given(connection, run.policy.sender, datetime.now(UTC))
    return [xid for xid in absent if group_path(xid) not in given]


async def confirm_gone(reader: WalkReader, absent: Sequence[str]) -> list[str]:
    """The absent entities, parents first, that the server confirms as gone, or their parent."""
    gone: list[str] = []
    answers: dict[str, bool] = {}
    for xid in absent:
        parent = xid.rsplit("/", 2)[0]
        is_gone = answers.get(parent)
        if is_gone is None:
            is_gone = await reader.is_gone(xid)
        answers[xid] = is_gone
        if is_gone:
            gone.append(xid)
    return gone


async def ends_of(run: LinkRun, gone: Sequence[str]) -> AsyncGenerator[list[Incoming]]:
    """The tombstones of deleted entities, children first."""
    now = datetime.now(UTC)
    ordered = sorted(gone, key=depth, reverse=True)
    for start in range(0, len(ordered), _AT_ONCE):
        part = ordered[start : start + _AT_ONCE]
        origins = [Origin(run.policy.sender, xid) for xid in part]
        async with run.database.acquire() as connection:
            entities = await store.load_by_origin(connection, origins)
        yield [end_of(entity, now) for entity in entities.values()]


def is_same_content(entity: Entity, held: Entity) -> bool:
    """Whether an entity equals the held entity, except for the document and the epoch."""
    return (
        not held.damage
        and entity.createdat == held.createdat
        and entity.modifiedat == held.modifiedat
        and canonical(entity.attributes) == canonical(held.attributes)
    )


def sealed_copy(entity: Entity, held: Entity | Tombstone | None) -> Entity:
    """The copy of a server's entity, given the held copy of the same origin.

    The copy keeps the epoch of the server if the epoch is above the held epoch, by `MOST_LEAP` at
    most. Otherwise the server has begun to count anew, as after a restore or when an entity was
    deleted and created again: then a copy that differs gets the held epoch plus 1, and an equal
    copy keeps the held epoch. So catalogs that follow this node see only rising epochs, and this
    node has the content of the server.

    Raises:
        ValueError: the entity has numbers without a canonical form.
    """
    here = 0 if held is None else held.epoch
    if here < entity.epoch <= here + MOST_LEAP:
        return entity.sealed()
    if isinstance(held, Entity) and not held.damage:
        copy = replace(entity, epoch=here).sealed()
        if copy.digest == held.digest:
            return copy
    return replace(entity, epoch=here + 1).sealed()
