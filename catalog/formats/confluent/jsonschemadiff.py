"""Compares JSON schemas as Confluent does, and tells the differences in Confluent's words.

Only differences that break compatibility are found. A property of an open content model counts
as written, so that no property can be added to one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from decimal import Decimal, InvalidOperation, localcontext
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from catalog.formats.confluent.jackson import printed
from catalog.formats.confluent.jsonschemamodel import (
    ArrayNode,
    CombinedNode,
    ConstNode,
    EnumNode,
    NotNode,
    NumberNode,
    ObjectNode,
    PlainNode,
    ReferenceNode,
    SchemaNode,
    StringNode,
    covering_schema,
    is_empty,
    is_false,
    is_open_content,
    rest_of,
)

MAX_DIFFERENCES = 1000
"""The most differences that one part of a schema reports."""

_ABSENT = "The keyword at path '{}' in the {} schema is not present in the {} schema"
_MORE = "The value at path '{}' in the {} schema is more than its value in the {} schema"
_LESS = "The value at path '{}' in the {} schema is less than its value in the {} schema"
_VALUE = "The value at path '{}' is different between the {} and {} schema"
_FEWER = (
    "An array or combined type at path '{}' has fewer elements in the {} schema than the {} schema"
)
_LONGER = (
    "An array or combined type at path '{}' has more elements in the {} schema than the {} schema"
)
_TYPE = "A type at path '{}' is different between the {} schema and the {} schema"
_OPEN = (
    "The {1} schema has an open content model and has a property or item at path '{0}' "
    "which is missing in the {2} schema"
)
_UNOPEN = (
    "The {1} schema has an unopen content model and has a required property at path '{0}' "
    "which is missing in the {2} schema"
)
_CLOSED = (
    "The {1} schema has a closed content model and is missing a property or item present "
    "at path '{0}' in the {2} schema"
)
_UNCOVERED_REMOVAL = (
    "A property or item is missing in the {1} schema but present at path '{0}' in the {2} schema "
    "and is not covered by its partially open content model"
)
_UNCOVERED_ADDITION = (
    "The {1} schema has a property or item at path '{0}' which is missing in the {2} schema "
    "and is not covered by its partially open content model"
)
# The first pattern that finds the type of a difference gives the message.
_MESSAGES = (
    (r"^SCHEMA_ADDED$", ""),
    (r"_TO_OPEN_CONTENT_MODEL$", _OPEN),
    (r"_TO_UNOPEN_CONTENT_MODEL$", _UNOPEN),
    (r"_FROM_CLOSED_CONTENT_MODEL$", _CLOSED),
    (r"_REMOVED_NOT_COVERED_", _UNCOVERED_REMOVAL),
    (r"_ADDED_NOT_COVERED_", _UNCOVERED_ADDITION),
    (r"^(PATTERN|MULTIPLE_OF|DEPENDENCY_ARRAY)_CHANGED$", _VALUE),
    (r"^TYPE_NARROWED$|_CHANGED$", _TYPE),
    (r"_ADDED$|_REMOVED$", _ABSENT),
    (r"_INCREASED$|_EXPANDED$", _MORE),
    (r"_DECREASED$", _LESS),
    (r"_NARROWED$", _FEWER),
    (r"_EXTENDED$", _LONGER),
)


class Incompatibility(NamedTuple):
    """A difference between schemas, with the place in the schema as a path."""

    type: str
    path: tuple[str, ...] = ()

    def message(self) -> str:
        """Return Confluent's message; `%s` are the places of the words for reader and writer."""
        template = next(text for pattern, text in _MESSAGES if re.search(pattern, self.type))
        description = template.format("#/" + "/".join(self.path), "%s", "%s")
        return f'{{errorType:"{self.type}", description:"{description}"}}'


Pair = tuple[int, int]
"""Two schemas by their identity."""
Limited = TypeVar("Limited", StringNode, NumberNode, ObjectNode, ArrayNode)
Incompatibilities = list[Incompatibility]


def differences(original: SchemaNode, update: SchemaNode) -> Incompatibilities:
    """Return what keeps a reader of the update from reading what the original allows."""
    return SchemaComparison().run(original, update)


