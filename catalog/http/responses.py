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


# Never sent. A header marks also an answer that is kept to be given again.
_MARK = "Concord-Untyped"
UNTYPED: Mapping[str, str] = {_MARK: "true"}


def leave_untyped(response: web.StreamResponse) -> None:
    """Remove the media type that aiohttp has given to a response with the headers of `UNTYPED`."""
    if response.headers.popall(_MARK, None) is not None:
        response.headers.popall(hdrs.CONTENT_TYPE, None)
