"""Text of other parties, in a form that a terminal shows and does not obey."""

from __future__ import annotations

import re

# Control characters of both sets, what ends a line or a paragraph, and what turns the direction of
# text: by these, text can move the cursor, imitate other output or hide what it says.
_TERMINAL_CONTROL = r"\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
_IN_LINES = re.compile(f"[{_TERMINAL_CONTROL}]")
_IN_ONE_LINE = re.compile(rf"[{_TERMINAL_CONTROL}\t\n]")
_NAMED = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}


def printable(text: str) -> str:
    """The same text in one line, with escapes in place of what a terminal would obey."""
    return _IN_ONE_LINE.sub(_escape, text)


def printable_lines(text: str) -> str:
    """As `printable`, but the text keeps its lines and tabs."""
    return _IN_LINES.sub(_escape, text)


def printable_json(text: str) -> str:
    """The same JSON value: the escapes are those of JSON."""
    return _IN_LINES.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def counted(number: int, nouns: str) -> str:
    """A number with its nouns, which are one noun if it is one: "1 copy", "1,200 copies"."""
    one = nouns.removesuffix("ies") + "y" if nouns.endswith("ies") else nouns.removesuffix("s")
    return f"{number:,} {one if number == 1 else nouns}"


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    code = ord(character)
    return _NAMED.get(character) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")
