"""Handlers of GET: pages of services, and a single service by id or name."""

from __future__ import annotations

from aiohttp import web

from catalog.context import CONTEXT
from catalog.dialects.discovery.load import (
    ENDPOINTS,
    ServiceCatalog,
    find_named,
    find_service,
    show_all,
    show_one,
)
from catalog.dialects.discovery.translate import is_service_id
from catalog.dialects.handlers import next_link
from catalog.http.flags import read_page
from catalog.http.responses import json_response
from catalog.model.errors import BadRequest, NotFound
from catalog.store import discoveryservices
from catalog.store.connections import seen_by
from catalog.store.database import Connection


def catalog_of(request: web.Request) -> ServiceCatalog:
    """The catalog of services for a request.

    Raises:
        NotFound: the model has no endpoints, which represent services.
    """
    context = request[CONTEXT]
    if ENDPOINTS not in context.model.groups:
        raise NotFound(request.path, detail="The model of this registry has no endpoints.")
    return ServiceCatalog(
        configuration=context.configuration,
        authority=context.database.node.authority,
        base=context.base_url(request),
    )


def service_id_in(request: web.Request) -> str:
    """The id in the path of a request.

    Raises:
        NotFound: no service can have the id.
    """
    id = request.match_info["id"]
    if not is_service_id(id):
        raise NotFound(request.path)
    return id


async def list_services(request: web.Request) -> web.Response:
    """The services, in pages; with `name`, the one service of that name."""
    catalog = catalog_of(request)
    if "name" in request.query:
        return await _answer_named(request, catalog)
    after, limit = read_page(request)
    async with request[CONTEXT].database.snapshot() as connection:
        found = await discoveryservices.page_services(connection, after, limit + 1)
        shown = await show_all(connection, catalog, found[:limit])
    last = found[limit - 1].path.gid if len(found) > limit else ""
    return json_response(shown, headers=next_link(request, last, limit))


async def _answer_named(request: web.Request, catalog: ServiceCatalog) -> web.Response:
    names = request.query.getall("name")
    if len(names) > 1:
        raise BadRequest(request.path, error_detail='"name" can be given only once')
    async with request[CONTEXT].database.snapshot() as connection:
        endpoint = await find_named(connection, names[0])
        if endpoint is None:
            raise NotFound(request.path, detail="There is no service of this name.")
        return json_response(await show_one(connection, catalog, endpoint))


async def get_service(request: web.Request) -> web.Response:
    """One service by its id."""
    # Not a snapshot, which is read-only: a lookup stores the ids that it derives for replicas.
    database = request[CONTEXT].database
    async with database.transaction() as connection, seen_by(connection, database.caller):
        return await read_service(request, connection)


async def read_service(request: web.Request, connection: Connection) -> web.Response:
    """The answer to a GET of a service; raises `NotFound`."""
    catalog = catalog_of(request)
    endpoint = await find_service(connection, catalog.authority, service_id_in(request))
    if endpoint is None:
        raise NotFound(request.path)
    return json_response(await show_one(connection, catalog, endpoint))
