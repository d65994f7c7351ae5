"""Every matcher accepts what it stands for, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from xregistry_conformance.matching import (
    COMPARISONS,
    KINDS,
    MISSING,
    RULES,
    CaseError,
    Saved,
    differences,
    fill,
)

SAVED: Saved = {
    "one": 1,
    "when": "2024-01-01T00:00:00Z",
    "base": "http://x.example/a.b",
    "m": {"a": [1]},
}

MATCHING: list[tuple[Any, Any]] = [
    (1, 1),
    (1, 1.0),
    ("a", "a"),
    (True, True),
    (None, None),
    ({}, {"a": 1}),
    ({"a": 1}, {"a": 1, "b": 2}),
    ({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}),
    ([1, {"a": 1}], [1, {"a": 1, "b": 2}]),
    ({"a": "$absent"}, {"b": 1}),
    ({"a": "$any"}, {"a": None}),
    ({"a": "$null"}, {"a": None}),
    ("$string", ""),
    ("$text", "x"),
    ("$bool", False),
    ("$int", -1),
    ("$uint", 0),
    ("$object", {}),
    ("$array", []),
    ("$timestamp", "2024-04-30T12:00:00.123Z"),
    ("$url", "https://example.com/a$details"),
    ("$match:a.c", "abc"),
    ("$match:${base}/.+", "http://x.example/a.b/c"),
    ("$search:b", "abc"),
    ("$without:b", "ac"),
    ({"a": "$without:b"}, {}),
    ("$one", 1),
    ("$m", {"a": [1]}),
    ("${base}/d", "http://x.example/a.b/d"),
    ({"${one}": "x"}, {"1": "x"}),
    ("$not:one", 2),
    ("$greater:one", 2),
    ("$greater:when", "2024-01-01T00:00:00.1Z"),
    ("$notless:one", 1),
    ("$notless:when", "2024-01-01T00:00:00Z"),
    ("$$schema", "$schema"),
    ({"$$schema": "x"}, {"$schema": "x"}),
    ({"$exactly": {"a": "$int", "b": "$absent"}}, {"a": 1}),
    ({"$exactly": "$m"}, {"a": [1]}),
    ({"$keys": ["b", "a"]}, {"a": 1, "b": 2}),
    ({"$ordered": ["b", "a"]}, {"b": 1, "a": 2}),
    ({"$items": [1, {"a": 1}]}, [{"a": 1, "b": 2}, 1]),
    ({"$includes": [1, 1]}, [1, 2, 1]),
    ({"$excludes": [3]}, [1, 2]),
    ({"$excludes": ["b"]}, {"a": 1}),
    ({"$count": 2}, {"a": 1, "b": 2}),
    ({"$count": 0}, []),
    ({"$each": "$int"}, {"a": 1, "b": 2}),
    ({"$each": {"a": 1}}, [{"a": 1}]),
]

OTHER: list[tuple[Any, Any]] = [
    (1, 2),
    (1, True),
    (True, 1),
    (0, False),
    (1, "1"),
    ("1", 1),
    ("a", "A"),
    (None, MISSING),
    (None, 0),
    ({}, []),
    ({}, None),
    ({"a": 1}, {}),
    ({"a": 1}, {"a": None}),
    ({"a": 1}, [1]),
    ({"a": None}, {}),
    ({"a": {"b": 1}}, {"a": {"b": 2}}),
    ([1], [1, 2]),
    ([1, 2], [2, 1]),
    ([], {}),
    ({"a": "$absent"}, {"a": None}),
    ({"a": "$any"}, {}),
    ({"a": "$null"}, {}),
    ("$null", 0),
    ("$string", 1),
    ("$text", ""),
    ("$bool", "true"),
    ("$bool", 1),
    ("$int", True),
    ("$int", 1.5),
    ("$uint", -1),
    ("$uint", "1"),
    ("$object", []),
    ("$array", {}),
    ("$timestamp", "2024-04-30T12:00:00+02:00"),
    ("$timestamp", "2024-04-30"),
    ("$timestamp", 1),
    ("$url", "/relative"),
    ("$url", "#/a"),
    ("$match:a.c", "abcd"),
    ("$match:1", 1),
    ("$match:${base}/.+", "http://x.example/aXb/c"),
    ("$search:z", "abc"),
    ("$search:a", MISSING),
    ("$without:b", "abc"),
    ("$without:b", 1),
    ("$one", 2),
    ("$one", True),
    ("$m", {"a": [1], "b": 2}),
    ("$m", {}),
    ("${base}/d", "http://x.example/a.b/e"),
    ("$not:one", 1),
    ("$not:one", MISSING),
    ("$greater:one", 1),
    ("$greater:one", "x"),
    ("$greater:one", MISSING),
    ("$greater:when", "2024-01-01T00:00:00Z"),
    ("$notless:one", 0),
    ("$notless:when", "2023-12-31T23:59:59Z"),
    ("$save:x:uint", -1),
    ("$$schema", "schema"),
    ({"$exactly": {"a": 1}}, {"a": 1, "b": 2}),
    ({"$exactly": {"a": 1}}, {}),
    ({"$exactly": {}}, []),
    ({"$exactly": "$m"}, {"a": [1], "b": 1}),
    ({"$keys": ["a"]}, {"a": 1, "b": 2}),
    ({"$keys": ["a"]}, ["a"]),
    ({"$ordered": ["b", "a"]}, {"a": 2, "b": 1}),
    ({"$ordered": ["a"]}, {"a": 1, "b": 2}),
    ({"$items": [1]}, [1, 1]),
    ({"$items": [1, 2]}, [1, 1]),
    ({"$includes": [1, 1]}, [1, 2]),
    ({"$includes": [1]}, {"1": 1}),
    ({"$excludes": [2]}, [1, 2]),
    ({"$excludes": ["a"]}, {"a": 1}),
    ({"$excludes": [1]}, MISSING),
    ({"$count": 2}, [1]),
    ({"$count": 0}, MISSING),
    ({"$each": "$int"}, {"a": 1, "b": "x"}),
    ({"$each": "$int"}, []),
]


@pytest.mark.parametrize(("expected", "actual"), MATCHING)
def test_an_expectation_accepts_what_it_stands_for(expected: Any, actual: Any) -> None:
    assert differences(expected, actual, dict(SAVED), "it") == []


@pytest.mark.parametrize(("expected", "actual"), OTHER)
def test_an_expectation_refuses_everything_else(expected: Any, actual: Any) -> None:
    assert differences(expected, actual, dict(SAVED), "it") != []


@pytest.mark.parametrize("name", sorted([*KINDS, *COMPARISONS, *RULES, "save"]))
def test_every_matcher_is_shown_to_accept_and_to_refuse(name: str) -> None:
    name = "$" + name.removeprefix("$")
    if name != "$save":  # accepts in a test of its own
        assert any(_uses(name, expected) for expected, _ in MATCHING)
    assert any(_uses(name, expected) for expected, _ in OTHER)


def _uses(name: str, expected: Any) -> bool:
    if isinstance(expected, dict):
        return any(_uses(name, part) for pair in expected.items() for part in pair)
    return isinstance(expected, str) and (expected == name or expected.startswith(f"{name}:"))


def test_what_is_saved_can_be_compared_with_and_sent() -> None:
    saved: Saved = {}
    expected = {"a": "$save:a", "b": "$save:b:uint", "c": "$match:<(?P<next>.*)>", "d": "$a"}
    assert (
        differences(expected, {"a": {"x": 1}, "b": 2, "c": "<u>", "d": {"x": 1}}, saved, "") == []
    )
    assert saved == {"a": {"x": 1}, "b": 2, "next": "u"}
    assert fill(["$a", "n${b}", {"${next}": "$$a"}], saved) == [{"x": 1}, "n2", {"u": "$a"}]


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        ("$nonsense", "x"),
        ("$nonsense:x", "x"),
        ({"$nonsense": 1}, {}),
        ("$save:any", 1),
        ("${no}", ""),
    ],
)
def test_what_is_no_matcher_is_an_error_of_the_case(expected: Any, actual: Any) -> None:
    with pytest.raises(CaseError):
        differences(expected, actual, {}, "it")
