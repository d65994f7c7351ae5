"""A federation in memory, whose nodes decide and log with the code that real nodes use.

A network between them loses, doubles, reverses and delays pages of feeds.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from catalog.model.change import Change, changes_between
from catalog.model.entity import Entity, Origin, Tombstone
from catalog.model.modelsource import default_model
from catalog.model.xid import Kind, Xid, depth
from catalog.operations.feed import Verdict
from replication.deciding.batch import changes_of, decide_batch
from replication.deciding.copychecks import Copy, check_copies
from replication.deciding.decide import SETTLED
from replication.deciding.provenance import CopyFilter, Policy

MODEL = default_model()
BEGIN = datetime(2030, 1, 1, tzinfo=UTC)
NODES = 5
MOST_ROUNDS = 500
NEEDED: dict[str, dict[str, Any]] = {
    "group": {},
    "resource": {"defaultversionid": "1", "defaultversionsticky": False},
    "version": {"ancestorid": "1"},
}

# Who follows whom, and whether the source relays: by name, (target, source, relay).
TOPOLOGIES = {
    "peers": [(0, 1, False), (1, 0, False)],
    "hub": [(0, 1, False), (0, 2, False), (3, 0, True), (4, 0, True)],
    "star": [(0, n, True) for n in range(1, NODES)] + [(n, 0, True) for n in range(1, NODES)],
    "ring": [(n, (n + 1) % NODES, True) for n in range(NODES)],
    "chain": [(1, 0, True), (2, 1, True), (3, 2, True)],
    "mesh": [(t, s, True) for t in range(4) for s in range(4) if t != s],
}


@dataclass
class Node:
    """What survives a restart: entities, tombstones, the log, and a cursor for each source.

    A cursor is the source's instance with a position in its log, of which the first `dropped`
    changes are there no more.
    """

    authority: str
    instance: int = 0
    entities: dict[str, Entity] = field(default_factory=dict)
    tombstones: dict[Origin, Tombstone] = field(default_factory=dict)
    log: list[Change] = field(default_factory=list)
    dropped: int = 0
    cursors: dict[int, tuple[int, int]] = field(default_factory=dict)
    conflicts: dict[Origin, Verdict] = field(default_factory=dict)

    def write(self, xid: str, text: str, clock: datetime) -> None:
        """Create or update an entity, and what is missing above it."""
        path = Xid.parse(xid)
        if path.kind != "group" and str(path.parent) not in self.entities:
            self.write(str(path.parent), "", clock)
        old = self.entities.get(xid)
        buried = self.tombstones.pop(Origin(self.authority, xid), None)
        last = old or buried
        self._log({xid: self.sealed(xid, path.kind, last.epoch + 1 if last else 1, text, clock)})

    def sealed(self, xid: str, kind: Kind, epoch: int, text: str, clock: datetime) -> Entity:
        return Entity(
            xid=xid,
            kind=kind,
            authority=self.authority,
            origin=xid,
            epoch=epoch,
            attributes={"description": text, **NEEDED[kind]},
            createdat=BEGIN,
            modifiedat=clock,
        ).sealed()

    def delete(self, xid: str, clock: datetime) -> None:
        """Delete an entity and all below it."""
        gone = [e for e in self.entities.values() if f"{e.xid}/".startswith(f"{xid}/")]
        self._log(
            {
                e.xid: Tombstone(
                    xid=e.xid,
                    kind=e.kind,
                    authority=e.authority,
                    origin=e.origin,
                    epoch=e.epoch + 1,
                    deletedat=clock,
                )
                for e in gone
            }
        )

    def _log(self, after: dict[str, Copy]) -> None:
        changes = changes_between(self.entities, after, MODEL)
        for xid, state in after.items():
            if isinstance(state, Entity):
                self.entities[xid] = state
            else:
                del self.entities[xid]
                self.tombstones[Origin(state.authority, xid)] = state
        self.log += changes

    def page(self, cursor: int, limit: int, policy: Policy) -> tuple[list[Copy], int]:
        """What changed, as it is now, closed under ancestors."""
        end = min(len(self.log), cursor + limit)
        shown: dict[str, Copy] = {}
        for change in self.log[cursor:end]:
            copy = self.copy_of(Origin(change.authority, change.origin))
            if copy is not None and policy.admits(copy):
                shown[copy.xid] = copy
        for xid in [xid for xid, copy in shown.items() if isinstance(copy, Entity)]:
            path = Xid.parse(xid)
            while (path := path.parent).kind != "registry":
                shown[str(path)] = self.entities[str(path)]
        return sorted(shown.values(), key=lambda copy: depth(copy.xid)), end

    def copy_of(self, origin: Origin) -> Copy | None:
        live = self.entities.get(origin.xid)
        if live is not None and live.authority == origin.authority:
            return live
        return self.tombstones.get(origin)

    def snapshot(self, policy: Policy) -> list[Copy]:
        everything: list[Copy] = [*self.entities.values(), *self.tombstones.values()]
        return [copy for copy in everything if policy.admits(copy)]

    def receive(self, batch: list[Copy], policy: Policy) -> int:
        """Apply a batch as a database would; the answer is how many rows were logged."""
        decision = decide_batch(check_copies(batch, MODEL), self.entities, self.tombstones, policy)
        changes = [] if decision.is_empty else changes_of(decision, self.entities, None, MODEL)
        for finding in decision.findings:
            if finding.verdict in SETTLED:
                self.conflicts.pop(finding.origin, None)
        self.conflicts |= {finding.origin: finding.verdict for finding in decision.conflicts}
        for xid in [*decision.dropped, *(t.xid for t in decision.deleted)]:
            del self.entities[xid]
        for tombstone in [*decision.deleted, *decision.remembered]:
            self.tombstones[Origin(tombstone.authority, tombstone.origin)] = tombstone
        for origin in decision.revived:
            del self.tombstones[origin]
        self.entities |= {entity.xid: entity for entity in decision.written}
        self.log += changes
        assert all(str(Xid.parse(xid).parent) in {"/", *self.entities} for xid in self.entities)
        return len(changes)

    def holds(self, authority: str) -> set[tuple[str, int, bytes, bool]]:
        live = {
            (e.origin, e.epoch, e.digest, True)
            for e in self.entities.values()
            if e.authority == authority
        }
        return live | {
            (t.origin, t.epoch, t.digest, False)
            for t in self.tombstones.values()
            if t.authority == authority
        }


class Federation:
    """Five nodes, links between them, and a network that loses, doubles and delays."""

    def __init__(self, topology: str) -> None:
        self.nodes = [Node(f"urn:node:{number}") for number in range(NODES)]
        self.links = TOPOLOGIES[topology]
        self.delayed: list[tuple[int, list[Copy], Policy]] = []
        self.backups: dict[int, Node] = {}
        self.instances = 0
        self.clock = BEGIN

    def policy(self, target: int, source: int, relay: bool) -> Policy:
        sender = self.nodes[source].authority
        direct = [self.nodes[each].authority for mine, each, _ in self.links if mine == target]
        return Policy(
            own=self.nodes[target].authority,
            sender=sender,
            authorities=None if relay else frozenset({sender}),
            direct=tuple(CopyFilter(authorities=frozenset({each})) for each in direct),
        )

    def write(self, number: int, place: str, text: str) -> None:
        self.clock += timedelta(seconds=1)
        self.nodes[number].write(place.format(number), text, self.clock)

    def delete(self, number: int, place: str) -> None:
        xid = place.format(number)
        if xid in self.nodes[number].entities:
            self.clock += timedelta(seconds=1)
            self.nodes[number].delete(xid, self.clock)

    def pull(self, index: int, limit: int, fate: str) -> int:
        """One page by one link; what is lost on the way does not move the cursor."""
        target, source, relay = self.links[index % len(self.links)]
        node, policy = self.nodes[target], self.policy(target, source, relay)
        peer = self.nodes[source]
        instance, position = node.cursors.get(source, (-1, 0))
        if instance != peer.instance or position < peer.dropped:
            batch, after = peer.snapshot(policy), len(peer.log)
        else:
            batch, after = peer.page(position, limit, policy)
        match fate:
            case "lost":
                return 0
            case "delayed":
                self.delayed.append((target, batch, policy))
                return 0
            case "half":
                # The process was lost between two batches of one stream.
                return node.receive(batch[: len(batch) // 2], policy)
            case "forgotten":
                node.cursors.pop(source, None)
                return 0
            case "reversed":
                batch = batch[::-1]
            case "doubled":
                node.receive(batch, policy)
        written = node.receive(batch, policy)
        node.cursors[source] = peer.instance, after
        return written

    def deliver_late(self, index: int) -> None:
        if self.delayed:
            target, batch, policy = self.delayed[index % len(self.delayed)]
            self.nodes[target].receive(batch, policy)

    def cut_log(self, number: int) -> None:
        """Drop the whole log of a node; cursors before its end are of no use any more."""
        node = self.nodes[number]
        node.dropped = len(node.log)

    def back_up(self, number: int) -> None:
        self.backups[number] = deepcopy(self.nodes[number])

    def restore(self, number: int) -> bool:
        """Replace a node by its backup, elsewhere: its log begins anew, as another instance."""
        backup = self.backups.get(number)
        if backup is None:
            return False
        self.instances += 1
        node = deepcopy(backup)
        node.log, node.dropped, node.instance = [], 0, self.instances
        self.nodes[number] = node
        return True

    def drain(self) -> int:
        """Pull by every link until no log grows and no cursor moves; how much was logged."""
        before = sum(len(node.log) for node in self.nodes)
        for _ in range(MOST_ROUNDS):
            state = [(len(node.log), dict(node.cursors)) for node in self.nodes]
            for index in range(len(self.links)):
                self.pull(index, 7, "arrives")
            if state == [(len(node.log), dict(node.cursors)) for node in self.nodes]:
                return sum(len(node.log) for node in self.nodes) - before
        raise AssertionError("the nodes go on telling each other something")

    def carried(self) -> set[tuple[int, int]]:
        """Which node should carry whose entities: (target, authority's node)."""
        found = {(target, source) for target, source, _ in self.links}
        while True:
            more = {
                (target, origin)
                for target, source, relay in self.links
                if relay
                for carrier, origin in found
                if carrier == source and origin != target
            }
            if more <= found:
                return found
            found |= more


def assert_agreement(federation: Federation) -> None:
    nodes = federation.nodes
    for target, origin in federation.carried():
        authority = nodes[origin].authority
        assert nodes[target].holds(authority) == nodes[origin].holds(authority)
    for number, node in enumerate(nodes):
        mine = {t.xid for t in node.tombstones.values() if t.authority == node.authority}
        for target, origin in federation.carried():
            if origin == number:
                live = nodes[target].entities.values()
                assert not mine & {e.xid for e in live if e.authority == node.authority}
