"""The two transactions by which a group changes hands.

In the giver's transaction, the node's entities become replicas of the taker; in the taker's, the
group becomes the node's own.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

from catalog.client import Client, Unreachable
from catalog.context import Context
from catalog.keys.entitysignature import EntitySigner
from catalog.load.workthread import aside
from catalog.model.change import Change, changes_between
from catalog.model.entity import Entity, Origin, Tombstone
from catalog.model.schema import Model
from catalog.operations.handovers import GET_COPIES
from catalog.store import entities as store
from catalog.store.authoritykeys import read_signing
from catalog.store.database import Connection
from catalog.store.locks import (
    ConfigurationChanged,
    MustBeginAgain,
    Refusal,
    Touched,
    lock_and_load,
)
from catalog.store.writes import Write, write
from replication.applying.apply import load_local, write_decision
from replication.deciding.batch import change_of, decide_batch, order_of_change, origin_of
from replication.deciding.copychecks import Copy, Incoming
from replication.deciding.decide import CONFLICTS, NOT_BROUGHT
from replication.deciding.provenance import Policy
from replication.deciding.trust import Trust
from replication.feed.feedlines import FeedEnd, read_line, write_copy, write_end
from replication.handover.handovercopies import (
    MOST_COPIES,
    MOST_HANDED,
    Expectation,
    Succession,
    Unfit,
    provenance_told,
    succeed,
    taking_told,
)
from replication.peers.linkbounds import Allowance
from replication.signing.copyverification import read_trust, verify_all
from replication.store import copies as stored_copies
from replication.store import handovers
from replication.store.handovers import Handover

T = TypeVar("T")

_DOCUMENTS_AT_ONCE = 50
_REFUSED_AT: frozenset[Refusal] = frozenset({"closed", "model"})
_CHANGING = "the catalog here changes too often at the moment"
_MOST_ATTEMPTS = 5


async def give(context: Context, handover: Handover, floor: int) -> Handover:
    """Give the group of a handover away, unless the group is no longer offered.

    The transaction makes the taker's copies, which are kept until the taker has fetched them.
    Afterwards, the handover can only be completed. The handover is returned in its new state.

    Args:
        floor: the floor of the taker, which has promised to take the group.

    Raises:
        Unfit: the group cannot be given; nothing was written.
        CatalogRecovering: the node is recovering; nothing was written.
    """
    database, now = context.database, datetime.now(UTC)
    async with database.transaction() as connection:
        # Entities are locked before the handover, here and in `_take_at`. The other order could
        # deadlock with a request that holds the group and adds a handover.
        locked = await lock_and_load(connection, touched_by({handover.xid}))
        # An operator may have ended the handover since the runner has read the state.
        current = await handovers.lock(connection, handover.id)
        if current is None or current.state != "offered":
            return current or handover
        entities, deleted = await load_group(connection, database.node.authority, handover.xid)
        copies: Sequence[Copy] = [*entities, *deleted]
        origins = [Origin(handover.authority, copy.origin) for copy in copies]
        if await store.load_by_origin(connection, origins):
            raise Unfit(f"here are other entities of {handover.authority} with these names")
        dead = await store.load_tombstones(connection, origins)
        # The node may hold tombstones of the taker above the taker's floor, and the new epochs have
        # to be above both.
        floor = max([floor, *(each.epoch for each in dead.values())])
        signer = await context.signers.get(connection, locked.signing_key)
        made = await aside(
            len(entities), succeed, entities, deleted, handover.authority, floor, now
        )
        changes = await write_succession(context, connection, entities, made, dead, signer)
        # The lines and the new state are committed together: whoever reads `given` finds the lines,
        # which nobody can make again, since the entities are replicas from now on.
        await _keep_lines(connection, handover, made, signer)
        await handovers.leave_sets(connection, handover.xid)
        given = await handovers.move_on(
            connection, current, "given", now, floor=floor, entities=len(entities)
        )
    database.signal.set(changes)
    return given


def touched_by(groups: Collection[str], revision: int | None = None) -> Touched:
    """The locks for groups that change hands, which the node refuses while it is recovering."""
    return Touched(
        groups=frozenset(groups),
        groups_exclusive=True,
        registry_exclusive=True,
        revision=revision,
        refused_at=_REFUSED_AT,
    )


async def write_succession(
    context: Context,
    connection: Connection,
    entities: Sequence[Entity],
    made: Succession,
    dead: Iterable[Origin],
    signer: EntitySigner | None,
) -> Sequence[Change]:
    """Write the copies of both sides, and return the changes.

    Args:
        entities: the entities before the succession.
        dead: the origins of tombstones in the place of the successors.
        signer: the signer of this node, which signs the copies of its own authority.
    """
    own, model = context.database.node.authority, context.configuration.model
    changes = await aside(len(entities), _succession_told, entities, made, model)
    taken = Write(
        interaction=uuid.uuid4().hex, at=made.ends[0].deletedat, author=context.caller.author
    )
    lives = {successor.origin for successor in made.successors}
    revived = [origin for origin in dead if origin.xid in lives]
    is_own = made.successors[0].authority == own
    # The successors come first, to take over the rows of the former entities with the documents.
    await write(
        connection,
        replace(taken, entities=made.successors, revived=revived),
        signer=signer if is_own else None,
    )
    ends = [*made.ends, *made.remembered]
    await write(connection, replace(taken, tombstones=ends, changes=changes), signer=signer)
    return changes


async def load_group(
    connection: Connection, authority: str, xid: str
) -> tuple[list[Entity], list[Tombstone]]:
    """A group with every entity below, parents first, and the tombstones within.

    Raises:
        Unfit: the group does not exist, is not of the authority, or is too large.
    """
    entities = await store.load_subtrees(connection, [xid])
    if not entities:
        raise Unfit("it is not here")
    if any(entity.authority != authority for entity in entities):
        raise Unfit(f"it is not of the authority {authority}, or not all of it is")
    deleted = await handovers.load_deleted(connection, authority, entities[0].origin)
    if len(entities) + len(deleted) > MOST_HANDED:
        raise Unfit(f"it has more than {MOST_HANDED:,} entities, deleted ones included")
    return entities, deleted


async def preview_lines(context: Context, handover: Handover) -> AsyncGenerator[bytes]:
    """The lines that the taker would get now, for a check before the taker promises.

    Raises:
        Unfit
    """
    database, now = context.database, datetime.now(UTC)
    async with database.snapshot(database.pools.streams) as connection:
        entities, deleted = await load_group(connection, database.node.authority, handover.xid)
        signer = await context.signers.get(connection, (await read_signing(connection)).number)
        # The floor is known once the taker has promised; a preview shows what fits, not the epochs.
        made = await aside(len(entities), succeed, entities, deleted, handover.authority, 0, now)
        async for line in _lines(connection, made, signer):
            yield line
    yield write_end(handover.id)


async def given_lines(context: Context, handover: Handover) -> AsyncGenerator[bytes]:
    """The stored lines of a given group."""
    database = context.database
    async with database.snapshot(database.pools.streams) as connection:
        async for line in handovers.stream_copies(connection, handover.id):
            yield line
    yield write_end(handover.id)


async def _keep_lines(
    connection: Connection, handover: Handover, made: Succession, signer: EntitySigner | None
) -> None:
    number, lines = 0, list[bytes]()
    async for line in _lines(connection, made, signer):
        lines.append(line)
        if len(lines) == _DOCUMENTS_AT_ONCE:
            await handovers.add_copies(connection, handover.id, number, lines)
            number, lines = number + len(lines), []
    await handovers.add_copies(connection, handover.id, number, lines)


async def _lines(
    connection: Connection, made: Succession, signer: EntitySigner | None
) -> AsyncGenerator[bytes]:
    """The lines of both sides' copies, signed by the giver, since the taker may require signatures.

    Documents are loaded in pieces, to bound the memory of a large group.
    """
    for end in (*made.ends, *made.remembered):
        yield write_copy(end if signer is None else signer.signed(end))
    for start in range(0, len(made.successors), _DOCUMENTS_AT_ONCE):
        successors = made.successors[start : start + _DOCUMENTS_AT_ONCE]
        wanted = [each.xid for each in successors if each.document_sha256 is not None]
        documents = await store.load_documents(connection, wanted) if wanted else {}
        for successor in successors:
            signed = successor if signer is None else signer.signed(successor)
            yield write_copy(replace(signed, document=documents.get(successor.xid)))


def _succession_told(entities: Sequence[Entity], made: Succession, model: Model) -> list[Change]:
    """The changes of a succession: the entities are updated, and followers get the tombstones."""
    before = {entity.xid: entity for entity in entities}
    after = {successor.xid: successor for successor in made.successors}
    changes = provenance_told(changes_between(before, after, model))
    changes += [change_of(end, "handed") for end in (*made.ends, *made.remembered)]
    return sorted(changes, key=order_of_change)


async def fetch_given(context: Context, peer: Client, handover: Handover) -> list[Copy]:
    """Fetch and check the copies that the giver hands over, or would hand over now.

    Raises:
        ClientError: the giver does not answer, or sends too much.
        Unfit: the group cannot be taken.
    """
    assert handover.theirs is not None
    copies: list[Incoming] = []
    is_whole = False
    allowance = Allowance.of(context.settings, MOST_COPIES)
    async with contextlib.aclosing(
        peer.lines("GET", GET_COPIES.path.format(id=handover.theirs), is_bounded=False)
    ) as lines:
        async for line in lines:
            read = read_line(line)
            if isinstance(read, FeedEnd):
                is_whole = True
                continue
            allowance.take(len(line))
            copies.append(read)
    if not is_whole:
        raise Unreachable(f"The answer of {peer.url} broke off.", is_doubtful=True)
    database = context.database
    async with database.acquire() as connection:
        trust = await read_trust(connection, {handover.authority})
    expected = Expectation(
        xid=handover.xid,
        giver=handover.authority,
        taker=database.node.authority,
        floor=handover.floor,
        model=context.configuration.model,
        trust=trust,
    )
    if (keys := trust.keys.get(handover.authority)) is not None:
        # The new entities belong to the taker, but are signed with keys of the giver.
        by_giver = Trust(keys={handover.authority: keys, database.node.authority: keys})
        await verify_all(by_giver, [c for c in copies if isinstance(c, Entity | Tombstone)])
    return await aside(len(copies), expected.check, copies)


async def take(context: Context, handover: Handover, copies: Sequence[Copy]) -> None:
    """Take a group that was given, unless the group was taken before.

    Raises:
        Unfit: nothing was written, since a copy conflicts with stored entities, or the catalog
            changes too often.
        CatalogRecovering: nothing was written, since the node is recovering.
    """
    group = Origin(handover.authority, handover.xid)

    async def attempt() -> Sequence[Change]:
        async with context.database.acquire() as connection:
            held = await store.load_by_origin(connection, [group])
        # The path of the group changes, and the path of a replica of the group.
        places = frozenset({handover.xid, *(entity.xid for entity in held.values())})
        return await _take_at(context, handover, copies, places)

    try:
        changes = await repeated(attempt)
    except ConfigurationChanged:
        # The copies were checked against the old model, and may not fit the new model.
        await context.shared.reload()
        raise Unfit(_CHANGING) from None
    context.database.signal.set(changes)


async def repeated(attempt: Callable[[], Awaitable[T]]) -> T:
    """Repeat a transaction that must begin again, a few times.

    Raises:
        Unfit: the catalog changes too often; nothing was written.
    """
    for _ in range(_MOST_ATTEMPTS):
        with contextlib.suppress(MustBeginAgain):
            return await attempt()
    raise Unfit(_CHANGING)


async def _take_at(
    context: Context, handover: Handover, copies: Sequence[Copy], places: frozenset[str]
) -> Sequence[Change]:
    database, configuration, now = context.database, context.configuration, datetime.now(UTC)
    async with database.transaction() as connection:
        locked = await lock_and_load(connection, touched_by(places, configuration.revision))
        current = await handovers.lock(connection, handover.id)
        # A step may be repeated after a crash, so the group may be here already.
        if current is None or current.state != "promised" or current.theirs != handover.theirs:
            return ()
        entities, tombstones = await load_local(connection, copies)
        group = Origin(handover.authority, handover.xid)
        # The replica was renamed before the locks were taken, so the new path is not locked.
        if any(origin_of(e) == group and e.xid not in places for e in entities.values()):
            raise MustBeginAgain
        # The copies belong to the node or to the giver.
        own, giver = database.node.authority, handover.authority
        policy = Policy(
            own=own,
            sender=giver,
            authorities=frozenset({own, giver}),
            is_trusted=True,
            is_recovering=True,
        )
        decision = await aside(len(copies), decide_batch, copies, entities, tombstones, policy)
        for finding in decision.findings:
            if finding.verdict in CONFLICTS | NOT_BROUGHT:
                what = finding.detail or f"it was {finding.verdict.value}"
                raise Unfit(f"{finding.origin.xid} of {finding.origin.authority}: {what}")
        entities["/"] = locked.entities["/"]
        signer = await context.signers.get(connection, locked.signing_key)
        changes = await write_decision(
            connection,
            decision,
            entities,
            configuration.model,
            now,
            author=context.caller.author,
            signer=signer,
            retold=partial(taking_told, own=own),
        )
        number = sum(isinstance(copy, Entity) for copy in copies)
        await handovers.move_on(connection, current, "done", now, entities=number)
    return changes


async def find_obstacle(connection: Connection, group: str, authority: str) -> str:
    """The reason why a path is not free for a group of an authority; empty if the path is free.

    The caller has to lock the path and the registry.
    """
    held = await stored_copies.load_held(connection, [group], [])
    for entity in held.entities.values():
        if origin_of(entity) != Origin(authority, group):
            return f"{entity.xid} of {entity.authority} is at its path here"
    return ""
