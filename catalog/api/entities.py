"""The native API's entity paths: reads and writes of everything that the model defines."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import hdrs, web

from catalog.api.body import read_body, read_json, read_object
from catalog.api.cache import ANSWERS, Answer
from catalog.api.headers import CORRELATION_ID, forbid_metadata, headers_of, metadata_from
from catalog.api.params import Inline, read_epoch_flag, read_inline, read_page
from catalog.api.paths import Target, parse_path
from catalog.api.render import Renderer
from catalog.api.responses import json_response
from catalog.context import CONTEXT, Context
from catalog.model.entity import Entity
from catalog.model.errors import (
    ActionNotSupported,
    DetailsRequired,
    ExtraXregistryHeader,
    NotFound,
    ServerBusy,
)
from catalog.model.interaction import Document, Interaction
from catalog.model.xid import Xid
from catalog.registry import read
from catalog.registry.read import Known
from catalog.registry.write import Outcome, apply_interaction
from catalog.store import entities as store
from catalog.store.database import Connection

CURSOR = "Concord-Cursor"

_METHODS = {
    "registry": ("GET", "HEAD", "PATCH", "POST", "PUT"),
    "collection": ("DELETE", "GET", "HEAD", "PATCH", "POST"),
    "group": ("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT"),
    "resource": ("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT"),
    "meta": ("GET", "HEAD", "PATCH", "PUT"),
    "version": ("DELETE", "GET", "HEAD", "PATCH", "PUT"),
}


async def handle_entity(request: web.Request) -> web.StreamResponse:
    """Any method on any path that the model defines, in bounded time."""
    context = request.app[CONTEXT]
    try:
        async with asyncio.timeout(context.settings.request_timeout_seconds):
            return await _handle(request, context)
    except TimeoutError as error:
        raise ServerBusy(request.path) from error


async def _handle(request: web.Request, context: Context) -> web.StreamResponse:
    if request.method == hdrs.METH_GET and (known := _remembered(request, context)):
        return known
    target = parse_path(request.rel_url.raw_path, context.model)
    if request.method not in _METHODS[target.kind]:
        raise ActionNotSupported(request.path, action=request.method, allow=_METHODS[target.kind])
    match request.method:
        case hdrs.METH_GET | hdrs.METH_HEAD:
            return await _get(request, context, target)
        case hdrs.METH_DELETE:
            return await _delete(request, context, target)
        case _:
            return await _write(request, context, target)


def _remembered(request: web.Request, context: Context) -> web.Response | None:
    answer = request.app[ANSWERS].get(context.base_url(request), request.raw_path)
    return None if answer is None else web.Response(body=answer.body, headers=answer.headers)


async def _get(request: web.Request, context: Context, target: Target) -> web.Response:
    if target.is_document:
        return await _get_document(request, context, target.xid)
    generation = request.app[ANSWERS].generation
    inline = read_inline(request, target)
    if target.kind == "collection":
        response = await _get_collection(request, context, target, inline)
    else:
        response = await _get_one(request, context, target, inline)
    if isinstance(response.body, bytes):
        answer = Answer(body=response.body, headers=dict(response.headers))
        request.app[ANSWERS].put(context.base_url(request), request.raw_path, answer, generation)
    return response


async def _get_one(
    request: web.Request, context: Context, target: Target, inline: Inline
) -> web.Response:
    async with context.database.pool.acquire() as connection:
        if inline:
            known = await read.read_subtree(connection, target.xid)
            await _add_parent(connection, known, target.xid)
        else:
            known = await read.read_entity(connection, context.model, target.xid)
    return json_response(_show(request, context, known, target, inline))


async def _add_parent(connection: Connection, known: Known, xid: Xid) -> None:
    """A version alone does not know whether it is the default one; its resource does."""
    if xid.vid:
        known.entities |= await store.load(connection, [str(xid.resource)])


def _show(
    request: web.Request, context: Context, known: Known, target: Target, inline: Inline
) -> dict[str, Any]:
    renderer = _renderer(request, context, known)
    entity = known.entities[str(target.xid)]
    if target.kind == "meta":
        return renderer.meta(entity)
    return renderer.show(entity, inline)


def _renderer(request: web.Request, context: Context, known: Known) -> Renderer:
    return Renderer(
        context.model,
        known,
        base=context.base_url(request),
        authority=context.database.node.authority,
    )


async def _get_collection(
    request: web.Request, context: Context, target: Target, inline: Inline
) -> web.Response:
    after, limit = read_page(request)
    async with context.database.pool.acquire() as connection:
        known, xids = await read.read_page(
            connection, context.model, target.xid, target.plural, after, limit + 1
        )
        total = await store.count_collections(connection, [target.path])
        page = xids[:limit]
        if inline:
            rows = await store.load_subtrees(connection, page, documents=True)
            known = known.deepened(rows)
    headers = {}
    if len(xids) > limit:
        last = Xid.parse(page[-1]).id
        following = request.rel_url.update_query({"limit": str(limit), "after": last})
        url = f"{context.base_url(request)}{following}"
        headers["Link"] = f"<{url}>;rel=next;count={total.get(target.path, 0)}"
    return json_response(
        _renderer(request, context, known).collection(page, inline), headers=headers
    )


async def _get_document(request: web.Request, context: Context, xid: Xid) -> web.Response:
    async with context.database.pool.acquire() as connection:
        known = await read.read_entity(connection, context.model, xid)
        version = _version_shown(known, xid)
        body = await store.load_document(connection, version.xid)
    return _document_response(request, context, known, xid, body or b"")


def _version_shown(known: Known, xid: Xid) -> Entity:
    entity = known.entities[str(xid)]
    version = entity if xid.vid else known.default_of(entity)
    if version is None:
        raise NotFound(str(xid), detail="Its default version has not been replicated yet.")
    return version


def _document_response(
    request: web.Request,
    context: Context,
    known: Known,
    xid: Xid,
    body: bytes,
    *,
    status: int = 200,
    headers: dict[str, str] | None = None,
) -> web.Response:
    """A document with its metadata in headers; elsewhere's documents are referred to."""
    renderer = _renderer(request, context, known)
    renderer.shows_details = False
    entity = known.entities[str(xid)]
    shown = renderer.show(entity, {})
    kind = context.model.groups[xid.groups].resources[xid.resources]
    answer = headers_of(shown) | {"Content-Disposition": xid.rid}
    if not xid.vid:
        version = _version_shown(known, xid)
        answer["Content-Location"] = f"{context.base_url(request)}{version.xid}"
    if url := shown.get(f"{kind.singular}url"):
        answer["Location"] = url
        status, body = (303 if status == 200 else status), b""
    return web.Response(body=body, status=status, headers=answer | (headers or {}))


