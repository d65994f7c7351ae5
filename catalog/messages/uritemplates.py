"""URI templates as patterns, in which a placeholder matches every text.

Sources: RFC 6570, message/spec.md, "value". Libraries expand templates, but no library matches a
text against a template with placeholders that several templates share.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property

_EXPRESSION = re.compile(r"\{([+#./;?&=,!@|]?)([^{}]*)\}")
_NAME = re.compile(r"(?:\w|%[0-9A-Fa-f]{2})(?:[\w.]|%[0-9A-Fa-f]{2})*", re.ASCII)
_MODIFIED = re.compile(rf"{_NAME.pattern}(?:\*|:[1-9]\d{{0,3}})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Gap:
    """The place of an expression in a template; gaps with the same name have equal texts.

    The text of a simple expression has at least one character, because an empty text is no value.
    Gaps for expressions of the higher levels of RFC 6570 have no name, and may be empty.
    """

    name: str = ""

    @property
    def least(self) -> int:
        return 1 if self.name else 0


Part = str | Gap


@dataclass(frozen=True)
class Template:
    """Literal texts and gaps in turn; braces without a valid expression inside are literal text."""

    text: str
    parts: tuple[Part, ...]

    @classmethod
    def parse(cls, text: str) -> Template:
        parts: list[Part] = []
        end = 0
        for found in _EXPRESSION.finditer(text):
            if (gap := _gap(found[1], found[2])) is not None:
                parts += [text[end : found.start()], gap]
                end = found.end()
        return cls(text, tuple(part for part in (*parts, text[end:]) if part != ""))

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset(part.name for part in self.parts if isinstance(part, Gap) and part.name)

    @property
    def repeated(self) -> frozenset[str]:
        """The names that occur more than once in the template."""
        counts = Counter(part.name for part in self.parts if isinstance(part, Gap))
        return frozenset(name for name, count in counts.items() if name and count > 1)

    @property
    def is_constant(self) -> bool:
        return all(isinstance(part, str) for part in self.parts)

    def fits(self, text: str) -> bool:
        """Whether a text matches, without a comparison of the texts of equal placeholders."""
        return fits(self.parts, text)


def _gap(operator: str, variables: str) -> Gap | None:
    if operator in ("", "+") and _NAME.fullmatch(variables):
        return Gap(variables)
    is_expression = all(_MODIFIED.fullmatch(name) for name in variables.split(","))
    return Gap() if is_expression else None


def fits(parts: tuple[Part, ...], text: str) -> bool:
    """Whether a text matches parts, without a comparison of the texts of equal placeholders.

    A literal is matched at the first occurrence, from the left, in one pass without backtracking.
    """
    at, least, is_open = 0, 0, False
    for place, part in enumerate(parts):
        if isinstance(part, Gap):
            least, is_open = least + part.least, True
            continue
        if place == len(parts) - 1 and is_open:
            return text.endswith(part) and len(text) - len(part) >= at + least
        found = text.find(part, at + least) if is_open else at
        if found < 0 or not text.startswith(part, found):
            return False
        at, least, is_open = found + len(part), 0, False
    return len(text) - at >= least if is_open else at == len(text)
