"""Infers JSON schemas from sampled payloads, within bounds, and tells the evidence.

An inferred schema says what the samples have, and nothing of other records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from genson import SchemaBuilder

from catalog.documents.serialization import NotParsable, parse_json

DRAFT = "http://json-schema.org/draft-07/schema#"
_LONGEST_PAYLOAD = 64 * 1024
_MOST_VALUES = 2000
_MOST_PATHS = 300
_DEEPEST = 16
_LONGEST_NAME = 100
_SHOWN = 12


class PayloadSample:
    """Payloads of one kind of records.

    Only JSON objects of bounded size and depth are read. Objects whose names are data, such as ids,
    have too many names: then no schema is inferred.
    """

    def __init__(self) -> None:
        self.seen = 0
        self._read = 0
        self._paths: Counter[str] = Counter()
        self._builder = SchemaBuilder(DRAFT)

    def note(self, payload: bytes) -> None:
        """Add a payload to the sample."""
        self.seen += 1
        if len(payload) > _LONGEST_PAYLOAD or payload.count(b",") > _MOST_VALUES or self._is_varied:
            return
        try:
            value = parse_json(payload, _DEEPEST)
        except NotParsable:
            return
        if isinstance(value, dict):
            self._paths.update({*_paths(value, "")})
            if not self._is_varied:
                self._builder.add_object(value)
                self._read += 1

    @property
    def _is_varied(self) -> bool:
        return len(self._paths) > _MOST_PATHS

    def schema(self) -> dict[str, Any] | None:
        """The inferred schema; `None` if the payloads are no JSON objects, or too varied."""
        if not self._read or self._is_varied:
            return None
        inferred: dict[str, Any] = self._builder.to_schema()
        return inferred | {"description": f"Inferred from {self._read:,} sampled records."}

    def evidence(self) -> str:
        """How many payloads have each field, as a sentence."""
        if self._is_varied:
            return f"no schema is inferred: there are more than {_MOST_PATHS} names of fields"
        if not self._read:
            return f"no schema is inferred: none of {self.seen:,} payloads is a small JSON object"
        found = sorted(self._paths.items(), key=lambda each: (-each[1], each[0]))
        shown = [f"{path} {count:,}" for path, count in found[:_SHOWN]]
        more = f" and {len(found) - _SHOWN:,} more" if len(found) > _SHOWN else ""
        return (
            f"a schema is inferred from {self._read:,} of {self.seen:,} payloads, which have "
            f"{', '.join(shown)}{more}"
        )


def _paths(value: Any, path: str) -> Iterator[str]:
    """The paths of the fields of a value, with `[]` for the elements of an array."""
    if isinstance(value, dict):
        for name, inner in value.items():
            below = f"{path}.{name[:_LONGEST_NAME]}" if path else name[:_LONGEST_NAME]
            yield below
            yield from _paths(inner, below)
    elif isinstance(value, list):
        for inner in value:
            yield from _paths(inner, f"{path}[]")
