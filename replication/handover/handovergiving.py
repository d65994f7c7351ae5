"""Gives a group away: in one transaction, the node's entities become replicas of the taker."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TypeVar

from catalog.context import Context
from catalog.keys.entitysignature import EntitySigner
from catalog.load.longwork import aside
from catalog.model.change import Change, changes_between
from catalog.model.entity import Entity, Origin, Tombstone
from catalog.model.schema import Model
from catalog.store import entities as store
from catalog.store.authoritykeys import read_signing
from catalog.store.database import Connection
from catalog.store.locks import Refusal, Touched, lock_and_load
from catalog.store.writes import Write, write
from replication.deciding.batch import change_of, order_of_change
from replication.deciding.copychecks import Copy
from replication.feed.feedlines import write_copy, write_end
from replication.handover.handovercopies import (
    MOST_HANDED,
    Succession,
    Unfit,
    provenance_told,
    succeed,
)
from replication.store import handovers
from replication.store.handovers import Handover

_DOCUMENTS_AT_ONCE = 50
Handed = TypeVar("Handed", Entity, Tombstone)
_REFUSED_AT: frozenset[Refusal] = frozenset({"closed", "model"})


async def give(context: Context, handover: Handover, floor: int) -> Handover:
    """Give the group of a handover away, unless the group is no longer offered.

    The transaction makes the taker's copies, which are kept until the taker has fetched them.
    Afterwards, the handover can only be completed.

    Args:
        floor: the floor of the taker, which has promised to take the group.

    Returns:
        the handover in the new state.

    Raises:
        Unfit: the group cannot be given; nothing was written.
        CatalogRecovering: the node is recovering; nothing was written.
    """
    now, changes = datetime.now(UTC), list[Change]()
    touched = Touched(
        groups=frozenset({handover.xid}),
        groups_exclusive=True,
        registry_exclusive=True,
        refused_at=_REFUSED_AT,
    )
    async with context.database.transaction() as connection:
        locked = await lock_and_load(connection, touched)
        current = await handovers.lock(connection, handover.id)
        if current is None or current.state != "offered":
            return current or handover
        entities, deleted = await load_given(context, connection, handover)
        copies: Sequence[Copy] = [*entities, *deleted]
        origins = [Origin(handover.authority, copy.origin) for copy in copies]
        if await store.load_by_origin(connection, origins):
            raise Unfit(f"here are other entities of {handover.authority} with these names")
        dead = await store.load_tombstones(connection, origins)
        # The node may hold tombstones of the taker above the taker's floor, and the new epochs have
        # to be above both.
        floor = max([floor, *(each.epoch for each in dead.values())])
        signer = await context.signers.get(connection, locked.signing_key)
        arguments = entities, deleted, handover.authority, floor, now
        made = await aside(len(entities), succeed, *arguments)
        changes = await aside(len(entities), _changes, entities, made, context.configuration.model)
        # The taker's entities come first, to take over the giver's rows with the documents.
        interaction, author = uuid.uuid4().hex, context.caller.author
        lives = {successor.origin for successor in made.successors}
        revived = [origin for origin in dead if origin.xid in lives]
        successors = Write(
            interaction=interaction,
            at=now,
            author=author,
            entities=made.successors,
            revived=revived,
        )
        await write(connection, successors)
        ends = Write(
            interaction=interaction,
            at=now,
            author=author,
            tombstones=[*made.ends, *made.remembered],
            changes=changes,
        )
        await write(connection, ends, signer=signer)
        await _keep_lines(connection, handover, made, signer)
        await handovers.leave_sets(connection, handover.xid)
        given = await handovers.move_on(
            connection, current, "given", now, floor=floor, entities=len(entities)
        )
    context.database.signal.set(changes)
    return given


async def load_given(
    context: Context, connection: Connection, handover: Handover
) -> tuple[list[Entity], list[Tombstone]]:
    """The group of a handover with every entity below, parents first, and the tombstones within.

    Raises:
        Unfit: the group does not exist, is not the node's, or is too large.
    """
    entities = await store.load_subtrees(connection, [handover.xid])
    if not entities:
        raise Unfit("it is not here")
    if any(entity.authority != context.database.node.authority for entity in entities):
        raise Unfit("it is not of this catalog's authority")
    own = context.database.node.authority
    deleted = await handovers.load_deleted(connection, own, handover.xid)
    if len(entities) + len(deleted) > MOST_HANDED:
        raise Unfit(f"it has more than {MOST_HANDED:,} entities, deleted ones included")
    return entities, deleted


async def preview_lines(context: Context, handover: Handover) -> AsyncGenerator[bytes]:
    """The lines that the taker would get now, for a check before the taker promises.

    Raises:
        Unfit
    """
    now = datetime.now(UTC)
    database = context.database
    async with database.snapshot(database.pools.streams) as connection:
        entities, deleted = await load_given(context, connection, handover)
        signer = await context.signers.get(connection, (await read_signing(connection)).number)
        arguments = entities, deleted, handover.authority, 0, now
        made = await aside(len(entities), succeed, *arguments)
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
        yield write_copy(_signed(end, signer))
    for start in range(0, len(made.successors), _DOCUMENTS_AT_ONCE):
        successors = made.successors[start : start + _DOCUMENTS_AT_ONCE]
        wanted = [
            successor.xid for successor in successors if successor.document_sha256 is not None
        ]
        documents = await store.load_documents(connection, wanted) if wanted else {}
        for successor in successors:
            yield write_copy(
                replace(_signed(successor, signer), document=documents.get(successor.xid))
            )


def _signed(copy: Handed, signer: EntitySigner | None) -> Handed:
    if signer is None:
        return copy
    return replace(copy, signature=signer.sign_copy(copy.digest), signedby=signer.id)


def _changes(entities: Sequence[Entity], made: Succession, model: Model) -> list[Change]:
    """The changes of a giver: the entities are updated, and followers get the tombstones."""
    before = {entity.xid: entity for entity in entities}
    after = {successor.xid: successor for successor in made.successors}
    changes = provenance_told(changes_between(before, after, model))
    changes += [change_of(end, "handed") for end in (*made.ends, *made.remembered)]
    return sorted(changes, key=order_of_change)
