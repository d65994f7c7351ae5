"""However nodes are linked and whatever is lost on the way, in the end they agree.

The nodes are in memory, but they decide and log with the code that nodes with a database use.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from catalog.model.entity import Tombstone
from catalog.model.xid import Xid
from replication.deciding.copychecks import Copy
from tests.unit.federationmodel import BEGIN, NODES, TOPOLOGIES, Federation, assert_agreement

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
        copy: Copy = victim.sealed(xid, Xid.parse(xid).kind, epoch, "forged", BEGIN)
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
