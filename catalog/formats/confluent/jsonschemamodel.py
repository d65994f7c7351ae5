"""The parts of a JSON schema as the library everit-json-schema divides it.

Confluent compares the schemas of every draft in this model: a part constrains values of one
kind, and a schema that constrains several kinds combines several parts. Annotations, formats,
`contains`, `propertyNames`, and the branches of `if` are left out, for they are not compared.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import jsonschema_rs

Criterion = Literal["allOf", "anyOf", "oneOf"]


# Parts compare by identity, because a schema can contain itself.
@dataclass(eq=False, slots=True, kw_only=True)
class SchemaNode:
    """A part of a schema.

    `source` is the JSON by which equal alternatives are recognised.
    """

    source: Any = None
    has_default: bool = False
    connects_bytes: bool = False


@dataclass(eq=False, slots=True, kw_only=True)
class PlainNode(SchemaNode):
    """A part that has nothing to compare but its kind."""

    kind: Literal["boolean", "null", "conditional", "empty", "true", "false"]


ANYTHING = PlainNode(kind="empty")


@dataclass(eq=False, slots=True, kw_only=True)
class ReferenceNode(SchemaNode):
    """A reference to a schema, which can be under construction still."""

    schemas: dict[int, SchemaNode]
    target: int

    @property
    def referred(self) -> SchemaNode:
        """The schema that the reference, or a chain of references, leads to."""
        seen = set()
        node: SchemaNode = self
        while isinstance(node, ReferenceNode):
            if node.target in seen:
                return ANYTHING
            seen.add(node.target)
            node = node.schemas[node.target]
        return node


@dataclass(eq=False, slots=True, kw_only=True)
class StringNode(SchemaNode):
    """What strings must be like."""

    limits: dict[str, Any]
    pattern: str | None = None


@dataclass(eq=False, slots=True, kw_only=True)
class NumberNode(SchemaNode):
    """What numbers must be like."""

    limits: dict[str, Any]
    multiple_of: Any = None
    is_integer: bool = False


@dataclass(eq=False, slots=True, kw_only=True)
class ObjectNode(SchemaNode):
    """What objects must be like."""

    limits: dict[str, Any]
    properties: dict[str, SchemaNode] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    patterns: dict[str, SchemaNode] = field(default_factory=dict)
    is_open: bool = True
    others: SchemaNode | None = None
    unevaluated: SchemaNode | None = None
    dependent_names: dict[str, frozenset[str]] = field(default_factory=dict)
    dependent_schemas: dict[str, SchemaNode] = field(default_factory=dict)


@dataclass(eq=False, slots=True, kw_only=True)
class ArrayNode(SchemaNode):
    """What arrays must be like."""

    limits: dict[str, Any]
    every: SchemaNode | None = None
    first: list[SchemaNode] = field(default_factory=list)
    is_open: bool = True
    others: SchemaNode | None = None
    unevaluated: SchemaNode | None = None
    is_unique: bool = False


@dataclass(eq=False, slots=True, kw_only=True)
class EnumNode(SchemaNode):
    """The texts of the values that are allowed."""

    values: frozenset[str]


@dataclass(eq=False, slots=True, kw_only=True)
class ConstNode(SchemaNode):
    """The text of the only value that is allowed."""

    value: str


@dataclass(eq=False, slots=True, kw_only=True)
class NotNode(SchemaNode):
    """A schema that values must not match."""

    negated: SchemaNode


@dataclass(eq=False, slots=True, kw_only=True)
class CombinedNode(SchemaNode):
    """Several parts: a value must match all parts, any part, or exactly one part.

    `is_implied` tells that keywords side by side, not a keyword, combine the parts.
    """

    criterion: Criterion
    parts: list[SchemaNode]
    is_implied: bool = False


def is_empty(node: SchemaNode) -> bool:
    """Whether a part allows everything."""
    return isinstance(node, PlainNode) and node.kind in ("empty", "true")


def is_false(node: SchemaNode) -> bool:
    """Whether a part allows nothing."""
    return isinstance(node, PlainNode) and node.kind == "false"


def is_open_content(node: ObjectNode | ArrayNode) -> bool:
    """Whether there may be anything more than a part names."""
    is_partial = isinstance(node, ObjectNode) and node.patterns
    return (
        node.is_open
        and not is_partial
        and node.others is None
        and (node.unevaluated is None or is_empty(node.unevaluated))
    )


def rest_of(node: ObjectNode | ArrayNode) -> SchemaNode | None:
    """Return what more than a part names must be like, if a schema says so."""
    rest = node.others
    if rest is None and node.is_open:
        rest = node.unevaluated
        if rest is not None and (is_false(rest) or is_empty(rest)):
            return None
    return rest


def covering_schema(node: ObjectNode, name: str) -> SchemaNode | None:
    """Return what a property that a part does not name must be like, if a schema says so."""
    for pattern, schema in node.patterns.items():
        if _finds(pattern, name):
            return schema
    return rest_of(node)


def _finds(pattern: str, name: str) -> bool:
    searches: tuple[Callable[[], bool], ...] = (
        lambda: jsonschema_rs.is_valid({"pattern": pattern}, name),
        lambda: re.search(pattern, name) is not None,
    )
    for search in searches:
        try:
            return search()
        except (re.error, OverflowError, ValueError):
            continue
    return False
