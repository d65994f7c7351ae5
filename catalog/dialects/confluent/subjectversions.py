"""The versions of subjects as stored, and as the API shows them."""

from __future__ import annotations

import calendar
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from catalog.dialects.confluent import errors
from catalog.dialects.confluent.contexts import (
    DEFAULT_CONTEXT,
    Contexts,
    SchemaContext,
    SubjectName,
    read_subject,
)
from catalog.dialects.confluent.errors import ConfluentError
from catalog.model.confluentattribute import CONFLUENT
from catalog.model.entity import Entity
from catalog.model.xid import Xid
from catalog.operations.schemacontracts import AVRO, Metadata, RuleSet, SchemaReference
from catalog.store import entities as store
from catalog.store import schemaids
from catalog.store.database import Connection

LATEST = -1
CANONICAL = "canonical"
"""The member with the canonical text of a version whose document a native client wrote."""
_LARGEST = 2**31 - 1
DEEPEST_REFERENCES, MOST_REFERENCED = 64, 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectVersion:
    """A version of a subject, without its text."""

    entity: Entity
    name: str
    number: int
    id: int
    guid: str
    schema_type: str
    references: Sequence[SchemaReference]
    metadata: Metadata | None
    rules: RuleSet | None
    is_deleted: bool

    @classmethod
    def of(cls, entity: Entity) -> SubjectVersion | None:
        """Read a version; `None` if it is none for this API, or of a later edition of it."""
        kept, xid = entity.attributes.get(CONFLUENT), entity.path
        if not isinstance(kept, Mapping) or not is_number(xid.vid):
            return None
        try:
            return cls(
                entity=entity,
                name=str(kept.get("subject") or xid.rid),
                number=int(xid.vid),
                id=int(kept["id"]),
                guid=str(kept["guid"]),
                schema_type=str(kept.get("schemaType") or AVRO),
                references=[SchemaReference(**one) for one in kept.get("references") or ()],
                metadata=_read(Metadata, kept.get("metadata")),
                rules=_read(RuleSet, kept.get("ruleSet")),
                is_deleted=kept.get("deleted") is True,
            )
        except (KeyError, TypeError, ValueError):
            return None

    @property
    def xid(self) -> Xid:
        return self.entity.path

    @property
    def kept(self) -> Mapping[str, Any]:
        """The attribute of `catalog.model.confluentattribute`."""
        kept: Mapping[str, Any] = self.entity.attributes[CONFLUENT]
        return kept

    def shown(self, subject: SubjectName, text: str) -> dict[str, Any]:
        """The version as JSON, with its text."""
        time = self.entity.modifiedat
        return {
            "subject": str(subject),
            "version": self.number,
            "id": self.id,
            "guid": self.guid,
            "schemaType": self.schema_type,
            **shown_contract(self.references, self.metadata, self.rules),
            "schema": text,
            "ts": calendar.timegm(time.utctimetuple()) * 1000 + time.microsecond // 1000,
            "deleted": self.is_deleted,
        }


def shown_contract(
    references: Sequence[SchemaReference], metadata: Metadata | None, rules: RuleSet | None
) -> dict[str, Any]:
    """The references, metadata and rules of a schema as JSON, without empty members."""
    shown: dict[str, Any] = {}
    if references:
        shown["references"] = [one.shown() for one in references]
    if metadata is not None:
        shown["metadata"] = metadata.shown()
    if rules is not None:
        shown["ruleSet"] = rules.shown()
    return shown


def _read(model: type[Any], held: Any) -> Any:
    return None if held is None else model.model_validate(held)


def is_number(vid: str) -> bool:
    """Whether the id of a version is a number that the API can show."""
    is_plain = vid.isascii() and vid.isdigit() and not vid.startswith("0") and len(vid) < 11
    return is_plain and int(vid) <= _LARGEST


def read_version(text: str) -> int:
    """Read the number of a version, or `LATEST`.

    Raises:
        ConfluentError: 42202.
    """
    if text.lower() in ("latest", "-1"):
        return LATEST
    if not is_number(text):
        raise errors.invalid_version(text[:80])
    return int(text)


def read_versions(entities: Iterable[Entity], name: str | None = None) -> list[SubjectVersion]:
    """Read versions in the order of their numbers; with a name, those of the subject only."""
    found = [one for one in map(SubjectVersion.of, entities) if one is not None]
    if name is not None:
        found = [one for one in found if one.name == name]
    return sorted(found, key=lambda one: one.number)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSubject:
    """A subject with all its versions in the order of their numbers, deleted ones included.

    Args:
        subject: the name by which the client asked.
        context: the group that has the subject, or would have it.
        digests: the digests of all versions that the name may mean, in order.
    """

    subject: SubjectName
    context: SchemaContext
    versions: Sequence[SubjectVersion]
    digests: Sequence[bytes]

    @property
    def live(self) -> list[SubjectVersion]:
        return [one for one in self.versions if not one.is_deleted]

    @property
    def resource(self) -> Xid:
        """The resource of the subject; of one without versions, the preferred one."""
        if self.versions:
            return self.versions[0].xid.resource
        return Xid.parse(self.context.resources(self.subject.name)[0])

    def version(self, number: int, *, deleted: bool = False) -> SubjectVersion:
        """Find a version, or the latest.

        Raises:
            ConfluentError: 40401, 40402.
        """
        seen = self.versions if deleted else self.live
        if not seen:
            raise errors.subject_not_found(self.subject)
        if number == LATEST:
            # The latest is a live version, unless all are deleted.
            return (self.live or seen)[-1]
        for one in seen:
            if one.number == number:
                return one
        raise errors.version_not_found(number)


