"""The drafts of JSON Schema, their keywords, and the checks of what a keyword has for a value."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jsonschema_rs
from referencing import Specification
from referencing.jsonschema import DRAFT4, DRAFT6, DRAFT7, DRAFT202012

from catalog.formats.confluent.jsonschemamodel import Criterion
from catalog.formats.documenttext import MalformedDocument


class SchemaDraft(NamedTuple):
    """A version of JSON Schema, with the beginning of its URI after the scheme.

    Confluent reads draft 2019-09 as if it were 2020-12.
    """

    uri: str
    specification: Specification[Any]
    is_modern: bool = False


DRAFT_7 = SchemaDraft("json-schema.org/draft-07/schema", DRAFT7)
DRAFTS = (
    SchemaDraft("json-schema.org/draft-04/schema", DRAFT4),
    SchemaDraft("json-schema.org/schema", DRAFT4),
    SchemaDraft("json-schema.org/draft-06/schema", DRAFT6),
    DRAFT_7,
    SchemaDraft("json-schema.org/draft/2019-09/schema", DRAFT202012, is_modern=True),
    SchemaDraft("json-schema.org/draft/2020-12/schema", DRAFT202012, is_modern=True),
)
CRITERIA: tuple[Criterion, ...] = ("allOf", "anyOf", "oneOf")
NUMBER_KEYWORDS = ("maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum", "multipleOf")
STRING_KEYWORDS = ("maxLength", "minLength", "pattern")
OBJECT_KEYWORDS = (
    "maxProperties",
    "minProperties",
    "properties",
    "patternProperties",
    "additionalProperties",
    "required",
    "propertyNames",
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
    "object": (
        *OBJECT_KEYWORDS,
        "dependentRequired",
        "dependentSchemas",
        "unevaluatedProperties",
    ),
    "number": NUMBER_KEYWORDS,
    "string": STRING_KEYWORDS,
}
# What java.net.URI refuses.
NO_URI = re.compile(r'[\x00-\x20\x7f"<>\\^`{|}]|%(?![0-9a-fA-F]{2})|#.*#|^[^?#]*(?<!//)\[')


def draft_of(schema: Any, default: SchemaDraft) -> SchemaDraft:
    """Return the draft that a document names, or the default."""
    declared = schema.get("$schema", "") if isinstance(schema, dict) else ""
    if not isinstance(declared, str):
        raise MalformedDocument("$schema is not a string")
    uri = declared.partition("://")[2]
    return next((draft for draft in DRAFTS if uri.startswith(draft.uri)), default)


def value_of(schema: dict[str, Any], keyword: str, kind: type) -> Any:
    """Return what a keyword of a schema has for a value."""
    return typed(schema[keyword], keyword, kind)


def typed(value: Any, keyword: str, kind: type) -> Any:
    """Return a value that must be of a kind."""
    if not isinstance(value, kind):
        names = {list: "an array", dict: "an object", bool: "true or false", str: "a string"}
        raise MalformedDocument(f"{keyword} is not {names[kind]}")
    return value


def members(schema: dict[str, Any], keyword: str) -> dict[str, Any]:
    """Return the members of the object that a keyword has for a value."""
    value: dict[str, Any] = typed(schema.get(keyword, {}), keyword, dict)
    return value


def names_of(names: list[Any]) -> frozenset[str]:
    """Return names, which must be strings."""
    return frozenset(typed(name, "a name", str) for name in names)


def number_of(schema: dict[str, Any], keyword: str) -> Any:
    """Return the number that a keyword has for a value."""
    if not is_number(schema[keyword]):
        raise MalformedDocument(f"{keyword} is not a number")
    return schema[keyword]


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
    checks: list[Callable[[], object]] = [
        lambda: re.compile(pattern),
        lambda: jsonschema_rs.validator_for({"pattern": pattern}),
    ]
    for check in checks:
        try:
            check()
        except (re.error, OverflowError, ValueError):
            continue
        return
    raise MalformedDocument(f"{pattern[:200]} is no regular expression")
