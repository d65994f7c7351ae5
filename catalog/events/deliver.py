"""Runs the deliveries of a node: one process at a time, one task per subscription."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import structlog

from catalog.context import Context
from catalog.events.concurrency import DeliverySlots
from catalog.events.delivery import DeliveryResources, DeliveryTiming
from catalog.events.eventdialects import Tails
from catalog.events.progress import ProgressWriter
from catalog.events.roster import Announced, Roster
from catalog.http.outbound import open_session
from catalog.model.backoff import Backoff
from catalog.model.errors import ServerBusy
from catalog.store.changes import read_head
from catalog.store.database import Connection
from catalog.store.leadership import listening, run_beats, take_over
from catalog.store.subscriptions import CHANNEL, pull_back

_log = structlog.get_logger(__name__)

_TAKE_OVER_SECONDS = 2.0
_STOP_SECONDS = 10.0
_WINDOW = 10_000


async def run_deliveries(context: Context, *, timing: DeliveryTiming | None = None) -> None:
    """Deliver to every subscription of this node, for ever.

    Of several processes of one node the first delivers; the others try every few seconds to
    take its place, which they can when its database connection has ended.
    """
    timing = timing or DeliveryTiming()
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


async def serve_once(context: Context, *, timing: DeliveryTiming) -> None:
    """Deliver until something fails, or return at once while another process does."""
    announced = Announced()
    async with (
        context.database.pool.acquire(timeout=30) as session,
        take_over(session, "deliveries") as is_in_charge,
    ):
        if is_in_charge:
            await pull_back(session)
            async with listening(session, CHANNEL, announced.add):
                await _serve(context, session, announced, timing)


async def _serve(
    context: Context, connection: Connection, announced: Announced, timing: DeliveryTiming
) -> None:
    database, settings = context.database, context.settings
    head = await read_head(connection)
    tails = Tails(
        database,
        base=context.public_base,
        start=head.now,
        size=_WINDOW,
        names=settings.event_names,
        dialects=context.event_dialects,
    )
    ledger = ProgressWriter(database, sleep=timing.sleep)
    outward = open_session(settings, total_seconds=settings.delivery_timeout_seconds)
    async with outward as session, asyncio.TaskGroup() as group:
        means = DeliveryResources(
            tails=tails,
            ledger=ledger,
            session=session,
            slots=DeliverySlots(),
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
        group.create_task(Roster(database, means, group).run(announced))
