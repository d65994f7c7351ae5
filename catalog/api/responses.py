"""Builds JSON responses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from aiohttp import web

JSON = "application/json; charset=utf-8"


def json_response(
    data: Any, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> web.Response:
    """A response with `data` as JSON; `orjson.Fragment`s pass through as they are."""
    return web.Response(
        body=orjson.dumps(data),
        status=status,
        headers={"Content-Type": JSON, **(headers or {})},
    )
