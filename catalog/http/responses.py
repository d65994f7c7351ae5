"""Builds JSON responses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from aiohttp import hdrs, web

JSON_TYPE = "application/json; charset=utf-8"


def to_json(data: Any) -> bytes:
    """JSON text; times are shown in UTC, and `orjson.Fragment`s pass through as they are."""
    return orjson.dumps(data, option=orjson.OPT_UTC_Z)


def json_response(
    data: Any, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> web.Response:
    """A response with `data` as JSON."""
    return web.Response(
        body=to_json(data), status=status, headers={"Content-Type": JSON_TYPE, **(headers or {})}
    )


# Browsers must not interpret an untyped document; only these responses have this header.
_MARK = "X-Content-Type-Options"
UNTYPED: Mapping[str, str] = {_MARK: "nosniff"}


def leave_untyped(response: web.StreamResponse) -> None:
    """Remove the media type that aiohttp has given to a response with the headers of `UNTYPED`."""
    if _MARK in response.headers:
        response.headers.popall(hdrs.CONTENT_TYPE, None)
