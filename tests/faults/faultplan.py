"""The plan of one run, made of a seed alone: topology, links, and a timetable of faults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Literal

from tests.faults.linkmodes import MODES
from tests.faults.proxy import CLIENT_FAULTS, LINE_FAULTS
from tests.faults.topologies import TOPOLOGIES, Follows, Topology

Action = Literal[
    "disturb",
    "part",
    "kill",
    "freeze",
    "kill database",
    "cut log",
    "back up",
    "restore",
    "kill broker",
    "freeze broker",
    "lose topic",
]

# How often each is chosen. A backup and its restoration are planned apart, and so are the faults
# of a broker.
_WEIGHTS: Mapping[Action, int] = {
    "disturb": 8,
    "part": 3,
    "kill": 5,
    "freeze": 2,
    "kill database": 1,
    "cut log": 1,
}
_OF_BROKERS: Sequence[Action] = ("kill broker", "freeze broker", "lose topic")
_PAUSE_OF_BROKERS_SECONDS = 4.0
# Plans without a restored node whose links, all or some of them, use the standard API alone.
_STANDARD_SHARE = 0.3
_LONGEST_PAUSE_SECONDS = 1.0
_LONGEST_FAULT_SECONDS = 2.5
_MOST_SKEW_SECONDS = 6 * 3600
# One node of so many runs has a wrong clock.
_SKEWED_SHARE = 0.4


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One fault at a moment: of a line, of a node, of its topic, or of the database or the broker
    of all nodes.

    Args:
        at: seconds after the beginning.
        seconds: how long it lasts, if it does not end by itself.
        faults: the probability of each fault of a line.
    """

    at: float
    action: Action
    line: str = ""
    node: int = -1
    seconds: float = 0.0
    faults: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        what = self.line or ("" if self.node < 0 else f"node {self.node}")
        faults = " ".join(f"{name}={share:.2f}" for name, share in self.faults.items())
        lasting = f"for {self.seconds:.1f} s" if self.seconds else ""
        return " ".join(filter(None, (self.action, what, faults, lasting)))


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultPlan:
    """What happens in one run. Equal seeds make equal plans."""

    seed: int
    topology: Topology
    modes: Mapping[Follows, str]
    skews: tuple[float, ...]
    seconds: float
    steps: tuple[Step, ...]

    @classmethod
    def of(
        cls,
        seed: int,
        seconds: float,
        *,
        topology: str = "",
        restores: bool | None = None,
        kinds: Sequence[str] = ("pull", "events", "push"),
        modes: Sequence[str] = (),
    ) -> FaultPlan:
        """The plan of a seed.

        Args:
            seconds: how long faults go on.
            topology: its name; chosen by the seed if empty.
            restores: whether one node is restored from a backup; chosen if `None`.
            kinds: the modes among which is chosen.
            modes: that of each link, in their order; chosen if there are none.
        """
        chance = Random(seed)
        name = chance.choice(sorted(TOPOLOGIES))
        chosen = TOPOLOGIES[topology or name]
        basic = [kind for kind in kinds if not MODES[kind].is_standard]
        drawn = [basic[int(chance.random() * len(basic))] for _ in chosen.links]
        skews = [0.0] * chosen.nodes
        if chance.random() < _SKEWED_SHARE:
            skews[chance.randrange(chosen.nodes)] = chance.uniform(-1, 1) * _MOST_SKEW_SECONDS
        steps = _faults(chance, chosen, seconds)
        is_chosen = chance.random() < 0.25
        is_restored = is_chosen if restores is None else restores
        if is_restored:
            node = chance.choice(sorted({link.source for link in chosen.links}))
            steps += [
                Step(at=seconds * chance.uniform(0.2, 0.4), action="back up", node=node),
                Step(at=seconds * chance.uniform(0.6, 0.8), action="restore", node=node),
            ]
        else:
            drawn = _with_standard(chance, chosen, drawn, kinds)
        given = dict(zip(chosen.links, modes or drawn, strict=True))
        publishing = sorted({link.source for link, mode in given.items() if mode == "kafka"})
        if publishing:
            steps += _faults_of_broker(chance, publishing, seconds)
        return cls(
            seed=seed,
            topology=chosen,
            modes=given,
            skews=tuple(skews),
            seconds=seconds,
            steps=tuple(sorted(steps, key=lambda step: step.at)),
        )

    @property
    def restored(self) -> int | None:
        """The node that is restored from a backup, if one is."""
        return next((step.node for step in self.steps if step.action == "restore"), None)

    def __str__(self) -> str:
        modes = " ".join(f"{link}:{mode}" for link, mode in self.modes.items())
        skews = "".join(
            f", the clock of {number} wrong by {skew:+.0f} s"
            for number, skew in enumerate(self.skews)
            if skew
        )
        return (
            f"{self.topology.name} of {self.topology.nodes} nodes ({modes}), "
            f"{len(self.steps)} faults in {self.seconds:g} s{skews}"
        )


