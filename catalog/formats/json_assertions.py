"""The facts that JSON schemas state about a value: types, bounds, members and elements."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from referencing import Specification
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT4, DRAFT6, DRAFT7, DRAFT202012

if TYPE_CHECKING:
    from referencing._core import Resolver


# A type name stands for a set, for intersections: a number is an integer or a fraction.
TYPES: Final = {
    "null": frozenset({"null"}),
    "boolean": frozenset({"boolean"}),
    "object": frozenset({"object"}),
    "array": frozenset({"array"}),
    "string": frozenset({"string"}),
    "integer": frozenset({"integer"}),
    "number": frozenset({"integer", "fraction"}),
}
ANY_TYPE: Final = frozenset().union(*TYPES.values())
NUMBERS: Final = TYPES["number"]
# A key that no document can have, in schemas that accept a single value.
EXACTLY: Final = object()
IMPOSSIBLE: Final[dict[Any, Any]] = {"not": {}}
ANYTHING: Final[dict[Any, Any]] = {}
REFERENCES_STAND_ALONE = (DRAFT4, DRAFT6, DRAFT7)
ANNOTATIONS = {"$comment", "default", "deprecated", "description", "examples", "title"}
ANNOTATIONS |= {"$defs", "$id", "$schema", "definitions", "id", "readOnly", "writeOnly"}


@dataclass(frozen=True, slots=True)
class SchemaPart:
    """A schema or a part of a schema, with the base URI of references.

    Parts are equal if the schemas are the same object, not if the schemas have equal content.
    """

    schema: Any
    resolver: Resolver[Any]
    specification: Specification[Any]

    def __hash__(self) -> int:
        return id(self.schema)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SchemaPart) and self.schema is other.schema

    def at(self, schema: Any) -> SchemaPart:
        """A part of the part; a boolean schema becomes the equivalent object."""
        if isinstance(schema, bool):
            schema = ANYTHING if schema else IMPOSSIBLE
        if isinstance(schema, dict) and ("$id" in schema or "id" in schema):
            resource = self.specification.create_resource(schema)
            return SchemaPart(schema, self.resolver.in_subresource(resource), self.specification)
        return SchemaPart(schema, self.resolver, self.specification)

    def get(self, keyword: Any, default: Any = None) -> Any:
        return self.schema.get(keyword, default)

    def members(self, keyword: str) -> list[SchemaPart]:
        """The schemas of a keyword with several schemas, such as anyOf."""
        return [self.at(schema) for schema in self.get(keyword, ())]

    def children(self) -> list[SchemaPart]:
        resource = self.specification.create_resource(self.schema)
        return [
            SchemaPart(child.contents, self.resolver.in_subresource(child), self.specification)
            for child in resource.subresources()
        ]

    def target(self) -> SchemaPart | None:
        """The target of $ref; `None` if the target is outside of the document."""
        try:
            resolved = self.resolver.lookup(self.get("$ref"))
        except Unresolvable:
            return None
        return SchemaPart(ANYTHING, resolved.resolver, self.specification).at(resolved.contents)

    def says(self) -> dict[Any, Any]:
        """The keywords in force: before 2019-09, $ref disables every other keyword."""
        if "$ref" in self.schema and self.specification in REFERENCES_STAND_ALONE:
            return {"$ref": self.schema["$ref"]}
        return {key: value for key, value in self.schema.items() if key not in ANNOTATIONS}


Facts = Sequence[SchemaPart]


def conjuncts(parts: Facts) -> list[SchemaPart]:
    """The parts that apply together: the given parts, and the targets of $ref and allOf."""
    found: dict[SchemaPart, None] = {}
    pending = list(reversed(parts))
    while pending:
        part = pending.pop()
        if part in found:
            continue
        found[part] = None
        keywords = part.says()
        if "$ref" in keywords and (target := part.target()) is not None:
            pending.append(target)
        if "allOf" in keywords:
            pending += part.members("allOf")
    return list(found)


def types(facts: Facts) -> frozenset[str]:
    """The types that every fact allows; empty if the facts contradict each other."""
    left: frozenset[str] = ANY_TYPE
    values = exact_values(facts)
    if any(not equal(value, values[0]) for value in values):
        return frozenset()
    for fact in facts:
        keywords = fact.says()
        if "not" in keywords and (keywords["not"] == {} or keywords["not"] is True):
            return frozenset()
        if "type" in keywords:
            left &= named_types(keywords["type"])
    return left


def named_types(names: str | list[str]) -> frozenset[str]:
    listed = [names] if isinstance(names, str) else names
    return frozenset[str]().union(*(TYPES[name] for name in listed))


def numbers(facts: Facts, keyword: str) -> list[Any]:
    """The numbers that facts state for a keyword."""
    values = (fact.says().get(keyword) for fact in facts)
    return [value for value in values if is_number(value)]


def equal(one: Any, other: Any) -> bool:
    """Whether two values are equal as JSON: true is not 1, and 1.0 is 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(equal, one, other))
    return isinstance(one, bool) is isinstance(other, bool) and bool(one == other)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def bound(facts: Facts, side: str) -> tuple[Any, bool] | None:
    """The tightest limit of facts on one side, and whether the limit is exclusive.

    Args:
        facts: the facts about a number.
        side: "minimum" or "maximum".
    """
    limits = [limit for fact in facts for limit in limits_of(fact.says(), side)]
    tighter = max if side == "minimum" else min
    if not limits:
        return None
    value = tighter(value for value, _ in limits)
    return value, (value, True) in limits