async def _write(request: web.Request, context: Context, target: Target) -> web.Response:
    inline = read_inline(request, target)
    interaction = Interaction()
    model, patch = context.model, request.method == hdrs.METH_PATCH
    if target.is_document:
        await _read_document(request, context, target, interaction)
    else:
        if target.resource_type is not None and target.kind in ("resource", "version"):
            forbid_metadata(request)
        body = await read_object(request)
        is_post = request.method == hdrs.METH_POST
        match target.kind:
            case "registry" if is_post:
                interaction.post_registry(model, body)
            case "registry":
                interaction.put_registry(model, body, patch=patch)
            case "collection" if target.xid.rid:
                interaction.put_versions(model, target.xid, body, patch=patch)
            case "collection" if target.xid.gid:
                interaction.put_resources(model, target.xid, target.plural, body, patch=patch)
            case "collection":
                interaction.put_groups(model, target.plural, body, patch=patch)
            case "group" if is_post:
                interaction.post_group(model, target.xid, body)
            case "group":
                interaction.put_group(model, target.xid, body, patch=patch)
            case "resource" if is_post:
                interaction.post_version(model, target.xid, body)
            case "resource":
                interaction.put_resource(model, target.xid, body, patch=patch)
            case "meta":
                interaction.put_meta(model, target.xid, body, patch=patch)
            case "version":
                vid = target.xid.vid
                interaction.put_version(model, target.xid.resource, vid, body, patch=patch)
    outcome = await apply_interaction(context.database, model, interaction)
    return await _answer_write(request, context, target, interaction, outcome, inline)


async def _read_document(
    request: web.Request, context: Context, target: Target, interaction: Interaction
) -> None:
    """A document in the body and its metadata in headers."""
    kind = target.resource_type
    assert kind is not None, "only resource types have documents"
    if request.method == hdrs.METH_PATCH:
        raise DetailsRequired(str(target.xid))
    body = metadata_from(request, kind)
    content = await read_body(request)
    if body.get(f"{kind.singular}url") is not None and content:
        raise ExtraXregistryHeader(
            request.path,
            name=f"xRegistry-{kind.singular}url",
            error_detail="the body needs to be empty when the document is elsewhere",
        )
    document = Document(body=content)
    model, xid = context.model, target.xid
    if request.method == hdrs.METH_POST:
        interaction.post_version(model, xid, body, document=document)
    elif xid.vid:
        interaction.put_version(model, xid.resource, xid.vid, body, patch=True, document=document)
    else:
        interaction.put_resource(model, xid, body, patch=True, document=document)


