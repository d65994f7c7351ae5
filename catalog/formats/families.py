"""The formats that can be checked, and the compatibility rules of each format."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

RULES = tuple(
    f"{way}{reach}" for way in ("backward", "forward", "full") for reach in ("", "_transitive")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Formats that a single module of the package checks.

    The module has `validate(format, document) -> str`,
    `compare(format, older, newer, direction) -> str` (only in families with rules), and
    `conform(format, schema, payload, contenttype, part) -> str`. The functions may raise
    `MalformedDocument`; `conform` raises `MalformedDocument` for errors in the schema, and
    `Mismatch` for errors in the payload.

    Args:
        module: the name of the module.
        patterns: the formats; `*` stands for any text.
        rules: the compatibility rules that the module can check.
    """

    module: str
    patterns: tuple[str, ...]
    rules: tuple[str, ...] = RULES


# The names of schema/spec.md, "Schema Formats", and further spellings in use.
FAMILIES = (
    Family(module="avro_schema", patterns=("avro", "avro/1.*")),
    Family(
        module="json_schema",
        patterns=(
            "jsonschema",
            *(f"jsonschema/draft-{draft}" for draft in ("04", "06", "07", "2019-09", "2020-12")),
            *(f"jsonschema/draft/{draft}" for draft in ("2019-09", "2020-12")),
        ),
    ),
    # No maintained library compares JSON Structure or XML schemas.
    Family(module="json_structure", patterns=("jsonstructure", "jsonstructure/draft-*"), rules=()),
    Family(
        module="protobuf_schema",
        patterns=("protobuf/2", "protobuf/2.0", "protobuf/3", "protobuf/3.0"),
    ),
    Family(module="xsd", patterns=("xsd", "xsd/1.0", "xsd/1.1"), rules=()),
)

# Schemas as the Confluent API reads them, which are no formats of documents for other clients.
_CONFLUENT = "confluent/"
CONFLUENT_FORMATS = tuple(f"{_CONFLUENT}{name}" for name in ("avro", "json", "protobuf"))

FORMATS: tuple[str, ...] = tuple(pattern for family in FAMILIES for pattern in family.patterns)
COMPATIBILITIES: Mapping[str, tuple[str, ...]] = {
    pattern: family.rules for family in FAMILIES if family.rules for pattern in family.patterns
}


def matches(pattern: str, format: str) -> bool:
    """Whether a format value matches a pattern, ignoring case.

    Source: core/spec.md, "compatibilities Capability": `*` stands for any text.
    """
    parts = (re.escape(part) for part in pattern.lower().split("*"))
    return re.fullmatch(".*".join(parts), format.lower(), re.DOTALL) is not None


def family_of(format: str) -> Family | None:
    """The family with a module that checks documents of a format, or `None`."""
    for family in FAMILIES:
        if any(matches(pattern, format) for pattern in family.patterns):
            return family
    return None


def is_confluent(format: str) -> bool:
    """Whether a format is a schema type of the Confluent API."""
    return format in CONFLUENT_FORMATS


def module_of(format: str) -> str:
    """The module of the package that checks documents of a supported format."""
    if is_confluent(format):
        return "confluent.questions"
    family = family_of(format)
    assert family is not None, f"nothing of format {format} can be checked"
    return family.module


def is_supported(format: str) -> bool:
    """Whether documents of a format can be checked."""
    return family_of(format) is not None


def rules_for(format: str) -> tuple[str, ...]:
    """The compatibility rules that can be checked between versions of a format."""
    family = family_of(format)
    return family.rules if family else ()
