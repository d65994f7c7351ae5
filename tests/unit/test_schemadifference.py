"""The difference of documents tells what a person would say has changed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.reading.schemadifference import MOST_LINES, fields_between, lines_between

LINES = st.lists(st.sampled_from(["a", "b", "c", "", "é"]), max_size=30)


def text_of(lines: list[str]) -> bytes:
    return "\n".join(lines).encode()


@given(LINES, LINES)
def test_the_newer_document_follows_from_the_older_one_by_the_changed_lines(
    older: list[str], newer: list[str]
) -> None:
    before, after = text_of(older).decode().splitlines(), text_of(newer).decode().splitlines()
    lines = lines_between(text_of(older), text_of(newer))
    assert lines is not None
    removed = {line.number for line in lines if line.sign == "-"}
    added = {line.number: line.text for line in lines if line.sign == "+"}
    kept = [text for number, text in enumerate(before, 1) if number not in removed]
    made = [added[n] if n in added else kept.pop(0) for n in range(1, len(after) + 1)]

    assert (made, kept) == (after, [])
    assert all(after[line.number - 1] == line.text for line in lines if line.sign == "=")


def test_the_layout_of_json_makes_no_difference() -> None:
    assert lines_between(b'{"a":1}', b'{\n "a": 1 }') == []


def test_documents_with_too_many_different_lines_are_not_compared() -> None:
    many = b"\n".join(b"%d" % number for number in range(MOST_LINES + 1))
    assert lines_between(many, b"x") is None
    # The lines that both begin and end with do not count.
    assert lines_between(b"\n".join([many, b"x", many]), b"\n".join([many, b"y", many])) is not None


@pytest.mark.parametrize(
    ("older", "newer", "fields"),
    [
        (
            '{"type":"record","name":"O","fields":[{"name":"id","type":"int"},'
            '{"name":"x","type":"string"}]}',
            '{"type":"record","name":"O","fields":[{"name":"id","type":"long"},{"name":"lines",'
            '"type":{"type":"array","items":{"type":"record","name":"L","fields":'
            '[{"name":"p","type":["null","string"],"default":null}]}}}]}',
            [
                ("id", "int", "long"),
                ("x", "string", None),
                ("lines", None, "array<L>"),
                ("lines[].p", None, "null | string = null"),
            ],
        ),
        (
            '{"properties":{"a":{"type":"string"},"b":{"items":{"properties":{"c":{}}}}}}',
            '{"properties":{"a":{"type":"string"},"b":{"items":{"properties":{"c":true}}}},'
            '"required":["a"]}',
            [("a", "string", "string (required)"), ("b[].c", "any", "true")],
        ),
        (
            "message M { string a = 1; enum E { X = 0; } }",
            "message M { string a = 2; // b = 3;\n map<string, int32> m = 3; enum E { X = 1; } }",
            [
                ("M.a", "string = 1", "string = 2"),
                ("M.E.X", "0", "1"),
                ("M.m", None, "map<string, int32> = 3"),
            ],
        ),
        ("[" * 900 + "]" * 900, '{"properties":{"a":{}}}', [("a", None, "any")]),
    ],
)
def test_fields_that_differ_are_told_by_path(
    older: str, newer: str, fields: list[tuple[str, str | None, str | None]]
) -> None:
    found = fields_between(older.encode(), newer.encode())
    assert found is not None
    assert [(field.path, field.old, field.new) for field in found] == fields


@pytest.mark.parametrize(
    "text", ["a.b", "map<", "a ", "message ", "a\n", "repeated ", "x = ", "/*"]
)
@pytest.mark.timeout(5)
def test_a_hostile_text_is_read_in_a_moment(text: str) -> None:
    assert fields_between((text * 100_000)[:250_000].encode(), b"") is None