async def _answer_write(
    request: web.Request,
    context: Context,
    target: Target,
    interaction: Interaction,
    outcome: Outcome,
    inline: Inline,
) -> web.Response:
    headers = {CORRELATION_ID: outcome.interaction, CURSOR: str(outcome.position)}
    if target.kind == "collection" or (
        request.method == hdrs.METH_POST and target.kind in ("registry", "group")
    ):
        shown = await _show_written(request, context, target, interaction, outcome, inline)
        return json_response(shown, headers=headers)
    target = _entity_written(request, target, outcome)
    status = 201 if outcome.is_new(target.xid) and target.kind != "meta" else 200
    base = context.base_url(request)
    new_version = next(
        (xid for xid in outcome.after if "/versions/" in xid and outcome.is_new(Xid.parse(xid))),
        None,
    )
    details = "$details" if target.details else ""
    if status == 201:
        headers["Location"] = f"{base}{target.xid}{details}"
    if new_version is not None and target.kind in ("resource", "version"):
        headers["Content-Location"] = f"{base}{new_version}{details}"
    known = await _known_after(context, target, outcome, inline)
    if target.is_document:
        version = _version_shown(known, target.xid)
        async with context.database.pool.acquire() as connection:
            body = await store.load_document(connection, version.xid)
        return _document_response(
            request, context, known, target.xid, body or b"", status=status, headers=headers
        )
    shown = _show(request, context, known, target, inline)
    return json_response(shown, status=status, headers=headers)


def _entity_written(request: web.Request, target: Target, outcome: Outcome) -> Target:
    """`POST` to a resource answers with the one version that it wrote."""
    if not (request.method == hdrs.METH_POST and target.kind == "resource"):
        return target
    written = [xid for xid in outcome.after if xid.startswith(f"{target.xid}/versions/")]
    new = [xid for xid in written if outcome.is_new(Xid.parse(xid))]
    return Target(
        kind="version",
        xid=Xid.parse((new or written)[0]),
        details=target.details,
        resource_type=target.resource_type,
    )


async def _known_after(context: Context, target: Target, outcome: Outcome, inline: Inline) -> Known:
    """What a GET would know now; for one resource the interaction has all of it at hand."""
    if target.xid.rid and not inline:
        states = {**outcome.before, **outcome.after}
        return Known.of(state for state in states.values() if isinstance(state, Entity))
    async with context.database.pool.acquire() as connection:
        if inline:
            known = await read.read_subtree(connection, target.xid)
            await _add_parent(connection, known, target.xid)
            return known
        known = await read.read_entities(connection, context.model, [target.xid])
        return _with_own_writes(known, outcome, inline)


def _with_own_writes(known: Known, outcome: Outcome, inline: Inline) -> Known:
    """Other requests may have changed or deleted since what this one is to show."""
    states = {**outcome.before, **outcome.after}
    own = {xid: state for xid, state in states.items() if isinstance(state, Entity)}
    # Own states have no documents, which are shown only where they are inlined.
    known.entities = own | known.entities if inline else known.entities | own
    return known


async def _show_written(
    request: web.Request,
    context: Context,
    target: Target,
    interaction: Interaction,
    outcome: Outcome,
    inline: Inline,
) -> dict[str, Any]:
    """The entities that a request to a collection processed, by id, or by type and id."""
    written = _processed(target, interaction)
    async with context.database.pool.acquire() as connection:
        known = await read.read_entities(connection, context.model, written)
        if inline:
            rows = await store.load_subtrees(connection, map(str, written), documents=True)
            known = known.deepened(rows)
    renderer = _renderer(request, context, _with_own_writes(known, outcome, inline))
    if target.kind == "collection":
        return renderer.collection([str(xid) for xid in written], inline)
    by_type: dict[str, list[str]] = {}
    for xid in written:
        by_type.setdefault(xid.resources or xid.groups, []).append(str(xid))
    return {
        plural: renderer.collection(xids, inline.get(plural, inline if "*" in inline else {}))
        for plural, xids in by_type.items()
    }


def _processed(target: Target, interaction: Interaction) -> list[Xid]:
    if target.kind == "collection" and target.xid.rid:
        versions = (v for upsert in interaction.resources for v in upsert.versions)
        return [target.xid.version(version.vid) for version in versions]
    if target.xid.gid:
        return [upsert.xid for upsert in interaction.resources]
    return [upsert.xid for upsert in interaction.groups]


async def _delete(request: web.Request, context: Context, target: Target) -> web.Response:
    interaction = Interaction()
    if target.kind != "collection":
        interaction.delete(target.xid, read_epoch_flag(request))
    elif request.can_read_body:
        body = await read_json(request)
        interaction.delete_from(context.model, target.xid, target.plural, body)
    else:
        await _delete_all(context, target, interaction)
    outcome = await apply_interaction(context.database, context.model, interaction)
    return web.Response(
        status=204,
        headers={CORRELATION_ID: outcome.interaction, CURSOR: str(outcome.position)},
    )


async def _delete_all(context: Context, target: Target, interaction: Interaction) -> None:
    """Everything that the collection holds now."""
    async with context.database.pool.acquire() as connection:
        ids = await store.load_ids(connection, target.path)
    interaction.delete_from(context.model, target.xid, target.plural, {id: {} for id in ids})
