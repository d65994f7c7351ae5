"""What is known after a run, from outside and from the databases, for the checker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from catalog.client.replication import DigestRow
from tests.faults.history import History
from tests.faults.topologies import Follows, Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRow:
    """One row of a node's change log."""

    txid: int
    seq: int
    xid: str
    kind: str
    action: str
    authority: str
    origin: str
    epoch: int
    digest: str

    @property
    def source(self) -> tuple[str, str]:
        return self.authority, self.origin


@dataclass(frozen=True, slots=True)
class Shown:
    """What a node shows of an entity in the end."""

    token: str
    epoch: int


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """An event that a subscriber received."""

    subject: str
    epoch: int


@dataclass(slots=True, kw_only=True)
class Restoration:
    """A node that was restored from a backup.

    Args:
        backed_up: when the backup began.
        restored: when the node began to go on from it.
        followers: the links that had copied from it before.
        noticed: whether each follower noticed.
        before: what each node held of its authority before an operator had the links copy
            everything again, and what the authority held.
        reported: the verdict on each origin that each link reported as a conflict.
    """

    node: int
    backed_up: float
    restored: float = 0.0
    followers: set[Follows] = field(default_factory=set)
    noticed: dict[Follows, bool] = field(default_factory=dict)
    before: dict[int, list[DigestRow]] = field(default_factory=dict)
    reported: dict[Follows, dict[str, str]] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Evidence:
    """Everything that the checker looks at.

    Args:
        authorities: by node.
        shown: what the authority shows of each written path; `None` if there is nothing.
        held: the rows of each node, with digests computed from the content.
        replicated: the pairs of a node and another one whose entities it has as replicas of that
            one; `None` for all that the topology carries.
        differences: what differs of entities that came by the standard API, by node and group.
        logs: for each node, its log, one for each of its lives: a restored node has two.
        grown: how many rows each log grew after everything had settled.
        streams: what the subscribers of each node received.
        conflicts: the conflicts of each link in the end.
        unsettled: what did not come true in time.
        timeline: what happened when.
    """

    topology: Topology
    authorities: list[str]
    history: History
    shown: dict[str, Shown | None] = field(default_factory=dict)
    held: list[list[DigestRow]] = field(default_factory=list)
    replicated: set[tuple[int, int]] | None = None
    differences: Mapping[str, str] = field(default_factory=dict)
    logs: list[list[list[LogRow]]] = field(default_factory=list)
    grown: list[int] = field(default_factory=list)
    streams: list[list[StreamEvent]] = field(default_factory=list)
    conflicts: dict[Follows, list[str]] = field(default_factory=dict)
    restoration: Restoration | None = None
    unsettled: list[str] = field(default_factory=list)
    timeline: list[str] = field(default_factory=list)

    @property
    def shown_by_others(self) -> set[tuple[int, int]]:
        """The pairs of a node and another one whose entities came to it by the standard API."""
        if self.replicated is None:
            return set()
        return self.topology.carried() - self.replicated
