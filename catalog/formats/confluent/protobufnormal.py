"""Brings Protobuf files with the same meaning into one form, by the rules of Confluent's registry.

Types and custom options get full names, and all but messages, enums, services and methods are
sorted. Numbers of options are rounded to three digits, which changes the meaning; so does
Confluent, and the digests of the texts have to be equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from decimal import ROUND_HALF_EVEN, Decimal
from functools import reduce
from itertools import chain, groupby
from operator import attrgetter
from typing import Any, TypeVar

from catalog.formats.confluent.jackson import JavaFloat, java_number
from catalog.formats.confluent.protobuffile import (
    SCALARS,
    ProtoElement,
    ProtoFile,
    ProtoOption,
    ProtoWord,
    Range,
    map_types,
)
from catalog.formats.confluent.protobuftypes import KnownTypes, joined
from catalog.formats.documenttext import MalformedDocument

Declared = TypeVar("Declared", bound=ProtoElement)
MAX_EXPONENT = 400
EXACT_DIGITS = 20


class Normalizer:
    """Normalizes a file whose names the types resolve.

    Raises:
        MalformedDocument: a name of a type has no declaration.
    """

    def __init__(self, types: KnownTypes) -> None:
        self._types = types

    def file(self, file: ProtoFile) -> ProtoFile:
        normal = self._element(file, self._types.package)
        return replace(
            normal,
            syntax=file.syntax if file.syntax == "proto3" else None,
            imports=sorted(set(file.imports)),
            public_imports=sorted(set(file.public_imports)),
        )

    def _element(self, one: Declared, scope: str) -> Declared:
        inner = joined(scope, one.name) if one.kind in ("message", "enum") else scope
        request, response = (self._streamed(type, scope) for type in one.signature)
        type = self._type(one.type, scope) if one.kind == "field" else ""
        return replace(
            one,
            label=None if map_types(type) else one.label,
            type=type,
            signature=(request, response),
            options=self._options(one.options, inner),
            reserved=_sorted_ranges(one.reserved),
            extensions=_sorted_ranges(one.extensions),
            members=sorted(self._members(one, inner), key=_place),
        )

    def _members(self, of: ProtoElement, scope: str) -> Iterator[ProtoElement]:
        """The declarations inside of a declaration, with one extension of each message.

        The messages that stand for the entries of maps, and empty declarations, are left out.
        """
        extended: dict[str, list[ProtoElement]] = {}
        for one in of.members:
            if one.kind == "extend" and one.members:
                extended.setdefault(self._full_name(one.name, scope), []).extend(one.members)
            elif one.kind == "oneof" and not one.of("field"):
                continue
            elif one.kind != "extend" and one.map_type is None:
                yield self._element(one, scope)
        for name, fields in extended.items():
            yield self._element(ProtoElement(kind="extend", name=name, members=fields), scope)

    def _streamed(self, type: str, scope: str) -> str:
        """The full name of the type of a method, after "stream " if there are several."""
        stream, space, name = type.rpartition(" ")
        return stream + space + self._full_name(name, scope) if type else ""

    def _type(self, type: str, scope: str) -> str:
        if type in SCALARS:
            return type
        if not map_types(type):
            type = self._full_name(type, scope)
            type = self._types.types[type[1:]].map_type or type
        if pair := map_types(type):
            value = self._types.resolve(pair[1], scope)
            return f"map<{pair[0]}, .{value}>" if value else type
        return type

    def _full_name(self, type: str, scope: str) -> str:
        name = self._types.resolve(type, scope)
        if name is None:
            raise MalformedDocument(f"Could not resolve type: {type}")
        return f".{name}"

    def _options(self, options: Iterable[ProtoOption], scope: str) -> list[ProtoOption]:
        """The options by name; the values of a custom option that is not repeated are merged."""
        named = sorted((self._option(one, scope) for one in options), key=attrgetter("name"))
        merged: list[ProtoOption] = []
        for name, group in groupby(named, key=attrgetter("name")):
            same = list(group)
            if self._types.repeated.get(name.removeprefix(".")) is False:
                same = [reduce(_merged, same)]
            merged += [replace(one, value=self._value(one.value, scope)) for one in same]
        return merged

    def _option(self, option: ProtoOption, scope: str) -> ProtoOption:
        name = self._types.resolve_extension(option.name, scope) if option.is_custom else None
        return replace(option.as_map(), name=name) if name else option

    def _value(self, value: Any, scope: str) -> Any:
        if isinstance(value, ProtoWord):
            return ProtoWord(_rounded(value.text)) if value.is_number else value
        if isinstance(value, ProtoOption):
            return replace(value, value=self._value(value.value, scope))
        if isinstance(value, dict):
            values: dict[str, Any] = {}
            for key, one in value.items():
                if one != []:
                    values.setdefault(self._key(key, scope), self._inner(one, scope))
            return dict(sorted(values.items()))
        if isinstance(value, list):
            return [self._inner(one, scope) for one in value]
        return value

    def _inner(self, value: Any, scope: str) -> Any:
        """A value of a list or map, where a list of one value is the value."""
        inner = self._value(value, scope)
        return inner[0] if isinstance(inner, list) and len(inner) == 1 else inner

    def _key(self, key: str, scope: str) -> str:
        if not key.startswith("["):
            return key
        name = self._types.resolve_extension(key[1:-1], scope)
        return f"[{name}]" if name else key


def _place(one: ProtoElement) -> tuple[int, str]:
    """The place of a declaration among the declarations of its kind."""
    first = one.of("field")[0] if one.kind == "oneof" else one
    return first.number, one.name if one.kind == "constant" else ""


def _sorted_ranges(ranges: Iterable[Sequence[Range]]) -> list[Sequence[Range]]:
    """Each range for itself: numbers, then names."""
    single = [
        one[0] if isinstance(one, tuple) and one[0] == one[1] else one
        for one in chain.from_iterable(ranges)
    ]
    return [[one] for one in sorted(single, key=_start)]


def _start(range: Range) -> tuple[int, str]:
    if isinstance(range, str):
        return 2**31, range
    return (
        (range[0], f"{range[0]}..{range[1]}") if isinstance(range, tuple) else (range, str(range))
    )


def _merged(one: ProtoOption, other: ProtoOption) -> ProtoOption:
    """Two values of one option: maps are joined, and other values replaced."""
    if not (isinstance(one.value, dict) and isinstance(other.value, dict)):
        return other
    values = dict(one.value)
    for key, value in other.value.items():
        values[key] = _union(values[key], value) if key in values else value
    return replace(other, value=values)


def _union(one: Any, other: Any) -> list[Any]:
    """The values of both, each once."""
    values: dict[str, Any] = {}
    for value in (*_listed(one), *_listed(other)):
        values.setdefault(repr(value), value)
    return [*values.values()]


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _rounded(number: str) -> str:
    """A number as Java's DecimalFormat writes it: with three digits after the point at most."""
    try:
        if set(number).isdisjoint(".eE") or "x" in number[:3].lower():
            return str(_integer(number))
        decimal = _decimal(number)
        if decimal.adjusted() > MAX_EXPONENT:
            return number
        if decimal.adjusted() < EXACT_DIGITS:
            decimal = decimal.quantize(Decimal("0.001"), ROUND_HALF_EVEN)
    except (ValueError, ArithmeticError):
        return number
    text = f"{decimal:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _integer(number: str) -> int:
    digits = number.removeprefix("-").lower()
    is_octal = len(digits) > 1 and digits.startswith("0")
    return int(number, 16 if digits.startswith("0x") else 8 if is_octal else 10)


def _decimal(number: str) -> Decimal:
    """The number as the smallest of Java's types that its text is exact in: float, or double."""
    exact, double = Decimal(number), float(number)
    if java_number(short := JavaFloat(double)) == java_number(double):
        double = float(short)
    elif exact != Decimal(repr(double)):
        return exact
    is_small = abs(double) < 2**53
    return Decimal(double) if is_small else Decimal(repr(double))
