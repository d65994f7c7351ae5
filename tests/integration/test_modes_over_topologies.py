"""Whatever modes join nodes in whatever topology, each link promises the same.

`tests/faults/linkmodes.py` is the table of the modes, `tests/faults/topologies.py` that of the
topologies; `tests/faults` runs both with processes and more faults.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from random import Random

import pytest
from _pytest.mark import ParameterSet

from catalog.client import Client
from tests.brokers.kafka import KafkaBroker
from tests.faults.checker import violations
from tests.faults.evidence import Evidence, LogRow
from tests.faults.federation import LOOK_SECONDS, Federation
from tests.faults.history import History
from tests.faults.linkmodes import MODES, Joint, scope_of
from tests.faults.proxy import Line
from tests.faults.settling import SETTLE_SECONDS, read_catalogs
from tests.faults.topologies import TOPOLOGIES, WIDE, Follows, Topology
from tests.faults.writers import Writer, careful_client, groups_by
from tests.integration.conftest import Node
from tests.integration.federation import databases, running, start_member

MIXTURES = [("hub", 1), ("ring", 2), ("mesh", 3)]
FAULTS = {"cut": 0.2, "drop": 0.1, "mute": 0.1, "double": 0.1}
COLLIDED = "/messagegroups/collided"


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """A node of the federation, with the client that asks it."""

    node: Node
    number: int
    asking: Client

    @property
    def authority(self) -> str:
        return self.node.database.node.authority

    def client(self) -> AbstractAsyncContextManager[Client]:
        return nullcontext(self.asking)

    async def log(self) -> list[LogRow]:
        return [
            LogRow(
                txid=logged.position.txid,
                seq=logged.position.seq,
                xid=logged.change.xid,
                kind=logged.change.kind,
                action=logged.change.action,
                authority=logged.change.authority,
                origin=logged.change.origin,
                epoch=logged.change.epoch,
                digest=logged.change.digest.hex(),
            )
            for logged in await self.node.changes()
        ]


@dataclass(slots=True, kw_only=True)
class Trial:
    """A topology, the mode of each of its links, and what was written."""

    topology: Topology
    modes: Mapping[Follows, str]
    seed: int
    members: list[Member]
    lines: list[Line] = field(default_factory=list)
    broker: KafkaBroker | None = None
    history: History = field(default_factory=History)

    def running(self) -> AbstractAsyncContextManager[None]:
        wakes = "events" in self.modes.values()
        return running(*(member.node for member in self.members), deliveries=wakes)

    async def join(self, stack: AsyncExitStack) -> Federation:
        """Join the nodes, by lines with faults."""
        ends = {}
        for link in self.topology.links:
            source, target = self.members[link.source], self.members[link.target]
            mode = MODES[self.modes[link]]
            asked = target if mode.sends else source
            line = Line(str(link), asked.node.url, Random(f"{self.seed} {link}"))
            self.lines.append(await stack.enter_async_context(line.open()))
            ends[link] = await mode.join(
                Joint(
                    source=source,
                    target=target,
                    number_of_source=link.source,
                    number_of_target=link.target,
                    source_url=line.url,
                    target_url=line.url,
                    relays=link.relays,
                    scope=scope_of(self.topology, link, self.modes[link], self.groups),
                    topic=self._topic_of(link),
                )
            )
        return Federation(
            topology=self.topology,
            nodes=self.members,
            ends=ends,
            modes=self.modes,
            groups=self.groups,
        )

    @property
    def groups(self) -> list[frozenset[str]]:
        """The groups that are written at each node, with the one that collides."""
        found = [groups_by(number) for number in range(self.topology.nodes)]
        author = self.topology.links[0].source
        found[author] |= {COLLIDED}
        return found

    def _topic_of(self, link: Follows) -> str:
        if self.broker is None:
            return ""
        name = self.members[link.source].authority.rpartition(":")[2]
        return f"kafka://{self.broker.address}/copies-{name}"

    async def write(self, part: str, times: int) -> None:
        """Let a client write at each node at once."""
        clock = asyncio.get_running_loop().time
        async with asyncio.TaskGroup() as tasks:
            for member in self.members:
                chance = Random(f"{self.seed} {part} {member.number}")
                writer = Writer(0, member.number, chance, self.history, clock)
                tasks.create_task(_write(writer, member.node.url, times))


async def _write(writer: Writer, url: str, times: int) -> None:
    async with careful_client(url, patience=30) as client:
        for _ in range(times):
            await writer.write(client)


@asynccontextmanager
async def trial_of(
    topology: Topology,
    modes: Sequence[str],
    seed: int,
    postgres_url: str,
    template: str,
    broker: KafkaBroker | None,
) -> AsyncIterator[Trial]:
    """Fresh nodes, whose links take the modes in turn."""
    async with AsyncExitStack() as stack:
        urls = await stack.enter_async_context(databases(postgres_url, template, topology.nodes))
        nodes = await asyncio.gather(
            *(
                stack.enter_async_context(start_member(url, pull_interval_seconds=0.3))
                for url in urls
            )
        )
        clients = [await stack.enter_async_context(Client.open(node.url)) for node in nodes]
        members = zip(nodes, range(len(nodes)), clients, strict=True)
        yield Trial(
            topology=topology,
            modes={link: modes[n % len(modes)] for n, link in enumerate(topology.links)},
            seed=seed,
            members=[Member(*member) for member in members],
            broker=broker,
        )


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> KafkaBroker | None:
    """The broker of these tests, if the test has links over a topic."""
    if "kafka" not in request.node.callspec.params["modes"]:
        return None
    found: KafkaBroker = request.getfixturevalue("kafka")
    return found


def _cases() -> Iterator[ParameterSet]:
    """Each mode over each topology that suits it, and mixtures."""
    for name, mode in MODES.items():
        for topology in mode.topologies:
            yield _case(TOPOLOGIES[topology], 1, name)
    for topology, seed in MIXTURES:
        modes = ["pull", "events", "push"]
        Random(seed).shuffle(modes)
        yield _case(TOPOLOGIES[topology], seed, *modes)
    yield _case(WIDE, 4, "pull", "push", "kafka", "walk", "pull", "write")


def _case(topology: Topology, seed: int, *modes: str) -> ParameterSet:
    return pytest.param(topology, seed, modes, id=f"{topology.name}-{'-'.join(modes)}")


@pytest.mark.parametrize(("topology", "seed", "modes"), [*_cases()])
async def test_links_keep_their_promises(
    topology: Topology,
    seed: int,
    modes: Sequence[str],
    broker: KafkaBroker | None,
    postgres_url: str,
    template: str,
) -> None:
    async with trial_of(topology, modes, seed, postgres_url, template, broker) as trial:
        await _hold_promises(trial)


async def _hold_promises(trial: Trial) -> None:
    """Write before, during and after copies, let answers break off and nodes stop, and look."""
    async with AsyncExitStack() as stack:
        await trial.write("before", 8)
        link = trial.topology.links[0]
        for number in (link.source, link.target):
            text = {"description": f"that of {number}"}
            body = {**text, "messages": {"m": text}}
            await trial.members[number].node.put(COLLIDED, body)
        federation = await trial.join(stack)
        for line in trial.lines:
            line.faults = FAULTS
        async with trial.running():
            await trial.write("during", 10)
        await trial.write("while links are down", 4)
        for line in trial.lines:
            line.mend()
        async with trial.running():
            await _hold_quarantine(trial, federation, link)
            await _await(federation.agree)
            await _await(federation.are_current)
            logs = [await member.log() for member in trial.members]
            await _await(federation.have_all_looked)
            evidence = await _evidence(trial, federation, logs)
    found = violations(evidence)
    assert not found, "\n".join(map(str, found))


async def _hold_quarantine(trial: Trial, federation: Federation, link: Follows) -> None:
    """A group that collides is shown as a conflict, and the rest flows; then let it go."""
    target = trial.members[link.target]
    author = trial.members[link.source].authority

    async def is_shown() -> bool:
        conflicts = await federation.incoming(link).conflicts()
        return any(
            (each.authority, each.origin, each.verdict) == (author, COLLIDED, "collided")
            for each in conflicts
        )

    await _await(is_shown)
    await _await(lambda: federation.agree(but=frozenset({COLLIDED})))
    shown = await target.node.get(f"{COLLIDED}/messages/m")
    assert shown["description"] == f"that of {link.target}"
    answer = await target.node.send("DELETE", COLLIDED)
    assert answer.status == 204, answer.body


async def _await(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(SETTLE_SECONDS):
        while not await condition():
            await asyncio.sleep(LOOK_SECONDS)  # between two looks


async def _evidence(trial: Trial, federation: Federation, before: list[list[LogRow]]) -> Evidence:
    evidence = Evidence(
        topology=trial.topology,
        authorities=[member.authority for member in trial.members],
        history=trial.history,
    )
    logs = [await member.log() for member in trial.members]
    evidence.grown = [len(now) - len(then) for now, then in zip(logs, before, strict=True)]
    evidence.logs = [[log] for log in logs]
    await read_catalogs(federation, evidence)
    return evidence
