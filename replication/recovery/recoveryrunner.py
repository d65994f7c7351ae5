"""Runs the recovery of a node: reads the replicas, chooses and takes copies, and ends it.

Every step can be repeated, so after a crash a recovery continues from its stored state.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from datetime import UTC, datetime, timedelta

import structlog

from catalog.client import Client, ClientError
from catalog.context import Context
from catalog.model.authoritykey import KeyHistory, PublicKey
from catalog.model.concorderrors import CatalogRecovering
from catalog.model.errors import ServerBusy
from catalog.store import authoritykeys
from catalog.store.database import wait_for
from catalog.store.locks import Touched, lock_and_load
from catalog.supervisor import backoff_from
from replication.applying.deletionlimit import DeletionLimit
from replication.deciding.trust import Trust, is_consistent, key_changes, keys_of
from replication.peers.keyhistories import fetch_histories
from replication.peers.linkerrors import cause_of
from replication.peers.pacedclient import PacedClient
from replication.peers.peeraccess import access_of_row
from replication.recovery.recoveredcopies import Replicas, bury_orphans, bury_refused, take_once
from replication.sources.replicasurvey import Replica, naming, survey
from replication.store import recoveries
from replication.store.recoveries import UNDER_WAY, Recovery, RecoveryReplaced, RecoverySource
from replication.transfer.linkrun import LinkResources, until_woken

_log = structlog.get_logger(__name__)

_LOOK_SECONDS = 30.0
# A bound for replicas whose copies change at every request.
_MOST_ROUNDS = 20
# The gate is closed while a recovery works; an open gate shows that the recovery was ended.
_LOCKED = Touched(catalog_exclusive=True, refused_at=frozenset({"open", "model"}))


class RecoveryRunner:
    """Carries out a running recovery of the node.

    `wakeup` interrupts the current step or pause, and makes the runner read the recovery again.
    """

    def __init__(self, resources: LinkResources) -> None:
        self.wakeup = asyncio.Event()
        self._context = resources.context
        self._database = resources.context.database
        self._session = resources.session
        self._random = resources.timing.random
        self._backoff = backoff_from(resources.context.settings)

    async def run(self) -> None:
        """Carry out recoveries, for ever."""
        while True:
            try:
                await self._run_once()
            except ServerBusy:
                await self._database.recovered()
            # An operator has ended or replaced the recovery.
            except (CatalogRecovering, RecoveryReplaced):
                continue

    async def _run_once(self) -> None:
        # Cleared before the state is read, so that no later change gets lost.
        self.wakeup.clear()
        async with self._database.acquire() as connection:
            recovery = await recoveries.read(connection)
        if recovery is None or recovery.state not in UNDER_WAY:
            if recovery is not None and recovery.state == "awaited":
                _log.warning("the node takes no writes", hint="concord recover --from URL")
            await wait_for(self.wakeup, _LOOK_SECONDS)
            return
        try:
            await until_woken(self._carry_on(recovery), self.wakeup)
        except ClientError as error:
            _log.warning("recovery interrupted", cause=cause_of(error))
            await self._fail(recovery, f"{error.message} {error.hint}".strip())
        except (ServerBusy, CatalogRecovering, RecoveryReplaced):
            raise
        # The runner shares its task group with the links, so an unexpected error must not escape.
        except Exception as error:
            _log.exception("recovery failed")
            await self._fail(recovery, f"{type(error).__name__}: {error}")

    async def _carry_on(self, recovery: Recovery) -> None:
        """Do the next part of the work, up to the next state."""
        if recovery.state == "reading":
            await self._read(recovery)
        elif recovery.state == "taking":
            await self._take(recovery)
        else:
            await bury_refused(self._context)
            await self._end(recovery)

    async def _read(self, recovery: Recovery) -> None:
        for source in recovery.sources:
            if not source.is_read:
                peer = await self._peer(source)
                await survey(Replica(context=self._context, peer=peer), source)
        async with self._database.transaction() as connection:
            await recoveries.move_on(connection, recovery, "taking", "closed")

    async def _take(self, recovery: Recovery) -> None:
        peers = {source.number: await self._peer(source) for source in recovery.sources}
        keys = await find_keys(self._context, recovery, peers.values())
        async with self._database.transaction() as connection:
            await recoveries.note_keys(connection, recovery, ids_of(keys))
        replicas = Replicas(peers=peers, keys=keys)
        for _ in range(_MOST_ROUNDS):
            if await self._choose(recovery):
                return
            taken = 0
            while number := await take_once(self._context, replicas):
                taken += number
            if not taken:
                break
        else:
            raise ClientError("Its replicas change whenever they are read.")
        await self._conclude(recovery)

    async def _choose(self, recovery: Recovery) -> bool:
        """Choose copies; say whether the operator has to allow their deletions first."""
        authority = self._database.node.authority
        async with self._database.transaction() as connection:
            await recoveries.choose(connection, authority)
            found = await recoveries.removals(connection, authority)
            total, held = found.removed + found.about, found.held + found.removed
            is_allowed = not found.about or total <= recovery.allowed
            if is_allowed or not DeletionLimit.of(self._context.settings).is_passed(total, held):
                return False
            question = (
                f"It is about to delete {total:,} of the {held:,} entities that are here, since "
                f"replicas say that they are deleted. If that is right, run `concord recover "
                f"resume --allow {total}`."
            )
            await recoveries.ask(connection, recovery, question)
        _log.warning("recovery asks", question=question)
        return True

    async def _conclude(self, recovery: Recovery) -> None:
        """End a recovery that has taken every copy, or block it if copies were refused."""
        await bury_orphans(self._context)
        async with self._database.acquire() as connection:
            is_blocked = await recoveries.refused(connection, 1)
        if not is_blocked:
            await self._end(recovery)
            return
        async with self._database.transaction() as connection:
            await lock_and_load(connection, _LOCKED)
            await recoveries.move_on(connection, recovery, "blocked", "model")
        _log.warning("recovery blocked", hint="concord recover show")

    async def _end(self, recovery: Recovery) -> None:
        async with self._database.transaction() as connection:
            await lock_and_load(connection, _LOCKED)
            await recoveries.note_partial(connection, self._database.node.authority)
            await recoveries.end(connection, recovery, "done", datetime.now(UTC))
        _log.info("recovered", sources=[source.url for source in recovery.sources])

    async def _fail(self, recovery: Recovery, message: str) -> None:
        seconds = self._backoff.delay(recovery.failures + 1, self._random)
        at = datetime.now(UTC) + timedelta(seconds=seconds)
        async with self._database.acquire() as connection:
            await recoveries.fail(connection, recovery, message[:1000], at)
        await wait_for(self.wakeup, seconds)

    async def _peer(self, source: RecoverySource) -> Client:
        url, seconds = source.url, self._context.settings.request_timeout_seconds
        access = await access_of_row(self._context, url, source.sealed, "recovery_sources", url)
        return PacedClient(url, self._session, seconds, credential=access)


async def find_keys(context: Context, recovery: Recovery, peers: Iterable[Client]) -> Trust:
    """The keys of this authority that have to sign the copies of replicas.

    The backup of a signing authority has its keys, and an operator may have named keys; replicas
    know the later keys. A node without keys believes the keys that replicas show, if the replicas
    agree. If no key is known, no signature is needed.

    Raises:
        ClientError: a replica does not answer, or the replicas show different keys.
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
            keys |= keys_of([*changes.trusted, *changes.revoked]) | revoked
    return Trust(keys={authority: keys}) if keys else Trust()


