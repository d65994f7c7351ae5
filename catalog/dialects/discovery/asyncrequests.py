"""Requests that are answered later (discovery seed, "Asynchronous Processing"; RFC 7240)."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from uuid import UUID

import structlog
from aiohttp import hdrs, web

from catalog.context import CONTEXT, Context
from catalog.dialects.discovery.composer import ServiceWrite
from catalog.http.background import BACKGROUND_TASKS
from catalog.http.problems import problem_document
from catalog.http.responses import JSON, to_json
from catalog.model.errors import NotFound, ServerBusy, ServerError, XRegistryError
from catalog.model.ownerrors import RequestInterrupted
from catalog.store import services
from catalog.store.locks import ConfigurationChanged
from catalog.writing.writer import Condition

_RESPOND_ASYNC = "respond-async"
_KEPT_SECONDS = 3600.0
_MOST_KEPT = 1000
_MOST_PENDING = 20
_RETRY_SECONDS = "1"
# So long after its time is up a request is sure to have ended.
_SPARE_SECONDS = 5.0
_log = structlog.get_logger()


def prefers_later(request: web.Request) -> bool:
    """Whether the client would rather not wait (RFC 7240, "respond-async")."""
    lines = request.headers.getall("Prefer", [])
    preferences = (text for line in lines for text in line.split(","))
    return any(text.split(";")[0].strip().lower() == _RESPOND_ASYNC for text in preferences)


async def accept(
    request: web.Request, work: ServiceWrite, condition: Condition | None
) -> web.Response:
    """Answer 202, and do the work meanwhile; `/services/requests/{id}` shows how it goes.

    Args:
        condition: is asked when the work is done, and may refuse it.

    Raises:
        ServerBusy: too many requests wait already.
    """
    context = request.app[CONTEXT]
    work.id = await _note(context, request.path)
    request.app[BACKGROUND_TASKS].begin(_work(context, work, condition))
    return web.Response(
        status=202,
        headers={
            "Location": f"{work.catalog.base}/services/requests/{work.id}",
            "Preference-Applied": _RESPOND_ASYNC,
            "Retry-After": _RETRY_SECONDS,
        },
    )


async def _note(context: Context, path: str) -> UUID:
    id = uuid.uuid4()
    seconds = context.settings.request_timeout_seconds + _SPARE_SECONDS
    async with context.database.transaction() as connection:
        await services.forget(connection, _KEPT_SECONDS, _MOST_KEPT)
        if not await services.accept(connection, id, seconds, _MOST_PENDING):
            raise ServerBusy(path)
    return id


async def _work(context: Context, work: ServiceWrite, condition: Condition | None) -> None:
    """Do it; why it failed, if it does, is kept. The client has its answer already."""
    assert work.id is not None, "the request was accepted"
    with contextlib.suppress(ServerBusy):
        failure = await _do(context, work, condition)
        if failure is not None:
            body = to_json(problem_document(failure))
            async with context.database.transaction() as connection:
                headers = {"Content-Type": JSON}
                await services.settle(connection, work.id, "failed", headers, body)


async def _do(
    context: Context, work: ServiceWrite, condition: Condition | None
) -> XRegistryError | None:
    """Why it could not be done, if so."""
    try:
        async with asyncio.timeout(context.settings.request_timeout_seconds):
            configuration = work.catalog.configuration
            await context.writer.apply_composed(configuration, work, condition=condition)
    except XRegistryError as refusal:
        return refusal
    except ConfigurationChanged:
        await context.reload()
        return ServerBusy(work.path, detail="The configuration has just changed.")
    except TimeoutError:
        return ServerBusy(work.path)
    except Exception:
        # As at the boundary of any request: the cause is logged, once.
        _log.exception("request failed", path=work.path)
        return ServerError(work.path)
    return None


async def answer_status(request: web.Request) -> web.Response:
    """How a request is doing that was to be answered later, or its answer."""
    context = request.app[CONTEXT]
    try:
        id = UUID(request.match_info["id"])
    except ValueError as error:
        raise NotFound(request.path) from error
    async with context.database.transaction() as connection:
        found = await services.read_status(connection, id)
    if found is None:
        raise NotFound(request.path)
    if found.state == "pending":
        return web.Response(status=202, headers={hdrs.RETRY_AFTER: _RETRY_SECONDS})
    if found.state == "failed" and not found.body:
        raise RequestInterrupted(request.path)
    status = 200 if found.state == "done" else 406
    return web.Response(status=status, headers=found.headers, body=found.body)
