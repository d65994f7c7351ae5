"""Takes a group from a giver: in one transaction, the group becomes the node's own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import partial

from catalog.client import Client, Unreachable
from catalog.context import Context
from catalog.load.longwork import aside
from catalog.model.change import Change
from catalog.model.entity import Entity, Origin, Tombstone
from catalog.store import entities as store
from catalog.store.database import Connection
from catalog.store.locks import (
    ConfigurationChanged,
    MustBeginAgain,
    Refusal,
    Touched,
    lock_and_load,
)
from replication.applying.apply import load_local, write_decision
from replication.deciding.batch import CopyFinding, decide_batch
from replication.deciding.copychecks import Copy, Incoming
from replication.deciding.decide import CONFLICTS, NOT_BROUGHT
from replication.deciding.provenance import Policy
from replication.deciding.trust import Trust
from replication.feed.feedlines import FeedEnd, read_line
from replication.handover.handovercopies import MOST_COPIES, Expectation, Unfit, taking_told
from replication.peers.linkbounds import Allowance
from replication.signing.signaturechecks import read_trust, verify_all
from replication.store import copies as stored_copies
from replication.store import handovers
from replication.store.handovers import Handover

_REFUSED_AT: frozenset[Refusal] = frozenset({"closed", "model"})
_CHANGING = "the catalog here changes too often at the moment"
_MOST_ATTEMPTS = 5


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
    async with contextlib.aclosing(peer.handover_lines(handover.theirs)) as lines:
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
        trust = await read_trust(database, connection, {handover.authority})
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
    for _ in range(_MOST_ATTEMPTS):
        places = await _places(context, handover)
        try:
            changes = await _take_at(context, handover, copies, places)
        except MustBeginAgain:
            continue
        except ConfigurationChanged:
            # The copies were checked against the old model, and may not fit the new model.
            await context.shared.reload()
            raise Unfit(_CHANGING) from None
        context.database.signal.set(changes)
        return
    raise Unfit(_CHANGING)


async def _places(context: Context, handover: Handover) -> frozenset[str]:
    """The paths that change: the path of the group, and the path of a replica of the group."""
    origin = Origin(handover.authority, handover.xid)
    async with context.database.acquire() as connection:
        held = await store.load_by_origin(connection, [origin])
    return frozenset({handover.xid, *(entity.xid for entity in held.values())})


async def _take_at(
    context: Context, handover: Handover, copies: Sequence[Copy], places: frozenset[str]
) -> Sequence[Change]:
    database, configuration, now = context.database, context.configuration, datetime.now(UTC)
    touched = Touched(
        groups=places,
        groups_exclusive=True,
        registry_exclusive=True,
        revision=configuration.revision,
        refused_at=_REFUSED_AT,
    )
    async with database.transaction() as connection:
        locked = await lock_and_load(connection, touched)
        current = await handovers.lock(connection, handover.id)
        if current is None or current.state != "promised" or current.theirs != handover.theirs:
            return ()
        entities, tombstones = await load_local(connection, copies)
        group = Origin(handover.authority, handover.xid)
        # The replica was renamed before the locks were taken, so the new path is not locked.
        if any(
            Origin(e.authority, e.origin) == group and e.xid not in places
            for e in entities.values()
        ):
            raise MustBeginAgain
        state = entities, tombstones, _policy(context, handover)
        decision = await aside(len(copies), decide_batch, copies, *state)
        _check(decision.findings)
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
            retold=partial(taking_told, own=database.node.authority),
        )
        number = sum(isinstance(copy, Entity) for copy in copies)
        await handovers.move_on(connection, current, "done", now, entities=number)
    return changes


def _policy(context: Context, handover: Handover) -> Policy:
    """The policy for the copies of a handover, which belong to the node or to the giver."""
    own, giver = context.database.node.authority, handover.authority
    return Policy(
        own=own,
        sender=giver,
        authorities=frozenset({own, giver}),
        is_trusted=True,
        is_recovering=True,
    )


def _check(findings: Iterable[CopyFinding]) -> None:
    """Refuse the whole group if a copy would not be applied.

    Raises:
        Unfit
    """
    for finding in findings:
        if finding.verdict in CONFLICTS | NOT_BROUGHT:
            what = finding.detail or f"it was {finding.verdict.value}"
            raise Unfit(f"{finding.origin.xid} of {finding.origin.authority}: {what}")


async def find_obstacle(connection: Connection, handover_xid: str, authority: str) -> str:
    """The reason why a path is not free for a group of an authority; empty if the path is free.

    The caller has to lock the path and the registry.
    """
    held = await stored_copies.load_held(connection, [handover_xid], [])
    for entity in held.entities.values():
        if Origin(entity.authority, entity.origin) != Origin(authority, handover_xid):
            return f"{entity.xid} of {entity.authority} is at its path here"
    return ""
