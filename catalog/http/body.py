"""Reads request bodies, within bounds of size, time and depth."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
from aiohttp import web

from catalog.context import CONTEXT
from catalog.model.concorderrors import RequestTimeout, RequestTooLarge, UnsupportedMediaType
from catalog.model.errors import MissingBody, ParsingData

# aiohttp's type of a body without one. A page may not send it to others as a type that it states.
_UNTYPED = "application/octet-stream"

SEND_JSON = "Send it with the header Content-Type: application/json."


async def read_body(request: web.Request) -> bytes:
    """Read the whole body; it is empty if there is none.

    Raises:
        RequestTooLarge: it exceeds `max_body_bytes`.
        RequestTimeout: it did not come within `body_timeout_seconds`.
        ParsingData: the connection ended before the announced length.
    """
    settings = request.app[CONTEXT].settings
    announced = request.content_length or 0
    if announced > settings.max_body_bytes:
        raise RequestTooLarge(request.path, limit=str(settings.max_body_bytes))
    try:
        async with asyncio.timeout(settings.body_timeout_seconds):
            return await request.read()
    except TimeoutError as error:
        raise RequestTimeout(request.path, seconds=f"{settings.body_timeout_seconds:g}") from error
    except web.HTTPRequestEntityTooLarge as error:
        raise RequestTooLarge(request.path, limit=str(settings.max_body_bytes)) from error
    except (web.RequestPayloadError, ValueError) as error:
        raise ParsingData(
            request.path, error_detail="the body does not match its declared length or encoding"
        ) from error


async def read_json(request: web.Request) -> Any:
    """Read the body as JSON.

    Raises:
        MissingBody: it is empty.
        UnsupportedMediaType: it is declared as something else than JSON.
        ParsingData: it is not JSON in UTF-8, or nested deeper than `max_depth`.
    """
    body = await read_body(request)
    if not body:
        raise MissingBody(request.path)
    media_type = request.content_type.lower()
    if not (media_type == _UNTYPED or media_type.endswith(("/json", "+json"))):
        raise UnsupportedMediaType(request.path, contenttype=media_type, detail=SEND_JSON)
    return parse_json(body, request.app[CONTEXT].settings.max_depth)


async def read_object(request: web.Request) -> dict[str, Any]:
    """Read the body as a JSON object.

    Raises:
        ParsingData: it is another JSON value; and the errors of `read_json`.
    """
    value = await read_json(request)
    if not isinstance(value, dict):
        raise ParsingData(request.path, error_detail="a JSON object is needed")
    return value


def parse_json(body: bytes, max_depth: int) -> Any:
    """Parse JSON of bounded depth.

    Raises:
        ParsingData: it is not JSON in UTF-8, or nested too deep.
    """
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise ParsingData(error_detail=str(error)) from error
    # Most bodies have fewer brackets than levels are allowed, and need no walk.
    if body.count(b"{") + body.count(b"[") > max_depth and _is_deeper(value, max_depth):
        raise ParsingData(error_detail=f"it is nested deeper than {max_depth} levels")
    return value


def _is_deeper(value: Any, limit: int) -> bool:
    level = [value]
    for _ in range(limit + 1):
        level = [outer for outer in level if isinstance(outer, dict | list)]
        if not level:
            return False
        level = [
            item
            for outer in level
            for item in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return True
