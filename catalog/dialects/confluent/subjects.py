"""Handlers about subjects and their versions: lists, reads, look-ups and deletions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aiohttp import web

from catalog.dialects.confluent import errors, requests, subjectwrites
from catalog.dialects.confluent.candidates import Candidate, Scope, find_version, with_contract
from catalog.dialects.confluent.contexts import Contexts, SubjectName, read_subject
from catalog.dialects.confluent.errors import confluent_json
from catalog.dialects.confluent.schemachecks import SchemaChecks, SchemaText
from catalog.dialects.confluent.subjectversions import (
    StoredSubject,
    SubjectVersion,
    load_references,
    load_subject,
    load_subject_anywhere,
    load_text,
    read_version,
    read_versions,
)
from catalog.load.workthread import aside
from catalog.model.interaction import Interaction
from catalog.store import schemaids
from catalog.store.database import Connection


async def list_subjects(request: web.Request) -> web.Response:
    """The names of subjects, of all contexts unless the path or `subjectPrefix` names one."""
    is_within, prefix = "context" in request.match_info, requests.prefix_in(request)
    async with requests.reading(request) as (connection, contexts):
        groups = contexts.visible_groups(prefix.context)
        rows = await schemaids.list_subjects(connection, [each.xid for each in groups])

    def names() -> list[str]:
        return sorted(
            {
                row.name if is_within else str(contexts.shown_in(row.group, row.name))
                for row in rows
                if row.name.startswith(prefix.name)
                and _is_wanted(request, is_deleted=row.is_deleted)
            }
        )

    return confluent_json((await aside(len(rows), names))[requests.page_in(request)])


def _is_wanted(request: web.Request, *, is_deleted: bool) -> bool:
    """Whether a list has an item: live ones, with `deleted` all, with `deletedOnly` the others."""
    if requests.is_set(request, "deletedOnly"):
        return is_deleted
    return not is_deleted or requests.is_set(request, "deleted")


async def list_versions(request: web.Request) -> web.Response:
    """The numbers of a subject's versions."""
    stored = await _read(request)
    as_negative = requests.is_set(request, "deletedAsNegative")
    seen = [
        one
        for one in stored.versions
        if as_negative or _is_wanted(request, is_deleted=one.is_deleted)
    ]
    counts_deleted = (
        as_negative
        or requests.is_set(request, "deleted")
        or requests.is_set(request, "deletedOnly")
    )
    if not (stored.versions if counts_deleted else stored.live):
        raise errors.subject_not_found(stored.subject)
    numbers = [-one.number if as_negative and one.is_deleted else one.number for one in seen]
    return confluent_json(numbers[requests.page_in(request)])


@requests.cached
async def get_version(request: web.Request) -> web.Response:
    """A version of a subject with its text."""
    stored, version, text = await _read_version(request)
    return confluent_json(shown_as_asked(request, version, stored.subject, text))


def shown_as_asked(
    request: web.Request, version: SubjectVersion, subject: SubjectName, text: str
) -> dict[str, Any]:
    """A version as JSON; `referenceFormat=qualified` shows references with their contexts."""
    shown = version.shown(subject, text)
    if version.references and request.query.get("referenceFormat", "").lower() == "qualified":
        shown["references"] = [
            one.model_copy(
                update={"subject": str(read_subject(one.subject, subject.context))}
            ).shown()
            for one in version.references
        ]
    return shown


@requests.cached
async def get_version_text(request: web.Request) -> web.Response:
    """The text of a version of a subject, as it is."""
    *_, text = await _read_version(request)
    return text_response(text)


def text_response(text: str) -> web.Response:
    """An answer that is the text of a schema."""
    response = confluent_json(None)
    response.body = text.encode()
    return response


async def _read(request: web.Request) -> StoredSubject:
    subject = requests.subject_in(request)
    async with requests.reading(request) as (connection, contexts):
        return await load_subject(connection, contexts, subject)


async def _read_version(request: web.Request) -> tuple[StoredSubject, SubjectVersion, str]:
    """The version that the path names, and its text in the format that the client wants."""
    subject, number = requests.subject_in(request), read_version(request.match_info["version"])
    async with requests.reading(request) as (connection, contexts):
        stored = await load_subject_anywhere(connection, contexts, subject)
        version = stored.version(number, deleted=requests.is_set(request, "deleted"))
        schema = await load_schema(request, connection, contexts, version)
    return stored, version, await formatted(request, schema)


async def load_schema(
    request: web.Request, connection: Connection, contexts: Contexts, version: SubjectVersion
) -> SchemaText:
    """The text of a version, with the texts that it refers to if the query asks for a format."""
    text, references = await load_text(connection, version), {}
    if request.query.get("format"):
        within = contexts.shown_subject(version.xid, version.name).context
        references = (await load_references(connection, contexts, version.references, within)).texts
    return SchemaText(version.schema_type, text, references)


async def formatted(request: web.Request, schema: SchemaText) -> str:
    """A text in the format that the query asks for."""
    format = request.query.get("format", "")
    if not format:
        return schema.text
    return await SchemaChecks.of(requests.node_of(request)).formatted(schema, format[:80])


async def get_referenced_by(request: web.Request) -> web.Response:
    """The ids of the schemas that refer to a version."""
    subject, number = requests.subject_in(request), read_version(request.match_info["version"])
    async with requests.reading(request) as (connection, contexts):
        stored = await load_subject(connection, contexts, subject)
        version = stored.version(number, deleted=True)
        referring = await find_referring(connection, contexts, stored, version)
    return confluent_json(sorted({one.id for one in referring}))


