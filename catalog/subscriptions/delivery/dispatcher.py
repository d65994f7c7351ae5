"""Runs the deliveries of a node: one for each active subscription of the process's shards.

Subscriptions are divided into shards, and a process leases shards for a few seconds at a time. A
process that hangs or has died loses the leases to the remaining processes.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from datetime import timedelta
from functools import partial

import structlog

from catalog.access.creatorrights import CreatorRights
from catalog.access.rolerules import known_rules
from catalog.context import Context
from catalog.http.listener import most_outbound_connections
from catalog.http.outboundconnections import open_session
from catalog.model.errors import ServerBusy
from catalog.store.connections import DatabaseFailure
from catalog.store.database import Connection, Database
from catalog.store.leadership import listening, run_heartbeat
from catalog.store.queries import Queries
from catalog.subscriptions.delivery.eventdialects import Tails
from catalog.subscriptions.delivery.logtail import Tail
from catalog.subscriptions.delivery.progress import ProgressWriter
from catalog.subscriptions.delivery.retention import KEPT_ATTEMPTS
from catalog.subscriptions.delivery.sinkcalls import DeliverySlots
from catalog.subscriptions.delivery.subscriptiondelivery import Delivery, DeliveryResources
from catalog.subscriptions.sinks.sink import Sinks
from catalog.subscriptions.stored import subscriptions
from catalog.subscriptions.webhookconsent import SinkValidation
from catalog.supervisor import LoopTiming, Supervisor, run_again

_log = structlog.get_logger(__name__)

SHARDS = 64
_queries = Queries("deliveryleases")
_LEASE = timedelta(seconds=5)
_RENEW_SECONDS = 1.0
_RENEWING_SECONDS = 3.0
_LEAVING_SECONDS = 2.0


def shard_of(id: str) -> int:
    """The shard of a subscription, from 0."""
    return zlib.crc32(id.encode()) % SHARDS


async def renew_leases(
    connection: Connection, process: uuid.UUID, lease: timedelta
) -> tuple[list[int], int]:
    """Renew the leases of a process, and lease free shards up to its share.

    Args:
        connection: a connection outside of a transaction. The leases end when the connection ends.
        process: an id that the process chose for itself.
        lease: the time for which the leases are renewed.

    Returns:
        the shards that the process holds for the time of `lease`, in order, and its share: the
        largest number of shards to hold. The process releases surplus shards once it has stopped
        delivering for them.
    """
    async with connection.transaction():
        # Two processes that claim at the same time would see the same shards as free.
        await connection.execute(_queries.lock)
        await connection.execute(_queries.appear, process, lease)
        await connection.execute(_queries.forget)
        processes = int(await connection.fetchval(_queries.count_processes))
        # Rounded up, so that the shares of the processes together cover every shard.
        share = -(-SHARDS // processes)
        rows = await connection.fetch(_queries.claim, process, share)
    return [row["shard"] for row in rows], share


async def release_leases(
    connection: Connection, process: uuid.UUID, shards: Collection[int]
) -> None:
    """Release shards for which the process no longer delivers."""
    await connection.execute(_queries.release, process, list(shards))


async def end_leases(connection: Connection, process: uuid.UUID) -> None:
    """Release every shard of a process that no longer delivers."""
    await connection.execute(_queries.leave, process)


class ShardLeases:
    """Keeps the share of the shards of a process, by an id of its own, as processes come and go."""

    def __init__(self, process: uuid.UUID) -> None:
        self.held: frozenset[int] = frozenset()
        self._process = process
        self._leaving: frozenset[int] = frozenset()

    async def run(
        self,
        connection: Connection,
        changed: Callable[[], None],
        in_use: Callable[[], Collection[int]],
    ) -> None:
        """Renew the leases for ever.

        Args:
            connection: a connection without further users in the meantime.
            changed: called when the set of held shards has changed.
            in_use: the shards for which the process delivers at the moment.

        Raises:
            DatabaseUnavailable: the connection is lost, and the leases with it.
        """

        async def renew(connection: Connection) -> None:
            async with asyncio.timeout(_RENEWING_SECONDS):
                leased, share = await renew_leases(connection, self._process, _LEASE)
                # Released one renewal later, once the deliveries have stopped and are saved.
                if left := self._leaving & {*leased[share:]}:
                    await release_leases(connection, self._process, left.difference(in_use()))
            self._leaving = frozenset(leased[share:])
            held = frozenset(leased[:share])
            if held != self.held:
                _log.info("delivery shards changed", held=len(held), before=len(self.held))
                self.held = held
                changed()

        await renew(connection)
        await run_heartbeat(connection, renew, every_seconds=_RENEW_SECONDS)

    async def end(self, database: Database) -> None:
        """Release all leases after the end of deliveries."""
        self.held = frozenset()
        with contextlib.suppress(ServerBusy, TimeoutError, *DatabaseFailure):
            async with asyncio.timeout(_LEAVING_SECONDS), database.acquire() as connection:
                await end_leases(connection, self._process)


_WINDOW = 10_000
_EXPIRY_SECONDS = 1.0


async def run_deliveries(context: Context, *, timing: LoopTiming | None = None) -> None:
    """Deliver to this process's share of the subscriptions of its node, for ever."""
    timing = timing or LoopTiming()
    leases = ShardLeases(uuid.uuid4())

    async def serve(connection: Connection) -> None:
        try:
            await _deliver(context, timing, leases, connection)
        # Only after deliveries have stopped and saved: the next process resumes from the cursors.
        finally:
            await leases.end(context.database)

    await run_again(context.database, "deliveries", serve, timing=timing)


