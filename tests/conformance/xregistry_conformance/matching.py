"""Says how an answer differs from what a case expects, and remembers what a case saves."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

Saved = dict[str, Any]

LONGEST_SHOWN = 500

_MATCHER = re.compile(r"\$([a-zA-Z][a-zA-Z0-9]*)(?::(.*))?", re.DOTALL)
_REFERENCE = re.compile(r"\$\{([a-zA-Z][a-zA-Z0-9]*)\}")
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


class _Missing:
    def __repr__(self) -> str:
        return "nothing"


MISSING = _Missing()


class CaseError(Exception):
    """The case itself is wrong, whatever the server does."""


def fill(value: Any, saved: Saved) -> Any:
    """A request's value with its references replaced by what was saved."""
    if isinstance(value, str):
        return _fill_text(value, saved)
    if isinstance(value, Mapping):
        return {embed(key, saved): fill(member, saved) for key, member in value.items()}
    if isinstance(value, list):
        return [fill(item, saved) for item in value]
    return value


def _fill_text(text: str, saved: Saved) -> Any:
    if text.startswith("$$"):
        return embed(text[1:], saved)
    found = _MATCHER.fullmatch(text)
    return recall(found[1], saved) if found and found[2] is None else embed(text, saved)


def embed(text: str, saved: Saved, escape: Callable[[str], str] = str) -> str:
    """The text with each `${NAME}` replaced."""
    return _REFERENCE.sub(lambda found: escape(as_text(recall(found[1], saved))), text)


def recall(name: str, saved: Saved) -> Any:
    if name not in saved:
        raise CaseError(f"nothing was saved as {name!r}")
    return saved[name]


def as_text(value: Any) -> str:
    """A scalar as it stands in a header or in a URL."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def differences(expected: Any, actual: Any, saved: Saved, where: str) -> list[str]:
    """One sentence for each place where `actual` is not what was expected; none if it matches."""
    if isinstance(expected, str):
        return _match_text(expected, actual, saved, where)
    if isinstance(expected, Mapping):
        return _match_map(expected, actual, saved, where)
    if isinstance(expected, list):
        return _match_list(expected, actual, saved, where)
    return [] if _is_same(expected, actual) else [_differs(where, expected, actual)]


def _differs(where: str, expected: Any, actual: Any) -> str:
    return f"{where} is {_shown(actual)} instead of {_shown(expected)}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."


def _is_same(one: Any, other: Any) -> bool:
    """Equality of JSON values: `1` is `1.0`, but not `true`."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_is_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return bool(one == other)


def _compare(want: Any, actual: Any, where: str) -> list[str]:
    """Where two JSON values are not the same."""
    if isinstance(want, Mapping) and isinstance(actual, Mapping):
        return [
            found
            for key in {**want, **actual}
            for found in _compare(
                want.get(key, MISSING), actual.get(key, MISSING), f"{where}.{key}"
            )
        ]
    return [] if _is_same(want, actual) else [_differs(where, want, actual)]


def _match_list(expected: list[Any], actual: Any, saved: Saved, where: str) -> list[str]:
    if not isinstance(actual, list) or len(actual) != len(expected):
        return [_differs(where, expected, actual)]
    return [
        found
        for index, (want, have) in enumerate(zip(expected, actual, strict=True))
        for found in differences(want, have, saved, f"{where}[{index}]")
    ]


def _match_map(expected: Mapping[str, Any], actual: Any, saved: Saved, where: str) -> list[str]:
    found: list[str] = []
    for key, want in expected.items():
        if key in RULES:
            found += RULES[key](want, actual, saved, where)
        elif not isinstance(actual, Mapping):
            return [_differs(where, expected, actual)]
        else:
            name = embed(key.removeprefix("$") if key.startswith("$$") else key, saved)
            if name.startswith("$") and not key.startswith("$$"):
                raise CaseError(f"{key!r} is no rule about a map or a list")
            found += differences(want, actual.get(name, MISSING), saved, f"{where}.{name}")
    return found if expected or isinstance(actual, Mapping) else [_differs(where, {}, actual)]


def _exactly(want: Any, actual: Any, saved: Saved, where: str) -> list[str]:
    """The map has these members and no others."""
    if not isinstance(actual, Mapping) or not isinstance(want, Mapping):
        return _compare(fill(want, saved), actual, where)
    expected = {key for key, member in want.items() if member != "$absent"}
    return _keys([*expected], actual, saved, where) + _match_map(want, actual, saved, where)


def _keys(want: Any, actual: Any, saved: Saved, where: str) -> list[str]:
    """The map has exactly these keys, in any order."""
    names = {str(fill(key, saved)) for key in want}
    if isinstance(actual, Mapping) and {*actual} == names:
        return []
    return [_differs(f"the set of keys of {where}", sorted(names), _keys_of(actual))]


def _ordered(want: Any, actual: Any, saved: Saved, where: str) -> list[str]:
    """The map has exactly these keys, in this order."""
    names = [str(fill(key, saved)) for key in want]
    if isinstance(actual, Mapping) and [*actual] == names:
        return []
    return [_differs(f"the sequence of keys of {where}", names, _keys_of(actual))]


def _keys_of(actual: Any) -> Any:
    return [*actual] if isinstance(actual, Mapping) else actual


def _items(want: Any, actual: Any, saved: Saved, where: str) -> list[str]:
    """The array has these items and no others, in any order."""
    if not isinstance(actual, list) or len(actual) != len(want):
        return [_differs(where, want, actual)]
    return _includes(want, actual, saved, where)