async def _known_here(context: Context, recovery: Recovery) -> dict[str, bytes] | None:
    """The node's former keys and the named keys.

    `None` if the node has keys but signing was off, and no key is named: then no signature is
    needed.
    """
    async with context.database.acquire() as connection:
        own = await authoritykeys.load_keys_of_own(connection)
        state = await authoritykeys.read_signing(connection)
    named = {key.id: key.key for key in map(PublicKey.parse, recovery.named)}
    if state.number is not None:
        return {**named, **keys_of(own)}
    return None if own and not named else named


def _agreed(shown: Collection[KeyHistory]) -> dict[str, bytes]:
    """The keys of the latest history, which every other history has to lead to.

    Raises:
        ClientError
    """
    latest = max(shown, key=lambda each: each.order)
    if any(key_changes(latest, keys_of(each.keys)) is None for each in shown):
        keys = ", ".join(sorted({str(each.current) for each in shown}))
        raise ClientError(
            f"The replicas show keys of this authority that do not belong together: {keys}.",
            "Name the true one: concord recover --from URL --trust KEY.",
        )
    return keys_of(latest.keys)


def ids_of(trust: Trust) -> list[str]:
    """The ids of the keys that are not revoked, for the operator."""
    return sorted(id for keys in trust.keys.values() for id, key in keys.items() if key)
