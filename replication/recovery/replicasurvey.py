"""Surveys a replica: notes the copies that differ from this node's own entities."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from catalog.client import Client, ClientError
from catalog.context import Context
from catalog.model.xid import Xid
from catalog.operations.peers import Handshake
from replication.peers.handshake import shake_hands, why_own
from replication.peers.linkerrors import NO_LINK, describe
from replication.store import recoveries
from replication.store.digests import DigestSelection
from replication.store.recoveries import AnnouncedCopy, RecoverySource
from replication.transfer.comparison import descend, list_differing


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """A catalog with copies of this node's entities."""

    context: Context
    peer: Client


async def survey(replica: Replica, source: RecoverySource) -> None:
    """Note every copy of a source that differs from this node's entities, from the beginning."""
    database = replica.context.database
    own = database.node.authority
    with naming(replica.peer):
        found = await meet_replica(replica)
        async with database.transaction() as connection:
            await recoveries.meet(connection, source, found.instance)
        wanted = DigestSelection(authorities=[own])
        descent = await descend(replica, wanted, is_whole=True)
        assert descent is not None, "it is needed"
        async for part in list_differing(replica, wanted, descent.difference):
            differing = [
                AnnouncedCopy(origin=each.origin.xid, epoch=None)
                if (there := each.there) is None
                else AnnouncedCopy(
                    origin=each.origin.xid,
                    epoch=there.epoch,
                    is_deleted=there.is_deleted,
                    digest=there.digest,
                )
                for each in part
                if each.origin.authority == own and _is_entity(each.origin.xid)
            ]
            async with database.transaction() as connection:
                await recoveries.add_copies(connection, source, differing)
        async with database.transaction() as connection:
            await recoveries.note_read(connection, source)


@contextlib.contextmanager
def naming(peer: Client) -> Iterator[None]:
    """Add the name of a peer to the `ClientError`s of its requests."""
    try:
        yield
    except ClientError as error:
        raise ClientError(describe(error, peer.url, NO_LINK)) from error


async def meet_replica(replica: Replica) -> Handshake:
    """The identity of a source; `ClientError` if it is no Concord node, or this node."""
    found = await shake_hands(replica.peer)
    if fault := why_own(replica.context, found):
        hint = "Name the catalogs that follow it."
        raise ClientError(f"{replica.peer.url} is no replica: {fault}.", hint)
    return found


def _is_entity(xid: str) -> bool:
    try:
        return Xid.parse(xid).kind != "registry"
    except ValueError:
        return False
