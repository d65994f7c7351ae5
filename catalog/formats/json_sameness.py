"""Compares parts of JSON schemas, keyword by keyword."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from catalog.formats.json_assertions import SchemaPart, equal


def same(one: SchemaPart, other: SchemaPart) -> bool:
    """Whether two parts have the same keywords, annotations excepted.

    References are the same if the targets are the same.
    """
    return _Sameness().of_parts(one, other)


def same_keywords(one: SchemaPart, other: SchemaPart, keywords: Iterable[str]) -> bool:
    """Whether two parts have the same values of the given keywords."""
    said, also_said = one.says(), other.says()
    return all(
        (keyword in said) is (keyword in also_said)
        and _Sameness().of_values(said.get(keyword), also_said.get(keyword), one, other)
        for keyword in keywords
    )


class _Sameness:
    """A comparison of parts.

    Pairs with a comparison under way count as the same, so that recursive schemas end.
    """

    def __init__(self) -> None:
        self._assumed: set[tuple[SchemaPart, SchemaPart]] = set()

    def of_parts(self, one: SchemaPart, other: SchemaPart) -> bool:
        if (one, other) in self._assumed:
            return True
        self._assumed.add((one, other))
        return self.of_values(one.says(), other.says(), one, other)

    def of_values(self, one: Any, other: Any, mine: SchemaPart, theirs: SchemaPart) -> bool:
        if isinstance(one, dict) and isinstance(other, dict):
            return one.keys() == other.keys() and all(
                self._of_members(key, one[key], other[key], mine, theirs) for key in one
            )
        if isinstance(one, list) and isinstance(other, list):
            return len(one) == len(other) and all(
                self.of_values(*pair, mine, theirs) for pair in zip(one, other, strict=True)
            )
        return equal(one, other)

    def _of_members(
        self, key: Any, one: Any, other: Any, mine: SchemaPart, theirs: SchemaPart
    ) -> bool:
        if key == "$ref" and isinstance(one, str) and isinstance(other, str):
            targets = mine.at({"$ref": one}).target(), theirs.at({"$ref": other}).target()
            if targets[0] is None or targets[1] is None:
                return targets == (None, None) and one == other
            return self.of_parts(targets[0], targets[1])
        if isinstance(one, dict) and isinstance(other, dict):
            # An $id changes the base URI of the references in the object.
            mine, theirs = mine.at(one), theirs.at(other)
        return self.of_values(one, other, mine, theirs)
