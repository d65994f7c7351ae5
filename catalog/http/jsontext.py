"""JSON text that is written piece by piece, so that no answer needs to be in memory whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from catalog.http.responses import to_json


class JsonText:
    """A JSON document under way: open an object, write members, close it."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._needs_comma = False
        self.size = 0

    def open(self, id: str = "") -> None:
        """Begin an object; `id` is its name in the one around it, and needs no escaping."""
        self._add(b'"%b":{' % id.encode() if id else b"{")
        self._needs_comma = False

    def close(self) -> None:
        self._parts.append(b"}")
        self._needs_comma = True

    def member(self, id: str, value: Any) -> None:
        """One member; its name needs no escaping."""
        self._add(b'"%b":%b' % (id.encode(), to_json(value)))

    def members(self, shown: Mapping[str, Any]) -> None:
        """All members of an object, without its braces."""
        if shown:
            self._add(to_json(shown)[1:-1])

    def take(self) -> bytes:
        """What was written since the last time."""
        taken = b"".join(self._parts)
        self._parts.clear()
        self.size = 0
        return taken

    def _add(self, part: bytes) -> None:
        if self._needs_comma:
            self._parts.append(b",")
        self._parts.append(part)
        self.size += len(part)
        self._needs_comma = True
