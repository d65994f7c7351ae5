"""Finds the lines of a JSON text at which values stand."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field

import orjson

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|[{}\[\],:]|[^\s{}\[\],:"]++', re.DOTALL)


@dataclass(slots=True)
class _Place:
    """A place that is looked for, or that leads to one, and its line; 0 until it is found."""

    line: int = 0
    below: dict[str, _Place] = field(default_factory=dict)


@dataclass(slots=True)
class _Container:
    """An object or array around the present token; `place` is `None` if nothing within counts."""

    place: _Place | None
    is_object: bool
    index: int = 0


def find_lines(text: str, pointers: Collection[str]) -> dict[str, int]:
    """The lines, from 1, at which the values of JSON pointers begin in a valid JSON text.

    A value that the text does not have, such as a missing member, is at the line of what would
    contain it.
    """
    root = _Place()
    for pointer in pointers:
        place = root
        for step in _steps(pointer):
            place = place.below.setdefault(step, _Place())
    _note_lines(text, root)
    return {pointer: _line_of(root, pointer) for pointer in pointers}


def _note_lines(text: str, root: _Place) -> None:
    line, end, expects_name = 1, 0, False
    around: list[_Container] = []
    place: _Place | None = root
    for found in _TOKEN.finditer(text):
        line += text.count("\n", end, found.start())
        end, token = found.start(), found[0]
        inner = around[-1] if around else None
        if token == ":":
            continue
        if token in "}]":
            around.pop()
            expects_name = False
        elif token == "," and inner is not None:
            expects_name = inner.is_object
            inner.index += 1
            place = None if inner.is_object else _below(inner.place, str(inner.index))
        elif expects_name and inner is not None:
            place, expects_name = _below(inner.place, orjson.loads(token)), False
            _note(place, line)
        else:
            _note(place, line)
            if token in "{[":
                around.append(_Container(place, token == "{"))
                expects_name = token == "{"
                place = None if expects_name else _below(place, "0")


def _note(place: _Place | None, line: int) -> None:
    if place is not None and not place.line:
        place.line = line


def _below(place: _Place | None, step: str) -> _Place | None:
    return None if place is None else place.below.get(step)


def _line_of(root: _Place, pointer: str) -> int:
    """The line of the deepest value on the way to a pointer."""
    place, line = root, root.line
    for step in _steps(pointer):
        place = place.below[step]
        if not place.line:
            break
        line = place.line
    return line


def _steps(pointer: str) -> list[str]:
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]
