"""Text of others on a terminal: it is shown, and moves, hides or imitates nothing."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.commands.console import PlainConsole, cell, table
from catalog.model.backoff import MAX_RETRY_AFTER_SECONDS, parse_retry_after
from catalog.model.masking import printable, printable_json, printable_lines

HOSTILE = [
    "\x1b[2J\x1b[31mred",
    "\x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\",
    "\x9b31mred",
    "\u202egnp.exe",
    "a\u2066b\u2069",
    "first\nDone: all is well",
    "a\rb\x08c\x07",
    "\x7f",
]
CONTROLS = {
    *map(chr, (*range(9), *range(0xB, 0x20), *range(0x7F, 0xA0), 0x61C, 0x200E, 0x200F)),
    *map(chr, (*range(0x2028, 0x202F), *range(0x2066, 0x206A))),
}
TEXTS = st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(HOSTILE)
MARKUP = st.text("[]\\/=#@a red bold link http:", max_size=12)


def shown(*printed: object, terminal: bool = True) -> str:
    stream = io.StringIO()
    console = PlainConsole(
        file=stream, force_terminal=terminal, color_system=None, width=200, highlight=False
    )
    console.print(*printed)
    return stream.getvalue()


@pytest.mark.parametrize("text", HOSTILE)
def test_a_text_is_printed_in_one_line_without_control_characters(text: str) -> None:
    assert not CONTROLS & {*printable(text)}
    assert "\n" not in printable(text)


@given(text=TEXTS)
def test_nothing_that_is_printed_has_a_control_character(text: str) -> None:
    """Also where a command forgot to escape it."""
    columns = table("name", "value")
    columns.add_row(cell(text), cell([text, {"a": text}]))
    for printed in (shown(columns), shown(text, terminal=False), shown(cell(text))):
        assert not CONTROLS & {*printed}


@given(text=TEXTS | MARKUP)
def test_a_cell_is_one_line_of_its_table_and_shows_markup_as_it_is(text: str) -> None:
    columns = table("name", "value")
    columns.add_row("x", cell(f"<{text}>"))
    _, row, *rest = shown(columns).splitlines()
    assert rest == []
    assert row.split(None, 1)[1].rstrip() == printable(f"<{text}>")


@pytest.mark.parametrize("columns", ["", "20", "80"])
def test_a_table_that_is_piped_has_a_line_for_each_row_however_wide(columns: str) -> None:
    program = """if True:
        from catalog.commands.console import cell, fields, out, table
        shown = table("xid", "name", "below", "modified")
        for number in range(2):
            shown.add_row(f"/x{number}/" + "i" * 99, cell("n " * 99), "-", "2026-11-26 01:35:10")
        out.print(shown)
        out.print(fields({"a": "word " * 99, "b": 1}, {}))
    """
    run = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "COLUMNS": columns},
        capture_output=True,
        text=True,
        check=True,
    )
    starts = [line.split()[0] for line in run.stdout.splitlines()]
    assert starts == ["xid", "/x0/" + "i" * 99, "/x1/" + "i" * 99, "a", "b"]


def test_a_table_on_a_terminal_is_folded_to_its_width(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: True)
    columns = table("xid", "name", "modified")
    columns.add_row("/x", "n", "2026-11-26 01:35:10")
    PlainConsole(file=stream, color_system=None, width=20, soft_wrap=True).print(columns)
    lines = stream.getvalue().splitlines()
    assert len(lines) > 2
    assert max(map(len, lines)) <= 20


@pytest.mark.parametrize("text", ["[red]x[/]", "[link=http://evil.example]x[/link]", "\\[red]x"])
def test_markup_of_others_is_no_markup(text: str) -> None:
    assert shown(f"[bold]{cell(text)}[/]") == f"{text}\n"


@given(value=st.recursive(TEXTS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner)))
def test_json_keeps_its_values(value: object) -> None:
    text = printable_json(json.dumps(value, ensure_ascii=False))
    assert json.loads(text) == value
    assert not CONTROLS & {*text}


def test_a_traceback_keeps_its_lines() -> None:
    assert printable_lines("one\n\ttwo\x1b[0m") == "one\n\ttwo\\x1b[0m"


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("9" * 100_000, MAX_RETRY_AFTER_SECONDS),
        ("1e400", 0),
        ("-5", 0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", MAX_RETRY_AFTER_SECONDS),
        ("Fri, 31 Dec 9999 23:59:59 -2359", MAX_RETRY_AFTER_SECONDS),
        ("Mon, 01 Jan 0001 00:00:00 +2359", 0),
        ("Fri, 31 Dec 99999 23:59:59 GMT", 0),
        ("1 Jan 2030 00:00:00 +" + "9" * 30, 0),
        ("1 Jan 2030 00:00:00 +" + "9" * 400, 0),
        ("(" * 100_000, 0),
        ("\u0665", 0),
    ],
)
def test_an_absurd_retry_after_is_capped_or_ignored(value: str, seconds: float) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert parse_retry_after(value, now) == seconds


@given(value=st.text(max_size=80))
def test_any_retry_after_is_a_wait_of_an_hour_at_most(value: str) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert 0 <= parse_retry_after(value, now) <= MAX_RETRY_AFTER_SECONDS
