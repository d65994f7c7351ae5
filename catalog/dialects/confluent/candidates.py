"""Schemas that clients send: their contracts and identity, and the stored versions that equal them.

A contract is the metadata and the rules of a version: its own or those of the version before,
between the defaults and the overrides of its settings.
"""

from __future__ import annotations

import hashlib
import struct
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from aiohttp import web

from catalog.dialects.confluent.contexts import FORWARD, IMPORT, Contexts, SubjectName
from catalog.dialects.confluent.errors import invalid_schema
from catalog.dialects.confluent.requests import contexts_of, is_set
from catalog.dialects.confluent.schemachecks import OlderVersion, SchemaChecks, SchemaText
from catalog.dialects.confluent.subjectversions import (
    ReferenceNotFound,
    StoredSubject,
    SubjectVersion,
    load_references,
    load_subject,
    load_text,
    load_texts,
    read_versions,
    shown_contract,
)
from catalog.operations.schemacontracts import (
    AVRO,
    CONFLUENT_VERSION,
    RULE_MODES,
    Config,
    Metadata,
    RegisterRequest,
    RuleSet,
    SchemaReference,
    SchemaRule,
)
from catalog.store import schemaids
from catalog.store.database import Connection
from catalog.store.schemaids import RegistrationRow

_Layer = TypeVar("_Layer", Metadata, RuleSet)
_TEXTS = ("name", "doc", "kind", "mode", "type", "tags", "params", "expr", "onSuccess", "onFailure")
_RESERVED = "confluent:reserved"


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
        # The mark tells empty metadata from absent metadata.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A schema with everything that its GUID depends on.

    Args:
        text: the text, canonical once it was checked.
    """

    schema_type: str
    text: str
    references: tuple[SchemaReference, ...]
    metadata: Metadata | None
    rules: RuleSet | None

    @classmethod
    def of(cls, body: RegisterRequest) -> Candidate:
        return cls(
            schema_type=body.schemaType or AVRO,
            text=body.schema_ or "",
            references=tuple(body.references or ()),
            metadata=body.metadata,
            rules=body.ruleSet,
        )

    @property
    def is_empty(self) -> bool:
        return not self.text.strip()

    @property
    def guid(self) -> str:
        return guid_of(self.text, self.references, self.metadata, self.rules)

    def kept(self, subject: SubjectName, rid: str) -> dict[str, Any]:
        """The attribute of a new version, without its id."""
        contract = shown_contract(self.references, self.metadata, self.rules)
        kept = {"guid": self.guid, "schemaType": self.schema_type, **contract}
        return kept if rid == subject.name else {**kept, "subject": subject.name}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What a request about a subject depends on, read at one moment."""

    contexts: Contexts
    stored: StoredSubject
    config: Config
    mode: str

    @classmethod
    async def read(
        cls,
        request: web.Request,
        connection: Connection,
        subject: SubjectName,
        *,
        by_alias: bool = True,
    ) -> Scope:
        contexts = await contexts_of(request, connection)
        return cls.of(
            contexts, await load_subject(connection, contexts, subject, by_alias=by_alias)
        )

    @classmethod
    def of(cls, contexts: Contexts, stored: StoredSubject) -> Scope:
        name = stored.subject.name
        return cls(
            contexts=contexts,
            stored=stored,
            config=contexts.config_in_scope(stored.context, name),
            mode=contexts.mode_in_scope(stored.context, name),
        )

    @property
    def imports(self) -> bool:
        """Whether versions come from another registry, which has checked them."""
        return self.mode in (IMPORT, FORWARD)

    @property
    def is_read_only(self) -> bool:
        return self.mode in ("READONLY", "READONLY_OVERRIDE")

    async def completed(
        self,
        request: web.Request,
        connection: Connection,
        candidate: Candidate,
        checks: SchemaChecks,
        *,
        is_new: bool,
    ) -> tuple[Candidate, SchemaText]:
        """A schema in canonical form, with its references resolved, and with their texts.

        Args:
            is_new: whether to hold the schema to the rules for new ones.

        Raises:
            ConfluentError: 42201.
        """
        within = self.stored.subject.context
        try:
            references = await load_references(
                connection, self.contexts, candidate.references, within, is_new=is_new
            )
        except ReferenceNotFound as error:
            message = f"Invalid schema of type {candidate.schema_type}, details: {error}"
            raise invalid_schema(message) from error
        asked = SchemaText(candidate.schema_type, candidate.text, references.texts)
        normalize = is_set(request, "normalize") or self.config.normalize is True
        text = await checks.canonical(
            asked, normalize=normalize, is_new=is_new and self.config.validateNames is not False
        )
        resolved = references.resolved
        if normalize:
            resolved = tuple(sorted(resolved, key=lambda one: one.name))
        completed = replace(candidate, text=text, references=resolved)
        return completed, asked._replace(text=text)