class SchemaComparison:
    """The comparison of two schemas, which compares each pair of referred schemas once.

    A pair that is met within itself counts as compatible. If the pair turns out incompatible, the
    pairs that were found compatible meanwhile are compared again, since they may rely on the pair.
    """

    def __init__(self) -> None:
        self._found: dict[Pair, Incompatibilities] = {}
        self._nodes: dict[Pair, tuple[SchemaNode, SchemaNode]] = {}
        # The pairs under way, each with the pairs that were settled before.
        self._open: dict[Pair, set[Pair]] = {}
        self._missing: list[Pair] = []

    def run(self, original: SchemaNode, update: SchemaNode) -> Incompatibilities:
        """Compare the schemas without a call within a call for each reference.

        References between the schemas of a large document make chains longer than the stack of the
        interpreter. A pair that misses the answer for another pair is therefore compared again
        after the other pair.
        """
        whole = self._pair(original, update)
        pending = [whole]
        while pending:
            pair = pending[-1]
            if pair in self._found:
                pending.pop()
                continue
            self._open.setdefault(pair, {*self._found})
            self._missing = []
            found = self._compare_parts(*self._nodes[pair])
            if self._missing:
                pending += self._missing
            else:
                self._settle(pair, found)
        return self._found[whole]

    def _settle(self, pair: Pair, found: Incompatibilities) -> None:
        before = self._open.pop(pair)
        if found:
            self._found = {p: of for p, of in self._found.items() if of or p in before}
        self._found[pair] = found

    def _pair(self, original: SchemaNode, update: SchemaNode) -> Pair:
        original, update = _referred(original), _referred(update)
        pair = id(original), id(update)
        self._nodes[pair] = original, update
        return pair

    def _compare(self, original: SchemaNode | None, update: SchemaNode | None) -> Incompatibilities:
        if update is None:
            return []
        if original is None:
            return [Incompatibility("SCHEMA_ADDED")]
        if not isinstance(original, ReferenceNode) and not isinstance(update, ReferenceNode):
            return self._compare_parts(original, update)
        pair = self._pair(original, update)
        if pair not in self._found and pair not in self._open:
            self._missing.append(pair)
        return self._found.get(pair, [])

    def _covered(
        self, original: SchemaNode, update: SchemaNode, change: str
    ) -> Iterator[Incompatibility]:
        found = self._compare(original, update)
        yield from found
        if found:
            yield Incompatibility(f"{change}_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL")

    def _compare_parts(self, original: SchemaNode, update: SchemaNode) -> Incompatibilities:
        if self._has_compatible_alternative(original, update):
            return []
        match original, update:
            case StringNode(), StringNode():
                return _strings(original, update)
            case NumberNode(), NumberNode():
                return _numbers(original, update)
            case ObjectNode(), ObjectNode():
                return [*islice(self._objects(original, update), MAX_DIFFERENCES)]
            case ArrayNode(), ArrayNode():
                return [*islice(self._arrays(original, update), MAX_DIFFERENCES)]
            case EnumNode(), EnumNode():
                return _enums(original, update)
            case ConstNode(), ConstNode():
                is_same = original.value == update.value
                return [] if is_same else [Incompatibility("ENUM_ARRAY_CHANGED", ("const",))]
            case NotNode(), NotNode():
                is_extended = self._compare(update.negated, original.negated)
                return [Incompatibility("NOT_TYPE_EXTENDED", ("not",))] if is_extended else []
            case CombinedNode(), CombinedNode():
                return self._combinations(original, update)
            case PlainNode(), PlainNode() if original.kind == update.kind:
                return []
        if is_false(original) or is_empty(update):
            return []
        if original.connects_bytes and update.connects_bytes:
            return []
        return [Incompatibility("TYPE_CHANGED")]

    def _has_compatible_alternative(self, original: SchemaNode, update: SchemaNode) -> bool:
        match original, update:
            case CombinedNode(), CombinedNode():
                return False
            case _, CombinedNode():
                if len(update.parts) == 1 or update.criterion != "allOf":
                    return any(not self._compare(original, part) for part in update.parts)
            case CombinedNode(), _:
                if len(original.parts) == 1 or original.criterion == "allOf":
                    return any(not self._compare(part, update) for part in original.parts)
        return False

    def _combinations(self, original: CombinedNode, update: CombinedNode) -> Incompatibilities:
        if not _is_criterion_kept(original, update):
            return [Incompatibility("COMBINED_TYPE_CHANGED")]
        before, after = _distinct(original.parts), _distinct(update.parts)
        found = []
        if len(before) < len(after) and update.criterion == "allOf":
            found.append(Incompatibility("PRODUCT_TYPE_EXTENDED"))
        elif len(before) > len(after) and original.criterion != "allOf":
            found.append(Incompatibility("SUM_TYPE_NARROWED"))
        edges = [
            [place for place, part in enumerate(after) if not self._compare(each, part)]
            for each in before
        ]
        if _matched(edges) < min(len(before), len(after)):
            found.append(Incompatibility("COMBINED_TYPE_SUBSCHEMAS_CHANGED"))
        return found

    def _objects(self, original: ObjectNode, update: ObjectNode) -> Iterator[Incompatibility]:
        for name in sorted(original.properties.keys() & update.properties.keys()):
            is_added = name in update.required and name not in original.required
            if is_added and not update.properties[name].has_default:
                yield Incompatibility("REQUIRED_ATTRIBUTE_ADDED", ("required", name))
        for name in sorted(original.properties.keys() | update.properties.keys()):
            yield from _at(self._property(name, original, update), "properties", name)
        yield from _at(self._dependencies(original, update), "dependencies")
        yield from _at(
            self._rest(original, update, "ADDITIONAL_PROPERTIES"), "additionalProperties"
        )
        yield from _at(
            self._unevaluated(original, update, "UNEVALUATED_PROPERTIES"), "unevaluatedProperties"
        )
        yield from _limits(original, update)

    def _property(
        self, name: str, original: ObjectNode, update: ObjectNode
    ) -> Iterator[Incompatibility]:
        before, after = original.properties.get(name), update.properties.get(name)
        if before is None and after is not None:
            yield from self._added_property(name, after, original, update)
        elif after is not None:
            yield from self._compare(before, after)
        elif before is not None and not is_open_content(update):
            covering = covering_schema(update, name)
            if covering is not None:
                yield from self._covered(before, covering, "PROPERTY_REMOVED")
            elif not is_false(before):
                yield Incompatibility("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL")

    def _added_property(
        self, name: str, added: SchemaNode, original: ObjectNode, update: ObjectNode
    ) -> Iterator[Incompatibility]:
        is_required = name in update.required
        if is_open_content(original):
            if not is_empty(added):
                with_default = "_WITH_DEFAULT" if is_required and added.has_default else ""
                kind = "REQUIRED" if is_required else "OPTIONAL"
                yield Incompatibility(f"{kind}_PROPERTY{with_default}_ADDED_TO_OPEN_CONTENT_MODEL")
            return
        covering = covering_schema(original, name)
        if covering is not None:
            yield from self._covered(covering, added, "PROPERTY_ADDED")
        if is_required and not added.has_default:
            yield Incompatibility("REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL")

    def _dependencies(self, original: ObjectNode, update: ObjectNode) -> Iterator[Incompatibility]:
        for name, after in sorted(update.dependent_names.items()):
            before = original.dependent_names.get(name)
            if before is None:
                yield Incompatibility("DEPENDENCY_ARRAY_ADDED", (name,))
            elif after > before:
                yield Incompatibility("DEPENDENCY_ARRAY_EXTENDED", (name,))
            elif not after <= before:
                yield Incompatibility("DEPENDENCY_ARRAY_CHANGED", (name,))
        for name in sorted(update.dependent_schemas):
            if name in original.dependent_schemas:
                found = self._compare(
                    original.dependent_schemas[name], update.dependent_schemas[name]
                )
                yield from _at(found, name)
            else:
                yield Incompatibility("DEPENDENCY_SCHEMA_ADDED", (name,))

    def _rest(
        self, original: ObjectNode | ArrayNode, update: ObjectNode | ArrayNode, what: str
    ) -> Iterator[Incompatibility]:
        """Compare what is additional."""
        if original.is_open != update.is_open:
            if original.is_open:
                yield Incompatibility(f"{what}_REMOVED")
        elif original.others is None and update.others is not None:
            yield Incompatibility(f"{what}_NARROWED")
        elif update.others is not None:
            yield from self._compare(original.others, update.others)

    def _unevaluated(
        self, original: ObjectNode | ArrayNode, update: ObjectNode | ArrayNode, what: str
    ) -> Iterator[Incompatibility]:
        before, after = original.unevaluated, update.unevaluated
        if after is None or (before is not None and is_false(before)):
            return
        if is_false(after):
            yield Incompatibility(f"{what}_REMOVED")
        elif before is None or (is_empty(before) and not is_empty(after)):
            yield Incompatibility(f"{what}_NARROWED")
        elif not is_empty(after):
            yield from self._compare(before, after)

    def _arrays(self, original: ArrayNode, update: ArrayNode) -> Iterator[Incompatibility]:
        yield from _at(self._compare(original.every, update.every), "items")
        yield from self._first_items(original, update)
        yield from _at(self._rest(original, update, "ADDITIONAL_ITEMS"), "additionalItems")
        yield from _at(self._unevaluated(original, update, "UNEVALUATED_ITEMS"), "unevaluatedItems")
        yield from _limits(original, update)
        if update.is_unique and not original.is_unique:
            yield Incompatibility("UNIQUE_ITEMS_ADDED", ("uniqueItems",))

    def _first_items(self, original: ArrayNode, update: ArrayNode) -> Iterator[Incompatibility]:
        before, after = original.first, update.first
        for place in range(max(len(before), len(after))):
            if place >= len(after):
                found = self._removed_item(before[place], update)
            elif place >= len(before):
                found = self._added_item(after[place], original)
            else:
                found = iter(self._compare(before[place], after[place]))
            yield from _at(found, f"items/{place}")

    def _removed_item(self, removed: SchemaNode, update: ArrayNode) -> Iterator[Incompatibility]:
        if is_open_content(update):
            return
        covering = rest_of(update)
        if covering is not None:
            yield from self._covered(removed, covering, "ITEM_REMOVED")
        elif not is_false(removed):
            yield Incompatibility("ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL")

    def _added_item(self, added: SchemaNode, original: ArrayNode) -> Iterator[Incompatibility]:
        covering = rest_of(original)
        if is_open_content(original):
            if not is_empty(added):
                yield Incompatibility("ITEM_ADDED_TO_OPEN_CONTENT_MODEL")
        elif covering is not None:
            yield from self._covered(covering, added, "ITEM_ADDED")