def _includes(want: Any, actual: Any, saved: Saved, where: str) -> list[str]:
    """The array has each of these items, each at a place of its own."""
    if not isinstance(actual, list):
        return [_differs(where, want, actual)]
    left = [*actual]
    for item in want:
        place = next(
            (i for i, have in enumerate(left) if not differences(item, have, saved, "")), None
        )
        if place is None:
            return [f"{where} is {actual!r} and lacks {item!r}"]
        del left[place]
    return []


def _excludes(want: Any, actual: Any, saved: Saved, where: str) -> list[str]:
    """The array has none of these items, and the map none of these keys."""
    if not isinstance(actual, list | Mapping):
        return [_differs(where, want, actual)]
    bad = [item for item in want if any(not differences(item, have, saved, "") for have in actual)]
    return [f"{where} has {item!r}, which it must not" for item in bad]


def _count(want: Any, actual: Any, saved: Saved, where: str) -> list[str]:
    """The map or array has this many members."""
    if not isinstance(actual, list | Mapping):
        return [_differs(where, f"{want} members", actual)]
    return [] if len(actual) == want else [_differs(f"the size of {where}", want, len(actual))]


def _each(want: Any, actual: Any, saved: Saved, where: str) -> list[str]:
    """Every member of the map or array is like this, and there is one."""
    if not isinstance(actual, list | Mapping) or not actual:
        return [_differs(where, "members", actual)]
    members = actual.items() if isinstance(actual, Mapping) else enumerate(actual)
    return [
        found for key, have in members for found in differences(want, have, saved, f"{where}.{key}")
    ]


RULES: dict[str, Callable[[Any, Any, Saved, str], list[str]]] = {
    "$exactly": _exactly,
    "$keys": _keys,
    "$ordered": _ordered,
    "$items": _items,
    "$includes": _includes,
    "$excludes": _excludes,
    "$count": _count,
    "$each": _each,
}


def _match_text(expected: str, actual: Any, saved: Saved, where: str) -> list[str]:
    found = None if expected.startswith("$$") else _MATCHER.fullmatch(expected)
    if found is None:
        want = embed(expected.removeprefix("$") if expected.startswith("$$") else expected, saved)
        return [] if want == actual else [_differs(where, want, actual)]
    name, argument = found[1], found[2]
    if name == "save":
        return _save(argument or "", actual, saved, where)
    if name in KINDS and argument is None:
        return [] if KINDS[name](actual) else [_differs(where, expected, actual)]
    if name in COMPARISONS and argument is not None:
        return (
            []
            if COMPARISONS[name](argument, actual, saved)
            else [_differs(where, expected, actual)]
        )
    if argument is not None:
        raise CaseError(f"{expected!r} is no matcher")
    return _compare(recall(name, saved), actual, where)


def _save(argument: str, actual: Any, saved: Saved, where: str) -> list[str]:
    name, _, matcher = argument.partition(":")
    if not name.isalnum() or name in KINDS or name in COMPARISONS or name == "save":
        raise CaseError(f"{name!r} cannot be the name of something saved")
    found = _match_text(f"${matcher or 'any'}", actual, saved, where)
    saved[name] = None if found else actual
    return found


def _is_timestamp(actual: Any) -> bool:
    return isinstance(actual, str) and _TIMESTAMP.fullmatch(actual) is not None


def _is_url(actual: Any) -> bool:
    if not isinstance(actual, str):
        return False
    parts = urlsplit(actual)
    return parts.scheme in {"http", "https"} and bool(parts.netloc) and " " not in actual


def _is_whole(actual: Any) -> bool:
    return isinstance(actual, int) and not isinstance(actual, bool)


KINDS: dict[str, Callable[[Any], bool]] = {
    "any": lambda actual: actual is not MISSING,
    "absent": lambda actual: actual is MISSING,
    "null": lambda actual: actual is None,
    "string": lambda actual: isinstance(actual, str),
    "text": lambda actual: isinstance(actual, str) and actual != "",
    "bool": lambda actual: isinstance(actual, bool),
    "int": _is_whole,
    "uint": lambda actual: _is_whole(actual) and actual >= 0,
    "object": lambda actual: isinstance(actual, Mapping),
    "array": lambda actual: isinstance(actual, list),
    "timestamp": _is_timestamp,
    "url": _is_url,
}


def _matches(pattern: str, actual: Any, saved: Saved) -> bool:
    found = (
        re.fullmatch(embed(pattern, saved, re.escape), actual) if isinstance(actual, str) else None
    )
    saved.update(found.groupdict() if found else {})
    return found is not None


def _finds(pattern: str, actual: Any, saved: Saved) -> bool:
    found = re.search(embed(pattern, saved, re.escape), actual) if isinstance(actual, str) else None
    saved.update(found.groupdict() if found else {})
    return found is not None


def _has_no(pattern: str, actual: Any, saved: Saved) -> bool:
    return actual is MISSING or (isinstance(actual, str) and not _finds(pattern, actual, saved))


def _is_other(name: str, actual: Any, saved: Saved) -> bool:
    return actual is not MISSING and not _is_same(recall(name, saved), actual)


def _is_greater(name: str, actual: Any, saved: Saved) -> bool:
    return _rank(actual) > _rank(recall(name, saved))


def _is_no_less(name: str, actual: Any, saved: Saved) -> bool:
    return _rank(actual) >= _rank(recall(name, saved))


def _rank(value: Any) -> float:
    """Where a number or a time stands; `nan`, which compares with nothing, for all else."""
    if isinstance(value, str) and _TIMESTAMP.fullmatch(value):
        return datetime.fromisoformat(value).timestamp()
    if isinstance(value, str) and value.isdecimal():
        return float(value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number else math.nan


COMPARISONS: dict[str, Callable[[str, Any, Saved], bool]] = {
    "match": _matches,
    "search": _finds,
    "without": _has_no,
    "not": _is_other,
    "greater": _is_greater,
    "notless": _is_no_less,
}
