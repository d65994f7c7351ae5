"""Promises of replication that hold at every moment, whatever order things happen in.

The numbers are those of the promises that every link makes (docs/faults.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from catalog.model.entity import Origin, Tombstone
from catalog.model.xid import Xid
from catalog.operations.feed import Verdict
from replication.deciding import batch
from replication.deciding.copychecks import Copy
from replication.deciding.decide import LocalState, decide
from replication.deciding.provenance import Policy
from tests.unit.federationmodel import NODES, TOPOLOGIES, Federation, Node

PLACES = (
    "/messagegroups/g{}",
    "/messagegroups/g{}/messages/m",
    "/messagegroups/g{}/messages/m/versions/1",
)
FATES = ("arrives", "arrives", "lost", "delayed", "half", "forgotten", "reversed", "doubled")

# Some nodes and places are chosen often, so that much happens to the same entities.
numbers = st.sampled_from([0, 0, 0, 1, 1, 1, 2, 3, 4])
places = st.sampled_from(PLACES)


class ReplicationMachine(RuleBasedStateMachine):
    """Five nodes in a topology, in which anything may happen at any time."""

    @initialize(topology=st.sampled_from(sorted(TOPOLOGIES)))
    def begin(self, topology: str) -> None:
        self.federation = Federation(topology)
        self.restored: set[int] = set()
        self.seen: list[dict[Origin, int]] = [{} for _ in range(NODES)]

    @rule(number=numbers, place=places, text=st.sampled_from("abc"))
    def write(self, number: int, place: str, text: str) -> None:
        self.federation.write(number, place, text)

    @rule(number=numbers, index=st.integers(0, 30))
    def delete(self, number: int, index: int) -> None:
        """Delete something that is there; the deepest come first."""
        node = self.federation.nodes[number]
        own = [xid for xid, each in node.entities.items() if each.authority == node.authority]
        if own:
            own.sort(key=len, reverse=True)
            self.federation.delete(number, own[index % len(own)])

    @rule(index=st.integers(0, 30), limit=st.integers(1, 5), fate=st.sampled_from(FATES))
    def pull(self, index: int, limit: int, fate: str) -> None:
        self.federation.pull(index, limit, fate)

    @rule()
    def pull_by_every_link(self) -> None:
        for index in range(len(self.federation.links)):
            self.federation.pull(index, 10, "arrives")

    @rule()
    def delay_by_every_link(self) -> None:
        for index in range(len(self.federation.links)):
            self.federation.pull(index, 10, "delayed")

    @rule(index=st.integers(0, 30))
    def deliver_late(self, index: int) -> None:
        self.federation.deliver_late(index)

    @rule(number=numbers)
    def cut_log(self, number: int) -> None:
        self.federation.cut_log(number)

    @rule(number=numbers)
    def back_up(self, number: int) -> None:
        self.federation.back_up(number)

    @precondition(lambda self: not self.restored)
    @rule(number=numbers)
    def restore(self, number: int) -> None:
        if self.federation.restore(number):
            self.restored.add(number)
            # Its own past is no more; that of its replicas is.
            self.seen[number] = {}

    @invariant()
    def no_node_goes_back(self) -> None:
        """4, 5, 10: a node never holds an earlier state of an origin than before, nor forgets a
        deletion; a peer that lost its data takes nothing back.

        What was below a deleted entity is dropped; its own tombstones follow.
        """
        for number, node in enumerate(self.federation.nodes):
            now = _epochs(node)
            for origin, epoch in self.seen[number].items():
                if origin in now:
                    assert now[origin] >= epoch
                else:
                    assert str(Xid.parse(origin.xid).parent) not in node.entities
            self.seen[number] = now

    @invariant()
    def a_feed_tells_each_state_once(self) -> None:
        """4: what comes again adds no change."""
        for node in self.federation.nodes:
            told: dict[str, list[int]] = {}
            for change in node.log:
                if change.kind == "version" and not self._is_told_anew(change.authority):
                    told.setdefault(change.authority + change.origin, []).append(change.epoch)
            for epochs in told.values():
                assert all(one < other for one, other in pairwise(epochs))

    def teardown(self) -> None:
        """7: however many hints were lost, everything comes by the feed; and then nothing more."""
        if not hasattr(self, "federation"):
            return
        federation = self.federation
        federation.drain()
        for target, author in federation.carried():
            self._compare(federation.nodes[target], federation.nodes[author], author)
        assert federation.drain() == 0
        if not self.restored:
            for index in reversed(range(len(federation.delayed))):
                federation.deliver_late(index)
            assert federation.drain() == 0

    def _compare(self, node: Node, peer: Node, author: int) -> None:
        ours, theirs = node.holds(peer.authority), peer.holds(peer.authority)
        if author not in self.restored:
            assert ours == theirs
            return
        # 10: what an authority has lost stays at its replicas, none of which it is ahead of,
        # unless a link says so.
        held = {origin: epoch for origin, epoch, _, _ in ours}
        for origin, epoch, _, _ in theirs:
            is_reported = Origin(peer.authority, origin) in node.conflicts
            assert held.get(origin, 0) >= epoch or is_reported

    def _is_told_anew(self, authority: str) -> bool:
        """Whether its word of two states may have one epoch, since it was restored."""
        return any(self.federation.nodes[each].authority == authority for each in self.restored)


def _epochs(node: Node) -> dict[Origin, int]:
    held = [*node.entities.values(), *node.tombstones.values()]
    return {Origin(each.authority, each.origin): each.epoch for each in held}


UNSHRUNK = settings(
    max_examples=300,
    stateful_step_count=40,
    phases=[Phase.generate],
    report_multiple_bugs=False,
    database=None,
)
ReplicationMachine.TestCase.settings = settings(max_examples=200, stateful_step_count=40)
TestReplication = ReplicationMachine.TestCase


def take_everything(local: LocalState, incoming: Copy, policy: Policy) -> Verdict:
    """A decision that lets a later copy be replaced by an earlier one."""
    verdict = decide(local, incoming, policy)
    return Verdict.APPLY if verdict is Verdict.STALE else verdict


def forget_deletions(local: LocalState, incoming: Copy, policy: Policy) -> Verdict:
    """A decision that lets what was deleted come back."""
    if isinstance(local.held, Tombstone):
        local = replace(local, held=None)
    return decide(local, incoming, policy)


def write_again(local: LocalState, incoming: Copy, policy: Policy) -> Verdict:
    """A decision that applies what is here already."""
    verdict = decide(local, incoming, policy)
    return Verdict.APPLY if verdict is Verdict.CURRENT else verdict


@pytest.mark.parametrize("wrong", [take_everything, forget_deletions, write_again])
def test_a_wrong_decision_is_found(
    monkeypatch: pytest.MonkeyPatch, wrong: Callable[[LocalState, Copy, Policy], Verdict]
) -> None:
    monkeypatch.setattr(batch, "decide", wrong)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(ReplicationMachine, settings=UNSHRUNK)
