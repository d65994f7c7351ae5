"""Which deliveries run: one for each active subscription, looked after as those change."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from catalog.events.delivery import Delivery, DeliveryResources
from catalog.events.logtail import Tail
from catalog.model.errors import ServerBusy
from catalog.store.database import Database, wait_for
from catalog.store.subscriptions import Subscription, load, read_revisions

_LOOK_SECONDS = 5.0
_STOP_SECONDS = 10.0


class Announced:
    """The ids of subscriptions that were said to have changed, until somebody looks at them."""

    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._is_new = asyncio.Event()

    def add(self, id: str) -> None:
        self._ids.add(id)
        self._is_new.set()

    async def take(self, timeout_seconds: float) -> set[str]:
        """What was announced, as soon as there is something; nothing once the time is over."""
        await wait_for(self._is_new, timeout_seconds)
        self._is_new.clear()
        taken, self._ids = self._ids, set()
        return taken


@dataclass(frozen=True, slots=True, kw_only=True)
class _Running:
    delivery: Delivery
    task: asyncio.Task[None]


class Roster:
    """Keeps exactly one delivery running for each active subscription.

    A change of one subscription costs the same however many there are. All of them are
    compared now and then, since an announcement can be lost.
    """

    def __init__(
        self, database: Database, means: DeliveryResources, group: asyncio.TaskGroup
    ) -> None:
        self._database = database
        self._means = means
        self._group = group
        self._running: dict[str, _Running] = {}
        # How many deliveries read each tail.
        self._readers: Counter[Tail] = Counter()

    async def run(self, announced: Announced) -> None:
        loop = asyncio.get_running_loop()
        look_at = loop.time()
        while True:
            ids = await announced.take(look_at - loop.time())
            is_due = loop.time() >= look_at
            try:
                await (self.compare_all_once() if is_due else self.compare_once(ids))
            except ServerBusy:
                await self._database.recovered()
                is_due, look_at = False, loop.time()
            if is_due:
                look_at = loop.time() + _LOOK_SECONDS

    async def compare_all_once(self) -> int:
        """Start, replace and stop what changed since the last look, and say how many."""
        async with self._database.pool.acquire() as connection:
            wanted = await read_revisions(connection)
        changed = [id for id, revision in wanted.items() if self._revision(id) != revision]
        return await self.compare_once({*changed, *(self._running.keys() - wanted.keys())})

    async def compare_once(self, ids: Collection[str]) -> int:
        """The same for these subscriptions only, be they there or not."""
        async with self._database.pool.acquire() as connection:
            found = await load(connection, ids)
        active = {each.id: each for each in found if each.state == "active"}
        removed = [id for id in ids if id in self._running and id not in active]
        changed = [each for each in active.values() if each.revision != self._revision(each.id)]
        await self._want([*removed, *(each.id for each in changed)], changed)
        for id in removed:
            await self._stop(id)
        for subscription in changed:
            await self._start(subscription)
        return len(removed) + len(changed)

    async def _want(self, outdated: Iterable[str], coming: Iterable[Subscription]) -> None:
        """Let the log be read in the terms that anybody needs, and in no others."""
        leaving = [self._running[id].delivery.tail for id in outdated if id in self._running]
        needed = self._readers - Counter(leaving)
        needed.update(self._means.tails.of(each.definition) for each in coming)
        for tail in self._means.tails:
            await tail.want(needed[tail] > 0)

    def _revision(self, id: str) -> int | None:
        running = self._running.get(id)
        return None if running is None else running.delivery.revision

    async def _start(self, subscription: Subscription) -> None:
        delivery = Delivery(subscription, self._means)
        earlier = await self._stop(subscription.id)
        if earlier is not None:
            delivery.resume(earlier.cursor)
        task = self._group.create_task(delivery.run())
        self._readers[delivery.tail] += 1
        self._running[subscription.id] = _Running(delivery=delivery, task=task)

    async def _stop(self, id: str) -> Delivery | None:
        """What delivered to a subscription, once none of its requests is in flight any more."""
        running = self._running.pop(id, None)
        if running is None:
            return None
        self._readers[running.delivery.tail] -= 1
        running.task.cancel()
        await asyncio.wait([running.task], timeout=_STOP_SECONDS)
        return running.delivery
