"""Describes in OpenAPI the headers by which reads wait for writes."""

from __future__ import annotations

from catalog.api.openapi_schemas import Json
from catalog.http.positionwait import WAIT_FOR
from catalog.http.responses import POSITION

_READS = ("GET", "HEAD")


def position_components() -> Json:
    """The parameters and the header that operations refer to."""
    return {
        "parameters": {
            "WaitFor": {
                "name": WAIT_FOR,
                "in": "header",
                "description": f"Values of `{POSITION}`, with commas between. The answer shows "
                "these writes, which were made here or at catalogs that this one follows.",
                "schema": {"type": "string"},
            },
            "Wait": {
                "name": "Prefer",
                "in": "header",
                "description": f"How many seconds to wait for what `{WAIT_FOR}` names.",
                "schema": {"type": "string", "pattern": "^wait=[0-9]{1,4}$"},
            },
        },
        "headers": {
            "Position": {
                "description": f"The position of the write, which `{WAIT_FOR}` takes.",
                "schema": {"type": "string"},
            }
        },
    }


def wait_parameters(method: str) -> list[Json]:
    """The parameters by which a read waits; empty for methods that write."""
    names = ("WaitFor", "Wait") if method in _READS else ()
    return [{"$ref": f"#/components/parameters/{name}"} for name in names]


def position_headers(method: str) -> Json:
    """The headers of the successful answer to a write, as a member of its description."""
    if method in _READS:
        return {}
    return {"headers": {POSITION: {"$ref": "#/components/headers/Position"}}}
