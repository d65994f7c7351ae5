"""Runs the links of a node with a runner for each, the recovery of the node, and handovers."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from functools import partial

import structlog

from catalog.client import ClientError
from catalog.context import Context
from catalog.http.outboundconnections import open_session
from catalog.store import links
from catalog.store.configuration import CONFIGURATION_CHANNEL
from catalog.store.database import Connection
from catalog.store.leadership import listening, run_heartbeat
from catalog.store.links import LINK_CHANNEL
from catalog.supervisor import LoopTiming, Supervisor, run_as_leader
from replication.federation import run_gathering
from replication.handover.handoverrunner import HandoverRunner
from replication.links.linkanswers import run_figures
from replication.links.linkrunner import LinkRunner
from replication.modes import runner_of
from replication.recovery.recoveryrunner import RecoveryRunner
from replication.sources.notifications import forget_subscription
from replication.store.handovers import HANDOVER_CHANNEL
from replication.store.recoveries import RECOVERY_CHANNEL
from replication.transfer.linkrun import LinkResources

_log = structlog.get_logger(__name__)

_FORGET_SECONDS = 10.0
_IDLE_SECONDS = 10.0


async def run_links(context: Context, *, timing: LoopTiming | None = None) -> None:
    """Run every link of the node, for ever."""
    timing = timing or LoopTiming()
    await run_as_leader(context.database, "links", partial(_serve, context, timing), timing=timing)


async def _serve(context: Context, timing: LoopTiming, connection: Connection) -> None:
    # Connections outlive the interval between two pulls, so that idle links reuse connections.
    idle = context.settings.pull_interval_seconds + _IDLE_SECONDS
    async with (
        open_session(context.settings, idle_seconds=idle) as session,
        asyncio.TaskGroup() as group,
    ):
        resources = LinkResources.of(context, session, timing)
        scheduler = LinkScheduler(resources, group)
        recovery = RecoveryRunner(resources)
        handover = HandoverRunner(resources)
        group.create_task(run_heartbeat(connection))
        group.create_task(resources.confirmations.run())
        group.create_task(run_figures(context.database))
        group.create_task(run_gathering(resources))
        group.create_task(recovery.run())
        group.create_task(handover.run())
        async with (
            listening(connection, LINK_CHANNEL, scheduler.hear),
            listening(connection, RECOVERY_CHANNEL, lambda _: recovery.wakeup.set()),
            listening(connection, HANDOVER_CHANNEL, lambda _: handover.wakeup.set()),
            listening(connection, CONFIGURATION_CHANNEL, lambda _: scheduler.reconsider()),
        ):
            await scheduler.run()


class LinkScheduler(Supervisor[LinkRunner]):
    """Keeps a runner for each link that is not paused."""

    row = "link"

    def __init__(self, resources: LinkResources, group: asyncio.TaskGroup) -> None:
        super().__init__(resources.context.database, group)
        self._resources = resources

    async def read_revisions(self, connection: Connection) -> dict[str, int]:
        return await links.read_revisions(connection)

    async def load(self, connection: Connection, ids: Collection[str]) -> list[LinkRunner]:
        found = [await links.get(connection, id) for id in ids]
        return [
            runner_of(link, self._resources)
            for link in found
            if link is not None and link.paused is None
        ]

    def ended(self, child: LinkRunner, successor: LinkRunner | None) -> None:
        kept = None if successor is None else successor.subscription
        if child.subscription is not None and child.subscription != kept:
            self._group.create_task(self._forget_subscription(child, child.subscription))

    def hear(self, id: str) -> None:
        """Wake a link, or compare every link with the database if `id` is empty."""
        if not id:
            self.announce("")
        elif id in self.children:
            self.children[id].wakeup.set()

    def reconsider(self) -> None:
        """Let every link apply conflicts again, after a change of the model."""
        for runner in self.children.values():
            runner.reconsider()

    async def _forget_subscription(self, runner: LinkRunner, subscription: str) -> None:
        """Remove a subscription at the source; after a failure, later deliveries get 410."""
        try:
            async with asyncio.timeout(_FORGET_SECONDS):
                await forget_subscription(self._resources.peer_of(runner.link), subscription)
        except (ClientError, TimeoutError) as error:
            _log.warning("subscription left behind", link=runner.id, error=str(error))
