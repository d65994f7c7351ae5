"""CloudEvents SQL 1.0: the facts of its conformance tests, and laws that hold for all texts."""

from __future__ import annotations

import fnmatch
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from catalog import cesql
from catalog.cesql.operators import compile_pattern

FACTS = json.loads(Path(__file__).with_name("cesql_facts.json").read_text())
# The specification's own files, where somebody has them beside this checkout.
CONFORMANCE_TESTS = sorted(
    (Path(__file__).parents[3] / "shared" / "specs" / "cesql" / "tck").glob("*.yaml")
)
EVENT = {"specversion": "1.0", "id": "i", "source": "/s", "type": "t"}
WORDS = (
    "AND OR XOR NOT LIKE IN EXISTS TRUE FALSE + - * / % = != <> < <= > >= ( ) , 'a%_' \"b\" 0 1 -1 "
    "2147483647 id subject missing INT( LENGTH( CONCAT( SUBSTRING( ABS( LEFT( none("
)
TEXTS = st.lists(st.sampled_from(WORDS.split()) | st.text(max_size=3), max_size=25).map(" ".join)


def outcome(text: str, event: dict[str, Any]) -> tuple[Any, set[str]]:
    """The value, and the kinds of errors; `None` where the text is no expression."""
    try:
        value, errors = cesql.parse(text).evaluate(event)
    except cesql.ParseError:
        return None, {"parse"}
    return value, {error.kind for error in errors}


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact["expression"][:60])
def test_a_fact_of_the_conformance_tests_holds(fact: dict[str, Any]) -> None:
    value, errors = outcome(fact["expression"], {**EVENT, **fact.get("event", {})})
    assert errors == ({fact["error"]} if "error" in fact else set())
    if "result" in fact and "parse" not in errors:
        assert (type(value), value) == (type(fact["result"]), fact["result"])


@pytest.mark.skipif(not CONFORMANCE_TESTS, reason="the specification is not beside this checkout")
def test_the_facts_are_those_of_the_specification() -> None:
    tests = [
        test
        for path in CONFORMANCE_TESTS
        for test in yaml.load(path.read_text(), yaml.BaseLoader)["tests"]
    ]
    assert [test["expression"].lower() for test in tests] == [
        fact["expression"].lower() for fact in FACTS
    ]
    assert [test.get("error") for test in tests] == [fact.get("error") for fact in FACTS]


@given(TEXTS, st.dictionaries(st.sampled_from(["subject", "id"]), st.text() | st.integers()))
def test_every_expression_has_a_value_for_every_event(text: str, event: dict[str, Any]) -> None:
    try:
        expression = cesql.parse(text)
    except cesql.ParseError:
        return
    value, errors = expression.evaluate(event)
    assert isinstance(value, bool | str) or -(2**31) <= value < 2**31
    assert expression.matches(event) is (value is True and not errors)
    assert expression.evaluate(event) == (value, errors)


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("", 1, 1),
        ("id =", 1, 5),
        ("id = 'a'\n  AND ?", 2, 7),
        ("id == 'a'", 1, 5),
        ("id LIKE type", 1, 9),
        ("1 IN ()", 1, 7),
        ("an_id = 1", 1, 1),
        ("id = 'a", 1, 6),
        ("id = 'a''b'", 1, 9),
        ("1 = 2147483648", 1, 5),
        ("1 = " + "9" * 4000, 1, 5),
        ("id = 1 " * 1000, 1, 1),
        ("-" * 300 + "1", 1, 1),
    ],
)
def test_what_is_no_expression_is_refused_with_its_place(text: str, line: int, column: int) -> None:
    with pytest.raises(cesql.ParseError, match=rf"\(line {line}, column {column}\)$"):
        cesql.parse(text)


@pytest.mark.parametrize(
    ("text", "value", "errors"),
    [
        # An operator whose operand has an error returns its zero value, whatever comes after it.
        ("1 = 1 AND missing = 2 OR TRUE", False, {"missingAttribute"}),
        ("TRUE OR missing", True, set()),
        ("FALSE AND missing", False, set()),
        ("LENGTH(missing)", 0, {"missingAttribute"}),
        ("CONCAT('a', missing)", "", {"missingAttribute"}),
        ("id IN ('i', missing)", False, {"missingAttribute"}),
        ("missing NOT IN ('i')", False, {"missingAttribute"}),
        # Operators of one rank associate to the left.
        ("FALSE AND FALSE OR TRUE", True, set()),
        ("10 - 4 - 3", 3, set()),
        ("10 -4", 6, set()),
        # Integers have 32 bits; division rounds towards 0.
        ("2147483647 + 1", 0, {"math"}),
        ("-(-2147483648)", 0, {"math"}),
        ("-7 / 2", -3, set()),
        ("-7 % 2", -1, set()),
        ("7 % -2", 1, set()),
        ("'99999999999' + 1", 1, {"cast"}),
        ("TRIM(' \x1fa\u3000')", "\x1fa", set()),
        ("none(1)", False, {"missingFunction"}),
        (r"'a\' = CONCAT('a', '\')", None, {"parse"}),
        (r"'a\b' = 'a\b'", True, set()),
        ("ANDY = 1", False, {"missingAttribute"}),
    ],
)
def test_corners_of_the_text(text: str, value: Any, errors: set[str]) -> None:
    assert outcome(text, EVENT) == (value, errors)


@given(st.text("ab%_\\", max_size=12), st.text("ab\n", max_size=12))
def test_like_is_the_wildcards_of_file_names_with_other_signs(pattern: str, text: str) -> None:
    parts = re.findall(r"\\[%_]|.", pattern)
    signs = {"%": "*", "_": "?", r"\%": "%", r"\_": "_"}
    wildcards = "".join(signs.get(part, part) for part in parts)
    assert bool(compile_pattern(pattern)(text)) is fnmatch.fnmatchcase(text, wildcards)


def test_a_pattern_that_would_be_tried_in_every_way_takes_little_time() -> None:
    assert not compile_pattern("%a" * 1000 + "%b")("a" * 100_000)
