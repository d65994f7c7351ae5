"""One run of a plan: nodes, lines, writers and faults; then peace, and the evidence."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from aiokafka.errors import KafkaError

from catalog.demo.eventsink import open_sink
from catalog.operations.subscriptions import NewSubscription
from tests.brokers.kafka import KafkaBroker
from tests.e2e.nodes import free_port
from tests.faults.databases import RunDatabases
from tests.faults.evidence import Evidence, LogRow, Restoration, StreamEvent
from tests.faults.faultplan import FaultPlan, Step, client_line, hint_line, peer_line
from tests.faults.faultynode import FAKETIME, FaultyNode
from tests.faults.federation import Federation
from tests.faults.history import History
from tests.faults.linkmodes import MODES, Joint, LinkEnd, scope_of
from tests.faults.proxy import Line
from tests.faults.settling import settle
from tests.faults.topologies import Follows
from tests.faults.writers import Writer, groups_by

WRITERS_OF_A_NODE = 2
_VERSION_EVENTS = [f"io.xregistry.version.{action}" for action in ("created", "updated", "deleted")]


class NotSetUp(Exception):
    """The federation of a run did not start in time, so nothing was held to any promise."""


@dataclass(slots=True, kw_only=True)
class Run:
    """A federation while a plan is carried out.

    Args:
        tell: is told each line of the timeline.
        accident: happens after everything has settled, before the evidence is gathered.
        broker: has the topics of links over Kafka.
    """

    plan: FaultPlan
    databases: RunDatabases
    directory: Path
    tell: Callable[[str], None]
    accident: Callable[[Run], Awaitable[None]] | None = None
    broker: KafkaBroker | None = None
    nodes: list[FaultyNode] = field(default_factory=list)
    ends: dict[Follows, list[LinkEnd]] = field(default_factory=dict)
    lines: dict[str, Line] = field(default_factory=dict)
    history: History = field(default_factory=History)
    streams: list[list[StreamEvent]] = field(default_factory=list)
    timeline: list[str] = field(default_factory=list)
    # What was in the logs of nodes and is no more: for each node, for each of its lives.
    kept: list[list[list[LogRow]]] = field(default_factory=list)
    restoration: Restoration | None = None
    backup: Path | None = None
    began: float = 0.0
    _topics: str = field(default_factory=lambda: secrets.token_hex(4))
    _broker_lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def federation(self) -> Federation:
        return Federation(
            topology=self.plan.topology,
            nodes=self.nodes,
            ends=self.ends,
            modes=self.plan.modes,
            groups=self.groups,
        )

    @property
    def groups(self) -> list[frozenset[str]]:
        """The groups that are written at each node."""
        return [groups_by(number) for number in range(self.plan.topology.nodes)]

    def topic_of(self, node: int) -> str:
        """The topic to which a node publishes."""
        return f"copies-{self._topics}-{node}"

    def clock(self) -> float:
        return asyncio.get_running_loop().time() - self.began

    def note(self, text: str) -> None:
        line = f"{self.clock():7.3f} {text}"
        self.timeline.append(line)
        self.tell(line)

    async def carry_out(self) -> Evidence:
        """Run everything, and return what is known afterwards.

        Raises:
            NotSetUp
        """
        async with AsyncExitStack() as stack:
            try:
                await self._set_up(stack)
            except* TimeoutError as error:
                raise NotSetUp from error
            self.began = asyncio.get_running_loop().time()
            await self._disturb()
            self.note("faults end")
            evidence = await settle(self)
            self.note("settled" if not evidence.unsettled else "not settled")
            return evidence

    async def _set_up(self, stack: AsyncExitStack) -> None:
        for number in range(self.plan.topology.nodes):
            self.nodes.append(await self._node(stack, number))
            self.kept.append([[]])
            self.streams.append([])
        async with asyncio.TaskGroup() as tasks:
            for node in self.nodes:
                tasks.create_task(node.start())
        for node in self.nodes:
            await self._listen(stack, node)
        for link in self.plan.topology.links:
            await self._join(stack, link)

    async def _node(self, stack: AsyncExitStack, number: int) -> FaultyNode:
        port, name = free_port(), f"seed{self.plan.seed}_{number}"
        url = f"http://127.0.0.1:{port}"
        hints = await self._open(stack, hint_line(number), url)
        node = FaultyNode(
            number=number,
            url=url,
            database=name,
            environment={
                **{k: v for k, v in os.environ.items() if not k.startswith("CONCORD_")},
                "CONCORD_PORT": str(port),
                "CONCORD_PUBLIC_URL": hints.url,
                "CONCORD_DATABASE_URL": await self.databases.create(name),
                "CONCORD_DATA_DIR": str(self.directory / f"node{number}"),
                "CONCORD_DATABASE_POOL_SIZE": "5",
                "CONCORD_REQUEST_TIMEOUT_SECONDS": "5",
                "CONCORD_BACKOFF_INITIAL_SECONDS": "0.1",
                "CONCORD_BACKOFF_CAP_SECONDS": "1",
                "CONCORD_PULL_INTERVAL_SECONDS": "1",
                # The writers delete much, and nobody is there to allow it.
                "CONCORD_LINK_DELETE_COUNT": "1000000",
            },
            log=self.directory / f"node{number}.log",
            hints=hints,
            clients=await self._open(stack, client_line(number), url),
            skew=self.plan.skews[number] if FAKETIME is not None else 0.0,
        )
        stack.push_async_callback(self.databases.drop, name)
        stack.push_async_callback(node.kill)
        return node

    async def _open(self, stack: AsyncExitStack, name: str, target: str) -> Line:
        line = Line(name, target, Random(f"{self.plan.seed} {name}"))
        self.lines[name] = line
        return await stack.enter_async_context(line.open())

    async def _listen(self, stack: AsyncExitStack, node: FaultyNode) -> None:
        """Subscribe to the changes of all versions at a node."""
        stream = self.streams[node.number]

        def receive(event: Any) -> None:
            stream.append(StreamEvent(event["subject"], int(event["epoch"])))

        sink = await stack.enter_async_context(open_sink(receive))
        async with node.client() as client:
            await client.subscribe(
                NewSubscription(sink=sink, protocol="HTTP", types=_VERSION_EVENTS)
            )

    async def _join(self, stack: AsyncExitStack, link: Follows) -> None:
        target, source = self.nodes[link.target], self.nodes[link.source]
        mode = MODES[self.plan.modes[link]]
        asked = target if mode.sends else source
        line = await self._open(stack, peer_line(link), asked.url)
        joint = Joint(
            source=source,
            target=target,
            number_of_source=link.source,
            number_of_target=link.target,
            source_url=line.url,
            target_url=line.url,
            relays=link.relays,
            scope=scope_of(self.plan.topology, link, self.plan.modes[link], self.groups),
            topic=""
            if self.broker is None
            else f"kafka://{self.broker.address}/{self.topic_of(link.source)}",
        )
        self.ends[link] = await mode.join(joint)

    async def _disturb(self) -> None:
        """Let writers write and faults happen until the time of the plan is over."""
        ended = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            for node in self.nodes:
                for number in range(WRITERS_OF_A_NODE):
                    chance = Random(f"{self.plan.seed} writer {node.number} {number}")
                    writer = Writer(number, node.number, chance, self.history, self.clock)
                    tasks.create_task(writer.run(node.clients.url, ended))
            async with asyncio.TaskGroup() as faults:
                for step in self.plan.steps:
                    faults.create_task(self._take(step))
                faults.create_task(asyncio.sleep(self.plan.seconds))
            ended.set()

    async def _take(self, step: Step) -> None:
        await asyncio.sleep(step.at - self.clock())
        match step.action:
            case "disturb" | "part":
                await self._spoil(step)
            case "kill database":
                self.note(str(step))
                await self.databases.kill(step.seconds)
                self.note("the database is back")
            case "kill broker" | "freeze broker" | "lose topic":
                await self._strike_broker(step)
            case "kill" | "freeze" | "cut log" if self.nodes[step.node].lock.locked():
                self.note(f"left out, as node {step.node} is struck already: {step}")
            case _:
                async with self.nodes[step.node].lock:
                    await self._strike(self.nodes[step.node], step)

    async def _spoil(self, step: Step) -> None:
        line = self.lines[step.line]
        self.note(str(step))
        line.faults = step.faults
        if step.action == "part":
            line.part()
        await asyncio.sleep(step.seconds)
        # A later fault of the same line may have begun meanwhile; it ends with this one.
        line.mend()
        self.note(f"{step.line} is whole")

    async def _strike(self, node: FaultyNode, step: Step) -> None:
        self.note(str(step))
        match step.action:
            case "kill":
                await node.kill()
                await asyncio.sleep(step.seconds)
                await node.start()
                self.note(f"node {node.number} is back")
            case "freeze":
                await node.freeze(step.seconds)
                self.note(f"node {node.number} goes on")
            case "cut log":
                async with self.databases.lock:
                    self.kept[node.number][-1] += await self.databases.cut_log(node.database)
            case "back up":
                async with self.databases.lock:
                    self.restoration = Restoration(node=node.number, backed_up=self.clock())
                    self.backup = self.directory / f"{node.database}.dump"
                    await self.databases.back_up(node.database, self.backup)
            case "restore":
                await self._restore(node)

    async def _strike_broker(self, step: Step) -> None:
        assert self.broker is not None, "the plan has links over Kafka"
        async with self._broker_lock:
            self.note(str(step))
            match step.action:
                case "kill broker":
                    await self.broker.kill()
                    await asyncio.sleep(step.seconds)
                    await self.broker.start()
                case "freeze broker":
                    async with self.broker.frozen():
                        await asyncio.sleep(step.seconds)
                case _:
                    # Its source may be about to create it again.
                    with contextlib.suppress(KafkaError):
                        await self.broker.delete_topic(self.topic_of(step.node))
            self.note("the broker is as it should be")

    async def _has_copied(self, link: Follows) -> bool:
        end = self.federation.incoming(link)
        return await self.databases.has_cursor(end.node.database, end.id)

    async def _restore(self, node: FaultyNode) -> None:
        assert self.restoration is not None
        assert self.backup is not None
        await node.kill()
        async with self.databases.lock:
            self.kept[node.number][-1] += await self.databases.read_log(node.database)
            self.kept[node.number].append([])
            self.restoration.followers = {
                link
                for link in self.plan.topology.links
                if link.source == node.number and await self._has_copied(link)
            }
            await self.databases.restore(node.database, self.backup)
        self.restoration.restored = self.clock()
        await node.start()
        self.note(f"node {node.number} is back with its backup")
