"""Handlers of GET: the registry, its model, groups, resources and versions."""

from __future__ import annotations

from functools import partial

import orjson
from aiohttp import web

from catalog.context import CONTEXT
from catalog.dialects.handlers import next_link
from catalog.dialects.registry04.address import Types, types_in
from catalog.dialects.registry04.exchange import Exchange, layout_for
from catalog.dialects.registry04.layout import Layout
from catalog.dialects.registry04.load import Inlining, LoadedPage, latest_versions, load_page
from catalog.dialects.registry04.names import Json
from catalog.http.flags import read_page
from catalog.http.responses import json_or_none, json_response
from catalog.model.entity import Entity
from catalog.model.schema import Model
from catalog.model.xid import Xid
from catalog.reading import entities
from catalog.store.database import Connection


async def get_registry(request: web.Request) -> web.Response:
    """The registry as edition 0.4 has it: `?model` the model, `?inline` with groups."""
    context = request[CONTEXT]
    model, inlines = context.model, "inline" in request.query
    if "model" in request.query and not inlines:
        return json_response(_model(model))
    layout, types = layout_for(request, model), types_in(model)
    async with context.database.snapshot() as connection:
        loaded = await entities.read_entity(connection, model, Xid())
        shown = layout.registry(loaded.entities["/"], types, loaded.counts)
        if inlines:
            shown["model"] = _model(model)
            inlining = Inlining(connection=connection, layout=layout)
            for each in types:
                shown[each.group.plural] = await inlining.groups(each)
    return json_response(shown)


def _model(model: Model) -> Json:
    """The model in the form of edition 0.4; `versions` counts kept old versions, -1 for all.

    Source: CloudEvents Registry 0.4, "Registry Model".
    """
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
    exchange = Exchange.of(request)
    after, limit = read_page(request)
    layout, types = exchange.layout, exchange.types
    async with exchange.database.snapshot() as connection:
        page = await load_page(connection, exchange.model, Xid(), types.group.native, after, limit)
        if exchange.has("inline"):
            last = page.entities[-1].path.gid if page.entities else after
            inlining = Inlining(connection=connection, layout=layout)
            shown = await inlining.groups(types, after, last) if last else {}
        else:
            shown = {
                group.path.gid: text
                for group in page.entities
                if (text := json_or_none(group.xid, partial(_group, layout, types, page, group)))
                is not None
            }
    return _answer(request, page, shown, limit)


def _group(layout: Layout, types: Types, page: LoadedPage, group: Entity) -> Json:
    count = page.loaded.count(f"{group.xid}/{types.resource.native}")
    return layout.group(group, types, count)


async def get_group(request: web.Request) -> web.Response:
    """A group, `?inline` with its resources."""
    exchange = Exchange.of(request)
    async with exchange.database.snapshot() as connection:
        if not exchange.has("inline"):
            return await exchange.read(connection)
        inlining = Inlining(connection=connection, layout=exchange.layout)
        return json_response(await inlining.group(exchange.types, exchange.xid))


async def get_resources(request: web.Request) -> web.Response:
    """A page of a group's resources, each as its latest version; `?inline` with documents."""
    exchange = Exchange.of(request)
    after, limit = read_page(request)
    async with exchange.database.snapshot() as connection:
        native = exchange.types.resource.native
        page = await load_page(connection, exchange.model, exchange.xid, native, after, limit)
        page.entities = latest_versions(page.loaded, page.entities)
        shown = await _versions(connection, exchange, page)
    return _answer(request, page, {xid.rid: one for xid, one in shown.items()}, limit)


async def get_version(request: web.Request) -> web.Response:
    """A version, or a resource as its latest one; `?meta` its metadata alone."""
    exchange = Exchange.of(request)
    database = exchange.database
    # A document is read in a snapshot, so that document and metadata belong together.
    shows_document = exchange.types.has_document and not exchange.has("meta")
    async with database.snapshot() if shows_document else database.acquire() as connection:
        return await exchange.read(connection)


async def get_versions(request: web.Request) -> web.Response:
    """A page of a resource's versions, `?inline` with their documents."""
    exchange = Exchange.of(request)
    after, limit = read_page(request)
    async with exchange.database.snapshot() as connection:
        page = await load_page(connection, exchange.model, exchange.xid, "versions", after, limit)
        shown = await _versions(connection, exchange, page)
    return _answer(request, page, {xid.vid: one for xid, one in shown.items()}, limit)


async def _versions(
    connection: Connection, exchange: Exchange, page: LoadedPage
) -> dict[Xid, orjson.Fragment]:
    """The versions of a page, with documents if the request asks for documents."""
    layout, types = exchange.layout, exchange.types
    if exchange.has("inline"):
        inlining = Inlining(connection=connection, layout=layout)
        return await inlining.versions(types, page.loaded, page.entities)
    texts = {
        version.path: json_or_none(version.xid, partial(layout.version, version, types))
        for version in page.entities
    }
    return {xid: text for xid, text in texts.items() if text is not None}


def _answer(request: web.Request, page: LoadedPage, shown: Json, limit: int) -> web.Response:
    headers = next_link(request, page.following, limit, count=page.total)
    return json_response(shown, headers=headers)
