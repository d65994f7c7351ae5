"""Runs the recovery of a node: reads its replicas, chooses, takes what was chosen, and ends it.

Every step may be repeated, so a recovery goes on after a crash from what it has noted.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import structlog

from catalog.client import Client, ClientError
from catalog.model.concorderrors import CatalogRecovering
from catalog.model.errors import ServerBusy
from catalog.store.database import wait_for
from catalog.store.locks import Touched, lock_and_load
from catalog.supervisor import backoff_from
from replication.applying.deletionlimit import DeletionLimit
from replication.credentials.peeraccess import access_of_row
from replication.feed.wakeup import until_woken
from replication.peers.handshake import cause_of, peer_at
from replication.recovery.recoveredcopies import Replicas, bury_orphans, bury_refused, take_once
from replication.recovery.recoverykeys import find_keys, ids_of
from replication.sources.replicasurvey import Replica, survey
from replication.store import recoveries
from replication.store.recoveries import UNDER_WAY, Recovery, RecoveryReplaced, RecoverySource
from replication.transfer.linkresources import LinkResources

_log = structlog.get_logger(__name__)

_LOOK_SECONDS = 30.0
# A replica whose copies change whenever they are asked for is not followed for ever.
_MOST_ROUNDS = 20
_LOCKED = Touched(catalog_exclusive=True, refused_at=frozenset({"open", "model"}))


class RecoveryRunner:
    """Carries out the recovery of a node while one is under way.

    `wakeup` lets it look at once whether one is, and give up what it does.
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
            # An operator ended it, or began another one.
            except (CatalogRecovering, RecoveryReplaced):
                continue

    async def _run_once(self) -> None:
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
        # An unexpected error must not stop the links.
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
        """Choose copies; say whether the recovery has to ask before it deletes by them."""
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
        """End a recovery that has taken everything, unless something was refused."""
        await bury_orphans(self._context)
        async with self._database.acquire() as connection:
            is_blocked = await recoveries.refused(connection, 1)
        if not is_blocked:
            await self._end(recovery)
            return
        async with self._database.transaction() as connection:
            await lock_and_load(connection, _LOCKED)
            await recoveries.move_on(connection, recovery, "blocked", "model")
        _log.warning("recovery blocked", hint="concord recover status")

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
        return peer_at(url, self._session, seconds, credential=access)
