"""The whole table of what is done with an incoming copy, against an oracle that knows no code."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.model.entity import Entity, Origin, Tombstone
from catalog.model.modelsource import default_model
from catalog.operations.feed import Verdict
from replication.deciding.batch import changes_of, decide_batch, raised_registry
from replication.deciding.copychecks import Copy, MalformedCopy, check_copies
from replication.deciding.decide import LocalState, decide
from replication.deciding.provenance import MOST_LEAP, CopyFilter, Policy

NOW = datetime(2030, 1, 1, tzinfo=UTC)
OURS, THEIRS, OTHERS = "urn:ours", "urn:theirs", "urn:others"
MODEL = default_model()
META = {"defaultversionid": "1", "defaultversionsticky": False}
ANYBODY = Policy(own=OURS, sender=THEIRS)


def group(
    epoch: int, *, authority: str = THEIRS, id: str = "g", text: str = "", kind: str = "group"
) -> Entity:
    xid = f"/messagegroups/{id}" if kind == "group" else f"/messagegroups/{id}/messages/m"
    return Entity(
        xid=xid,
        kind=kind,  # type: ignore[arg-type]  # a kind's name
        authority=authority,
        origin=xid,
        epoch=epoch,
        attributes={
            **({"description": text} if text else {}),
            **({} if kind == "group" else META),
        },
        createdat=NOW,
        modifiedat=NOW + timedelta(seconds=epoch % 2**30),
    ).sealed()


def end_of(entity: Entity, epoch: int | None = None) -> Tombstone:
    return Tombstone(
        xid=entity.xid,
        kind=entity.kind,
        authority=entity.authority,
        origin=entity.origin,
        epoch=entity.epoch + 1 if epoch is None else epoch,
        deletedat=NOW,
    )


epochs = st.integers(0, 4) | st.integers(MOST_LEAP - 1, MOST_LEAP + 4)
texts = st.sampled_from(["", "a", "b"])
authorities = st.sampled_from([OURS, THEIRS, OTHERS])


@st.composite
def copies(draw: st.DrawFn, authority: str | None = None) -> Copy:
    entity = group(
        draw(epochs), authority=authority or draw(authorities), text=draw(texts), kind=draw(kinds)
    )
    return end_of(entity, draw(epochs)) if draw(st.booleans()) else entity


kinds = st.sampled_from(["group", "resource"])
policies = st.builds(
    Policy,
    own=st.just(OURS),
    sender=authorities,
    authorities=st.none() | st.frozensets(authorities),
    scope=st.sampled_from([(), ("/messagegroups/g",), ("/endpoints",), ("/messagegroups/g/x",)]),
    direct=st.sampled_from(
        [
            (),
            (CopyFilter(authorities=frozenset({OTHERS})),),
            (CopyFilter(authorities=frozenset({THEIRS}), scope=("/endpoints",)),),
            (CopyFilter(authorities=frozenset({THEIRS}), scope=("/messagegroups/g",)),),
        ]
    ),
    is_trusted=st.booleans(),
    is_recovering=st.booleans(),
)


@st.composite
def situations(draw: st.DrawFn) -> tuple[LocalState, Copy, Policy]:
    incoming = draw(copies())
    held: Copy | None = None
    if draw(st.booleans()):
        same = group(draw(epochs), authority=incoming.authority, text=draw(texts))
        same = replace(same, kind=incoming.kind, xid=incoming.xid, origin=incoming.origin)
        same = replace(same, digest=same.content_digest())
        held = end_of(same, draw(epochs)) if draw(st.booleans()) else same
    occupant = draw(st.none() | st.just(group(1, authority="urn:squatter")))
    parent = draw(st.none() | st.builds(group, st.just(1), authority=authorities))
    policy = draw(policies)
    if held is not None and draw(st.booleans()):
        policy = replace(policy, overruled=frozenset({held.digest}))
    return LocalState(held=held, occupant=occupant, parent=parent), incoming, policy


def oracle(place: LocalState, incoming: Copy, policy: Policy) -> str:
    """The table as rows, first match wins, in words of its own."""
    mine, n = place.held, incoming.epoch
    lives, ends = isinstance(incoming, Entity), isinstance(incoming, Tombstone)
    alive, dead = isinstance(mine, Entity), isinstance(mine, Tombstone)
    m = -1 if mine is None else mine.epoch
    wanted = policy.authorities is None or incoming.authority in policy.authorities
    paths = [p.split("/") for p in policy.scope]
    steps = incoming.xid.split("/")
    near = not paths or any(all(a == b for a, b in zip(p, steps, strict=False)) for p in paths)
    itself = policy.sender == incoming.authority
    word = policy.is_trusted or itself
    spoken_for = any(
        incoming.authority in one.authorities and (not one.scope or "/messagegroups/g" in one.scope)
        for one in policy.direct
        if one.authorities is not None
    )
    final = itself and mine is not None and mine.digest in policy.overruled
    leaps = n - max(m, 0) > MOST_LEAP and not (itself and policy.is_trusted)
    is_child = incoming.kind != "group"
    parent = place.parent
    table: list[tuple[bool, str]] = [
        (incoming.authority == OURS and not policy.is_recovering, "own"),
        (not wanted or not near, "refused"),
        (spoken_for and not itself, "direct"),
        (leaps, "leapt"),
        (ends and m < n, "applied"),
        (ends and dead and n == m, "current"),
        (ends and final, "applied"),
        (ends and m > n, "ahead" if itself else "stale"),
        (ends and word, "applied"),
        (ends, "diverged"),
        (lives and alive and n > m, "applied"),
        (lives and alive and mine is not None and mine.digest == incoming.digest, "current"),
        (lives and alive and final, "applied"),
        (lives and alive and n < m, "ahead" if itself else "stale"),
        (lives and alive and word, "applied"),
        (lives and alive, "diverged"),
        (lives and dead and n <= m and not final, "ahead" if itself else "deleted"),
        (place.occupant is not None, "collided"),
        (is_child and parent is None, "invalid"),
        (is_child and parent is not None and parent.authority != incoming.authority, "collided"),
        (True, "applied"),
    ]
    return next(verdict for holds, verdict in table if holds)


@given(situations())
def test_every_situation_gets_the_verdict_of_the_table(
    situation: tuple[LocalState, Copy, Policy],
) -> None:
    assert decide(*situation).value == oracle(*situation)


@pytest.mark.parametrize(
    ("held", "incoming", "verdict"),
    [
        (None, group(1), "applied"),
        (end_of(group(3)), group(5), "applied"),
        (end_of(group(3)), group(4), "ahead"),
        (group(1), group(2), "applied"),
        (group(2), group(1), "ahead"),
        (group(1), group(1), "current"),
        (group(1), group(1, text="x"), "applied"),
        (group(3), end_of(group(3)), "applied"),
        (group(5), end_of(group(3)), "ahead"),
        (None, end_of(group(3)), "applied"),
        (end_of(group(3)), end_of(group(3)), "current"),
        (None, group(1, authority=OURS), "own"),
    ],
)
def test_the_rows_of_the_table_by_example(held: Copy | None, incoming: Copy, verdict: str) -> None:
    assert decide(LocalState(held=held), incoming, ANYBODY) == verdict


def test_a_divergence_that_a_relay_brings_is_kept_out_and_reported() -> None:
    relay = replace(ANYBODY, sender=OTHERS)
    assert decide(LocalState(held=group(1)), group(1, text="x"), relay) is Verdict.DIVERGED
    repair = replace(relay, is_trusted=True)
    assert decide(LocalState(held=group(1)), group(1, text="x"), repair) is Verdict.APPLY


@pytest.mark.parametrize("held", [group(5), end_of(group(4))])
@pytest.mark.parametrize("incoming", [group(2), end_of(group(1))])
def test_a_relay_is_told_that_a_later_copy_is_here_and_an_authority_that_its_own_is_behind(
    held: Copy, incoming: Copy
) -> None:
    """An older copy by a relay is usual; one by its authority means that something is wrong."""
    relay = replace(ANYBODY, sender=OTHERS)
    place = LocalState(held=held)
    assert decide(place, incoming, relay) in (Verdict.STALE, Verdict.DELETED)
    assert decide(place, incoming, ANYBODY) is Verdict.AHEAD
    overruling = replace(ANYBODY, overruled=frozenset({held.digest}))
    assert decide(place, incoming, overruling) is Verdict.APPLY
    assert decide(place, incoming, replace(overruling, sender=OTHERS)) is not Verdict.APPLY


@pytest.mark.parametrize("held", [None, group(7), end_of(group(6))])
@pytest.mark.parametrize("leap", [MOST_LEAP, MOST_LEAP + 1, 2**53 - 1])
def test_an_epoch_that_leaps_is_kept_out_unless_the_authority_repairs(
    held: Copy | None, leap: int
) -> None:
    here = 0 if held is None else held.epoch
    far = min(here + leap, 2**53 - 1)
    for incoming in (group(far), end_of(group(0), far)):
        wanted = Verdict.APPLY if leap == MOST_LEAP else Verdict.LEAPT
        assert decide(LocalState(held=held), incoming, ANYBODY) is wanted
        repair = replace(ANYBODY, is_trusted=True)
        assert decide(LocalState(held=held), incoming, repair) is Verdict.APPLY
        by_relay = replace(repair, sender=OTHERS)
        assert decide(LocalState(held=held), incoming, by_relay) is wanted


def test_relays_bring_nothing_of_an_authority_whose_own_source_is_followed() -> None:
    direct = CopyFilter(authorities=frozenset({THEIRS}), scope=("/messagegroups/g",))
    relay = replace(ANYBODY, sender=OTHERS, direct=(direct,))
    assert decide(LocalState(), group(1), relay) is Verdict.DIRECT
    assert decide(LocalState(), end_of(group(1)), relay) is Verdict.DIRECT
    assert decide(LocalState(), group(1), replace(relay, sender=THEIRS)) is Verdict.APPLY
    assert decide(LocalState(), group(1, id="beyond"), relay) is Verdict.APPLY
    assert decide(LocalState(), group(1, authority=OTHERS), relay) is Verdict.APPLY


class Store:
    """The entities of a node, in memory, written as a decision says."""

    def __init__(self) -> None:
        self.entities: dict[str, Entity] = {}
        self.tombstones: dict[Origin, Tombstone] = {}

    def receive(self, *batch: Any, policy: Policy = ANYBODY) -> list[Verdict]:
        decision = decide_batch(check_copies(batch, MODEL), self.entities, self.tombstones, policy)
        changes = changes_of(decision, self.entities, None, MODEL)
        assert bool(changes) is not decision.is_empty
        for xid in decision.dropped:
            del self.entities[xid]
        for tombstone in (*decision.deleted, *decision.remembered):
            self.entities.pop(tombstone.xid, None)
            self.tombstones[Origin(tombstone.authority, tombstone.origin)] = tombstone
        for origin in decision.revived:
            del self.tombstones[origin]
        for entity in decision.written:
            self.entities[entity.xid] = entity
        return [finding.verdict for finding in decision.findings]

    @property
    def state(self) -> tuple[Any, Any]:
        return self.entities, self.tombstones


@given(st.lists(copies(THEIRS), max_size=6), copies(THEIRS))
def test_what_was_applied_is_current_when_it_comes_again(before: list[Copy], copy: Copy) -> None:
    store = Store()
    for each in before:
        store.receive(each)
    first = store.receive(copy)
    again = store.receive(copy)
    if first == [Verdict.APPLY]:
        assert again == [Verdict.CURRENT]
    else:
        assert again == first


def test_a_deletion_is_logged_though_another_takes_the_place_at_once() -> None:
    """Followers of this node would keep what was deleted, and refuse what came after it."""
    here = {entity.xid: entity for entity in (group(1), group(1, kind="resource"))}
    ends = [end_of(entity) for entity in here.values()]
    other = [group(1, authority=OTHERS), group(1, authority=OTHERS, kind="resource")]
    decision = decide_batch([*other, *ends], here, {}, ANYBODY)
    changes = changes_of(decision, here, None, MODEL)
    assert [(c.xid, c.action, c.authority) for c in changes] == [
        (xid, action, authority)
        for xid in here
        for action, authority in (("deleted", THEIRS), ("created", OTHERS))
    ]


@given(
    st.lists(st.booleans(), min_size=1, max_size=5).flatmap(
        lambda lives: st.tuples(
            st.just(lives),
            st.permutations(range(len(lives))),
            st.lists(st.integers(0, len(lives) - 1), max_size=4),
        )
    )
)
def test_copies_of_one_origin_give_the_same_state_in_any_order_and_number(
    case: tuple[list[bool], list[int], list[int]],
) -> None:
    lives, order, repeated = case
    history: list[Copy] = [
        group(n, text=str(n)) if alive else end_of(group(0), n) for n, alive in enumerate(lives)
    ]
    in_order, shuffled = Store(), Store()
    for copy in history:
        in_order.receive(copy)
    for index in (*repeated, *order):
        shuffled.receive(history[index])
    assert shuffled.state == in_order.state
    whole = Store()
    whole.receive(*(history[index] for index in order))
    assert whole.state == in_order.state


@given(st.lists(copies(THEIRS), max_size=12), policies)
def test_no_epoch_is_ever_lowered(batch: list[Copy], policy: Policy) -> None:
    store = Store()
    highest: dict[Origin, int] = {}
    for copy in batch:
        store.receive(copy, policy=policy)
        held = {Origin(e.authority, e.origin): e.epoch for e in store.entities.values()}
        held |= {origin: t.epoch for origin, t in store.tombstones.items()}
        assert all(held[origin] >= highest[origin] for origin in highest.keys() & held.keys())
        highest |= held


def test_a_batch_may_come_in_any_order() -> None:
    family = [group(1), group(1, kind="resource"), end_of(group(4, id="old"))]
    results = []
    for order in permutations(family):
        store = Store()
        store.receive(*order)
        results.append(store.state)
    assert all(result == results[0] for result in results)
    assert len(results[0][0]) == 2


def test_children_of_a_collided_parent_collide_too() -> None:
    store = Store()
    store.receive(group(1, authority=OTHERS))
    assert store.receive(group(1), group(1, kind="resource")) == [Verdict.COLLIDED] * 2
    assert {e.authority for e in store.entities.values()} == {OTHERS}


def test_ids_that_differ_in_case_collide() -> None:
    store = Store()
    store.receive(group(1, id="G", authority=OTHERS))
    assert store.receive(group(1, id="g")) == [Verdict.COLLIDED]


def test_an_id_that_was_deleted_and_made_anew_in_another_case_moves_in_one_batch() -> None:
    store = Store()
    store.receive(group(1, id="G"))
    assert store.receive(group(1, id="g"), end_of(group(1, id="G"))) == [Verdict.APPLY] * 2
    assert set(store.entities) == {"/messagegroups/g"}


def test_what_is_below_a_deleted_parent_goes_with_it_and_its_tombstone_is_still_news() -> None:
    store = Store()
    child = group(2, kind="resource")
    store.receive(group(1), child)
    assert store.receive(end_of(group(1))) == [Verdict.APPLY]
    assert store.entities == {}
    assert store.receive(child) == [Verdict.INVALID]
    assert store.receive(end_of(child)) == [Verdict.APPLY]


def test_an_entity_of_an_unknown_type_or_of_another_place_is_invalid() -> None:
    store = Store()
    alien = replace(group(1), xid="/aliens/a", origin="/aliens/a")
    moved = replace(group(1), xid="/messagegroups/elsewhere")
    liar = replace(group(1), kind="resource")
    sound = group(1, id="sound")
    broken = MalformedCopy(authority="", origin="", xid="", epoch=0, reason="it is not JSON")
    verdicts = store.receive(alien, moved, liar, broken, sound)
    assert sorted(verdicts) == ["applied", *["invalid"] * 4]
    assert set(store.entities) == {sound.xid}


def test_the_registry_rises_once_for_all_groups_of_a_batch() -> None:
    registry = replace(group(7), xid="/", origin="/", kind="registry", authority=OURS)
    decision = decide_batch([group(1), group(1, id="h")], {}, {}, ANYBODY)
    raised = raised_registry(registry, decision, {}, NOW + timedelta(days=1))
    assert raised is not None
    assert (raised.epoch, raised.digest) == (8, raised.content_digest())
    again = decide_batch([group(2)], {"/messagegroups/g": group(1)}, {}, ANYBODY)
    assert raised_registry(registry, again, {"/messagegroups/g": group(1)}, NOW) is None
