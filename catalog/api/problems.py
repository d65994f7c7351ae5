"""Turns every error into the error document of core/http.md, "Error Processing"."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from typing import Any

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler

from catalog.api.responses import json_response
from catalog.model.errors import (
    ActionNotSupported,
    ApiNotFound,
    DetailsRequired,
    ParsingData,
    ServerBusy,
    ServerError,
    XRegistryError,
)

_log = structlog.get_logger()
_MOST_VIOLATIONS = 1000


@web.middleware
async def problem_middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answers with an error document whatever goes wrong in `handler`."""
    try:
        return await handler(request)
    except XRegistryError as error:
        return problem_response(error)
    except web.HTTPNotFound:
        return problem_response(ApiNotFound(request.path))
    except web.HTTPMethodNotAllowed as error:
        return problem_response(
            ActionNotSupported(
                request.path, action=request.method, allow=sorted(error.allowed_methods)
            )
        )
    except (web.HTTPException, ConnectionError):
        raise
    except TimeoutError:
        return problem_response(ServerBusy(request.path))
    except Exception:
        # The boundary of a request: what nobody foresaw is logged once, under an id that
        # the client sees too, and must not end the server.
        instance = uuid.uuid4().hex
        _log.exception("request failed", instance=instance, path=request.path)
        return problem_response(ServerError(request.path), instance=instance)


@contextlib.contextmanager
def errors_of(request: web.Request) -> Iterator[None]:
    """Lets errors whose subject is the path of the request name that of this one."""
    try:
        yield
    except XRegistryError as error:
        error.request_path = request.path
        raise


def problem_response(error: XRegistryError, *, instance: str = "") -> web.Response:
    document = problem_document(error, error.request_path)
    found = error.violations or (error,)
    is_elsewhere = bool(error.subject.strip("/")) and document.get("subject") != error.subject
    if is_elsewhere or any(violation is not error for violation in found):
        document["violations"] = [problem_document(e) for e in found[:_MOST_VIOLATIONS]]
    if instance:
        document["instance"] = f"urn:uuid:{instance}"
    headers = dict(error.headers)
    if isinstance(error, ActionNotSupported | DetailsRequired):
        headers["Allow"] = ", ".join(error.allow)
    return json_response(document, status=error.status, headers=headers)


def problem_document(error: XRegistryError, path: str = "") -> dict[str, Any]:
    """The members of an error document.

    Args:
        path: the request's, which some errors are about as a whole; in a list of violations
            each tells where it is.
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
    """Let what aiohttp itself refuses be answered with an error document, too.

    aiohttp has no setting for how it answers bytes that are not HTTP, so its method is
    replaced, for every server of this process.
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
