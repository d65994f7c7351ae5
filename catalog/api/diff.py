"""The contents of entities by xid and epoch, and the difference of two contents: `GET /-/diff`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import orjson
from aiohttp import web

from catalog.access.authentication import AUTHENTICATION
from catalog.access.identity import identity_of
from catalog.context import CONTEXT, Context
from catalog.formats.checker import CheckedDocument, comparison
from catalog.formats.families import family_of, rules_for
from catalog.http.route import Route
from catalog.indexing.schemafields import MOST_BYTES
from catalog.load.workthread import in_thread
from catalog.model.caller import EVERYTHING
from catalog.model.change import differences_between
from catalog.model.entity import Entity
from catalog.model.errors import BadRequest, NotFound
from catalog.model.roles import Permission
from catalog.model.schema import Model
from catalog.model.xid import Xid, resource_of
from catalog.operations import changes as declared
from catalog.operations.changes import Compatibility, DiffAnswer, DiffQuery
from catalog.reading.schemadifference import DifferenceLine, fields_between, lines_between
from catalog.store.database import Connection
from catalog.store.entities import load, load_documents
from catalog.store.revisions import (
    ContentPurged,
    Knowledge,
    ToldChange,
    content_after,
    read_last_change,
)
from catalog.store.searchindex import with_small_documents

META = "/meta"
_KEPT = (
    "Contents are kept while the change log lasts, and up to CONCORD_REVISION_BYTES in all; "
    "`concord revisions list` names those that are."
)


def xid_of(request: web.Request, text: str) -> tuple[Xid, bool]:
    """Read the xid of an entity, and whether the meta of a resource is meant.

    Raises:
        BadRequest
    """
    try:
        xid = Xid.parse(text.removesuffix(META))
    except ValueError as error:
        fault = f'"{text[:200]}" needs to be an xid, as /schemagroups/g/schemas/s'
        raise BadRequest(request.path, error_detail=fault) from error
    is_meta = text.endswith(META)
    if is_meta and xid.kind != "resource":
        raise BadRequest(request.path, error_detail=f'"{text[:200]}": only a resource has a meta')
    return xid, is_meta


async def stored_xid(request: web.Request, connection: Connection, text: str) -> str:
    """The xid of the row that is meant: for a resource that of its default version.

    Raises:
        BadRequest: see `xid_of`.
        NotFound: there is no such resource.
    """
    xid, is_meta = xid_of(request, text)
    if xid.kind != "resource" or is_meta:
        return str(xid)
    resource = (await load(connection, [str(xid)])).get(str(xid))
    if resource is None:
        raise NotFound(str(xid))
    return f"{xid}/versions/{resource.attributes.get('defaultversionid')}"


async def knowledge_of(request: web.Request) -> Knowledge:
    """What the caller of a request may know of the authors of changes."""
    identity = identity_of(request)
    if Permission.GRANT not in identity.permissions:
        # The door looks for roles in groups only if the request needs them.
        identity = await request.app[AUTHENTICATION].with_rules(identity)
    scope = identity.scope_of(Permission.GRANT)
    if scope is EVERYTHING:
        return Knowledge(all=True)
    return Knowledge(all=False, rules=scope.rules)


async def content_at(
    connection: Connection, xid: str, epoch: int, known: Knowledge
) -> tuple[Entity, ToldChange | None]:
    """The content of an entity at an epoch, with its document, and the change that made it.

    Raises:
        NotFound: the content is not kept, or was purged.
    """
    told = await read_last_change(connection, xid, epoch, known)
    try:
        found = None if told is None else await content_after(connection, told)
    except ContentPurged as error:
        raise NotFound(xid, detail=f"The content of epoch {epoch} was purged.") from error
    if found is None and (present := (await load(connection, [xid])).get(xid)) is not None:
        documents = await load_documents(connection, [xid])
        if present.epoch == epoch:
            found = replace(present, document=documents.get(xid))
    if found is None:
        raise NotFound(xid, detail=f"It has no content of epoch {epoch}. {_KEPT}")
    return found, told


def with_small_document(entity: Entity) -> Entity:
    """An entity without its document if that is too large to be compared."""
    if entity.document is None or len(entity.document) <= MOST_BYTES:
        return entity
    return replace(entity, document=None)


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


routes = (Route(declared.READ_DIFF, compare_versions),)


async def _content(
    request: web.Request, connection: Connection, text: str, epoch: int | None
) -> Entity:
    stored = await stored_xid(request, connection, text)
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
        values=[declared.DiffValue.model_validate(value) for value in values],
        text=_shown(lines_between(_text(older), _text(newer))) if values or changed else None,
        lines=_shown(lines),
        fields=fields and [declared.DiffField.model_validate(field) for field in fields],
        complete=is_whole,
    )


def _text(entity: Entity) -> bytes:
    """The attributes as JSON with a line for each; nothing if there are none."""
    options = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS
    attributes = dict(entity.attributes)
    return orjson.dumps(attributes, option=options) if attributes else b""


def _shown(lines: Sequence[DifferenceLine] | None) -> list[declared.DiffLine] | None:
    return None if lines is None else [declared.DiffLine.model_validate(line) for line in lines]


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