def with_contract(scope: Scope, candidate: Candidate, latest: SubjectVersion | None) -> Candidate:
    """The schema with the metadata and rules of the settings and of the version before."""
    config = scope.config
    metadata, rules = candidate.metadata, candidate.rules
    if latest is not None:
        metadata, rules = metadata or latest.metadata, rules or latest.rules
    return replace(
        candidate,
        metadata=_layered(config.defaultMetadata, metadata, config.overrideMetadata),
        rules=_layered(config.defaultRuleSet, rules, config.overrideRuleSet),
    )


def _layered(*layers: _Layer | None) -> _Layer | None:
    merged: _Layer | None = None
    for layer in layers:
        merged = layer if merged is None else merged.merged(layer)
    return merged


async def find_same(
    connection: Connection, scope: Scope, candidate: Candidate, read: RegistrationRow
) -> list[SubjectVersion]:
    """The versions in the contexts of a subject that are equal to a schema, as `equal_of` says."""
    # The row that each registration reads knows this: most new texts need no second query.
    if not read.has_guid:
        return []
    groups = {each.xid for each in scope.contexts.visible_groups(scope.stored.subject.context)}
    found = [
        one
        for one in read_versions(await schemaids.find_by_guid(connection, candidate.guid))
        if str(one.xid.group) in groups
    ]
    return await equal_of(connection, found, candidate)


async def equal_of(
    connection: Connection, versions: Sequence[SubjectVersion], candidate: Candidate
) -> list[SubjectVersion]:
    """Those of some versions that have the text, references and contract of a schema.

    The contents are compared, too, since MD5 does not rule out two schemas with one GUID.
    """
    guid = candidate.guid
    found = [one for one in versions if one.guid == guid]
    texts = await load_texts(connection, found)
    return [one for one in found if _is_equal(one, texts.get(one.entity.xid), candidate)]


async def is_same(connection: Connection, version: SubjectVersion, candidate: Candidate) -> bool:
    """Whether a version has the text, references and contract of a schema."""
    return _is_equal(version, await load_text(connection, version), candidate)


def _is_equal(version: SubjectVersion, text: str | None, candidate: Candidate) -> bool:
    return (
        text == candidate.text
        and version.schema_type == candidate.schema_type
        and tuple(version.references) == candidate.references
        and _shown(version.metadata) == _shown(candidate.metadata)
        and _shown(version.rules) == _shown(candidate.rules)
    )


async def find_version(
    connection: Connection,
    scope: Scope,
    candidate: Candidate,
    checks: SchemaChecks,
    seen: Sequence[SubjectVersion],
) -> SubjectVersion | None:
    """Find the newest version of a subject that a schema means, as Confluent's registry does.

    Beside the equal one, the schema may mean a version that differs in the property
    `confluent:version` alone, or an Avro version whose references the schema has resolved.

    Args:
        candidate: the schema, in canonical form.
        seen: the versions of the subject that count.
    """
    same = await equal_of(connection, seen, candidate)
    if same:
        return same[-1]
    names_version = property_of(candidate.metadata, CONFLUENT_VERSION) is not None
    for one in reversed(seen):
        is_resolved = one.references and not candidate.references
        if not (
            names_version or property_of(one.metadata, CONFLUENT_VERSION) is not None or is_resolved
        ):
            continue
        text = await load_text(connection, one)
        references = tuple(one.references)
        if is_resolved and one.schema_type == candidate.schema_type == AVRO:
            given = await load_references(
                connection, scope.contexts, one.references, scope.stored.subject.context
            )
            text = await checks.formatted(SchemaText(AVRO, text, given.texts), "resolved")
            references = ()
        stored = replace(
            candidate,
            text=text,
            schema_type=one.schema_type,
            references=references,
            metadata=_comparable(one.metadata, candidate.metadata, one.number),
            rules=one.rules,
        )
        asked = replace(
            candidate, metadata=_comparable(candidate.metadata, one.metadata, one.number)
        )
        if stored.guid == asked.guid and stored.text == asked.text:
            return one
    return None


