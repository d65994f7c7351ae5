"""Surveys a replica: notes the copies that differ from this node's own entities."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

from catalog.client import Client, ClientError
from catalog.context import Context
from catalog.model.digest import BUCKETS
from catalog.model.entity import Origin
from catalog.model.xid import Xid
from catalog.operations.feed import MOST_RANGES
from catalog.operations.peers import Handshake
from replication.peers.accessadvice import NO_LINK
from replication.peers.handshake import describe, shake_hands, why_own
from replication.peers.linkbounds import Allowance
from replication.store import recoveries
from replication.store.digests import DigestSelection
from replication.store.recoveries import AnnouncedCopy, RecoverySource
from replication.transfer.bucketcomparison import divided
from replication.transfer.comparison import MOST_LISTED, OriginState, descend, rows_here, rows_there


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """A catalog with copies of this node's entities."""

    context: Context
    peer: Client


async def survey(replica: Replica, source: RecoverySource) -> None:
    """Note every copy of a source that differs from the entities of this node, from the beginning.

    Raises:
        ClientError: the source does not answer, or is no replica.
    """
    with naming(replica.peer):
        await _survey(replica, source)


async def _survey(replica: Replica, source: RecoverySource) -> None:
    database = replica.context.database
    found = await meet_replica(replica)
    async with database.transaction() as connection:
        await recoveries.meet(connection, source, found.instance)
    wanted = DigestSelection(authorities=[database.node.authority])
    descent = await descend(replica, wanted, is_whole=True)
    assert descent is not None, "it is needed"
    allowance, difference = Allowance.of(replica.context.settings), descent.difference
    most = BUCKETS if difference.is_small else MOST_LISTED
    for part in divided(difference.ranges, MOST_RANGES, most):
        here = await rows_here(replica, replace(wanted, ranges=part))
        there = await rows_there(replica, wanted, part, allowance)
        differing = [
            _announced(origin, there.get(origin))
            for origin in {**here, **there}
            if here.get(origin) != there.get(origin)
            and origin.authority == database.node.authority
            and _is_entity(origin.xid)
        ]
        async with database.transaction() as connection:
            await recoveries.add_copies(connection, source, differing)
    async with database.transaction() as connection:
        await recoveries.note_read(connection, source)


@contextlib.contextmanager
def naming(peer: Client) -> Iterator[None]:
    """Add the name of a peer to errors of its requests.

    Raises:
        ClientError
    """
    try:
        yield
    except ClientError as error:
        raise ClientError(describe(error, peer.url, NO_LINK)) from error


async def meet_replica(replica: Replica) -> Handshake:
    """Ask a source for its identity.

    Raises:
        ClientError: the source does not answer, is no Concord node, or is this node.
    """
    found = await shake_hands(replica.peer)
    if fault := why_own(replica.context, found):
        hint = "Name the catalogs that follow it."
        raise ClientError(f"{replica.peer.url} is no replica: {fault}.", hint)
    return found


def _announced(origin: Origin, there: OriginState | None) -> AnnouncedCopy:
    if there is None:
        return AnnouncedCopy(origin=origin.xid, epoch=None)
    return AnnouncedCopy(
        origin=origin.xid, epoch=there.epoch, is_deleted=there.is_deleted, digest=there.digest
    )


def _is_entity(xid: str) -> bool:
    try:
        return Xid.parse(xid).kind != "registry"
    except ValueError:
        return False