async def find_referring(
    connection: Connection, contexts: Contexts, stored: StoredSubject, version: SubjectVersion
) -> list[SubjectVersion]:
    """The live versions that refer to a version of a subject.

    A name that is not qualified is one of the context of the schema that refers by it.
    """
    plain, qualified = stored.subject.name, f":{stored.context.name}:{stored.subject.name}"
    groups = [each.xid for each in contexts.all.values()]
    found = read_versions(
        await schemaids.find_referring(connection, groups, {plain, qualified}, version.number)
    )
    within = {each.xid for each in contexts.visible_groups(stored.subject.context)}
    return [
        one
        for one in found
        if not one.is_deleted
        and (
            str(one.xid.group) in within
            or any(reference.subject == qualified for reference in one.references)
        )
    ]


@requests.cached
async def find_schema(request: web.Request) -> web.Response:
    """The version of a subject that has a text."""
    subject, body = requests.subject_in(request), await requests.read_schema(request)
    candidate, checks = Candidate.of(body), SchemaChecks.of(requests.node_of(request))
    async with requests.reading(request) as (connection, contexts):
        scope = Scope.of(contexts, await load_subject_anywhere(connection, contexts, subject))
        stored = scope.stored
        seen = stored.versions if requests.is_set(request, "deleted") else stored.live
        if not seen:
            raise errors.subject_not_found(subject)
        if candidate.is_empty:
            raise errors.schema_not_found("Schema")
        candidate, schema = await scope.completed(
            request, connection, candidate, checks, is_new=False
        )
        latest = stored.live[-1] if stored.live else None
        for each in (candidate, with_contract(scope, candidate, latest)):
            found = await find_version(connection, scope, each, checks, seen)
            if found is not None:
                text = await load_text(connection, found)
                text = await formatted(request, schema._replace(text=text))
                return confluent_json(found.shown(stored.subject, text))
    raise errors.schema_not_found("Schema")


async def get_by_metadata(request: web.Request) -> web.Response:
    """The latest version of a subject whose metadata has the properties of the query."""
    wanted = dict(
        zip(request.query.getall("key", []), request.query.getall("value", []), strict=False)
    )
    subject = requests.subject_in(request)
    async with requests.reading(request) as (connection, contexts):
        stored = await load_subject(connection, contexts, subject)
        seen = stored.versions if requests.is_set(request, "deleted") else stored.live
        if not seen:
            raise errors.subject_not_found(subject)
        for one in reversed(seen):
            properties = ((one.metadata and one.metadata.properties) or {}).items()
            if wanted.items() <= properties:
                schema = await load_schema(request, connection, contexts, one)
                return confluent_json(one.shown(subject, await formatted(request, schema)))
    raise errors.schema_not_found("Schema")


async def delete_subject(request: web.Request) -> web.Response:
    """Delete a subject softly, or with `permanent` for good once it was deleted softly."""
    return confluent_json(await _delete(request, None))


async def delete_version(request: web.Request) -> web.Response:
    """Delete a version softly, or with `permanent` for good once it was deleted softly."""
    [number] = await _delete(request, read_version(request.match_info["version"]))
    return confluent_json(number)


async def _delete(request: web.Request, number: int | None) -> list[int]:
    """Delete a version of a subject, or all versions; returns the numbers.

    Raises:
        ConfluentError: 40401 to 40407, 42205; 42206 if other schemas refer to a version.
    """
    subject, is_permanent = requests.subject_in(request), requests.is_set(request, "permanent")
    deleted: list[int] = []

    async def make(connection: Connection, interaction: Interaction) -> None:
        scope = await Scope.read(request, connection, subject)
        stored = scope.stored
        subjectwrites.check_own(scope.contexts, stored.context, subject)
        if scope.is_read_only:
            raise errors.not_permitted(f"Subject {subject} is in read-only mode")
        versions = _deletable(stored, subject, number, is_permanent=is_permanent)
        for one in versions:
            if await find_referring(connection, scope.contexts, stored, one):
                raise errors.reference_exists(stored.subject, one.number)
        deleted[:] = [one.number for one in versions]
        if not is_permanent:
            subjectwrites.put_versions(
                interaction,
                stored.resource,
                [subjectwrites.marked_deleted(one) for one in versions],
            )
            return
        subjectwrites.delete_for_good(interaction, stored, versions)
        if len(versions) == len(stored.versions):
            _forget_settings(interaction, stored)

    # Only a read tells the group and the resource to lock. `make` reads again under the locks.
    stored = await _read(request)
    if not stored.versions:
        raise errors.subject_not_found(subject)
    await subjectwrites.apply(request, stored.context.xid, stored.resource, make)
    return deleted


def _deletable(
    stored: StoredSubject, subject: SubjectName, number: int | None, *, is_permanent: bool
) -> Sequence[SubjectVersion]:
    """The versions to delete, which are deleted softly before they are deleted for good."""
    if number is not None:
        version = stored.version(number, deleted=True)
        if is_permanent and not version.is_deleted:
            raise errors.version_not_soft_deleted(subject, version.number)
        if version.is_deleted and not is_permanent:
            raise errors.version_soft_deleted(subject, version.number)
        return [version]
    if not stored.versions:
        raise errors.subject_not_found(subject)
    if is_permanent and stored.live:
        raise errors.subject_not_soft_deleted(subject)
    if not (is_permanent or stored.live):
        raise errors.subject_soft_deleted(subject)
    return stored.versions if is_permanent else stored.live


def _forget_settings(interaction: Interaction, stored: StoredSubject) -> None:
    """Remove the settings of a subject that is deleted for good."""
    subjects = dict(stored.context.kept.get("subjects") or {})
    if subjects.pop(stored.subject.name, None) is not None:
        subjectwrites.put_group(interaction, stored.context, subjects=subjects or None)