def _strings(original: StringNode, update: StringNode) -> Incompatibilities:
    found = [*_limits(original, update)]
    if update.pattern is not None and update.pattern != original.pattern:
        kind = "ADDED" if original.pattern is None else "CHANGED"
        found.append(Incompatibility(f"PATTERN_{kind}", ("pattern",)))
    return found


def _numbers(original: NumberNode, update: NumberNode) -> Incompatibilities:
    found = [*_limits(original, update)]
    before, after = original.multiple_of, update.multiple_of
    if after is not None and after != before:
        if before is None:
            kind = "ADDED"
        elif _divides(before, after):
            kind = "EXPANDED"
        else:
            kind = "" if _divides(after, before) else "CHANGED"
        if kind:
            found.append(Incompatibility(f"MULTIPLE_OF_{kind}", ("multipleOf",)))
    if update.is_integer and not original.is_integer:
        found.append(Incompatibility("TYPE_NARROWED"))
    return found


def _divides(divisor: Any, number: Any) -> bool:
    with localcontext(prec=1000):
        try:
            return Decimal(number) % Decimal(divisor) == 0
        except InvalidOperation:
            return False


def _enums(original: EnumNode, update: EnumNode) -> Incompatibilities:
    if update.values >= original.values:
        return []
    kind = "NARROWED" if update.values < original.values else "CHANGED"
    return [Incompatibility(f"ENUM_ARRAY_{kind}", ("enum",))]


