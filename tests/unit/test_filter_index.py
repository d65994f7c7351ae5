"""The index of filters leaves out no subscriber that an event matches."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.subscriptions.delivery.filters import (
    FilterIndex,
    Required,
    compile_filters,
    required_of,
)
from catalog.subscriptions.stored.subscriptions import SubscriptionDefinition

TEXTS = st.text("ab", min_size=1, max_size=3)
CONDITIONS = st.dictionaries(st.sampled_from(["subject", "type", "id"]), TEXTS, min_size=1)
SIMPLE = st.builds(
    lambda dialect, given: {dialect: given},
    st.sampled_from(["exact", "prefix", "suffix"]),
    CONDITIONS,
) | st.just({"sql": "subject = 'a'"})
FILTERS = st.recursive(
    SIMPLE,
    lambda inner: (
        st.builds(lambda each: {"not": each}, inner)
        | st.builds(
            lambda dialect, several: {dialect: several},
            st.sampled_from(["all", "any"]),
            st.lists(inner, min_size=1, max_size=3),
        )
    ),
    max_leaves=6,
)
DEFINITIONS = st.builds(
    lambda filters, types: SubscriptionDefinition(
        sink="http://s", filters=tuple(filters), types=tuple(types)
    ),
    st.lists(FILTERS, max_size=3),
    st.lists(TEXTS, max_size=2),
)
EVENTS = st.fixed_dictionaries({"type": TEXTS, "id": TEXTS}, optional={"subject": TEXTS})


def candidates(index: FilterIndex[int], event: dict[str, str]) -> set[int]:
    return index.unconditional | {*index.candidates(event)}


@given(st.lists(DEFINITIONS, max_size=6), st.lists(EVENTS, min_size=1, max_size=6))
def test_every_subscriber_that_an_event_matches_is_a_candidate(
    definitions: list[SubscriptionDefinition], events: list[dict[str, str]]
) -> None:
    index: FilterIndex[int] = FilterIndex()
    for number, definition in enumerate(definitions):
        index.add(number, required_of(definition))
    for event in events:
        matching = {
            number
            for number, each in enumerate(definitions)
            if compile_filters(each.filters, types=each.types)(event)
        }
        assert matching <= candidates(index, event)


@given(st.lists(DEFINITIONS, max_size=6), st.data(), EVENTS)
def test_a_subscriber_that_was_removed_is_no_candidate(
    definitions: list[SubscriptionDefinition], data: st.DataObject, event: dict[str, str]
) -> None:
    index: FilterIndex[int] = FilterIndex()
    required = [required_of(each) for each in definitions]
    for number, each in enumerate(required):
        index.add(number, each)
    kept = {number for number in range(len(required)) if data.draw(st.booleans())}
    before = candidates(index, event)
    for number, each in enumerate(required):
        if number not in kept:
            index.remove(number, each)
    assert candidates(index, event) == before & kept


@pytest.mark.parametrize(
    ("definition", "required"),
    [
        ({}, None),
        ({"filters": ({"suffix": {"subject": "a"}},)}, None),
        ({"filters": ({"not": {"exact": {"subject": "a"}}},)}, None),
        ({"types": ("a", "b")}, Required("type", frozenset({"a", "b"}))),
        (
            {"types": ("a",), "filters": ({"prefix": {"subject": "/g"}},)},
            Required("subject", frozenset({"/g"}), is_prefix=True),
        ),
        (
            {"filters": ({"all": [{"prefix": {"type": "/g"}}, {"exact": {"subject": "/1"}}]},)},
            Required("subject", frozenset({"/1"})),
        ),
        (
            {"filters": ({"any": [{"exact": {"subject": "/a"}}, {"exact": {"subject": "/b"}}]},)},
            Required("subject", frozenset({"/a", "/b"})),
        ),
        ({"filters": ({"any": [{"exact": {"subject": "/a"}}, {"exact": {"type": "t"}}]},)}, None),
    ],
)
def test_the_requirement_that_the_fewest_events_meet_is_chosen(
    definition: dict[str, Any], required: Required | None
) -> None:
    assert required_of(SubscriptionDefinition(sink="http://s", **definition)) == required


def test_one_event_among_many_subscribers_has_few_candidates() -> None:
    index: FilterIndex[int] = FilterIndex()
    for number in range(10_000):
        subject = f"/messagegroups/g{number // 10}"
        filters = ({"prefix": {"subject": f"{subject}/"}},)
        index.add(number, required_of(SubscriptionDefinition(sink="http://s", filters=filters)))
    event = {"subject": "/messagegroups/g7/messages/m", "type": "io.xregistry.message.updated"}
    assert candidates(index, event) == {*range(70, 80)}
