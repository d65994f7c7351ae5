"""Reads the words, numbers and texts of Protobuf files."""

from __future__ import annotations

import re
from typing import NoReturn

from catalog.formats.documenttext import MalformedDocument

SPACE = re.compile(r"(?:[ \t\r\n]++|//[^\n]*+|/\*(?s:.*?)\*/)*+")
WORD = re.compile(r"[A-Za-z0-9_.-]+")
STRING_PART = re.compile(
    r"""(?P<plain>[^"'\\]+)|(?P<quote>["'])"""
    r"|\\(?:[xX](?P<hex>[0-9A-Fa-f]{1,2})|(?P<octal>[0-7]{1,3})|(?P<other>(?s:.)))"
)
ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
INTEGER = re.compile(r"-?\d+|0[xX]-?[0-9A-Fa-f]+")


class ProtoReader:
    """Reads a text once; spaces and comments between the parts are skipped."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def integer(self) -> int:
        return self.number(self.word())

    def number(self, word: str) -> int:
        number = 2**31
        if INTEGER.fullmatch(word):
            is_hexadecimal = word[:2] in ("0x", "0X")
            number = int(word[2:18], 16) if is_hexadecimal else int(word[:18])
        if not -(2**31) <= number < 2**31:
            self.fail(f"expected an integer but was {word}")
        return number

    def word(self) -> str:
        found = WORD.match(self._text, self._skipped())
        if found is None:
            self.fail("expected a word")
        self._at = found.end()
        return found[0]

    def string(self) -> str:
        """A text in quotes, and the texts in quotes that follow it."""
        quote = self.peek()
        if quote not in ("'", '"'):
            self.fail("expected a text in quotes")
        self._at += 1
        parts: list[str] = []
        while found := STRING_PART.match(self._text, self._at):
            self._at = found.end()
            if found["quote"] != quote:
                parts.append(_unescaped(found))
                continue
            quote = self.peek()
            if quote not in ("'", '"'):
                return "".join(parts)
            self._at += 1
        self.fail("unterminated string")

    def peek(self) -> str:
        """The next character after spaces and comments, or ""."""
        at = self._skipped()
        return self._text[at : at + 1]

    def take(self, character: str) -> bool:
        found = self.peek() == character
        self._at += found
        return found

    def require(self, character: str) -> None:
        if not self.take(character):
            self.fail(f"expected '{character}'")

    def _skipped(self) -> int:
        found = SPACE.match(self._text, self._at)
        self._at = found.end() if found else self._at
        return self._at

    def fail(self, problem: str) -> NoReturn:
        line = self._text.count("\n", 0, self._at) + 1
        column = self._at - self._text.rfind("\n", 0, self._at)
        if self._at == len(self._text):
            problem = "unexpected end of file"
        raise MalformedDocument(f"Syntax error in :{line}:{column}: {problem}")


def _unescaped(part: re.Match[str]) -> str:
    if code := part["hex"]:
        return chr(int(code, 16))
    if code := part["octal"]:
        return chr(int(code, 8))
    if (other := part["other"]) is not None:
        return ESCAPES.get(other, other)
    return part[0]
