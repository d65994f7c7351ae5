"""Finds the keys by which a node that recovers knows what it has once signed itself.

Without them, a replica could make up an epoch and a content for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from catalog.client import Client, ClientError
from catalog.context import Context
from catalog.model.authoritykey import KeyEntry, KeyHistory, PublicKey
from catalog.store import authoritykeys
from replication.deciding.keytrust import is_consistent, key_changes
from replication.deciding.trust import Trust
from replication.peers.keyhistories import fetch_histories
from replication.sources.replicasurvey import naming
from replication.store.recoveries import Recovery


async def find_keys(context: Context, recovery: Recovery, peers: Iterable[Client]) -> Trust:
    """The keys of this authority, one of which has to have signed what a replica sends.

    The backup of an authority that signed has its keys, and an operator may have named one; the
    replicas know those that came later. A node that has none believes what replicas show, if they
    agree. Nothing needs a signature if nobody knows of a key.

    Raises:
        ClientError: a replica does not answer, or they show different keys.
    """
    if recovery.is_unsigned_taken:
        return Trust()
    authority = context.database.node.authority
    keys = await _known_here(context, recovery)
    if keys is None:
        return Trust()
    shown: list[KeyHistory] = []
    for peer in peers:
        with naming(peer):
            found = await fetch_histories(peer, [authority])
        shown += filter(is_consistent, found)
    if not keys and shown:
        keys = _agreed(shown)
    for history in sorted(shown, key=lambda each: each.order):
        if changes := key_changes(history, keys):
            revoked = {id: key for id, key in keys.items() if not key}
            keys |= _by_id([*changes.trusted, *changes.revoked]) | revoked
    return Trust(keys={authority: keys}) if keys else Trust()


async def _known_here(context: Context, recovery: Recovery) -> dict[str, bytes] | None:
    """The keys that were here before, and those that were named; `None` if nothing was signed."""
    async with context.database.acquire() as connection:
        own = await authoritykeys.load_keys_of_own(connection)
        state = await authoritykeys.read_signing(connection)
    named = {key.id: key.key for key in map(PublicKey.parse, recovery.named)}
    if state.number is not None:
        return {**named, **_by_id(own)}
    return None if own and not named else named


def _agreed(shown: Collection[KeyHistory]) -> dict[str, bytes]:
    """The keys of the latest history, to which all the others have to lead.

    Raises:
        ClientError
    """
    latest = max(shown, key=lambda each: each.order)
    if any(key_changes(latest, _by_id(each.keys)) is None for each in shown):
        keys = ", ".join(sorted({str(each.current) for each in shown}))
        raise ClientError(
            f"The replicas show keys of this authority that do not belong together: {keys}.",
            "Name the true one: concord recover --from URL --trust KEY.",
        )
    return _by_id(latest.keys)


def _by_id(entries: Iterable[KeyEntry]) -> dict[str, bytes]:
    """Keys by their ids, with empty ones in place of those that were revoked."""
    return {each.public.id: b"" if each.revokedat else each.public.key for each in entries}


def ids_of(trust: Trust) -> list[str]:
    """The keys that count, for the operator."""
    return sorted(id for keys in trust.keys.values() for id, key in keys.items() if key)
