"""Handlers about schemas by id and by GUID, lists of schemas, and their types."""

from __future__ import annotations

import re
from collections.abc import Sequence

from aiohttp import web

from catalog.dialects.confluent import requests
from catalog.dialects.confluent.contexts import (
    DEFAULT_CONTEXT,
    Contexts,
    SubjectName,
    read_subject,
)
from catalog.dialects.confluent.errors import ConfluentError, confluent_json, schema_not_found
from catalog.dialects.confluent.subjects import (
    formatted,
    load_schema,
    shown_as_asked,
    text_response,
)
from catalog.dialects.confluent.subjectversions import (
    SubjectVersion,
    load_texts,
    read_versions,
)
from catalog.operations.schemacontracts import SCHEMA_TYPES
from catalog.store import schemaids
from catalog.store.database import Connection

_GUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


async def list_types(request: web.Request) -> web.Response:
    """The types of schemas that can be registered."""
    return confluent_json(SCHEMA_TYPES)


async def list_schemas(request: web.Request) -> web.Response:
    """Versions with their texts, of subjects with a prefix, by subject and number."""
    prefix = requests.prefix_in(request)
    async with requests.reading(request) as (connection, contexts):
        groups = contexts.visible_groups(prefix.context)
        rows = await schemaids.list_subjects(connection, [each.xid for each in groups])
        named = [
            (str(contexts.shown_in(row.group, row.name)), row.xid)
            for row in rows
            if row.name.startswith(prefix.name)
        ]
        found = await _page(request, connection, [xid for _, xid in sorted(named)])
        texts = await load_texts(connection, found)
    shown = [
        one.shown(contexts.shown_subject(one.xid, one.name), texts.get(one.entity.xid, ""))
        for one in found
    ]
    return confluent_json(shown)


async def _page(
    request: web.Request, connection: Connection, resources: Sequence[str]
) -> list[SubjectVersion]:
    """The wanted versions of resources, in the order of the resources."""
    found: list[SubjectVersion] = []
    by_resource: dict[str, list[SubjectVersion]] = {}
    for one in read_versions(await schemaids.load_versions(connection, resources)):
        if not one.is_deleted or requests.is_set(request, "deleted"):
            by_resource.setdefault(str(one.xid.resource), []).append(one)
    for xid in resources:
        versions = by_resource.get(xid, [])
        found += versions[-1:] if requests.is_set(request, "latestOnly") else versions
    return found[requests.page_in(request)][: requests.MOST_LISTED]


def _id_in(request: web.Request) -> int:
    text = request.match_info["id"]
    if not (text.isascii() and text.removeprefix("-").isdigit() and len(text) < 11):
        raise ConfluentError(404, "HTTP 404 Not Found")
    return int(text)


@requests.cached
async def get_by_id(request: web.Request) -> web.Response:
    """A schema by the id that messages carry."""
    subject, version, text = await _read_by_id(request)
    shown = shown_as_asked(request, version, subject, text)
    # The version and its subject say something only if the client has named the subject.
    hidden = {"id"} if request.query.get("subject") else {"id", "subject", "version"}
    if requests.is_set(request, "fetchMaxId"):
        shown["maxId"] = version.id
    return confluent_json({name: value for name, value in shown.items() if name not in hidden})


@requests.cached
async def get_text_by_id(request: web.Request) -> web.Response:
    """The text of a schema by the id that messages carry."""
    *_, text = await _read_by_id(request)
    return text_response(text)


async def list_subjects_of_id(request: web.Request) -> web.Response:
    """The subjects that have a schema."""
    contexts, found = await _versions_of_id(request)
    return confluent_json(
        sorted({_name(contexts, one) for one in found})[requests.page_in(request)]
    )


async def list_versions_of_id(request: web.Request) -> web.Response:
    """The versions that have a schema."""
    contexts, found = await _versions_of_id(request)
    shown = [{"subject": _name(contexts, one), "version": one.number} for one in found]
    listed = sorted(shown, key=lambda one: (str(one["subject"]), one["version"]))
    return confluent_json(listed[requests.page_in(request)])


def _name(contexts: Contexts, version: SubjectVersion) -> str:
    return str(contexts.shown_subject(version.xid, version.name))


