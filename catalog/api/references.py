"""What refers to an entity and what it refers to: `GET /-/references`."""

from __future__ import annotations

from collections.abc import Sequence

from aiohttp import web

from catalog.context import CONTEXT, Context, SchemaUnknown
from catalog.http.route import Route
from catalog.http.stream import in_search_time
from catalog.model.errors import BadRequest, NotFound
from catalog.model.xid import Xid
from catalog.operations.references import (
    READ_REFERENCES,
    FoundReference,
    ReferencesAnswer,
    ReferencesQuery,
)
from catalog.reading.references import Direction, ReferenceReader, SchemaAddresses
from catalog.store.database import Connection
from catalog.store.entities import load

_ADVICE = "Follow references less far (`depth`), or in one direction."


async def list_references(request: web.Request, query: ReferencesQuery) -> ReferencesAnswer:
    """List what refers to an entity, and what the entity refers to, directly or through others."""
    context = request[CONTEXT]
    try:
        xid = str(Xid.parse(query.of))
    except ValueError as error:
        fault = '"of" needs to be an xid, as /schemagroups/g/schemas/s'
        raise BadRequest(request.path, error_detail=fault) from error
    directions: tuple[Direction, ...] = ("to", "from")
    if query.direction != "both":
        directions = (query.direction,)
    async with in_search_time(request, _ADVICE), context.database.snapshot() as connection:
        entity = (await load(connection, [xid])).get(xid)
        if entity is None:
            raise NotFound(xid)
        bases = (context.base_url(request), context.public_base)
        reader = ReferenceReader(
            connection, context.database.node.authority, bases, _addresses(context, connection)
        )
        found = await reader.read(entity, directions, query.depth)
    return ReferencesAnswer(
        of=xid,
        references=[
            FoundReference(
                direction=each.direction,
                depth=each.depth,
                source=each.source,
                target=each.target,
                text=each.text,
                places=list(each.places),
            )
            for each in found.edges
        ],
        complete=found.are_complete,
    )


def _addresses(context: Context, connection: Connection) -> SchemaAddresses | None:
    """The addresses of the node's dialect that name schemas."""
    if (dialect := context.schema_dialect) is None:
        return None

    async def find(path: str, authority: str) -> Xid | None:
        try:
            return await dialect.find(context, connection, path, authority)
        except SchemaUnknown:
            return None

    async def of_schema(schema: Xid, authority: str) -> Sequence[str]:
        return await dialect.addresses(context, connection, schema, authority)

    return SchemaAddresses(root=dialect.root, find=find, of_schema=of_schema)


routes = (Route(READ_REFERENCES, list_references),)
