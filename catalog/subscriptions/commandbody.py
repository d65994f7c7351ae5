"""The bodies of commands on subscriptions: small objects, of which most members can be left out."""

from __future__ import annotations

from datetime import datetime

from aiohttp import web

from catalog.http.body import read_body, read_object
from catalog.model.errors import InvalidAttribute, UnknownAttribute
from catalog.model.timestamps import parse_time

_LONGEST_TEXT = 256


async def read_text(request: web.Request, name: str) -> str | None:
    """The only member that the body of a request may have, a short text; `None` if it is not there.

    Raises:
        UnknownAttribute: there is another one.
        InvalidAttribute: it is no text, or a long one.
    """
    if not await read_body(request):
        return None
    body = await read_object(request)
    for other in body.keys() - {name}:
        raise UnknownAttribute(request.path, name=other)
    value = body.get(name)
    if value is not None and not (isinstance(value, str) and len(value) <= _LONGEST_TEXT):
        fault = f"it needs to be a text of at most {_LONGEST_TEXT} characters"
        raise InvalidAttribute(request.path, name=name, error_detail=fault)
    return value


async def read_time(request: web.Request, name: str) -> datetime | None:
    """The same for a time."""
    text = await read_text(request, name)
    try:
        return None if text is None else parse_time(text)
    except ValueError as error:
        raise InvalidAttribute(request.path, name=name, error_detail=str(error)) from error