async def _deliver(
    context: Context, timing: LoopTiming, leases: ShardLeases, connection: Connection
) -> None:
    database, settings = context.database, context.settings
    await subscriptions.pull_back(connection)
    tails = Tails(database, context.shared, size=_WINDOW)
    progress = ProgressWriter(database, most_attempts=KEPT_ATTEMPTS.most, sleep=timing.sleep)
    async with (
        Sinks(settings, context.keys, now=timing.now) as sinks,
        open_session(settings, total_seconds=settings.delivery_timeout_seconds) as session,
        asyncio.TaskGroup() as group,
    ):
        resources = DeliveryResources(
            context=context,
            tails=tails,
            progress=progress,
            sinks=sinks,
            slots=DeliverySlots(most_outbound_connections(settings)),
            timing=timing,
            rights=CreatorRights(settings, known_rules(database.shared)),
        )
        dispatcher = Dispatcher(database, group, resources, leases)
        for tail in tails:
            group.create_task(tail.run())
        group.create_task(progress.run())
        group.create_task(_run_expiry(database, timing))
        validation = SinkValidation(context, session, timing)
        group.create_task(validation.run())

        def announce(id: str) -> None:
            dispatcher.announce(id)
            validation.wake()

        # The leases use the connection, so sharing ends before the connection stops listening.
        async with (
            listening(connection, subscriptions.SUBSCRIPTION_CHANNEL, announce),
            asyncio.TaskGroup() as sharing,
        ):
            compare_all = partial(dispatcher.announce, "")
            sharing.create_task(leases.run(connection, compare_all, dispatcher.shards_in_use))
            sharing.create_task(dispatcher.run())


async def _run_expiry(database: Database, timing: LoopTiming) -> None:
    """Expire subscriptions when their time has come, for ever."""
    while True:
        try:
            async with database.acquire() as connection:
                await subscriptions.expire(connection, timing.now())
        except (ServerBusy, TimeoutError):
            await database.recovered()
        else:
            await timing.sleep(_EXPIRY_SECONDS)


class Dispatcher(Supervisor[Delivery]):
    """Keeps one delivery running for each active subscription in the shards of the process."""

    row = "subscription"

    def __init__(
        self,
        database: Database,
        group: asyncio.TaskGroup,
        resources: DeliveryResources,
        leases: ShardLeases,
    ) -> None:
        super().__init__(database, group)
        self._resources = resources
        self._leases = leases
        # The number of deliveries that read each tail.
        self._readers: Counter[Tail] = Counter()

    async def read_revisions(self, connection: Connection) -> dict[str, int]:
        found = await subscriptions.read_revisions(connection)
        return {id: revision for id, revision in found.items() if self._is_ours(id)}

    async def load(self, connection: Connection, ids: Collection[str]) -> list[Delivery]:
        found = await subscriptions.load(connection, filter(self._is_ours, ids))
        return [Delivery(each, self._resources) for each in found if each.state == "active"]

    def shards_in_use(self) -> set[int]:
        """The shards for which the process delivers."""
        return {shard_of(id) for id in self.children}

    def _is_ours(self, id: str) -> bool:
        return shard_of(id) in self._leases.held

    async def prepare(self, leaving: Sequence[Delivery], coming: Sequence[Delivery]) -> None:
        """Let a tail read the log only while a delivery reads the tail."""
        readers = self._readers.copy()
        readers.subtract(each.tail for each in leaving)
        readers.update(each.tail for each in coming)
        for tail in self._resources.tails:
            await tail.want(readers[tail] > 0)
        self._readers = readers

    def ended(self, child: Delivery, successor: Delivery | None) -> None:
        if successor is not None:
            successor.record.continue_from(child.record)