def limits_of(keywords: dict[Any, Any], side: str) -> Iterator[tuple[Any, bool]]:
    """The limits on one side, and whether each limit is exclusive.

    Draft 4 marks an exclusive limit with a boolean; later drafts have a second keyword.
    """
    exclusive = keywords.get(f"exclusive{side.capitalize()}")
    if is_number(keywords.get(side)):
        yield keywords[side], exclusive is True
    if is_number(exclusive):
        yield exclusive, True


def divides(divisor: Any, value: Any) -> bool:
    """Whether a value is a multiple of a divisor, in decimals: 0.3 is a multiple of 0.1."""
    return bool(Fraction(str(value)) % Fraction(str(divisor)) == 0)


def listed_values(part: SchemaPart) -> Iterator[tuple[str, list[Any]]]:
    """The keywords that list allowed values, each with the values."""
    keywords = part.says()
    if "enum" in keywords:
        yield "enum", keywords["enum"]
    if "const" in keywords:
        yield "const", [keywords["const"]]


def required(facts: Facts) -> set[str]:
    return {name for fact in facts for name in fact.says().get("required", ())}


def named_properties(facts: Facts) -> set[str]:
    return {name for fact in facts for name in fact.says().get("properties", {})}


def property_facts(facts: Facts, name: str) -> list[SchemaPart]:
    """The facts about one property; empty if the facts do not mention the property."""
    return [said for fact in facts for said in _property_of(fact, name)]


def exact_values(facts: Facts) -> list[Any]:
    """The values of the facts that accept a single value."""
    return [fact.schema[EXACTLY] for fact in facts if EXACTLY in fact.schema]


def _property_of(fact: SchemaPart, name: str) -> list[SchemaPart]:
    keywords = fact.says()
    said = [fact.at(keywords["properties"][name])] if name in keywords.get("properties", {}) else []
    said += [
        fact.at(schema)
        for pattern, schema in keywords.get("patternProperties", {}).items()
        if finds(pattern, name)
    ]
    return said or _additional(fact, "additionalProperties")


def other_properties(facts: Facts) -> list[SchemaPart]:
    """The facts about properties that are neither named nor matched by a pattern."""
    return [said for fact in facts for said in _additional(fact, "additionalProperties")]


def element_facts(facts: Facts, index: int) -> list[SchemaPart]:
    """The facts about the element at an index of an array."""
    return [said for fact in facts for said in _element_of(fact, index)]


def _element_of(fact: SchemaPart, index: int) -> list[SchemaPart]:
    first, rest = elements(fact)
    return [first[index]] if index < len(first) else rest


def elements(fact: SchemaPart) -> tuple[list[SchemaPart], list[SchemaPart]]:
    """The schemas of the first elements of an array, and the schema of further elements, if any.

    Drafts before 2020-12 write the schemas of the first elements as a list in `items`.
    """
    keywords = fact.says()
    if isinstance(keywords.get("items"), list):
        return fact.members("items"), _additional(fact, "additionalItems")
    has_prefix = fact.specification is DRAFT202012 or EXACTLY in keywords
    return fact.members("prefixItems") if has_prefix else [], _additional(fact, "items")


def finds(pattern: str, text: str) -> bool:
    """Whether a pattern matches; a pattern of a dialect that Python cannot compile does not."""
    try:
        return re.search(pattern, text) is not None
    except (re.error, OverflowError):
        return False


def exactly(value: Any) -> dict[Any, Any]:
    """A schema, in the keywords of 2020-12, that accepts a single value."""
    schema: dict[Any, Any] = {EXACTLY: value}
    limits: dict[Any, Any]
    match value:
        case None:
            return schema | {"type": "null"}
        case bool():
            return schema | {"type": "boolean"}
        case int() | float():
            kind = "integer" if float(value).is_integer() else "number"
            return schema | {"type": kind, "minimum": value, "maximum": value}
        case str():
            return schema | {"type": "string", "minLength": len(value), "maxLength": len(value)}
        case list():
            limits = {"minItems": len(value), "maxItems": len(value), "items": False}
            return schema | limits | {"type": "array", "prefixItems": [*map(exactly, value)]}
        case _:
            limits = {"required": list(value), "additionalProperties": False}
            members = {name: exactly(each) for name, each in value.items()}
            size = {"minProperties": len(value), "maxProperties": len(value)}
            return schema | limits | size | {"type": "object", "properties": members}


def _additional(fact: SchemaPart, keyword: str) -> list[SchemaPart]:
    schema = fact.says().get(keyword)
    return [] if schema is None or schema is True or schema == {} else [fact.at(schema)]


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
