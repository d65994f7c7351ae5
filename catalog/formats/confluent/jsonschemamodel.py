"""The drafts and keywords of JSON Schema, and the parts into which everit-json-schema divides it.

Confluent compares the schemas of every draft in this model: a part constrains values of one
kind, and a schema that constrains several kinds combines several parts. Annotations, formats,
`contains`, `propertyNames`, and the branches of `if` are left out, for they are not compared.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import jsonschema_rs
from referencing import Specification
from referencing.jsonschema import DRAFT4, DRAFT6, DRAFT7, DRAFT202012

from catalog.formats.documenttext import MalformedDocument

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
    try:
        found = _tried(
            lambda: jsonschema_rs.is_valid({"pattern": pattern}, name),
            lambda: re.search(pattern, name) is not None,
        )
    except ValueError:
        return False
    return bool(found)


def _tried(*attempts: Callable[[], object]) -> object:
    """Return the result of the first attempt that accepts a regular expression.

    Raises:
        ValueError: no attempt does.
    """
    for attempt in attempts:
        with suppress(re.error, OverflowError, ValueError):
            return attempt()
    raise ValueError("no regular expression")


CRITERIA: tuple[Criterion, ...] = ("allOf", "anyOf", "oneOf")
NUMBER_KEYWORDS = ("maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum", "multipleOf")
STRING_KEYWORDS = ("maxLength", "minLength", "pattern")
OBJECT_KEYWORDS = (
    *("maxProperties", "minProperties", "properties", "patternProperties"),
    *("additionalProperties", "required", "propertyNames"),
)
ARRAY_KEYWORDS = ("maxItems", "minItems", "uniqueItems", "items", "contains")
OLDER: Mapping[str, tuple[str, ...]] = {
    "array": (*ARRAY_KEYWORDS, "additionalItems"),
    "object": (*OBJECT_KEYWORDS, "dependencies"),
    "number": NUMBER_KEYWORDS,
    "string": (*STRING_KEYWORDS, "format"),
}
MODERN: Mapping[str, tuple[str, ...]] = {
    "array": (*ARRAY_KEYWORDS, "prefixItems", "unevaluatedItems"),
    "object": (*OBJECT_KEYWORDS, "dependentRequired", "dependentSchemas", "unevaluatedProperties"),
    "number": NUMBER_KEYWORDS,
    "string": STRING_KEYWORDS,
}


class SchemaDraft(NamedTuple):
    """A version of JSON Schema, with the beginning of its URI after the scheme.

    Confluent reads draft 2019-09 as if it were 2020-12.
    """

    uri: str
    specification: Specification[Any]
    is_modern: bool = False

    @property
    def keywords(self) -> Mapping[str, tuple[str, ...]]:
        """The keywords that constrain values of each kind."""
        return MODERN if self.is_modern else OLDER


DRAFT_7 = SchemaDraft("json-schema.org/draft-07/schema", DRAFT7)
DRAFTS = (
    SchemaDraft("json-schema.org/draft-04/schema", DRAFT4),
    SchemaDraft("json-schema.org/schema", DRAFT4),
    SchemaDraft("json-schema.org/draft-06/schema", DRAFT6),
    DRAFT_7,
    SchemaDraft("json-schema.org/draft/2019-09/schema", DRAFT202012, is_modern=True),
    SchemaDraft("json-schema.org/draft/2020-12/schema", DRAFT202012, is_modern=True),
)
# What java.net.URI refuses.
NO_URI = re.compile(r'[\x00-\x20\x7f"<>\\^`{|}]|%(?![0-9a-fA-F]{2})|#.*#|^[^?#]*(?<!//)\[')


def draft_of(schema: Any, default: SchemaDraft) -> SchemaDraft:
    """Return the draft that a document names, or the default."""
    declared = schema.get("$schema", "") if isinstance(schema, dict) else ""
    if not isinstance(declared, str):
        raise MalformedDocument("$schema is not a string")
    uri = declared.partition("://")[2]
    return next((draft for draft in DRAFTS if uri.startswith(draft.uri)), default)


def typed(value: Any, keyword: str, kind: type) -> Any:
    """Return a value that must be of a kind."""
    if not isinstance(value, kind):
        names = {list: "an array", dict: "an object", bool: "true or false", str: "a string"}
        raise MalformedDocument(f"{keyword} is not {names[kind]}")
    return value


def is_number(value: Any) -> bool:
    """Whether a value is a number."""
    return value is not None and not isinstance(value, bool | str | list | dict)


def check_uri(uri: str) -> None:
    """Refuse what Java does not accept as a URI."""
    if NO_URI.search(uri):
        raise MalformedDocument(f"{uri[:200]} is no URI")


def check_regex(pattern: str) -> None:
    """Refuse a regular expression that neither Python nor ECMAScript has.

    Java's regular expressions are the rule, and no library reads these.
    """
    try:
        _tried(
            lambda: re.compile(pattern),
            lambda: jsonschema_rs.validator_for({"pattern": pattern}),
        )
    except ValueError as error:
        raise MalformedDocument(f"{pattern[:200]} is no regular expression") from error