async def _versions_of_id(request: web.Request) -> tuple[Contexts, list[SubjectVersion]]:
    async with requests.reading(request) as (connection, contexts):
        found = await _find_by_id(request, connection, contexts)
    shows_deleted = requests.is_set(request, "deleted")
    return contexts, [one for one in found if shows_deleted or not one.is_deleted]


async def _read_by_id(request: web.Request) -> tuple[SubjectName, SubjectVersion, str]:
    """A version with the id of the path, its subject, and its text in the wanted format."""
    async with requests.reading(request) as (connection, contexts):
        [version, *_] = await _find_by_id(request, connection, contexts)
        subject = contexts.shown_subject(version.xid, version.name)
        schema = await load_schema(request, connection, contexts, version)
    return subject, version, await formatted(request, schema)


async def _find_by_id(
    request: web.Request, connection: Connection, contexts: Contexts
) -> list[SubjectVersion]:
    """The versions with the id of the path, in the subject's context, or in that of the path.

    Raises:
        ConfluentError: 40403; 409 if one id names two texts and no subject says which.
    """
    id = _id_in(request)
    asked = read_subject(request.query.get("subject", ""), requests.context_in(request))
    groups = [each.xid for each in contexts.visible_groups(asked.context)]
    found = read_versions(await schemaids.find_by_id(connection, groups, id))
    if asked.name:
        own = [one for one in found if one.name == asked.name]
        if not own and asked.context == DEFAULT_CONTEXT:
            own = await _in_any_context(connection, contexts, asked.name, id)
        found = own or found
    if not found:
        raise schema_not_found(f"Schema {id}")
    own_groups = {home.xid: place for place, home in enumerate(contexts.named(asked.context))}
    found.sort(key=lambda one: (own_groups.get(str(one.xid.group), len(own_groups)), one.number))
    if len({one.guid for one in found}) > 1 and not asked.name:
        named = ", ".join(sorted({f"{_name(contexts, one)} version {one.number}" for one in found}))
        raise ConfluentError(
            409, f"The id {id} names several schemas: {named}. Name one with the parameter subject"
        )
    return found


async def _in_any_context(
    connection: Connection, contexts: Contexts, name: str, id: int
) -> list[SubjectVersion]:
    """The versions with an id of the subjects of a name, whatever their context is."""
    groups = [each.xid for each in contexts.all.values()]
    found = read_versions(await schemaids.find_by_id(connection, groups, id))
    return [one for one in found if one.name == name]


@requests.cached
async def get_by_guid(request: web.Request) -> web.Response:
    """A schema by the GUID that messages carry in a header."""
    async with requests.reading(request) as (connection, contexts):
        version = (await _find_by_guid(request, connection, contexts))[0]
        schema = await load_schema(request, connection, contexts, version)
    shown = version.shown(SubjectName("", ""), await formatted(request, schema))
    hidden = {"id", "subject", "version"}
    return confluent_json({name: value for name, value in shown.items() if name not in hidden})


async def list_ids_of_guid(request: web.Request) -> web.Response:
    """The ids that a GUID has, by context."""
    async with requests.reading(request) as (connection, contexts):
        found = await _find_by_guid(request, connection, contexts)
    ids = {(contexts.shown_subject(one.xid, one.name).context, one.id) for one in found}
    return confluent_json([{"context": context, "id": id} for context, id in sorted(ids)])


async def _find_by_guid(
    request: web.Request, connection: Connection, contexts: Contexts
) -> list[SubjectVersion]:
    """The versions with the GUID of the path, those of the node's home group first.

    Raises:
        ConfluentError: 40403.
    """
    guid = request.match_info["guid"].lower()
    found = []
    if _GUID.fullmatch(guid):
        found = read_versions(await schemaids.find_by_guid(connection, guid))
        found = [one for one in found if str(one.xid.group) in contexts.all]
    if not found:
        raise schema_not_found(f"Schema {guid[:80]}")
    places = {home.xid: place for place, home in enumerate(contexts.homes)}
    return sorted(found, key=lambda one: places.get(str(one.xid.group), len(places)))
