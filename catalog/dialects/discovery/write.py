"""Handlers that add, replace and delete services, at once or after a first answer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from aiohttp import web

from catalog.context import CONTEXT
from catalog.dialects.discovery.asyncrequests import accept, prefers_async
from catalog.dialects.discovery.composer import AnswerMaker, ServiceAnswer, ServiceWrite
from catalog.dialects.discovery.load import ServiceCatalog
from catalog.dialects.discovery.operations import Operation, Remove
from catalog.dialects.discovery.read import catalog_of, read_service, service_id_in
from catalog.dialects.discovery.requests import is_import, read_added, read_removed, read_replaced
from catalog.dialects.discovery.serviceevents import Json
from catalog.dialects.handlers import find_notes
from catalog.http.body import read_json
from catalog.http.conditions import condition_on
from catalog.http.responses import JSON_TYPE, to_json
from catalog.model.errors import BadRequest


async def add_services(request: web.Request) -> web.Response:
    """Add services, all or none; with `import`, add or replace them under their own ids."""
    catalog, imports = catalog_of(request), is_import(request)
    operations = read_added(await read_json(request), request.path, imports=imports)
    return await _write(request, catalog, operations, _answer_added)


async def put_service(request: web.Request) -> web.Response:
    """Replace a service; with `import`, add it where it is not there."""
    catalog, id, imports = catalog_of(request), service_id_in(request), is_import(request)
    operation = read_replaced(await read_json(request), request.path, id, imports=imports)
    return await _write(request, catalog, [operation], _answer_put)


async def delete_service(request: web.Request) -> web.Response:
    """Delete a service."""
    catalog, id, epoch = catalog_of(request), service_id_in(request), _epoch(request)
    return await _write(request, catalog, [Remove(id=id, epoch=epoch)], _answer_removed)


async def delete_services(request: web.Request) -> web.Response:
    """Delete the services that the body lists by their ids, all or none."""
    catalog = catalog_of(request)
    operations = read_removed(await read_json(request), request.path)
    return await _write(request, catalog, operations, _answer_all_removed)


def _epoch(request: web.Request) -> int | None:
    text = request.query.get("epoch")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 17):
        raise BadRequest(request.path, error_detail='"epoch" needs to be an integer')
    return int(text)


async def _write(
    request: web.Request,
    catalog: ServiceCatalog,
    operations: Sequence[Operation],
    make_answer: AnswerMaker,
) -> web.Response:
    """Write services now, or in the background after a first answer."""
    write = ServiceWrite(
        catalog=catalog,
        caller=request[CONTEXT].caller,
        path=request.path,
        operations=operations,
        make_answer=make_answer,
    )
    is_one = "id" in request.match_info
    condition = condition_on(request, partial(read_service, request) if is_one else None)
    if prefers_async(request):
        return await accept(request, write, condition)
    writer = request[CONTEXT].writer
    outcome = await writer.apply_composed(catalog.configuration, write, condition=condition)
    await find_notes(request, catalog.model, write.interaction, outcome)
    answer = write.answer
    assert answer is not None, "it was applied"
    return web.Response(status=answer.status, headers=answer.headers, body=answer.body)


def _answer(status: int, body: Any, **headers: str) -> ServiceAnswer:
    return ServiceAnswer(
        status=status, headers={"Content-Type": JSON_TYPE, **headers}, body=to_json(body)
    )


def _answer_added(services: Sequence[Json], _: frozenset[str]) -> ServiceAnswer:
    """To `POST /services`: ids in the order of the request, and the URL of a single service."""
    ids = [{"id": service["id"]} for service in services]
    if len(ids) != 1:
        return _answer(201, ids)
    return _answer(201, ids, Location=services[0]["url"])


def _answer_put(services: Sequence[Json], created: frozenset[str]) -> ServiceAnswer:
    """To `PUT /services/{id}`: the service, and the URL of a new service."""
    service = services[0]
    if service["id"].lower() not in created:
        return _answer(200, service)
    return _answer(201, service, Location=service["url"])


def _answer_removed(services: Sequence[Json], _: frozenset[str]) -> ServiceAnswer:
    """To `DELETE /services/{id}`: the service before the deletion."""
    return _answer(200, services[0])


def _answer_all_removed(services: Sequence[Json], _: frozenset[str]) -> ServiceAnswer:
    """To `DELETE /services`: the services before the deletion, in the order of the request."""
    return _answer(200, services)
