"""The bodies of commands on subscriptions: small objects, of which most members can be left out."""

from __future__ import annotations

from collections.abc import Set
from datetime import datetime
from typing import Any

from aiohttp import web

from catalog.http.body import read_body, read_object
from catalog.model.errors import InvalidAttribute, UnknownAttribute
from catalog.model.timestamps import parse_time

LONGEST_TEXT = 256


async def read_members(request: web.Request, known: Set[str]) -> dict[str, Any]:
    """The members of the body of a request; none if there is no body.

    Raises:
        UnknownAttribute: one of them is none of the known ones.
    """
    body = await read_object(request) if await read_body(request) else {}
    for other in body.keys() - known:
        raise UnknownAttribute(request.path, name=other[:128])
    return body


async def read_text(request: web.Request, name: str) -> str | None:
    """The only member that the body of a request may have, a short text; `None` if it is not there.

    Raises:
        UnknownAttribute: there is another one.
        InvalidAttribute: it is no text, or a long one.
    """
    value = (await read_members(request, {name})).get(name)
    if value is not None and not (isinstance(value, str) and len(value) <= LONGEST_TEXT):
        fault = f"it needs to be a text of at most {LONGEST_TEXT} characters"
        raise InvalidAttribute(request.path, name=name, error_detail=fault)
    return value


async def read_time(request: web.Request, name: str) -> datetime | None:
    """The same for a time."""
    text = await read_text(request, name)
    try:
        return None if text is None else parse_time(text)
    except ValueError as error:
        raise InvalidAttribute(request.path, name=name, error_detail=str(error)) from error
