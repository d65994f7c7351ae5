"""Finds the line of a file that a JSON pointer leads to."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

from catalog.documents.serialization import STDIN

_LARGEST_BYTES = 8 * 1024 * 1024


class Lines:
    """The lines of one file, which is read when the first one is asked for.

    JSON is YAML, and the reader of YAML knows where everything is.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def line_of(self, pointer: str) -> int:
        """The line, counted from 1, of what is at a pointer, or of the nearest thing above it.

        It is 0 where the file cannot be read again, is no YAML, or is larger than 8 MiB.
        """
        if self._root is None:
            return 0
        node, mark = self._root, self._root.start_mark
        for step in pointer.split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            found = _inside(node, name)
            if found is None:
                break
            mark, node = found
        return int(mark.line) + 1

    @cached_property
    def _root(self) -> Any:
        import yaml

        try:
            if self._path == STDIN or self._path.stat().st_size > _LARGEST_BYTES:
                return None
            return yaml.compose(self._path.read_bytes(), yaml.CSafeLoader)
        except (OSError, yaml.YAMLError, ValueError, RecursionError):
            return None


def _inside(node: Any, name: str) -> tuple[Any, Any] | None:
    """Where a member begins, and what it is."""
    if node.id == "mapping":
        for key, value in node.value:
            if key.value == name:
                return key.start_mark, value
    elif node.id == "sequence" and name.isdecimal() and int(name) < len(node.value):
        item = node.value[int(name)]
        return item.start_mark, item
    return None
