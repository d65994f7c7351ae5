"""Runs the deliveries of a node: one process at a time, one task per subscription."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Set
from dataclasses import dataclass
from typing import Any

import structlog

from catalog.context import Context
from catalog.events.delivery import Delivery, Means, Timing
from catalog.events.ledger import Ledger
from catalog.events.slots import Slots
from catalog.events.terms import Tails
from catalog.model.backoff import Backoff
from catalog.model.errors import ServerBusy
from catalog.outbound import open_session
from catalog.store.changes import read_head
from catalog.store.database import Connection, Database, Signal, wait_for
from catalog.store.duty import listening, run_beats, take_over
from catalog.store.subscriptions import (
    CHANNEL,
    Subscription,
    load,
    pull_back,
    read_revisions,
)

_log = structlog.get_logger(__name__)

_TAKE_OVER_SECONDS = 2.0
_LOOK_SECONDS = 5.0
_STOP_SECONDS = 10.0
_WINDOW = 10_000


async def run_deliveries(context: Context, *, timing: Timing | None = None) -> None:
    """Deliver to every subscription of this node, for ever.

    Of several processes of one node the first delivers; the others try every few seconds to
    take its place, which they can when its database connection has ended.
    """
    timing = timing or Timing()
    while True:
        pause = _TAKE_OVER_SECONDS * (1 + timing.random.random())
        try:
            await _apart(serve_once(context, timing=timing))
        except* ServerBusy:
            await context.database.recovered()
            pause = 0.0
        # A fault that would come again at once must not end the node.
        except* Exception:
            _log.exception("deliveries interrupted")
        await timing.sleep(pause)


async def _apart(work: Coroutine[Any, Any, None]) -> None:
    """Await `work` in a task of its own.

    A task group whose children fail while it is cancelled raises their errors and hides
    the cancellation; here it can't hide ours.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait([task])
    finally:
        task.cancel()
        await asyncio.wait([task], timeout=_STOP_SECONDS)
        error = task.exception() if task.done() and not task.cancelled() else None
    if error is not None:
        raise error


async def serve_once(context: Context, *, timing: Timing) -> None:
    """Deliver until something fails, or return at once while another process does."""
    signal = Signal()
    async with (
        context.database.pool.acquire(timeout=30) as session,
        take_over(session, "deliveries") as is_in_charge,
    ):
        if is_in_charge:
            await pull_back(session)
            async with listening(session, CHANNEL, lambda _: signal.set()):
                await _serve(context, session, signal, timing)


async def _serve(context: Context, connection: Connection, signal: Signal, timing: Timing) -> None:
    database, settings = context.database, context.settings
    head = await read_head(connection)
    tails = Tails(
        database,
        base=context.public_base,
        start=head.now,
        size=_WINDOW,
        names=settings.event_names,
    )
    ledger = Ledger(database, sleep=timing.sleep)
    outward = open_session(settings, total_seconds=settings.delivery_timeout_seconds)
    async with outward as session, asyncio.TaskGroup() as group:
        means = Means(
            tails=tails,
            ledger=ledger,
            session=session,
            slots=Slots(),
            backoff=Backoff(
                initial=settings.backoff_initial_seconds,
                factor=2.0,
                cap=settings.backoff_cap_seconds,
                jitter=0.5,
            ),
            timing=timing,
            recovered=database.recovered,
        )
        for tail in tails:
            group.create_task(tail.run())
        group.create_task(ledger.run())
        group.create_task(run_beats(connection))
        group.create_task(_Roster(database, means, group).run(signal))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Running:
    delivery: Delivery
    task: asyncio.Task[None]


class _Roster:
    """Keeps exactly one delivery running for each active subscription."""

    def __init__(self, database: Database, means: Means, group: asyncio.TaskGroup) -> None:
        self._database = database
        self._means = means
        self._group = group
        self._running: dict[str, _Running] = {}

    async def run(self, signal: Signal) -> None:
        while True:
            ticket = signal.ticket()
            try:
                await self.compare_once()
            except ServerBusy:
                await self._database.recovered()
            else:
                await wait_for(ticket, _LOOK_SECONDS)

    async def compare_once(self) -> int:
        """Start, replace and stop what changed since the last look, and say how many."""
        async with self._database.pool.acquire(timeout=30) as connection:
            wanted = await read_revisions(connection)
            changed = [id for id, revision in wanted.items() if self._revision(id) != revision]
            subscriptions = await load(connection, changed)
        removed = self._running.keys() - wanted.keys()
        await self._want({*removed, *changed}, subscriptions)
        for id in removed:
            await self._stop(self._running.pop(id))
        for subscription in subscriptions:
            await self._start(subscription)
        return len(removed) + len(subscriptions)

    async def _want(self, outdated: Set[str], subscriptions: Iterable[Subscription]) -> None:
        """Let the log be read in the terms that anybody needs, and in no others."""
        kept = {one.delivery.tail for id, one in self._running.items() if id not in outdated}
        new = {self._means.tails.of(one.definition) for one in subscriptions}
        for tail in self._means.tails:
            await tail.want(tail in kept | new)

    def _revision(self, id: str) -> int | None:
        running = self._running.get(id)
        return None if running is None else running.delivery.revision

    async def _start(self, subscription: Subscription) -> None:
        delivery = Delivery(subscription, self._means)
        earlier = self._running.pop(subscription.id, None)
        if earlier is not None:
            await self._stop(earlier)
            delivery.resume(earlier.delivery.cursor)
        task = self._group.create_task(delivery.run())
        self._running[subscription.id] = _Running(delivery=delivery, task=task)

    async def _stop(self, running: _Running) -> None:
        """Wait until no request of a delivery is in flight any more."""
        running.task.cancel()
        await asyncio.wait([running.task], timeout=_STOP_SECONDS)