def _comparable(own: Metadata | None, other: Metadata | None, number: int) -> Metadata | None:
    """Metadata without the property `confluent:version`, unless the other side contradicts it."""
    named, others = property_of(own, CONFLUENT_VERSION), property_of(other, CONFLUENT_VERSION)
    if named is None or own is None or others is not None:
        return own if own is None or own.shown() else None
    properties = {k: v for k, v in (own.properties or {}).items() if k != CONFLUENT_VERSION}
    bare = own.model_copy(update={"properties": properties or None})
    return bare if bare.shown() else None


def _shown(contract: Metadata | RuleSet | None) -> Any:
    return None if contract is None else contract.shown()


async def find_faults(
    scope: Scope,
    candidate: Candidate,
    schema: SchemaText,
    checks: SchemaChecks,
    older: Sequence[OlderVersion],
) -> list[str]:
    """What keeps a schema from being registered after some versions of the subject.

    A caller holds no connection meanwhile: the comparisons of one subject may take seconds, and
    other requests would wait for the connection.

    Args:
        schema: the schema in canonical form, with the texts of the references.
        older: the versions that `load_older` has selected.

    Returns:
        the messages of a verbose check, the settings last; empty if the schema is compatible.
    """
    level = scope.config.compatibilityLevel or "NONE"
    faults = [
        *await _reserved_faults(scope, candidate, schema, checks),
        *await checks.incompatibilities(schema, older, level),
    ]
    if not faults:
        return []
    validates = "true" if scope.config.validateFields else "false"
    return [
        *faults,
        f"{{validateFields: '{validates}', compatibility: '{scope.config.compatibilityLevel}'}}",
    ]


async def load_older(
    connection: Connection,
    scope: Scope,
    metadata: Metadata | None,
    versions: Sequence[SubjectVersion],
) -> list[OlderVersion]:
    """The versions that a new one is compared with, and their texts.

    Args:
        metadata: the metadata of the new version: of versions in groups of compatibility, only
            those of its own count.
    """
    group = scope.config.compatibilityGroup
    if group is not None:
        own = property_of(metadata, group)
        versions = [one for one in versions if property_of(one.metadata, group) == own]
    level = scope.config.compatibilityLevel or "NONE"
    if level == "NONE":
        return []
    wanted = versions if level.endswith("_TRANSITIVE") else versions[-1:]
    texts = await load_texts(connection, wanted)
    older = []
    for one in wanted:
        references = await load_references(
            connection, scope.contexts, one.references, scope.stored.subject.context
        )
        text = SchemaText(one.schema_type, texts.get(one.entity.xid, ""), references.texts)
        older.append(OlderVersion(one.number, text))
    return older


async def _reserved_faults(
    scope: Scope, candidate: Candidate, schema: SchemaText, checks: SchemaChecks
) -> list[str]:
    """What a schema does to reserved fields, if the settings validate fields.

    The property `confluent:reserved` of the metadata names fields that a schema must not have, and
    that the next versions have to reserve, too.
    """
    if not scope.config.validateFields:
        return []
    latest = scope.stored.live[-1].metadata if scope.stored.live else None
    reserved = _reserved(candidate.metadata)
    faults = [
        f"{{errorType:'RESERVED_FIELD_REMOVED', description:'The new schema does not reserve the "
        f"field {name}, which the old schema reserves.'}}"
        for name in sorted(_reserved(latest) - reserved)
    ]
    conflicts = reserved & await checks.field_names(schema) if reserved else ()
    return faults + [
        f"{{errorType:'FIELD_CONFLICTS_WITH_RESERVED_FIELD', description:'The new schema has the "
        f"field {name}, which its metadata reserve.'}}"
        for name in sorted(conflicts)
    ]


def _reserved(metadata: Metadata | None) -> set[str]:
    names = (property_of(metadata, _RESERVED) or "").split(",")
    return {name.strip() for name in names} - {""}


def property_of(metadata: Metadata | None, name: str) -> str | None:
    """A property of the metadata of a schema."""
    return ((metadata and metadata.properties) or {}).get(name)
