"""Handlers that add, replace and delete services, at once or after a first answer.

Source: discovery seed, "Asynchronous Processing"; RFC 7240.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Sequence
from functools import partial
from typing import Any
from uuid import UUID

import structlog
from aiohttp import hdrs, web

from catalog.api.writeanswer import notes_on
from catalog.context import CONTEXT, Context
from catalog.dialects.discovery.composer import (
    AnswerMaker,
    Operation,
    Remove,
    ServiceAnswer,
    ServiceWrite,
)
from catalog.dialects.discovery.events import Json
from catalog.dialects.discovery.read import ServiceCatalog, catalog_of, read_service, service_id_in
from catalog.dialects.discovery.requests import is_import, read_added, read_removed, read_replaced
from catalog.http.background import BACKGROUND_TASKS
from catalog.http.body import read_json
from catalog.http.conditions import condition_on
from catalog.http.problems import problem_document
from catalog.http.responses import JSON_TYPE, MORE_HEADERS, to_json
from catalog.model.concorderrors import RequestInterrupted
from catalog.model.errors import BadRequest, NotFound, ServerBusy, ServerError, XRegistryError
from catalog.store import discoveryservices
from catalog.store.locks import ConfigurationChanged
from catalog.writing.writetransaction import Condition

_RESPOND_ASYNC = "respond-async"
_KEPT_SECONDS = 3600.0
_MOST_KEPT = 1000
_MOST_PENDING = 20
_RETRY_SECONDS = "1"
# A request has surely ended this long after the timeout.
_SPARE_SECONDS = 5.0
_log = structlog.get_logger()


def prefers_async(request: web.Request) -> bool:
    """Whether the client would rather not wait (RFC 7240, "respond-async")."""
    lines = request.headers.getall("Prefer", [])
    preferences = (text for line in lines for text in line.split(","))
    return any(text.split(";")[0].strip().lower() == _RESPOND_ASYNC for text in preferences)


async def accept(
    request: web.Request, write: ServiceWrite, condition: Condition | None
) -> web.Response:
    """Answer 202 and apply the write in the background; `/services/requests/{id}` has the status.

    Args:
        condition: the check of the request's conditions under the locks of the write.

    Raises:
        ServerBusy: too many requests are pending already.
    """
    context = request[CONTEXT]
    write.id = uuid.uuid4()
    seconds = context.settings.request_timeout_seconds + _SPARE_SECONDS
    # The audit has an entry for the write itself.
    async with context.database.transaction(is_noted=False) as connection:
        await discoveryservices.forget(connection, _KEPT_SECONDS, _MOST_KEPT)
        if not await discoveryservices.accept(connection, write.id, seconds, _MOST_PENDING):
            raise ServerBusy(request.path)
    # After the commit, so that the background task finds the request pending.
    request.app[BACKGROUND_TASKS].begin(_apply_in_background(context, write, condition))
    return web.Response(
        status=202,
        headers={
            "Location": f"{write.catalog.base}/services/requests/{write.id}",
            "Preference-Applied": _RESPOND_ASYNC,
            "Retry-After": _RETRY_SECONDS,
        },
    )


async def _apply_in_background(
    context: Context, write: ServiceWrite, condition: Condition | None
) -> None:
    """Apply a write, and store the error of a failure: the client has an answer already."""
    assert write.id is not None, "the request was accepted"
    # Without a stored outcome, the request counts as interrupted when its time is up.
    with contextlib.suppress(ServerBusy):
        failure = await _apply(context, write, condition)
        if failure is not None:
            body = to_json(problem_document(failure))
            async with context.database.transaction(is_noted=False) as connection:
                headers = {"Content-Type": JSON_TYPE}
                await discoveryservices.settle(connection, write.id, "failed", headers, body)


async def _apply(
    context: Context, write: ServiceWrite, condition: Condition | None
) -> XRegistryError | None:
    """Apply a write; return the error that prevented the write, or `None`."""
    try:
        async with asyncio.timeout(context.settings.request_timeout_seconds):
            configuration = write.catalog.configuration
            await context.writer.apply_composed(configuration, write, condition=condition)
    except XRegistryError as refusal:
        return refusal
    except ConfigurationChanged:
        await context.shared.reload()
        return ServerBusy(write.path, detail="The configuration has just changed.")
    except TimeoutError:
        return ServerBusy(write.path)
    except Exception:
        # No middleware sees a background request, so the cause is logged here.
        _log.exception("request failed", path=write.path)
        return ServerError(write.path)
    return None


async def get_request(request: web.Request) -> web.Response:
    """The status of a request that is processed asynchronously, or its answer."""
    context = request[CONTEXT]
    try:
        id = UUID(request.match_info["id"])
    except ValueError as error:
        raise NotFound(request.path) from error
    async with context.database.transaction() as connection:
        found = await discoveryservices.read_status(connection, id)
    if found is None:
        raise NotFound(request.path)
    if found.state == "pending":
        return web.Response(status=202, headers={hdrs.RETRY_AFTER: _RETRY_SECONDS})
    if found.state == "failed" and not found.body:
        raise RequestInterrupted(request.path)
    status = 200 if found.state == "done" else 406
    return web.Response(status=status, headers=found.headers, body=found.body)


async def add_services(request: web.Request) -> web.Response:
    """Add services, all or none; with `import`, add or replace them under their own ids."""
    catalog, imports = catalog_of(request), is_import(request)
    operations = read_added(await read_json(request), request.path, imports=imports)
    return await _write(request, catalog, operations, _answer_added)


async def put_service(request: web.Request) -> web.Response:
    """Replace a service; with `import`, add the service if the catalog has none of the id."""
    catalog, id, imports = catalog_of(request), service_id_in(request), is_import(request)
    operation = read_replaced(await read_json(request), request.path, id, imports=imports)
    return await _write(request, catalog, [operation], _answer_put)


async def delete_service(request: web.Request) -> web.Response:
    """Delete a service."""
    catalog, id, epoch = catalog_of(request), service_id_in(request), _epoch(request)
    return await _write(
        request,
        catalog,
        [Remove(id=id, epoch=epoch)],
        lambda services, _: _answer(200, services[0]),
    )


async def delete_services(request: web.Request) -> web.Response:
    """Delete the services that the body lists by their ids, all or none."""
    catalog = catalog_of(request)
    operations = read_removed(await read_json(request), request.path)
    return await _write(request, catalog, operations, lambda services, _: _answer(200, services))


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
    notes = await notes_on(request, catalog.model, write.interaction, outcome)
    request[MORE_HEADERS] = notes
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
