"""What differs between two versions: `GET /-/diff`."""

from __future__ import annotations

from dataclasses import replace

from aiohttp import web

from catalog.context import CONTEXT, Context
from catalog.formats.checker import CheckedDocument, comparison
from catalog.formats.families import family_of, rules_for
from catalog.http.route import Route
from catalog.load.longwork import in_thread
from catalog.model.change import differences_between
from catalog.model.entity import Entity
from catalog.model.errors import BadRequest, NotFound
from catalog.model.schema import Model
from catalog.model.xid import Xid, resource_of
from catalog.operations.diff import (
    READ_DIFF,
    Compatibility,
    DiffAnswer,
    DiffField,
    DiffLine,
    DiffQuery,
    DiffValue,
)
from catalog.reading.schemadifference import fields_between, lines_between
from catalog.store.database import Connection
from catalog.store.entities import load
from catalog.store.searchindex import with_small_documents


async def compare_versions(request: web.Request, query: DiffQuery) -> DiffAnswer:
    """Compare two versions: attributes, documents by line and by field, and compatibility."""
    context = request[CONTEXT]
    of = _xid(request, query.of)
    async with context.database.snapshot() as connection:
        older = await _version(connection, of)
        to = query.to if "/" in query.to else f"{resource_of(older.xid)}/versions/{query.to}"
        newer = await _version(connection, _xid(request, to))
        older, newer = await with_small_documents(connection, [older, newer])
    answer = await in_thread(_compared, older, newer, context.model)
    backward, forward = await _compatibility(context, older, newer)
    return answer.model_copy(update={"backward": backward, "forward": forward})


routes = (Route(READ_DIFF, compare_versions),)


def _xid(request: web.Request, text: str) -> Xid:
    try:
        xid = Xid.parse(text)
    except ValueError:
        xid = Xid()
    if xid.kind not in ("resource", "version"):
        fault = f'"{text[:200]}" needs to be the xid of a version, or of a resource'
        raise BadRequest(request.path, error_detail=fault)
    return xid


async def _version(connection: Connection, xid: Xid) -> Entity:
    found = (await load(connection, [str(xid)])).get(str(xid))
    if found is not None and found.kind == "resource":
        default = f"{xid}/versions/{found.attributes.get('defaultversionid')}"
        found = (await load(connection, [default])).get(default)
    if found is None:
        raise NotFound(str(xid))
    return found


def _compared(older: Entity, newer: Entity, model: Model) -> DiffAnswer:
    # Entities are compared under one xid, since the difference is that of one entity.
    same = replace(newer, xid=older.xid, createdat=older.createdat, modifiedat=older.modifiedat)
    attributes = differences_between({older.xid: older}, {older.xid: same}, model)
    changed = [name for each in attributes for name in each.changed]
    values = [value for each in attributes for value in each.values]
    before, after = older.document, newer.document
    is_whole = all(e.document is not None or e.document_sha256 is None for e in (older, newer))
    lines = fields = None
    if is_whole and older.document_sha256 != newer.document_sha256:
        lines = lines_between(before or b"", after or b"")
        fields = fields_between(before or b"", after or b"")
        is_whole = lines is not None
    return DiffAnswer(
        of=older.xid,
        to=newer.xid,
        changed=changed,
        values=[DiffValue(path=list(v.path), old=v.old, new=v.new) for v in values],
        lines=lines and [DiffLine(sign=x.sign, number=x.number, text=x.text) for x in lines],
        fields=fields and [DiffField(path=x.path, old=x.old, new=x.new) for x in fields],
        complete=is_whole,
    )


async def _compatibility(
    context: Context, older: Entity, newer: Entity
) -> tuple[Compatibility | None, Compatibility | None]:
    """Whether the newer schema is compatible with the older one: backward, and forward."""
    format = newer.attributes.get("format")
    was = older.attributes.get("format")
    if not (isinstance(format, str) and isinstance(was, str) and rules_for(format)):
        return None, None
    if older.document is None or newer.document is None or family_of(was) != family_of(format):
        return None, None
    documents = CheckedDocument.of(older.document), CheckedDocument.of(newer.document)
    checks = context.checked_requests.begin(context.caller.client)
    reasons = await checks.answers(
        [comparison(format, *documents, direction) for direction in ("backward", "forward")]
    )
    backward, forward = (Compatibility(compatible=not why, reason=why or None) for why in reasons)
    return backward, forward
