"""However nodes are linked and whatever is lost on the way, in the end they agree.

The nodes are in memory, but they judge and log with the code that nodes with a database use.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from catalog.model.change import changes_between
from catalog.model.entity import Entity, Origin, Tombstone
from catalog.model.modelsource import default_model
from catalog.model.xid import Kind, Xid, depth
from replication.batch import changes_of, decide_batch
from replication.copychecks import check_copies
from replication.provenance import Copy, CopyFilter, Policy

MODEL = default_model()
BEGIN = datetime(2030, 1, 1, tzinfo=UTC)
NODES = 5
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
    """What survives a restart: entities, tombstones, the log, and a cursor for each source."""

    authority: str
    entities: dict[str, Entity] = field(default_factory=dict)
    tombstones: dict[Origin, Tombstone] = field(default_factory=dict)
    log: list[Origin] = field(default_factory=list)
    cursors: dict[int, int] = field(default_factory=dict)

    def write(self, xid: str, text: str, clock: datetime) -> None:
        """Create or update an entity, and what is missing above it."""
        path = Xid.parse(xid)
        if path.kind != "group" and str(path.parent) not in self.entities:
            self.write(str(path.parent), "", clock)
        old = self.entities.get(xid)
        buried = self.tombstones.pop(Origin(self.authority, xid), None)
        last = old or buried
        self._log({xid: self._sealed(xid, path.kind, last.epoch + 1 if last else 1, text, clock)})

    def _sealed(self, xid: str, kind: Kind, epoch: int, text: str, clock: datetime) -> Entity:
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
        self.log += [Origin(change.authority, change.origin) for change in changes]

    def page(self, cursor: int, limit: int, policy: Policy) -> tuple[list[Copy], int]:
        """What changed, as it is now, closed under ancestors."""
        end = min(len(self.log), cursor + limit)
        shown: dict[str, Copy] = {}
        for origin in self.log[cursor:end]:
            copy = self.copy_of(origin)
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
        judgement = decide_batch(check_copies(batch, MODEL), self.entities, self.tombstones, policy)
        changes = [] if judgement.is_empty else changes_of(judgement, self.entities, None, MODEL)
        for xid in [*judgement.dropped, *(t.xid for t in judgement.deleted)]:
            del self.entities[xid]
        for tombstone in [*judgement.deleted, *judgement.remembered]:
            self.tombstones[Origin(tombstone.authority, tombstone.origin)] = tombstone
        for origin in judgement.revived:
            del self.tombstones[origin]
        self.entities |= {entity.xid: entity for entity in judgement.written}
        self.log += [Origin(change.authority, change.origin) for change in changes]
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
        cursor = node.cursors.get(source)
        if cursor is None:
            batch, after = self.nodes[source].snapshot(policy), len(self.nodes[source].log)
        else:
            batch, after = self.nodes[source].page(cursor, limit, policy)
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
        node.cursors[source] = after
        return written

    def deliver_late(self, index: int) -> None:
        if self.delayed:
            target, batch, policy = self.delayed[index % len(self.delayed)]
            self.nodes[target].receive(batch, policy)

    def drain(self) -> int:
        """Pull by every link until no log grows and no cursor moves; how much was logged."""
        before = sum(len(node.log) for node in self.nodes)
        while True:
            state = [(len(node.log), dict(node.cursors)) for node in self.nodes]
            for index in range(len(self.links)):
                self.pull(index, 7, "arrives")
            if state == [(len(node.log), dict(node.cursors)) for node in self.nodes]:
                return sum(len(node.log) for node in self.nodes) - before

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


places = st.sampled_from(
    [
        "/messagegroups/g{}",
        "/messagegroups/h{}",
        "/messagegroups/g{}/messages/m",
        "/messagegroups/g{}/messages/n",
        "/messagegroups/g{}/messages/m/versions/1",
        "/messagegroups/g{}/messages/m/versions/2",
    ]
)
numbers = st.sampled_from([0, 0, 1, 1, 2, 3, 4])
fates = st.sampled_from(["arrives", "lost", "delayed", "half", "forgotten", "reversed", "doubled"])
steps = st.one_of(
    st.tuples(st.just("write"), numbers, places, st.sampled_from("abc")),
    st.tuples(st.just("delete"), numbers, places),
    st.tuples(st.just("pull"), st.integers(0, 30), st.integers(1, 5), fates),
    st.tuples(st.just("deliver_late"), st.integers(0, 30)),
)


@pytest.mark.parametrize("topology", sorted(TOPOLOGIES))
@settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow])
@given(program=st.lists(steps, min_size=40, max_size=120))
def test_when_the_links_are_drained_all_nodes_agree_and_nothing_more_is_written(
    topology: str, program: list[tuple[Any, ...]]
) -> None:
    federation = Federation(topology)
    for name, *arguments in program:
        getattr(federation, name)(*arguments)
    federation.drain()
    assert_agreement(federation)
    assert federation.drain() == 0
    for index in reversed(range(len(federation.delayed))):
        federation.deliver_late(index)
        assert_agreement(federation)
    assert federation.drain() == 0
    for node in federation.nodes:
        node.cursors.clear()
    assert federation.drain() == 0


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


@given(
    forgeries=st.lists(
        st.tuples(places, st.integers(1, 2**40), st.booleans(), st.sampled_from([1, 2])),
        min_size=1,
        max_size=8,
    ),
    later=st.lists(steps, max_size=20),
)
def test_no_relay_makes_a_node_disagree_with_an_authority_that_it_follows_itself(
    forgeries: list[tuple[str, int, bool, int]], later: list[tuple[Any, ...]]
) -> None:
    """In a mesh, node 0 is what is forged, and 3 is the forger, whom all others follow."""
    federation = Federation("mesh")
    federation.write(0, "/messagegroups/g{}/messages/m", "true")
    federation.drain()
    victim = federation.nodes[0]
    for place, epoch, is_deleted, target in forgeries:
        xid = place.format(0)
        copy: Copy = victim._sealed(xid, Xid.parse(xid).kind, epoch, "forged", BEGIN)
        if is_deleted:
            copy = Tombstone(
                xid=xid,
                kind=copy.kind,
                authority=victim.authority,
                origin=xid,
                epoch=epoch,
                deletedat=BEGIN,
            )
        federation.nodes[target].receive([copy], federation.policy(target, 3, True))
    for name, *arguments in later:
        getattr(federation, name)(*arguments)
    federation.drain()
    assert_agreement(federation)
    assert federation.drain() == 0


def test_a_ring_settles_in_one_pass() -> None:
    federation = Federation("ring")
    for number in range(NODES):
        federation.write(number, "/messagegroups/g{}/messages/m", "a")
    federation.drain()
    lengths = {len(node.log) for node in federation.nodes}
    entities = {len(node.entities) for node in federation.nodes}
    assert entities == {2 * NODES}
    assert max(lengths) <= 3 * NODES
