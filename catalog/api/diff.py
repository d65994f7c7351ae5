"""What differs between two versions, or two revisions of an entity: `GET /-/diff`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import orjson
from aiohttp import web

from catalog.api.contents import content_at, stored_xid, with_small_document, xid_of
from catalog.context import CONTEXT, Context
from catalog.formats.checker import CheckedDocument, comparison
from catalog.formats.families import family_of, rules_for
from catalog.http.route import Route
from catalog.load.longwork import in_thread
from catalog.model.change import differences_between
from catalog.model.entity import Entity
from catalog.model.errors import BadRequest, NotFound
from catalog.model.schema import Model
from catalog.model.xid import resource_of
from catalog.operations.diff import (
    READ_DIFF,
    Compatibility,
    DiffAnswer,
    DiffField,
    DiffLine,
    DiffQuery,
    DiffValue,
)
from catalog.reading.schemadifference import DifferenceLine, fields_between, lines_between
from catalog.store.database import Connection
from catalog.store.entities import load
from catalog.store.revisions import Knowledge
from catalog.store.searchindex import with_small_documents


async def compare_versions(request: web.Request, query: DiffQuery) -> DiffAnswer:
    """Compare two versions or revisions: attributes, documents by line and field, compatibility."""
    if query.to is None and query.ofepoch is None and query.toepoch is None:
        fault = 'it needs "to", or the epoch of a revision ("ofepoch", "toepoch")'
        raise BadRequest(request.path, error_detail=fault)
    context = request[CONTEXT]
    async with context.database.snapshot() as connection:
        older = await _content(request, connection, query.of, query.ofepoch)
        to = query.of if query.to is None else query.to
        to = to if "/" in to else f"{resource_of(older.xid)}/versions/{to}"
        newer = await _content(request, connection, to, query.toepoch)
    if query.to is not None and {older.kind, newer.kind} != {"version"}:
        fault = "two versions can be compared, or two revisions of one entity"
        raise BadRequest(request.path, error_detail=fault)
    return await compare(context, older, newer)


routes = (Route(READ_DIFF, compare_versions),)


async def _content(
    request: web.Request, connection: Connection, text: str, epoch: int | None
) -> Entity:
    xid, is_meta = xid_of(request, text)
    stored = await stored_xid(connection, xid, is_meta=is_meta)
    if epoch is not None:
        found, _ = await content_at(connection, stored, epoch, Knowledge(all=False))
        return with_small_document(found)
    present = (await load(connection, [stored])).get(stored)
    if present is None:
        raise NotFound(text)
    return (await with_small_documents(connection, [present]))[0]


async def compare(context: Context, older: Entity, newer: Entity) -> DiffAnswer:
    """Compare two contents, whose documents are there unless they are too large."""
    answer = await in_thread(_compared, older, newer, context.model)
    backward, forward = await _compatibility(context, older, newer)
    return answer.model_copy(update={"backward": backward, "forward": forward})


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
        ofepoch=older.epoch,
        toepoch=newer.epoch,
        changed=changed,
        values=[DiffValue(path=list(v.path), old=v.old, new=v.new) for v in values],
        text=_shown(lines_between(_text(older), _text(newer))) if values or changed else None,
        lines=_shown(lines),
        fields=fields and [DiffField(path=x.path, old=x.old, new=x.new) for x in fields],
        complete=is_whole,
    )


def _text(entity: Entity) -> bytes:
    """The attributes as JSON with a line for each; nothing if there are none."""
    options = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS
    attributes = dict(entity.attributes)
    return orjson.dumps(attributes, option=options) if attributes else b""


def _shown(lines: Sequence[DifferenceLine] | None) -> list[DiffLine] | None:
    if lines is None:
        return None
    return [DiffLine(sign=each.sign, number=each.number, text=each.text) for each in lines]


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
