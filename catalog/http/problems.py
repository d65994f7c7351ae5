"""Answers errors with error documents (core/http.md, "Error Processing")."""

from __future__ import annotations

import uuid
from typing import Any

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler

from catalog.http.clientaddress import client_address
from catalog.http.responses import json_response
from catalog.model.caller import caller
from catalog.model.concorderrors import DatabaseUnavailable, OutcomeUnknown
from catalog.model.errors import (
    ActionNotSupported,
    ApiNotFound,
    ParsingData,
    ServerBusy,
    ServerError,
    XRegistryError,
)
from catalog.store.database import has_committed

_log = structlog.get_logger()
_MOST_VIOLATIONS = 1000
_BEGUN: web.RequestKey[bool] = web.RequestKey("begun", bool)


@web.middleware
async def problem_middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer every error of `handler` with an error document.

    If the answer has begun already, its connection is cut.
    """
    has_committed.set(False)
    caller.set(client_address(request))
    try:
        return await handler(request)
    except BaseException as error:
        if _BEGUN in request:
            _cut_short(request, error)
            raise
        if not isinstance(error, Exception):
            raise
        return _answer(request, error)


def note_begun(request: web.Request) -> None:
    """From now on, the request cannot be answered with a problem."""
    request[_BEGUN] = True


def _cut_short(request: web.Request, error: BaseException) -> None:
    is_clients = _is_client_gone(request)
    if request.transport is not None:
        request.transport.abort()
    if isinstance(error, Exception) and not is_clients:
        _log.warning("an answer was cut short", path=request.path, error=str(error))


def _is_client_gone(request: web.Request) -> bool:
    return request.transport is None or request.transport.is_closing()


def _answer(request: web.Request, error: Exception) -> web.Response:
    match error:
        case DatabaseUnavailable():
            return problem_response(_unavailable(request, error))
        case XRegistryError():
            return problem_response(error)
        case web.HTTPNotFound():
            return problem_response(ApiNotFound(request.path))
        case web.HTTPMethodNotAllowed():
            allow = sorted(error.allowed_methods)
            refusal = ActionNotSupported(request.path, action=request.method, allow=allow)
            return problem_response(refusal)
        case web.HTTPException():
            raise error
        case ConnectionError() if _is_client_gone(request):
            raise error
        case TimeoutError():
            return problem_response(ServerBusy(request.path))
        case _:
            # An unexpected error must not end the server; it is logged under an id that the
            # client gets.
            instance = uuid.uuid4().hex
            _log.error("request failed", instance=instance, path=request.path, exc_info=error)
            return problem_response(ServerError(request.path), instance=instance)


def _unavailable(request: web.Request, error: DatabaseUnavailable) -> DatabaseUnavailable:
    """The error of this request, whose write may have been committed."""
    is_unknown = isinstance(error, OutcomeUnknown) or has_committed.get()
    return (OutcomeUnknown if is_unknown else DatabaseUnavailable)(request.path)


def problem_response(error: XRegistryError, *, instance: str = "") -> web.Response:
    document = problem_document(error, error.request_path)
    found = error.violations or (error,)
    is_elsewhere = bool(error.subject.strip("/")) and document.get("subject") != error.subject
    if is_elsewhere or any(violation is not error for violation in found):
        document["violations"] = [problem_document(e) for e in found[:_MOST_VIOLATIONS]]
    if instance:
        document["instance"] = f"urn:uuid:{instance}"
    return json_response(document, status=error.status, headers=dict(error.headers))


def problem_document(error: XRegistryError, path: str = "") -> dict[str, Any]:
    """The members of an error document.

    Args:
        path: the request's, for errors about the request as a whole; empty for a violation,
            which has a subject of its own.
    """
    subject, detail = error.subject, error.detail
    if path and error.is_about_request and subject != path:
        detail = detail or (f"It was found at {subject}." if subject.strip("/") else "")
        subject = path
    members = {
        "type": error.type,
        "title": error.title_about(subject),
        "detail": detail,
        "subject": subject,
        "args": error.arguments,
    }
    return {name: value for name, value in members.items() if value}


def answer_unparsable_requests() -> None:
    """Answer requests that aiohttp itself refuses with an error document.

    aiohttp has no setting for this, so its method is replaced, for every server of this
    process.
    """
    web.RequestHandler.handle_error = _handle_unparsable  # type: ignore[method-assign, assignment]


_handle_error = web.RequestHandler.handle_error


def _handle_unparsable(
    handler: web.RequestHandler,
    request: web.BaseRequest,
    status: int = 500,
    exc: BaseException | None = None,
    message: str | None = None,
) -> web.StreamResponse:
    if status != 400 or request.writer.output_size > 0:
        return _handle_error(handler, request, status, exc, message)
    response = problem_response(ParsingData(error_detail="it is not a well-formed HTTP request"))
    response.force_close()
    return response