def _limits(original: Limited, update: Limited) -> Iterator[Incompatibility]:
    for keyword, after in update.limits.items():
        before = original.limits.get(keyword)
        # As MAX_LENGTH for maxLength.
        name = re.sub("([A-Z])", r"_\1", keyword).upper()
        is_upper = "max" in keyword.lower()
        if before is None:
            yield Incompatibility(f"{name}_ADDED", (keyword,))
        elif is_upper and after < before:
            yield Incompatibility(f"{name}_DECREASED", (keyword,))
        elif not is_upper and after > before:
            yield Incompatibility(f"{name}_INCREASED", (keyword,))


def _is_criterion_kept(original: CombinedNode, update: CombinedNode) -> bool:
    """Whether the update combines its parts in a way that allows as much."""
    was_single, is_single = len(original.parts) == 1, len(update.parts) == 1
    return (
        update.criterion in (original.criterion, "anyOf")
        or (was_single and (is_single or update.criterion == "oneOf"))
        or (is_single and original.criterion == "allOf")
    )


def _distinct(parts: list[SchemaNode]) -> list[SchemaNode]:
    return [*{printed(part.source, in_order=True): part for part in reversed(parts)}.values()]


def _matched(edges: list[list[int]]) -> int:
    """Return the most pairs of a left and a right place that the edges can join at once."""
    partner: dict[int, int] = {}

    def join(left: int, reached: set[int]) -> bool:
        for right in edges[left]:
            if right not in reached:
                reached.add(right)
                # The partner of the place takes another place if there is one.
                if right not in partner or join(partner[right], reached):
                    partner[right] = left
                    return True
        return False

    return sum(join(left, set()) for left in range(len(edges)))


def _at(found: Iterable[Incompatibility], *steps: str) -> Iterator[Incompatibility]:
    return (Incompatibility(each.type, (*steps, *each.path)) for each in found)


def _referred(node: SchemaNode) -> SchemaNode:
    return node.referred if isinstance(node, ReferenceNode) else node
