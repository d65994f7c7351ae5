"""Answers with error documents where aiohttp itself would answer, or close the connection.

aiohttp has no setting for this, so two methods of its request handler are replaced, for every
server of this process.
"""

from __future__ import annotations

from aiohttp import web
from aiohttp.http_exceptions import LineTooLong

from catalog.http.problems import (
    answer_unexpected,
    cut_short,
    has_begun,
    is_client_gone,
    problem_response,
)
from catalog.model.concorderrors import ExpectationFailed, LimitExceeded
from catalog.model.errors import ApiNotFound, ParsingData, ServerBusy, XRegistryError

_BAD_REQUEST = 400
# The limits of aiohttp's parser, which raises no error of its own for the second.
_MOST_IN_LINE, _MOST_HEADERS = "8190", "128"
_TOO_MANY_HEADERS = "Too many headers"
_handle_error = web.RequestHandler.handle_error
_finish_response = web.RequestHandler.finish_response


def answer_framework_errors() -> None:
    """Replace the methods; a second call changes nothing."""
    web.RequestHandler.handle_error = _answer_error  # type: ignore[method-assign, assignment]
    web.RequestHandler.finish_response = _finish  # type: ignore[method-assign, assignment]


def _answer_error(
    handler: web.RequestHandler,
    request: web.BaseRequest,
    status: int = 500,
    exc: BaseException | None = None,
    message: str | None = None,
) -> web.StreamResponse:
    """Answer requests that cannot be parsed, and errors outside of the middlewares.

    Raises:
        ConnectionError: the answer has begun, or the client has gone.
    """
    if has_begun(request):
        return _handle_error(handler, request, status, exc, message)
    if isinstance(exc, ConnectionError) and is_client_gone(request):
        raise exc
    if status == _BAD_REQUEST:
        response = problem_response(_parser_error(exc))
    elif exc is None:
        response = problem_response(ServerBusy(request.path))
    else:
        response = answer_unexpected(request, exc)
    response.force_close()
    return response


def _parser_error(error: BaseException | None) -> XRegistryError:
    setting = "a fixed limit"
    if isinstance(error, LineTooLong):
        things = "bytes in the path or in a header"
        return LimitExceeded(limit=_MOST_IN_LINE, things=things, setting=setting)
    if _TOO_MANY_HEADERS in str(error):
        return LimitExceeded(limit=_MOST_HEADERS, things="headers", setting=setting)
    return ParsingData(error_detail="it is not a well-formed HTTP request")


async def _finish(
    handler: web.RequestHandler,
    request: web.BaseRequest,
    response: web.StreamResponse,
    start_time: float | None,
) -> tuple[web.StreamResponse, bool]:
    """Send an answer; if that fails before a part of it is sent, answer with the error."""
    if isinstance(response, web.HTTPExpectationFailed):
        response = problem_response(ExpectationFailed(request.path))
    elif isinstance(response, web.HTTPNotFound):
        # The target of the request is no path, so that no route has it.
        response = problem_response(ApiNotFound(request.path))
    try:
        return await _finish_response(handler, request, response, start_time)
    except Exception as error:
        if has_begun(request):
            cut_short(request, error)
            return response, True
        answer = answer_unexpected(request, error)
        answer.force_close()
        return await _finish_response(handler, request, answer, start_time)