async def load_subject(
    connection: Connection, contexts: Contexts, subject: SubjectName, *, by_alias: bool = True
) -> StoredSubject:
    """Read a subject.

    A name in the default context means the subject of the node's own home group if it has one,
    else that of the one other home group that has it.

    Args:
        by_alias: whether the name may be an alias, which the settings of the name say.

    Raises:
        ConfluentError: 409 if several other authorities have the subject.
    """
    groups = contexts.named(subject.context)
    config = groups[0].config_of(subject.name) if by_alias and subject.name else None
    if config is not None and config.alias:
        subject = read_subject(config.alias, subject.context)
        groups = contexts.named(subject.context)
    by_group: dict[str, list[SubjectVersion]] = {}
    entities = await schemaids.load_versions(connection, contexts.resources_of(subject))
    for one in read_versions(entities, subject.name):
        by_group.setdefault(str(one.xid.group), []).append(one)
    holders = [group for group in groups if group.xid in by_group]
    chosen = holders[0] if holders else groups[0]
    if len(holders) > 1 and chosen.authority != contexts.authority:
        qualified = ", ".join(f":{group.name}:{subject.name}" for group in holders)
        raise ConfluentError(409, f"Subject '{subject}' is of several authorities: {qualified}")
    return StoredSubject(
        subject=subject,
        context=chosen,
        versions=by_group.get(chosen.xid, ()),
        digests=sorted(entity.digest for entity in entities),
    )


async def load_subject_anywhere(
    connection: Connection, contexts: Contexts, subject: SubjectName
) -> StoredSubject:
    """Read a subject; a name that the default context does not have may be of any context."""
    stored = await load_subject(connection, contexts, subject)
    if stored.versions or stored.subject.context != DEFAULT_CONTEXT:
        return stored
    for context in sorted(contexts.all.values(), key=lambda each: each.name):
        if not context.is_home:
            name = SubjectName(context.name, stored.subject.name)
            found = await load_subject(connection, contexts, name, by_alias=False)
            if found.versions:
                return found
    return stored


async def load_text(connection: Connection, version: SubjectVersion) -> str:
    """Read the text of a version."""
    return (await load_texts(connection, [version]))[version.entity.xid]


async def load_texts(connection: Connection, versions: Iterable[SubjectVersion]) -> dict[str, str]:
    """Read the texts of versions in canonical form, by xid."""
    texts = {one.entity.xid: one.kept.get(CANONICAL) for one in versions}
    stored = [xid for xid, text in texts.items() if text is None]
    documents = await store.load_documents(connection, stored) if stored else {}
    return {
        xid: documents.get(xid, b"").decode(errors="replace") if text is None else str(text)
        for xid, text in texts.items()
    }


class ResolvedReferences(NamedTuple):
    """The references of a schema, with the numbers of versions in place of the latest ones.

    Args:
        texts: the texts by the name of the reference, dependencies first.
    """

    resolved: tuple[SchemaReference, ...]
    texts: dict[str, str]


class ReferenceNotFound(Exception):
    """A reference names no version; the text says which."""


async def load_references(
    connection: Connection,
    contexts: Contexts,
    references: Sequence[SchemaReference],
    within: str,
    *,
    is_new: bool = False,
) -> ResolvedReferences:
    """Read the texts that references name, and in turn those of their references.

    Args:
        within: the context of the schema, for references that are not qualified.
        is_new: whether the schema is new: then it may not refer to deleted versions.

    Raises:
        ReferenceNotFound
    """
    texts: dict[str, str] = {}

    async def add(
        references: Sequence[SchemaReference], within: str, depth: int, *, is_new: bool
    ) -> tuple[SchemaReference, ...]:
        resolved = []
        for reference in references:
            if depth > DEEPEST_REFERENCES or len(texts) >= MOST_REFERENCED:
                raise ReferenceNotFound("the references are nested too deeply, or are too many")
            subject = contexts.referenced(reference.subject, within)
            stored = await load_subject(connection, contexts, subject)
            try:
                # A version that was deleted softly keeps its readers.
                version = stored.version(reference.version, deleted=not is_new)
            except ConfluentError as error:
                raise ReferenceNotFound(
                    f'No schema reference found for subject "{reference.subject}" and version '
                    f"{reference.version}"
                ) from error
            if reference.name not in texts:
                await add(version.references, stored.subject.context, depth + 1, is_new=False)
                texts[reference.name] = await load_text(connection, version)
            resolved.append(reference.model_copy(update={"version": version.number}))
        return tuple(resolved)

    return ResolvedReferences(await add(references, within, 0, is_new=is_new), texts)
