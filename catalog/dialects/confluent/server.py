"""Handlers about the server, its contexts, and its links, which are shown as exporters."""

from __future__ import annotations

import calendar
from importlib.metadata import version
from typing import Any

from aiohttp import web

from catalog.context import CONTEXT
from catalog.dialects.confluent import errors
from catalog.dialects.confluent.contexts import DEFAULT_CONTEXT, Contexts, SubjectName
from catalog.dialects.confluent.errors import ConfluentError, confluent_json
from catalog.dialects.confluent.requests import context_in, node_of, page_in, reading
from catalog.dialects.confluent.subjectversions import read_versions
from catalog.dialects.confluent.subjectwrites import apply, check_own
from catalog.model.confluentattribute import SCHEMA_GROUPS, SCHEMAS
from catalog.model.errors import ApiNotFound
from catalog.model.interaction import Delete, Interaction
from catalog.model.linkterms import State
from catalog.model.xid import Xid
from catalog.store import entities as store
from catalog.store import links, schemaids
from catalog.store.database import Connection
from catalog.store.links import Link

_NOT_OFFERED = ("dek-registry", "catalog", "associations", "tags")
_MOST_LISTED = 10_000
_STARTING: tuple[State, ...] = ("new", "copying")
_TYPES = (SCHEMA_GROUPS, f"{SCHEMA_GROUPS}/{SCHEMAS}")


async def get_root(request: web.Request) -> web.Response:
    """An empty object, by which clients see that the server is there."""
    return confluent_json({})


async def list_contexts(request: web.Request) -> web.Response:
    """The names of the contexts."""
    prefix = request.query.get("contextPrefix", "")
    async with reading(request) as (_, contexts):
        listed = [name for name in contexts.listed() if name.startswith(prefix)]
    return confluent_json(listed[page_in(request)])


async def delete_context(request: web.Request) -> web.Response:
    """Delete a context that has no subjects, with its settings."""
    name = context_in(request)
    if name == DEFAULT_CONTEXT:
        raise errors.not_permitted("The default context cannot be deleted")
    async with reading(request) as (_, contexts):
        found = contexts.visible_groups(name)
    if not found:
        raise ConfluentError(404, f"Context '{name}' not found.")
    context = found[0]
    check_own(contexts, context, f":{name}:")

    async def make(connection: Connection, interaction: Interaction) -> None:
        if await store.load_ids(connection, f"{context.xid}/schemas"):
            raise errors.context_not_empty(name)
        interaction.deletes.append(Delete(xid=context.group))

    await apply(request, context.xid, None, make)
    return web.Response(status=204)


async def get_cluster_id(request: web.Request) -> web.Response:
    """The identity of the server: its authority."""
    authority = node_of(request).database.node.authority
    scope = {"path": [], "clusters": {"schema-registry-cluster": authority}}
    return confluent_json({"scope": scope, "id": ""})


async def get_version(request: web.Request) -> web.Response:
    """The version of the server."""
    return confluent_json({"version": version("concord-catalog"), "commitId": ""})


async def refuse_path(request: web.Request) -> web.Response:
    """Refuse a path that the API does not have here."""
    first = request.match_info["rest"].split("/")[0]
    if first in _NOT_OFFERED:
        raise ConfluentError(
            404,
            f"Concord does not offer {first}: encryption keys, tags and associations are not "
            "kept here",
        )
    raise ApiNotFound(request.path)


async def list_exporters(request: web.Request) -> web.Response:
    """The names of the exporters."""
    async with request[CONTEXT].database.acquire() as connection:
        found = await links.page(connection, "", _MOST_LISTED)
    return confluent_json([one.id for one in found if _is_exporter(one)])


async def get_exporter(request: web.Request) -> web.Response:
    """The definition of an exporter."""
    link = await _read(request)
    async with reading(request) as (connection, contexts):
        subjects = await _subjects(connection, contexts, link)
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
