"""Builds the descriptions of operations of replication, for OpenAPI."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from catalog.api.openapi_operations import JSON_BODY, content, described_operation
from catalog.api.openapi_schemas import Json
from replication.openapi_peerschemas import TEXT

_REFUSED: Mapping[int, str] = {
    400: "The request is not as it is described here.",
    403: "The operator of this node does not accept the pushes of the sender.",
    404: "There is no such thing.",
    409: "What there is does not allow it; the error document says what to do.",
    410: "It is gone: a cursor that the log no longer reaches, or a link that nobody waits for.",
    413: "There is more in it than this node accepts.",
    429: "There are too many of these requests; Retry-After says when the next may come.",
    503: "Not now; Retry-After says when.",
}
NEXT: Json = {"Link": {"description": 'The next page, as `rel="next"`', "schema": TEXT}}
PLACE: Json = {"Location": {"description": "The URL of what was made", "schema": TEXT}}


def operation(
    done: Mapping[int, Json],
    refused: Collection[int] = (),
    *,
    parameters: Collection[Json] = (),
    taken: Json | None = None,
    is_needed: bool = True,
) -> Json:
    """Describe an operation, as `described_operation`, with the content of the body in `taken`."""
    return described_operation(
        done,
        {status: _REFUSED[status] for status in refused},
        parameters=parameters,
        taken=taken,
        is_needed=is_needed,
    )


def done(schema: Json, description: str = "Done.", *, headers: Json | None = None) -> Json:
    """An answer of JSON."""
    shown: Json = {"description": description, "content": content(JSON_BODY, schema)}
    return {**shown, "headers": headers} if headers else shown


def read(schema: Json, headers: Json | None = None) -> dict[int, Json]:
    """The answers to a read of which a client may have a copy."""
    return {
        200: done(schema, headers=headers),
        304: {"description": "Nothing is new since its ETag."},
    }


def query(name: str, schema: Json, description: str = "", **more: object) -> Json:
    """A parameter of the query."""
    told = {"description": description} if description else {}
    return {"name": name, "in": "query", "schema": schema, **told, **more}


def switch(name: str, description: str) -> Json:
    """A parameter of the query that needs no value."""
    shown = query(name, {"type": "string", "enum": [""]}, description)
    return {**shown, "allowEmptyValue": True}
