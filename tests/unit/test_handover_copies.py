"""The copies of a group that changes hands, as its giver makes and its taker checks them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from catalog.keys.entitysignature import EntitySigner, new_seed
from catalog.model.entity import Entity, Tombstone
from catalog.model.modelsource import default_model
from catalog.model.xid import Xid
from replication.deciding.copychecks import Copy, Incoming, MalformedCopy
from replication.deciding.trust import Trust
from replication.handover.handovercopies import Expectation, Unfit, succeed

NOW = datetime(2026, 1, 1, tzinfo=UTC)
GIVER, TAKER = "urn:giver", "urn:taker"
GROUP = "/messagegroups/g"
MESSAGE = f"{GROUP}/messages/m"
SIGNER = EntitySigner.of(GIVER, 1, new_seed())


def entity(xid: str, epoch: int = 1, **attributes: object) -> Entity:
    return Entity(
        xid=xid,
        kind=Xid.parse(xid).kind,
        authority=GIVER,
        origin=xid,
        epoch=epoch,
        attributes=attributes,
        createdat=NOW,
        modifiedat=NOW,
    ).sealed()


GIVEN = [
    entity(GROUP, 3),
    entity(MESSAGE, 2, defaultversionid="1", defaultversionsticky=False),
    entity(f"{MESSAGE}/versions/1", 7, ancestorid="1"),
]
GONE = Tombstone(
    xid=f"{GROUP}/messages/gone",
    kind="resource",
    authority=GIVER,
    origin=f"{GROUP}/messages/gone",
    epoch=4,
    deletedat=NOW,
)


def copies(floor: int = 0) -> list[Copy]:
    made = succeed(GIVEN, [GONE], TAKER, floor, NOW)
    return [*made.ends, *made.successors, *made.remembered]


def expectation(floor: int = 0, trust: Trust | None = None) -> Expectation:
    return Expectation(
        xid=GROUP,
        giver=GIVER,
        taker=TAKER,
        floor=floor,
        model=default_model(),
        trust=trust or Trust(),
    )


def signed(copy: Copy) -> Copy:
    return SIGNER.signed(copy)


@pytest.mark.parametrize("floor", [0, 5, 100])
def test_all_that_is_the_takers_is_above_the_givers_ends_and_above_all_it_ever_deleted(
    floor: int,
) -> None:
    made = succeed(GIVEN, [GONE], TAKER, floor, NOW)
    assert [end.epoch for end in made.ends] == [4, 3, 8]
    assert [successor.epoch for successor in made.successors] == [
        max(e, floor) + 1 for e in (4, 3, 8)
    ]
    assert [tombstone.epoch for tombstone in made.remembered] == [max(4, floor) + 1]
    assert all(successor.is_intact() for successor in made.successors)
    assert [h.published for h in made.successors] == [e.published for e in GIVEN]
    assert expectation(floor).check(copies(floor)) == copies(floor)


def test_a_damaged_entity_is_not_handed_over() -> None:
    damaged = replace(GIVEN[0], attributes={"name": "x"})
    with pytest.raises(Unfit, match="does not match its content"):
        succeed([damaged], [], TAKER, 0, NOW)


_SPOILT: list[tuple[str, Callable[[list[Copy]], list[Incoming]]]] = [
    ("did not come whole", lambda c: [*c[1:]]),
    ("did not come whole", lambda c: [each for each in c if each.origin != GROUP]),
    ("did not come whole", lambda c: []),
    ("came twice", lambda c: [*c, c[-2]]),
    (
        "came as that of urn:x",
        lambda c: [replace(e, authority="urn:x") if e is c[-1] else e for e in c],
    ),
    (
        "does not match",
        lambda c: [replace(e, attributes={"name": "x"}) if e is c[3] else e for e in c],
    ),
    (f"with the epoch {2**53 - 1}", lambda c: _with_epoch(c, 2**53 - 1)),
    ("with the epoch 1", lambda c: _with_epoch(c, 1)),
    ("it is no line", lambda c: [*c, _malformed("it is no line")]),
    ("is not in the group", lambda c: [*c, *_elsewhere()]),
]


def _with_epoch(made: list[Copy], epoch: int) -> list[Incoming]:
    successor = made[3]
    assert isinstance(successor, Entity)
    return [
        replace(successor, epoch=epoch).sealed() if copy is successor else copy for copy in made
    ]


def _malformed(reason: str) -> MalformedCopy:
    return MalformedCopy(authority="", origin="", xid="", epoch=0, reason=reason)


def _elsewhere() -> list[Copy]:
    made = succeed([entity("/messagegroups/other")], [], TAKER, 0, NOW)
    return [*made.ends, *made.successors]


@pytest.mark.parametrize(("told", "spoil"), _SPOILT)
def test_what_did_not_come_as_it_should_is_not_taken(
    told: str, spoil: Callable[[list[Copy]], list[Incoming]]
) -> None:
    with pytest.raises(Unfit, match=told):
        expectation().check(spoil(copies()))


def test_a_taker_that_trusts_keys_of_the_giver_takes_only_what_these_have_signed() -> None:
    """What becomes the taker's loses the giver's signature."""
    trust = Trust(keys={GIVER: {SIGNER.id: SIGNER.public.key}})
    taken = expectation(trust=trust).check([signed(copy) for copy in copies()])
    assert {copy.authority for copy in taken if copy.signature is not None} == {GIVER}
    for number in range(len(copies())):
        made = [signed(copy) if n != number else copy for n, copy in enumerate(copies())]
        with pytest.raises(Unfit, match="it has no signature"):
            expectation(trust=trust).check(made)