def peer_line(link: Follows) -> str:
    """The name of the line between the two nodes of a link, from the one that connects."""
    return str(link)


def hint_line(node: int) -> str:
    """The name of the line by which events reach a node."""
    return f"hints>{node}"


def client_line(node: int) -> str:
    """The name of the line by which writers reach a node."""
    return f"clients>{node}"


def _with_standard(
    chance: Random, topology: Topology, modes: list[str], kinds: Sequence[str]
) -> list[str]:
    """The modes of links, of which some use the standard API alone now and then."""
    fitting = [
        kind
        for kind in kinds
        if MODES[kind].is_standard and topology.name in MODES[kind].topologies
    ]
    if not fitting or chance.random() >= _STANDARD_SHARE:
        return modes
    if any(map(topology.leads_back, topology.links)):
        # What came by the standard API is another's, for the links that lead back, too.
        return [chance.choice(fitting)] * len(modes)
    return [chance.choice([mode, *fitting]) for mode in modes]


def _faults_of_broker(chance: Random, publishing: Sequence[int], seconds: float) -> list[Step]:
    steps: list[Step] = []
    at = chance.uniform(0, _PAUSE_OF_BROKERS_SECONDS)
    while at < seconds:
        action, node = chance.choice(_OF_BROKERS), chance.choice(publishing)
        if action == "lose topic":
            steps.append(Step(at=at, action=action, node=node))
        else:
            lasts = min(chance.uniform(0.05, _LONGEST_FAULT_SECONDS), seconds - at)
            steps.append(Step(at=at, action=action, seconds=lasts))
        at += chance.uniform(0.5, 2 * _PAUSE_OF_BROKERS_SECONDS)
    return steps


def _faults(chance: Random, topology: Topology, seconds: float) -> list[Step]:
    steps, at = [], 0.0
    while True:
        at += chance.uniform(0.05, _LONGEST_PAUSE_SECONDS)
        if at >= seconds:
            return steps
        action = chance.choices([*_WEIGHTS], [*_WEIGHTS.values()])[0]
        lasts = min(chance.uniform(0.05, _LONGEST_FAULT_SECONDS), seconds - at)
        steps.append(_step(chance, topology, action, at, lasts))


def _step(chance: Random, topology: Topology, action: Action, at: float, lasts: float) -> Step:
    node = chance.randrange(topology.nodes)
    if action in ("disturb", "part"):
        peers = [peer_line(link) for link in topology.links]
        hints = [hint_line(number) for number in range(topology.nodes)]
        clients = [client_line(number) for number in range(topology.nodes)]
        line = chance.choice([*peers, *peers, *hints, *clients])
        kinds = CLIENT_FAULTS if line in clients else LINE_FAULTS
        faults = {
            kind: chance.uniform(0.1, 0.6) for kind in chance.sample(kinds, chance.randint(1, 3))
        }
        return Step(
            at=at,
            action=action,
            line=line,
            seconds=lasts,
            faults=faults if action == "disturb" else {},
        )
    if action == "kill database":
        return Step(at=at, action=action, seconds=lasts / 2)
    if action == "cut log":
        return Step(at=at, action=action, node=node)
    return Step(at=at, action=action, node=node, seconds=lasts)
