"""Makes texts from outside fit for display: printable, and without secrets in URLs."""

from __future__ import annotations

import re

MASK = "***"
_QUERY = re.compile(r"\?[^\s'\"<>#]+")
_LONGEST = 300


def masked_url(url: str) -> str:
    """A URL with stars in place of the values in the query."""
    base, mark, query = url.partition("?")
    return base + mark + "&".join(map(_masked, _parameters(query)))


def _parameters(query: str) -> list[str]:
    return [each for each in query.split("&") if each]


def _masked(parameter: str) -> str:
    name, equals, _ = parameter.partition("=")
    # Without a name, the whole query may be the secret.
    return f"{name}={MASK}" if equals else MASK


def unmasked_url(url: str, stored: str) -> str | None:
    """A URL with values of a stored URL in place of stars; `None` if the URLs differ elsewhere.

    A stored value is sent only to the address with which the value was stored.
    """
    base, _, query = url.partition("?")
    stored_base, mark, stored_query = stored.partition("?")
    given, known = _parameters(query), _parameters(stored_query)
    if base != stored_base or [*map(_name, given)] != [*map(_name, known)]:
        return None
    merged = (old if _masked(new) == new else new for new, old in zip(given, known, strict=True))
    return base + mark + "&".join(merged)


def _name(parameter: str) -> str:
    name, equals, _ = parameter.partition("=")
    return name + equals if equals else ""


def is_masked(url: str) -> bool:
    """Whether a value in the query of a URL is stars."""
    return any(each.rpartition("=")[2] == MASK for each in _parameters(url.partition("?")[2]))


def described(error: BaseException) -> str:
    """An error in a single line, without the queries of URLs, for the log."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return _QUERY.sub(f"?{MASK}", text)[:_LONGEST]


# Control characters of both sets, separators of lines and paragraphs, and marks of text direction.
# With these characters, a text can move the cursor, imitate output or hide words.
_TERMINAL_CONTROL = r"\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
_IN_LINES = re.compile(f"[{_TERMINAL_CONTROL}]")
_IN_ONE_LINE = re.compile(rf"[{_TERMINAL_CONTROL}\t\n]")
_NAMED = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}


def printable(text: str) -> str:
    """A text in a single line, with escapes in place of the controls that a terminal obeys."""
    return _IN_ONE_LINE.sub(_escape, text)


def printable_lines(text: str) -> str:
    """As `printable`, but the text keeps lines and tabs."""
    return _IN_LINES.sub(_escape, text)


def printable_json(text: str) -> str:
    """As `printable_lines`, but with the escapes of JSON, which keep the JSON value."""
    return _IN_LINES.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def counted(number: int, nouns: str) -> str:
    """A number with a noun, in the singular for 1: "1 copy", "1,200 copies"."""
    one = nouns.removesuffix("ies") + "y" if nouns.endswith("ies") else nouns.removesuffix("s")
    return f"{number:,} {one if number == 1 else nouns}"


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    code = ord(character)
    return _NAMED.get(character) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")
