"""Handlers about the server itself and its contexts."""

from __future__ import annotations

from importlib.metadata import version

from aiohttp import web

from catalog.dialects.confluent.errors import (
    ConfluentError,
    confluent_json,
    context_not_empty,
    not_permitted,
)
from catalog.dialects.confluent.requests import context_in, contexts_of, node_of, page_in
from catalog.dialects.confluent.subjectnames import DEFAULT_CONTEXT
from catalog.dialects.confluent.subjectwrites import apply, check_own
from catalog.model.errors import ApiNotFound
from catalog.model.interaction import Delete, Interaction
from catalog.store import entities as store
from catalog.store.database import Connection

_NOT_OFFERED = ("dek-registry", "catalog", "associations", "tags")


async def get_root(request: web.Request) -> web.Response:
    """An empty object, by which clients see that the server is there."""
    return confluent_json({})


async def list_contexts(request: web.Request) -> web.Response:
    """The names of the contexts."""
    prefix = request.query.get("contextPrefix", "")
    async with node_of(request).database.acquire() as connection:
        contexts = await contexts_of(request, connection)
    listed = [name for name in contexts.listed() if name.startswith(prefix)]
    return confluent_json(listed[page_in(request)])


async def delete_context(request: web.Request) -> web.Response:
    """Delete a context that has no subjects, with its settings."""
    name = context_in(request)
    if name == DEFAULT_CONTEXT:
        raise not_permitted("The default context cannot be deleted")
    async with node_of(request).database.acquire() as connection:
        contexts = await contexts_of(request, connection)
    found = contexts.visible_groups(name)
    if not found:
        raise ConfluentError(404, f"Context '{name}' not found.")
    context = found[0]
    check_own(contexts, context, f":{name}:")

    async def make(connection: Connection, interaction: Interaction) -> None:
        if await store.load_ids(connection, f"{context.xid}/schemas"):
            raise context_not_empty(name)
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
