"""Answers with one resource, a group or a collection as edition 0.4 has them."""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp import hdrs, web

from catalog.context import CONTEXT
from catalog.dialects.registry04.address import Address
from catalog.dialects.registry04.layout import Json, Layout
from catalog.dialects.registry04.load import LoadedPage, load_document, load_version
from catalog.dialects.registry04.registryheaders import HEADER_PREFIX, headers_of
from catalog.http.headers import encode_url
from catalog.http.responses import JSON, json_response, to_json
from catalog.model.entity import Entity
from catalog.reading import read
from catalog.store.database import Connection

_ANY = "application/octet-stream"


def show_for(request: web.Request) -> Layout:
    """How the client of a request sees entities."""
    context = request.app[CONTEXT]
    return Layout(
        context.model,
        base=context.base_url(request),
        authority=context.database.node.authority,
        others=[context.public_base] if context.public_base else [],
    )


def is_asked(request: web.Request, flag: str) -> bool:
    """Whether a query names a flag, whatever its value."""
    return flag in request.query


async def read_answer(request: web.Request, place: Address, connection: Connection) -> web.Response:
    """The answer to a GET of a group, or of a resource or version: `?meta` its metadata alone.

    Raises:
        NotFound
    """
    if not place.xid.rid:
        return json_response(await load_group(connection, request, place))
    if not is_asked(request, "meta"):
        return redirected(await load_resource_answer(connection, request, place), place)
    _, version = await load_version(connection, place)
    return json_response(show_for(request).version(version, place.types))


async def load_resource_answer(
    connection: Connection, request: web.Request, place: Address
) -> web.Response:
    """A resource or version as it is now."""
    known, version = await load_version(connection, place)
    document = b""
    if place.types.has_document:
        document = await load_document(connection, known, version)
    return resource_answer(show_for(request), place, version, document)


def resource_answer(
    show: Layout,
    place: Address,
    version: Entity,
    document: bytes,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> web.Response:
    """A resource in the body and its metadata in headers."""
    shown = show.version(version, place.types)
    named = {**headers_of(shown), **(headers or {}), hdrs.CONTENT_LOCATION: shown["self"]}
    if place.types.has_document:
        body = document
        named[hdrs.CONTENT_TYPE] = encode_url(version.attributes.get("contenttype") or _ANY)
    else:
        body = to_json(shown)
        named[hdrs.CONTENT_TYPE] = JSON
    return web.Response(status=status, body=body, headers=named)


def redirected(answer: web.Response, place: Address) -> web.Response:
    """The answer to a read: of what is elsewhere it says where, and has no body."""
    elsewhere = answer.headers.get(f"{HEADER_PREFIX}{place.types.resource.singular}URI")
    if elsewhere is None:
        return answer
    headers = answer.headers.copy()
    headers[hdrs.LOCATION] = elsewhere
    headers.popall(hdrs.CONTENT_TYPE, None)
    return web.Response(status=307, headers=headers)


async def version_answer(
    request: web.Request, place: Address, *, status: int, headers: Mapping[str, str], meta: bool
) -> web.Response:
    """What a write of a resource or version left there."""
    show = show_for(request)
    async with request.app[CONTEXT].database.pool.acquire() as connection:
        known, version = await load_version(connection, place)
        document = b""
        if place.types.has_document and not meta:
            document = await load_document(connection, known, version)
    if meta:
        return json_response(show.version(version, place.types), status=status, headers=headers)
    return resource_answer(show, place, version, document, status=status, headers=headers)


async def group_answer(
    request: web.Request, place: Address, *, status: int, headers: Mapping[str, str]
) -> web.Response:
    """What a write of a group left there."""
    context = request.app[CONTEXT]
    async with context.database.pool.acquire() as connection:
        shown = await load_group(connection, request, place)
    return json_response(shown, status=status, headers=headers)


async def load_group(connection: Connection, request: web.Request, place: Address) -> Json:
    """A group without its resources.

    Raises:
        NotFound
    """
    model = request.app[CONTEXT].model
    known = await read.read_entity(connection, model, place.xid)
    count = known.count(f"{place.path}/{place.types.resource.native}")
    return show_for(request).group(known.entities[place.path], place.types, count)


def page_answer(request: web.Request, page: LoadedPage, shown: Json, limit: int) -> web.Response:
    """A page of a collection, with a link to the next one."""
    headers: dict[str, str] = {}
    if page.following:
        query = {"limit": str(limit), "after": page.following}
        url = request.rel_url.update_query(query)
        base = request.app[CONTEXT].base_url(request)
        headers[hdrs.LINK] = f"<{base}{url}>;rel=next;count={page.total}"
    return json_response(shown, headers=headers)
