"""The descriptions of routes that are not part of the native API, for OpenAPI."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from aiohttp import web

from catalog.api.openapi_schemas import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteDescription:
    """A member of a list of routes that describes the others, and adds none.

    Args:
        operations: by method and path, each without its summary.
        schemas: the components that they refer to, by name.
    """

    operations: Mapping[tuple[str, str], Json] = field(repr=False)
    schemas: Mapping[str, Json] = field(repr=False)


DESCRIPTIONS = web.AppKey("descriptions", list[RouteDescription])
