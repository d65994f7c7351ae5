"""Handlers that show the links which send entities of this node, as exporters of schemas."""

from __future__ import annotations

import calendar
from typing import Any

from aiohttp import web

from catalog.context import CONTEXT
from catalog.dialects.confluent.contexts import Contexts
from catalog.dialects.confluent.errors import ConfluentError, confluent_json
from catalog.dialects.confluent.requests import contexts_of
from catalog.dialects.confluent.subjectnames import SubjectName
from catalog.dialects.confluent.subjectversions import read_versions
from catalog.model.confluentattribute import SCHEMA_GROUPS, SCHEMAS
from catalog.model.linkterms import State
from catalog.model.xid import Xid
from catalog.store import links, schemaids
from catalog.store.database import Connection
from catalog.store.links import Link

_MOST_LISTED = 10_000
_STARTING: tuple[State, ...] = ("new", "copying")
_TYPES = (SCHEMA_GROUPS, f"{SCHEMA_GROUPS}/{SCHEMAS}")


async def list_exporters(request: web.Request) -> web.Response:
    """The names of the exporters."""
    async with request[CONTEXT].database.acquire() as connection:
        found = await links.page(connection, "", _MOST_LISTED)
    return confluent_json([one.id for one in found if _is_exporter(one)])


async def get_exporter(request: web.Request) -> web.Response:
    """The definition of an exporter."""
    link = await _read(request)
    async with request[CONTEXT].database.acquire() as connection:
        subjects = await _subjects(connection, await contexts_of(request, connection), link)
    shown = {
        "name": link.id,
        "contextType": "NONE",
        "context": "",
        "subjects": subjects,
        "subjectRenameFormat": "",
        "config": _config(link),
    }
    return confluent_json(shown)


async def get_exporter_config(request: web.Request) -> web.Response:
    """The registry that an exporter writes to."""
    return confluent_json(_config(await _read(request)))


async def get_exporter_status(request: web.Request) -> web.Response:
    """The state of an exporter, and the time of its last write."""
    link = await _read(request)
    state = "STARTING" if link.state in _STARTING else "RUNNING"
    if link.paused is not None:
        state = "PAUSED"
    at = link.appliedat
    shown: dict[str, Any] = {
        "name": link.id,
        "state": state,
        "offset": link.applied,
        "ts": 0 if at is None else calendar.timegm(at.utctimetuple()) * 1000,
    }
    if link.error:
        shown["trace"] = link.error
    return confluent_json(shown)


async def _read(request: web.Request) -> Link:
    name = request.match_info["exporter"]
    async with request[CONTEXT].database.acquire() as connection:
        link = await links.get(connection, name)
    if link is None or not _is_exporter(link):
        raise ConfluentError(40450, f"Exporter '{name[:80]}' not found.")
    return link


def _is_exporter(link: Link) -> bool:
    definition = link.definition
    sends_schemas = not definition.types or any(one in definition.types for one in _TYPES)
    return definition.sends and sends_schemas and (not definition.scope or bool(_scope(link)))


def _scope(link: Link) -> list[Xid]:
    """The schema groups and schemas in the scope of a link."""
    scope = map(Xid.parse, link.definition.scope)
    return [one for one in scope if one.groups == SCHEMA_GROUPS]


async def _subjects(connection: Connection, contexts: Contexts, link: Link) -> list[str]:
    """The subjects that a link sends: all subjects, or the subjects of its scope (`:.team:*`)."""
    if not link.definition.scope:
        return ["*"]
    scope = _scope(link)
    versions = await schemaids.load_versions(connection, [str(one) for one in scope if one.rid])
    names = {str(one.xid.resource): one.name for one in read_versions(versions)}
    return [str(_subject(contexts, one, names.get(str(one), one.rid or "*"))) for one in scope]


def _subject(contexts: Contexts, xid: Xid, name: str) -> SubjectName:
    """The name of a subject; of a group that does not exist yet, in the context of its id."""
    if str(xid.group) in contexts.all:
        return contexts.shown_subject(xid, name)
    return SubjectName(f".{xid.gid}", name)


def _config(link: Link) -> dict[str, str]:
    return {"schema.registry.url": link.definition.peer}
