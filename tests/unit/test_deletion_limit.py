"""The decision whether a link has to ask before it loses entities."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from catalog.model.entity import Origin
from catalog.store.links import Link, LinkDefinition
from replication.applying.deletionlimit import DeletionLimit, Question

numbers = st.integers(0, 10_000)
limits = st.builds(DeletionLimit, share=st.floats(0, 1), count=st.integers(0, 100))
USUAL = DeletionLimit(share=0.1, count=20)
LINK = Link(id="in", definition=LinkDefinition(source="http://a"), authority="urn:a")
origins = st.sets(
    st.builds(Origin, st.sampled_from(["urn:a", "urn:b"]), st.from_regex(r"/g/[a-z]{1,5}"))
)


def test_few_losses_and_small_shares_pass() -> None:
    assert not USUAL.is_passed(20, 20)
    assert USUAL.is_passed(21, 21)
    assert not USUAL.is_passed(100, 1000)
    assert USUAL.is_passed(101, 1000)


@given(numbers, limits)
def test_what_loses_nothing_never_asks(held: int, limit: DeletionLimit) -> None:
    assert not limit.is_passed(0, held)


@given(numbers, numbers, numbers, limits)
def test_more_losses_ask_where_fewer_do(
    losses: int, more: int, held: int, limit: DeletionLimit
) -> None:
    if limit.is_passed(losses, held):
        assert limit.is_passed(losses + more, held)
        assert limit.is_passed(losses, max(0, held - more))


@given(origins, origins)
def test_each_list_of_losses_has_its_digest_whatever_its_order(
    some: set[Origin], others: set[Origin]
) -> None:
    asked, again = Question.about(LINK, some, 9), Question.about(LINK, reversed([*some]), 10)
    assert asked.digest == again.digest
    assert (asked.digest == Question.about(LINK, others, 9).digest) is (some == others)


def test_a_question_shows_the_first_of_many() -> None:
    lost = [Origin("urn:a", f"/g/{number:03}") for number in range(150)]
    shown = Question.about(LINK, lost, 200).shown()
    assert (shown.deletions, shown.of, len(shown.first)) == (150, 200, 100)
    assert (shown.first[0].authority, shown.first[0].origin) == ("urn:a", "/g/000")
