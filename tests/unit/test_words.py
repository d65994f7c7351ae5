"""Words of texts, and names in schemas, are what a person would look for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.indexing.schemafields import field_names
from catalog.indexing.words import WantedWords, words_of

TEXTS = st.text(st.sampled_from("aBcZ09._- éÉßı\u0301日"), max_size=30)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("com.example.orderCreated", {"com", "example", "ordercreated", "order", "created"}),
        ("HTTPServer-v2", {"httpserver", "http", "server", "v2"}),
        ("order_id", {"order", "id"}),
        ("Größe STRASSE straße", {"grösse", "strasse"}),
        ("cafe\u0301", {"café"}),
        ("x" * 80, {"x" * 64}),
        (" .,! ", set()),
    ],
)
def test_words_are_runs_of_letters_and_digits_and_the_parts_between_humps(
    text: str, words: set[str]
) -> None:
    assert words_of(text) == words


@given(TEXTS)
def test_a_text_has_the_words_of_its_ascii_parts_whatever_else_it_has(text: str) -> None:
    assert words_of(text + " é") == words_of(text) | {"é"}


@given(TEXTS)
def test_marks_are_in_order_and_begin_with_what_was_looked_for(text: str) -> None:
    wanted = WantedWords.of(text)
    marks = wanted.marks_in(text)

    assert [mark.start for mark in marks] == sorted({mark.start for mark in marks})
    assert all(text[mark.start : mark.end] for mark in marks)
    assert bool(marks) == bool(wanted.runs)


def test_the_beginning_of_each_word_that_was_looked_for_is_marked() -> None:
    text = "Orders: OrderCreated, reorder"
    marks = WantedWords.of("ord cre").marks_in(text)

    assert [text[mark.start : mark.end] for mark in marks] == ["Ord", "Ord", "Cre"]


@pytest.mark.parametrize(
    ("document", "names"),
    [
        (
            '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"},'
            '{"name":"state","type":{"type":"enum","name":"State","symbols":["OPEN","PAID"]}}]}',
            ["Order", "id", "state", "State", "OPEN", "PAID"],
        ),
        (
            '{"properties":{"id":{},"lines":{"items":{"properties":{"price":{}}}}},"$defs":{"X":{}}}',
            ["id", "lines", "X", "price"],
        ),
        (
            'syntax = "proto3";\nmessage Order {\n  string order_id = 1; // its number\n'
            "  oneof state { bool paid=2; }\n}\nenum Kind { SMALL = 0; }",
            ["Order", "order_id", "state", "paid", "Kind", "SMALL"],
        ),
        ('<xs:schema><xs:element name="order"/></xs:schema>', ["order"]),
        ("Some text with a colour = 3.", []),
        ('{"properties":', []),
        ('"string"', []),
        ("[" * 500 + "]" * 500, []),
        ("\x00\xff", []),
    ],
)
def test_a_schema_has_the_names_of_its_fields_and_types(document: str, names: list[str]) -> None:
    assert field_names(document.encode()) == names
