"""Dot notation, in which requests and models name attributes and parts of attributes.

Source: core/spec.md, "xRegistry Dot (`.`) Notation".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

MOST_STEPS = 16

_NAME = r"[^\x00-\x20\x7f.,*=!<>\[\]'\"\\]+"
_STEP = re.compile(
    rf"\.(?P<name>{_NAME})|(?P<keys>\.\*)|(?P<items>\[\*\])|\[(?P<index>[0-9]{{1,9}})\]"
    r"|\['(?P<single>[^'\x00]*)'\]|\[\"(?P<double>[^\"\x00]*)\"\]"
)


@dataclass(frozen=True, slots=True)
class Key:
    """Step to a property of an object, or to a key of a map."""

    name: str


@dataclass(frozen=True, slots=True)
class Index:
    """Step to an item of an array, counted from 0."""

    number: int


class Every(Enum):
    """Step to every value of a map or an array."""

    KEY = ".*"
    ITEM = "[*]"


Step: TypeAlias = Key | Index | Every


def read_path(text: str, start: int = 0) -> tuple[tuple[Step, ...], int]:
    """Read the path at `start` of a text, and return the steps and the end of the path.

    Raises:
        ValueError: the path is missing or too long; the message is for the user.
    """
    steps: list[Step] = []
    at = start
    # The dot before the first name may be left out.
    source = text if text[start : start + 1] in (".", "[") else f"{text[:start]}.{text[start:]}"
    shift = len(source) - len(text)
    while (found := _STEP.match(source, at)) is not None:
        steps.append(_step(found))
        at = found.end()
        if len(steps) > MOST_STEPS:
            raise ValueError(f"a path has at most {MOST_STEPS} steps")
    if not steps:
        raise ValueError("it has to begin with the path of an attribute")
    return tuple(steps), at - shift


def write_path(steps: Sequence[Step]) -> str:
    """Format a path as text for `read_path`."""
    return "".join(map(_written, steps)).removeprefix(".")


def _written(step: Step) -> str:
    match step:
        case Index(number):
            return f"[{number}]"
        case Key(name) if re.fullmatch(_NAME, name):
            return f".{name}"
        case Key(name):
            return f'["{name}"]' if "'" in name else f"['{name}']"
        case _:
            return step.value


def _step(found: re.Match[str]) -> Step:
    if found["keys"]:
        return Every.KEY
    if found["items"]:
        return Every.ITEM
    if found["index"]:
        return Index(int(found["index"]))
    return Key(found["name"] or found["single"] or found["double"] or "")


def step(path: str, name: str) -> str:
    """The path of the member `name` of the value at `path`; an empty path is the entity."""
    if "." in name or "[" in name:
        return f"{path}['{name}']"
    return f"{path}.{name}" if path else name


def dotted(names: Iterable[str]) -> str:
    """The path through a sequence of names."""
    return write_path([Key(name) for name in names])


def parse_path(text: str) -> tuple[str, ...]:
    """Parse a path of names only; ValueError if empty, malformed, or with an index or wildcard."""
    steps, end = read_path(text)
    names = tuple(each.name for each in steps if isinstance(each, Key) and each.name)
    if end < len(text) or len(names) < len(steps):
        raise ValueError(f'"{text}" is no path to an attribute')
    return names


def value_at(attributes: Any, path: Iterable[str]) -> Any:
    """The value at a path through attributes and nested objects; `None` without a value."""
    for name in path:
        attributes = attributes.get(name) if isinstance(attributes, Mapping) else None
    return attributes
