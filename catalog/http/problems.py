"""Answers errors with error documents (core/http.md, "Error Processing")."""

from __future__ import annotations

import re
import uuid
from typing import Any
from urllib.parse import quote

import structlog
from aiohttp import hdrs, web
from aiohttp.http import StreamWriter

from catalog.context import CONTEXT, Context
from catalog.http.requestchecks import SHOWN_ONLY
from catalog.http.responses import json_response
from catalog.model.concorderrors import DatabaseUnavailable, OutcomeUnknown
from catalog.model.errors import (
    MOST_VIOLATIONS,
    ActionNotSupported,
    ApiNotFound,
    Readonly,
    ServerBusy,
    ServerError,
    XRegistryError,
)
from catalog.model.masking import described
from catalog.store.linksources import read_bases

_WEB = ("http://", "https://")
# A URL from another catalog or from an operator goes into a header, so the rest is encoded.
_KEPT = "!#$%&'()*+,/:;=?@[]~-._"
_CONTROL = re.compile(r"[\x00-\x20\x7f]")
_log = structlog.get_logger()


async def point_to_authority(context: Context, error: XRegistryError) -> None:
    """Add the URLs of the entities at the authorities to the refusal of a write to replicas."""
    found = (error, *error.violations[:MOST_VIOLATIONS])
    refusals = [one for one in found if isinstance(one, Readonly) and "origin" in one.arguments]
    if not refusals:
        return
    authorities = {each.arguments["authority"] for each in refusals}
    try:
        async with context.database.acquire() as connection:
            bases = await read_bases(connection, authorities)
    except (ServerBusy, TimeoutError):
        return  # Without the database, the refusal is right, and only lacks the URLs.
    for each in refusals:
        authority = each.arguments["authority"]
        base = bases.get(authority) or (authority if authority.startswith(_WEB) else "")
        if base and not _CONTROL.search(base):
            each.arguments["url"] = quote(f"{base.rstrip('/')}{each.arguments['origin']}", _KEPT)
    if url := error.arguments.get("url", ""):
        # RFC 5023, 11.1: the link to the URL at which the resource can be edited.
        error.headers = {**error.headers, hdrs.LINK: f"<{url}>;rel=edit"}


PROBLEM: web.ResponseKey[str] = web.ResponseKey("problem", str)
"""The name of the error in an error document."""


def has_begun(request: web.BaseRequest) -> bool:
    """Whether a part of the answer was sent, so that an error document is no longer possible."""
    return request.writer.output_size > 0


def cut_short(request: web.BaseRequest, error: BaseException) -> None:
    """Abort the connection of an answer under way: the client must not take a part for the whole.

    An error is logged unless the client is gone.
    """
    is_clients = is_client_gone(request)
    if request.transport is not None:
        request.transport.abort()
    if isinstance(error, Exception) and not is_clients:
        _log.warning("an answer was cut short", path=request.path, error=described(error))


def is_client_gone(request: web.BaseRequest) -> bool:
    return request.transport is None or request.transport.is_closing()


def problem_of(request: web.Request, error: Exception) -> web.Response:
    """The error document of an error.

    Raises:
        ConnectionError: the given error, if the client is gone.
    """
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
        case ConnectionError() if is_client_gone(request):
            raise error
        case TimeoutError():
            return problem_response(ServerBusy(request.path))
        case _:
            return answer_unexpected(request, error)


def answer_unexpected(request: web.BaseRequest, error: BaseException | None) -> web.Response:
    """Answer an internal error of the node, and log the error under an id that the client gets."""
    instance = uuid.uuid4().hex
    if isinstance(request.writer, StreamWriter):
        # The answer that could not be sent may have switched the writer to chunks.
        request.writer.chunked = False
    path = request.path.encode(errors="replace").decode()
    _log.error("request failed", instance=instance, path=path, exc_info=error)
    return problem_response(ServerError(path), instance=instance)


def _unavailable(request: web.Request, error: DatabaseUnavailable) -> DatabaseUnavailable:
    """The error of a request without the database; `OutcomeUnknown` if a write may be committed."""
    is_unknown = isinstance(error, OutcomeUnknown) or (
        CONTEXT in request and request[CONTEXT].database.has_committed
    )
    return (OutcomeUnknown if is_unknown else DatabaseUnavailable)(request.path)


def problem_response(error: XRegistryError, *, instance: str = "") -> web.Response:
    document = problem_document(error, error.request_path)
    found = error.violations or (error,)
    is_elsewhere = bool(error.subject.strip("/")) and document.get("subject") != error.subject
    if is_elsewhere or any(violation is not error for violation in found):
        document["violations"] = [problem_document(e) for e in found[:MOST_VIOLATIONS]]
    if instance:
        document["instance"] = f"urn:uuid:{instance}"
    response = json_response(document, status=error.status, headers={**SHOWN_ONLY, **error.headers})
    response[PROBLEM] = error.type.rpartition("#")[2].rpartition(":")[2]
    return response


def problem_document(error: XRegistryError, path: str = "") -> dict[str, Any]:
    """The members of an error document.

    Args:
        path: the path of the request, for errors about the request as a whole; empty for a
            violation, which has a subject of its own.
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
