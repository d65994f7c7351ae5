"""Handlers of GET: the registry, its model, groups, resources and versions."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from aiohttp import web

from catalog.context import CONTEXT
from catalog.dialects.registry04.address import Address, address_of, types_in
from catalog.dialects.registry04.answers import (
    is_asked,
    page_answer,
    read_answer,
    show_for,
)
from catalog.dialects.registry04.layout import Json, latest_version
from catalog.dialects.registry04.load import Inlining, LoadedPage, load_page
from catalog.http.paging import read_page
from catalog.http.responses import json_response
from catalog.model.schema import Model
from catalog.model.xid import Xid
from catalog.reading import read
from catalog.store.database import Connection, Database


async def get_registry(request: web.Request) -> web.Response:
    """The registry as edition 0.4 has it: `?model` its model, `?inline` with all it holds."""
    context = request.app[CONTEXT]
    if is_asked(request, "model") and not is_asked(request, "inline"):
        return json_response(_model(context.model))
    show, types = show_for(request), types_in(context.model)
    async with context.database.snapshot() as connection:
        known = await read.read_entity(connection, context.model, Xid())
        shown = show.registry(known.entities["/"], types, known.counts)
        if is_asked(request, "inline"):
            shown["model"] = _model(context.model)
            inlining = Inlining(connection=connection, show=show)
            for each in types:
                shown[each.group.plural] = await inlining.groups(each)
    return json_response(shown)


def _model(model: Model) -> Json:
    """CloudEvents Registry 0.4, "Registry Model": how many old versions are kept, -1 for all."""
    return {
        "groups": [
            {
                "singular": each.group.singular,
                "plural": each.group.plural,
                "resources": [
                    {
                        "singular": each.resource.singular,
                        "plural": each.resource.plural,
                        "versions": each.resource_type.maxversions - 1,
                    }
                ],
            }
            for each in types_in(model)
        ]
    }


async def get_groups(request: web.Request) -> web.Response:
    """A page of the groups of one type, `?inline` with their resources."""
    context = request.app[CONTEXT]
    place = address_of(request, context.model)
    after, limit = read_page(request)
    show, types = show_for(request), place.types
    async with context.database.snapshot() as connection:
        native = types.group.native
        page = await load_page(connection, context.model, Xid(), native, after, limit)
        if is_asked(request, "inline"):
            last = page.entities[-1].path.gid if page.entities else after
            inlining = Inlining(connection=connection, show=show)
            shown = await inlining.groups(types, after, last) if last else {}
        else:
            shown = {
                group.path.gid: show.group(
                    group, types, page.known.count(f"{group.xid}/{types.resource.native}")
                )
                for group in page.entities
            }
    return page_answer(request, page, shown, limit)


async def get_group(request: web.Request) -> web.Response:
    """A group, `?inline` with its resources."""
    context = request.app[CONTEXT]
    place = address_of(request, context.model)
    async with context.database.snapshot() as connection:
        if not is_asked(request, "inline"):
            return await read_answer(request, place, connection)
        inlining = Inlining(connection=connection, show=show_for(request))
        return json_response(await inlining.group(place.types, place.xid))


async def get_resources(request: web.Request) -> web.Response:
    """A page of a group's resources, each as its latest version; `?inline` with documents."""
    context = request.app[CONTEXT]
    place = address_of(request, context.model)
    after, limit = read_page(request)
    async with context.database.snapshot() as connection:
        native = place.types.resource.native
        page = await load_page(connection, context.model, place.xid, native, after, limit)
        versions = [
            latest_version(page.known, resource)
            for resource in page.entities
            if page.known.children(f"{resource.xid}/versions")
        ]
        page.entities = versions
        shown = await _versions(connection, request, place, page)
    return page_answer(request, page, {xid.rid: one for xid, one in shown.items()}, limit)


async def get_resource(request: web.Request) -> web.Response:
    """The latest version of a resource, `?meta` its metadata alone."""
    return await _get_version(request)


async def get_version(request: web.Request) -> web.Response:
    """A version of a resource, `?meta` its metadata alone."""
    return await _get_version(request)


async def _get_version(request: web.Request) -> web.Response:
    context = request.app[CONTEXT]
    place = address_of(request, context.model)
    shows_document = place.types.has_document and not is_asked(request, "meta")
    async with _connection(context.database, shows_document) as connection:
        return await read_answer(request, place, connection)


@contextlib.asynccontextmanager
async def _connection(database: Database, shows_document: bool) -> AsyncIterator[Connection]:
    """A snapshot where a document is read that has to be that of its metadata."""
    async with database.snapshot() if shows_document else database.pool.acquire() as connection:
        yield connection


async def get_versions(request: web.Request) -> web.Response:
    """A page of a resource's versions, `?inline` with their documents."""
    context = request.app[CONTEXT]
    place = address_of(request, context.model)
    after, limit = read_page(request)
    async with context.database.snapshot() as connection:
        page = await load_page(connection, context.model, place.xid, "versions", after, limit)
        shown = await _versions(connection, request, place, page)
    return page_answer(request, page, {xid.vid: one for xid, one in shown.items()}, limit)


async def _versions(
    connection: Connection, request: web.Request, place: Address, page: LoadedPage
) -> dict[Xid, Json]:
    """The versions of a page, with their documents where these are asked for."""
    show = show_for(request)
    if is_asked(request, "inline"):
        inlining = Inlining(connection=connection, show=show)
        return await inlining.versions(place.types, page.known, page.entities)
    return {version.path: show.version(version, place.types) for version in page.entities}
