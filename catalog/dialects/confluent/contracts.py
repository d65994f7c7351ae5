"""Data contracts and the identity of a schema: pure.

A contract is the metadata and the rules of a version: its own or those of the version before,
between the defaults and the overrides of its settings.
"""

from __future__ import annotations

import hashlib
import struct
import uuid
from collections.abc import Iterable

from catalog.operations.schemacontracts import (
    CONFLUENT_VERSION,
    RULE_MODES,
    Config,
    Metadata,
    RuleSet,
    SchemaReference,
    SchemaRule,
)

_TEXTS = ("name", "doc", "kind", "mode", "type", "tags", "params", "expr", "onSuccess", "onFailure")


def merged_contract(
    config: Config,
    metadata: Metadata | None,
    rules: RuleSet | None,
    previous: tuple[Metadata | None, RuleSet | None],
) -> tuple[Metadata | None, RuleSet | None]:
    """The metadata and rules of a new version: defaults, its own or the previous ones, overrides.

    Args:
        previous: the metadata and rules of the version before.
    """
    layers = (config.defaultMetadata, metadata or previous[0], config.overrideMetadata)
    merged: Metadata | None = None
    for layer in layers:
        merged = layer if merged is None else merged.merged(layer)
    sets = (config.defaultRuleSet, rules or previous[1], config.overrideRuleSet)
    merged_rules: RuleSet | None = None
    for each in sets:
        merged_rules = each if merged_rules is None else merged_rules.merged(each)
    return merged, merged_rules


def with_version(metadata: Metadata | None, version: int) -> Metadata:
    """The metadata with the property `confluent:version`."""
    properties = {**((metadata and metadata.properties) or {}), CONFLUENT_VERSION: str(version)}
    return (metadata or Metadata()).model_copy(update={"properties": properties})


def guid_of(
    text: str,
    references: Iterable[SchemaReference],
    metadata: Metadata | None,
    rules: RuleSet | None,
) -> str:
    """The GUID of a schema: the MD5 of the canonical text, references, metadata and rules.

    Confluent's registry computes the same since 8.0, and messages may carry the GUID in a header.
    """
    digest = hashlib.md5(usedforsecurity=False)
    for part in _hashed_parts(text, references, metadata, rules):
        if part is not None:
            digest.update(part if isinstance(part, bytes) else part.encode())
    return str(uuid.UUID(bytes=digest.digest()))


def _hashed_parts(
    text: str,
    references: Iterable[SchemaReference],
    metadata: Metadata | None,
    rules: RuleSet | None,
) -> Iterable[str | bytes | None]:
    yield text
    for reference in references:
        yield from (reference.name, reference.subject, struct.pack(">i", reference.version))
    if metadata is not None:
        yield b"\x01"
        for tag, values in sorted((metadata.tags or {}).items()):
            yield from (tag, *sorted(values))
        for pair in sorted((metadata.properties or {}).items()):
            yield from pair
        yield from sorted(metadata.sensitive or ())
    if rules is not None:
        yield b"\x01"
        for purpose in RULE_MODES:
            for rule in getattr(rules, purpose) or ():
                yield from _hashed_rule(rule)
        yield rules.enableAt


def _hashed_rule(rule: SchemaRule) -> Iterable[str | bytes | None]:
    for name in _TEXTS:
        value = getattr(rule, name)
        if name == "tags":
            yield from sorted(value or ())
        elif name == "params":
            yield from (text for pair in sorted((value or {}).items()) for text in pair)
        else:
            yield value
    if rule.disabled:
        yield b"\x01"
