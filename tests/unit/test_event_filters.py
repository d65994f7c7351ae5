"""What the filters of a subscription let pass."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.subscriptions.delivery.filters import (
    MAX_DEPTH,
    FilterError,
    compile_filters,
    count_conditions,
)

Expression = dict[str, Any]

names = st.sampled_from(["type", "subject", "source", "authority", "nothere"])
texts = st.text("ab/", min_size=1, max_size=4)
events = st.fixed_dictionaries(
    {"type": texts, "subject": texts, "source": texts}, optional={"authority": texts}
)
comparisons = st.builds(
    lambda dialect, value: {dialect: value},
    st.sampled_from(["exact", "prefix", "suffix"]),
    st.dictionaries(names, texts, min_size=1, max_size=3),
)
expressions = st.recursive(
    comparisons,
    lambda inner: (
        st.builds(
            lambda dialect, several: {dialect: several},
            st.sampled_from(["all", "any"]),
            st.lists(inner, min_size=1, max_size=3),
        )
        | st.builds(lambda one: {"not": one}, inner)
    ),
    max_leaves=8,
)


def holds(expression: Expression, event: dict[str, str]) -> bool:
    return compile_filters([expression])(event)


@given(expressions, events)
def test_not_not_changes_nothing(expression: Expression, event: dict[str, str]) -> None:
    assert holds({"not": {"not": expression}}, event) == holds(expression, event)


@given(expressions, events)
def test_not_is_the_opposite(expression: Expression, event: dict[str, str]) -> None:
    assert holds({"not": expression}, event) is not holds(expression, event)


@given(st.lists(expressions, min_size=1, max_size=4), events)
def test_not_all_is_any_not(several: list[Expression], event: dict[str, str]) -> None:
    inverted = [{"not": each} for each in several]
    assert holds({"not": {"all": several}}, event) == holds({"any": inverted}, event)
    assert holds({"not": {"any": several}}, event) == holds({"all": inverted}, event)


@given(names, texts, events)
def test_exact_is_prefix_and_suffix_of_the_same_length(
    name: str, text: str, event: dict[str, str]
) -> None:
    both = {"all": [{"prefix": {name: text}}, {"suffix": {name: text}}]}
    is_as_long = len(event.get(name, "")) == len(text)
    assert holds({"exact": {name: text}}, event) == (holds(both, event) and is_as_long)


@given(st.lists(expressions, max_size=4), events)
def test_several_filters_are_all_of_them(several: list[Expression], event: dict[str, str]) -> None:
    assert compile_filters(several)(event) == all(holds(each, event) for each in several)


def test_no_filter_lets_everything_pass() -> None:
    assert compile_filters([])({})


def test_each_dialect_compares_as_its_name_says() -> None:
    event = {"type": "io.xregistry.group.created", "subject": "/gs/g"}
    assert holds({"exact": {"subject": "/gs/g"}}, event)
    assert not holds({"exact": {"subject": "/gs/G"}}, event)
    assert holds({"prefix": {"type": "io.", "subject": "/gs"}}, event)
    assert not holds({"prefix": {"type": "io.", "subject": "gs"}}, event)
    assert holds({"suffix": {"type": ".created"}}, event)
    assert not holds({"suffix": {"type": ".deleted"}}, event)
    assert holds({"any": [{"exact": {"subject": "x"}}, {"exact": {"subject": "/gs/g"}}]}, event)
    assert not holds({"all": [{"exact": {"subject": "x"}}, {"prefix": {"type": "io"}}]}, event)


def test_an_attribute_that_an_event_lacks_matches_nothing() -> None:
    for dialect in ("exact", "prefix", "suffix"):
        assert not holds({dialect: {"absent": "x"}}, {"type": "x"})


def test_types_and_source_narrow_what_passes() -> None:
    passes = compile_filters([], types=["a", "b"], source="http://here")
    assert passes({"type": "b", "source": "http://here"})
    assert not passes({"type": "c", "source": "http://here"})
    assert not passes({"type": "a", "source": "http://there"})
    assert not passes({})


@pytest.mark.parametrize(
    "expression",
    [
        {"xpath": "TRUE"},
        {"exact": {}},
        {"exact": {"type": ""}},
        {"exact": {"": "x"}},
        {"exact": {"Type": "x"}},
        {"exact": {"type": 1}},
        {"exact": "x"},
        {"prefix": ["x"]},
        {"all": []},
        {"any": {"exact": {"type": "x"}}},
        {"not": [{"exact": {"type": "x"}}]},
        {"exact": {"type": "x"}, "prefix": {"type": "x"}},
        {},
        "exact",
        None,
        {"exact": {"type": "x" * 5000}},
    ],
)
def test_what_is_not_a_filter_is_refused(expression: Any) -> None:
    with pytest.raises(FilterError):
        compile_filters([expression])


def nested(depth: int) -> Expression:
    expression: Expression = {"exact": {"type": "x"}}
    for _ in range(depth - 1):
        expression = {"not": expression}
    return expression


def test_filters_can_be_nested_only_so_deep() -> None:
    compile_filters([nested(MAX_DEPTH)])
    with pytest.raises(FilterError, match="deeper"):
        compile_filters([nested(MAX_DEPTH + 1)])


@pytest.mark.parametrize(
    ("filters", "count"),
    [
        (None, 0),
        ([], 0),
        ("senseless", 0),
        ([{"exact": {"type": "x"}}], 2),
        ([{"exact": {"type": "x", "subject": "y"}}], 3),
        ([{"any": [{"prefix": {"type": "x"}}, {"not": {"suffix": {"type": "x"}}}]}], 6),
        ([[[{"exact": [{"type": 1}]}]]], 2),
    ],
)
def test_expressions_and_attributes_are_counted(filters: Any, count: int) -> None:
    """Also in filters that do not compile: they are counted first."""
    assert count_conditions(filters) == count


def test_an_unsupported_dialect_is_named_in_the_error() -> None:
    with pytest.raises(FilterError, match='"xpath" is not supported'):
        compile_filters([{"xpath": "TRUE"}])
