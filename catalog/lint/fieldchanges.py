"""The fields that differ between two documents of a schema, and which of them break readers.

A comparison of two schemas may name the first fault only. So the older document is given the change
of each field alone, and is compared with itself then.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import orjson

from catalog.formats.checker import CheckedDocument, Direction, comparison
from catalog.reading.schemadifference import FieldDifference, fields_between
from catalog.writing.validation import DocumentChecker

_MOST_FIELDS = 100
_DEEPEST = 32
_DEFINITIONS = ("$defs", "definitions")
_BELOW = frozenset({"properties", "required", "fields", "type", "items", "values", *_DEFINITIONS})
# A fault of Protobuf: ".shop.Order: number 2 was string and is int32".
_NUMBER = re.compile(r"\.?(\S+): number (\d+)")


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A field or attribute with the former and the new value.

    Args:
        path: the names that lead to the field, with dots between.
        old: the former type or value; `None` for a new field.
        new: the new type or value; `None` for a removed field.
        is_breaking: whether the change of this field alone breaks readers; `None` without a rule.
    """

    path: str
    old: str | None
    new: str | None
    is_breaking: bool | None = None

    def as_json(self) -> dict[str, Any]:
        shown = {"path": self.path, "old": self.old, "new": self.new, "breaking": self.is_breaking}
        return {name: value for name, value in shown.items() if value is not None}


async def field_changes(
    older: bytes,
    newer: bytes,
    *,
    format: str,
    directions: Sequence[Direction],
    faults: Sequence[str],
    checker: DocumentChecker,
) -> list[FieldChange]:
    """The fields that differ, with a verdict on each.

    Args:
        directions: the directions of the rule in force; without any, no field has a verdict.
        faults: the faults of the comparison of the whole documents; without any, no field breaks.
    """
    found = (fields_between(older, newer) or [])[:_MOST_FIELDS]
    if not directions:
        return [FieldChange(each.path, each.old, each.new) for each in found]
    breaking = set[str]()
    if faults:
        breaking = await _breaking_in_json(older, newer, format, directions, checker)
        breaking |= _named_in(faults, found)
    return [
        FieldChange(each.path, each.old, each.new, is_breaking=_is_at(each.path, breaking))
        for each in found
    ]


def _is_at(path: str, breaking: set[str]) -> bool:
    """Whether a field, or a field around it that changed as a whole, is breaking."""
    return any(path == each or path.startswith((f"{each}.", f"{each}[")) for each in breaking)


async def _breaking_in_json(
    older: bytes,
    newer: bytes,
    format: str,
    directions: Sequence[Direction],
    checker: DocumentChecker,
) -> set[str]:
    try:
        before, after = orjson.loads(older), orjson.loads(newer)
    except orjson.JSONDecodeError:
        return set()
    former = CheckedDocument.of(older)
    paths, checks = [], []
    for path, changed in islice(_single_changes(before, after, "", 0), _MOST_FIELDS):
        document = CheckedDocument.of(orjson.dumps(changed))
        for direction in directions:
            paths.append(path)
            checks.append(comparison(format, former, document, direction))
    faults = await checker.answers(checks)
    return {path for path, fault in zip(paths, faults, strict=True) if fault and path}


def _single_changes(old: Any, new: Any, path: str, depth: int) -> Iterator[tuple[str, Any]]:
    """The path of each changed field, and the old schema with the change of this field alone."""
    if old == new:
        return
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for place, pair in enumerate(zip(old, new, strict=True)):
            for inner, changed in _single_changes(*pair, path, depth + 1):
                yield inner, [*old[:place], changed, *old[place + 1 :]]
        return
    is_pair = isinstance(old, dict) and isinstance(new, dict)
    if not is_pair or depth > _DEEPEST or _own(old) != _own(new):
        yield path, new
        return
    yield from _properties(old, new, path, depth)
    yield from _records(old, new, path, depth)
    for name in ("type", "items", "values"):
        at = f"{path}[]" if path and name != "type" else path
        for inner, changed in _single_changes(old.get(name), new.get(name), at, depth + 1):
            yield inner, _with(old, name, changed)
    for name in _DEFINITIONS:
        before, after = _object(old, name), _object(new, name)
        for key in before.keys() & after.keys():
            at = _joined(path, f"#{key}")
            for inner, changed in _single_changes(before[key], after[key], at, depth + 1):
                yield inner, {**old, name: {**before, key: changed}}


def _properties(
    old: Mapping[str, Any], new: Mapping[str, Any], path: str, depth: int
) -> Iterator[tuple[str, Any]]:
    """Changes of the properties of an object, in JSON Schema or JSON Structure."""
    before, after = _object(old, "properties"), _object(new, "properties")
    required, requires = _list(old, "required"), _list(new, "required")
    for name in dict.fromkeys([*before, *after]):
        at = _joined(path, name)
        is_kept = name in before and name in after
        if is_kept and (name in required) == (name in requires):
            for inner, changed in _single_changes(before[name], after[name], at, depth + 1):
                yield inner, {**old, "properties": {**before, name: changed}}
            continue
        properties = {key: value for key, value in before.items() if key != name}
        properties |= {name: after[name]} if name in after else {}
        names = [each for each in required if each != name]
        names += [name] if name in requires else []
        yield at, _with({**old, "properties": properties}, "required", names or None)


def _records(
    old: Mapping[str, Any], new: Mapping[str, Any], path: str, depth: int
) -> Iterator[tuple[str, Any]]:
    """Changes of the fields of a record, in Avro."""
    before, after = _by_name(old), _by_name(new)
    for name in dict.fromkeys([*before, *after]):
        at = _joined(path, name)
        if name in before and name in after:
            for inner, changed in _single_changes(before[name], after[name], at, depth + 1):
                yield inner, {**old, "fields": [*{**before, name: changed}.values()]}
            continue
        fields = {key: value for key, value in before.items() if key != name}
        fields |= {name: after[name]} if name in after else {}
        yield at, {**old, "fields": [*fields.values()]}


def _by_name(record: Mapping[str, Any]) -> dict[str, Any]:
    fields = [each for each in _list(record, "fields") if isinstance(each, dict)]
    return {str(each.get("name")): each for each in fields}


def _own(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The members of a schema without those below which further fields are."""
    return {name: value for name, value in schema.items() if name not in _BELOW}


def _with(schema: Mapping[str, Any], name: str, value: Any) -> dict[str, Any]:
    left = {key: each for key, each in schema.items() if key != name}
    return left if value is None else {**left, name: value}


def _object(schema: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = schema.get(name)
    return value if isinstance(value, dict) else {}


def _list(schema: Mapping[str, Any], name: str) -> list[Any]:
    value = schema.get(name)
    return value if isinstance(value, list) else []


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _named_in(faults: Sequence[str], fields: Sequence[FieldDifference]) -> set[str]:
    """The fields of Protobuf whose message and number a fault names; it names all faults."""
    named = {(found[1], found[2]) for fault in faults for found in _NUMBER.finditer(fault)}
    return {
        each.path
        for each in fields
        for type in (each.old, each.new)
        for message, number in named
        if type is not None
        and type.endswith(f" = {number}")
        and f".{message}".endswith(f".{each.path.rpartition('.')[0]}")
    }
