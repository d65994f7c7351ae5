"""The decision whether a link has to ask before it loses entities."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from catalog.model.entity import Origin
from catalog.settings import Settings
from catalog.store.links import Link, LinkDefinition
from replication.applying.deletionlimit import passes_limit, question_about

numbers = st.integers(0, 10_000)
limits = st.builds(
    Settings.model_construct,
    link_delete_share=st.floats(0, 1),
    link_delete_count=st.integers(0, 100),
)
USUAL = Settings(link_delete_share=0.1, link_delete_count=20)
LINK = Link(id="in", definition=LinkDefinition(source="http://a"), authority="urn:a")
origins = st.sets(
    st.builds(Origin, st.sampled_from(["urn:a", "urn:b"]), st.from_regex(r"/g/[a-z]{1,5}"))
)


def test_few_losses_and_small_shares_pass() -> None:
    assert not passes_limit(USUAL, 20, 20)
    assert passes_limit(USUAL, 21, 21)
    assert not passes_limit(USUAL, 100, 1000)
    assert passes_limit(USUAL, 101, 1000)


@given(numbers, limits)
def test_what_loses_nothing_never_asks(held: int, limit: Settings) -> None:
    assert not passes_limit(limit, 0, held)


@given(numbers, numbers, numbers, limits)
def test_more_losses_ask_where_fewer_do(losses: int, more: int, held: int, limit: Settings) -> None:
    if passes_limit(limit, losses, held):
        assert passes_limit(limit, losses + more, held)
        assert passes_limit(limit, losses, max(0, held - more))


@given(origins, origins)
def test_each_list_of_losses_has_its_digest_whatever_its_order(
    some: set[Origin], others: set[Origin]
) -> None:
    asked, again = question_about(LINK, some, 9), question_about(LINK, reversed([*some]), 10)
    assert asked.digest == again.digest
    assert (asked.digest == question_about(LINK, others, 9).digest) is (some == others)


def test_a_question_shows_the_first_of_many() -> None:
    lost = [Origin("urn:a", f"/g/{number:03}") for number in range(150)]
    shown = question_about(LINK, lost, 200)
    assert (shown.deletions, shown.of, len(shown.first)) == (150, 200, 100)
    assert (shown.first[0].authority, shown.first[0].origin) == ("urn:a", "/g/000")
