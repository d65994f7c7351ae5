"""The dot notation in which attributes are named: `a.b`, and `a['b.c']` where it is needed.

Source: core/spec.md, "xRegistry Dot (`.`) Notation". Only what leads through objects and
maps is read here; what points into arrays or matches anything is no name of an attribute.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

_STEP = re.compile(r"""\.([^.\[\]'"*]+)|\[(?:'([^']+)'|"([^"]+)")\]""")


def step(path: str, name: str) -> str:
    """The path of `name` in what is at `path`; an empty path is the entity itself."""
    if "." in name or "[" in name:
        return f"{path}['{name}']"
    return f"{path}.{name}" if path else name


def dotted(names: Iterable[str]) -> str:
    """The path that leads through these names."""
    path = ""
    for name in names:
        path = step(path, name)
    return path


def parse_path(text: str) -> tuple[str, ...]:
    """The names that a path leads through.

    Raises:
        ValueError: `text` is empty, malformed, points into an array or has a wildcard.
    """
    source = text if text.startswith("[") else f".{text}"
    names: list[str] = []
    at = 0
    while at < len(source):
        found = _STEP.match(source, at)
        if found is None:
            raise ValueError(f'"{text}" is no path to an attribute')
        names += [name for name in found.groups() if name]
        at = found.end()
    return tuple(names)


def value_at(attributes: Any, path: Iterable[str]) -> Any:
    """What is at a path in attributes and the objects among them; `None` if nothing is."""
    for name in path:
        attributes = attributes.get(name) if isinstance(attributes, Mapping) else None
    return attributes
