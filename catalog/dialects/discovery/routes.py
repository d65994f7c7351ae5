"""The Discovery API: services and what is done with them (discovery seed, "API Specification")."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeAlias
from urllib.parse import quote

from aiohttp import web

from catalog.context import CONTEXT
from catalog.dialects.discovery.asyncrequests import accept, answer_status, prefers_later
from catalog.dialects.discovery.composer import (
    Answering,
    ServiceWrite,
    answer_added,
    answer_all_removed,
    answer_put,
    answer_removed,
)
from catalog.dialects.discovery.ids import is_service_id
from catalog.dialects.discovery.load import (
    ServiceCatalog,
    check_model,
    find_named,
    find_service,
    show_all,
)
from catalog.dialects.discovery.operations import Operation, Remove
from catalog.dialects.discovery.requests import (
    is_import,
    read_added,
    read_removed,
    read_replaced,
)
from catalog.http.body import read_json
from catalog.http.deadline import bounded
from catalog.http.paging import read_page
from catalog.http.preconditions import condition_on
from catalog.http.responses import json_response
from catalog.model.errors import BadRequest, NotFound
from catalog.store import services
from catalog.store.database import Connection


def _catalog(request: web.Request) -> ServiceCatalog:
    context = request.app[CONTEXT]
    check_model(context.model, request.path)
    return ServiceCatalog(
        configuration=context.configuration,
        authority=context.database.node.authority,
        base=context.base_url(request),
    )


async def list_services(request: web.Request) -> web.Response:
    """The services, in pages; with `name`, the one service of that name."""
    catalog = _catalog(request)
    if "name" in request.query:
        return await _answer_named(request, catalog)
    after, limit = read_page(request)
    async with request.app[CONTEXT].database.snapshot() as connection:
        found = await services.page_services(connection, after, limit + 1)
        shown = await show_all(connection, catalog, found[:limit])
    headers = {}
    if len(found) > limit:
        query = f"limit={limit}&after={quote(found[limit - 1].path.gid)}"
        headers["Link"] = f"<{catalog.base}/services?{query}>;rel=next"
    return json_response(shown, headers=headers)


async def _answer_named(request: web.Request, catalog: ServiceCatalog) -> web.Response:
    names = request.query.getall("name")
    if len(names) > 1:
        raise BadRequest(request.path, error_detail='"name" can be given only once')
    if "\0" in names[0]:
        raise NotFound(request.path_qs)
    async with request.app[CONTEXT].database.snapshot() as connection:
        endpoint = await find_named(connection, names[0])
        if endpoint is None:
            raise NotFound(request.path, detail="There is no service of this name.")
        return json_response((await show_all(connection, catalog, [endpoint]))[0])


async def get_service(request: web.Request) -> web.Response:
    """One service by its id."""
    async with request.app[CONTEXT].database.transaction() as connection:
        return await _read_service(request, connection)


async def _read_service(request: web.Request, connection: Connection) -> web.Response:
    catalog = _catalog(request)
    endpoint = await find_service(connection, catalog.authority, _id(request))
    if endpoint is None:
        raise NotFound(request.path)
    return json_response((await show_all(connection, catalog, [endpoint]))[0])


def _id(request: web.Request) -> str:
    id = request.match_info["id"]
    if not is_service_id(id):
        raise NotFound(request.path)
    return id


async def add_services(request: web.Request) -> web.Response:
    """Add services, all or none; with `import`, add or replace them under their own ids."""
    return await _write(request, _read_added)


async def put_service(request: web.Request) -> web.Response:
    """Replace a service; with `import`, add it where it is not there."""
    return await _write(request, _read_replaced)


async def delete_service(request: web.Request) -> web.Response:
    """Delete a service."""
    return await _write(request, _read_removed)


async def delete_services(request: web.Request) -> web.Response:
    """Delete the services that the body lists by their ids, all or none."""
    return await _write(request, _read_all_removed)


_Asked: TypeAlias = tuple[Sequence[Operation], Answering]


async def _read_added(request: web.Request) -> _Asked:
    imports = is_import(request)
    return read_added(await read_json(request), request.path, imports=imports), answer_added


async def _read_replaced(request: web.Request) -> _Asked:
    id, imports = _id(request), is_import(request)
    body = await read_json(request)
    return [read_replaced(body, request.path, id, imports=imports)], answer_put


async def _read_removed(request: web.Request) -> _Asked:
    return [Remove(id=_id(request), epoch=_epoch(request))], answer_removed


async def _read_all_removed(request: web.Request) -> _Asked:
    return read_removed(await read_json(request), request.path), answer_all_removed


def _epoch(request: web.Request) -> int | None:
    text = request.query.get("epoch")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 17):
        raise BadRequest(request.path, error_detail='"epoch" needs to be an integer')
    return int(text)


async def _write(
    request: web.Request, read: Callable[[web.Request], Awaitable[_Asked]]
) -> web.Response:
    """Do what is asked for: now, or after an answer that says so."""
    context = request.app[CONTEXT]
    catalog = _catalog(request)
    operations, answering = await read(request)
    work = ServiceWrite(
        catalog=catalog, path=request.path, operations=operations, answering=answering
    )
    is_one = "id" in request.match_info
    condition = condition_on(request, partial(_read_service, request) if is_one else None)
    if prefers_later(request):
        return await accept(request, work, condition)
    await context.writer.apply_composed(catalog.configuration, work, condition=condition)
    assert work.answer is not None, "it was done"
    answer = work.answer
    return web.Response(status=answer.status, headers=answer.headers, body=answer.body)


routes: list[web.RouteDef] = [
    web.get("/services", bounded(list_services)),
    web.post("/services", bounded(add_services)),
    web.delete("/services", bounded(delete_services)),
    web.get("/services/{id}", bounded(get_service)),
    web.put("/services/{id}", bounded(put_service)),
    web.delete("/services/{id}", bounded(delete_service)),
    web.get("/services/requests/{id}", bounded(answer_status)),
]
