"""Answers PUT, PATCH, POST and DELETE: each request is one interaction."""

from __future__ import annotations

from typing import Any

from aiohttp import hdrs, web

from catalog.api.body import read_body, read_json, read_object
from catalog.api.headers import CORRELATION_ID, forbid_metadata, metadata_from
from catalog.api.params import Inline, read_epoch_flag, read_inline
from catalog.api.paths import Target
from catalog.api.reading import add_parent, answer_document, renderer_of, show, version_shown
from catalog.api.responses import json_response
from catalog.context import Context
from catalog.model.entity import Entity
from catalog.model.errors import DetailsRequired, ExtraXregistryHeader
from catalog.model.interaction import Document, Interaction
from catalog.model.xid import Xid
from catalog.registry import read
from catalog.registry.read import Known
from catalog.registry.write import Outcome, apply_interaction
from catalog.store import entities as store

CURSOR = "Concord-Cursor"


async def answer_write(request: web.Request, context: Context, target: Target) -> web.Response:
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
    outcome = await apply_interaction(context.database, context.configuration, interaction)
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
        version = version_shown(known, target.xid)
        async with context.database.pool.acquire() as connection:
            body = await store.load_document(connection, version.xid)
        return answer_document(
            request, context, known, target.xid, body or b"", status=status, headers=headers
        )
    shown = show(request, context, known, target, inline)
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
            await add_parent(connection, known, target.xid)
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
    renderer = renderer_of(request, context, _with_own_writes(known, outcome, inline))
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


async def answer_delete(request: web.Request, context: Context, target: Target) -> web.Response:
    interaction = Interaction()
    if target.kind != "collection":
        interaction.delete(target.xid, read_epoch_flag(request))
    elif request.can_read_body:
        body = await read_json(request)
        interaction.delete_from(context.model, target.xid, target.plural, body)
    else:
        await _delete_all(context, target, interaction)
    outcome = await apply_interaction(context.database, context.configuration, interaction)
    return web.Response(
        status=204,
        headers={CORRELATION_ID: outcome.interaction, CURSOR: str(outcome.position)},
    )


async def _delete_all(context: Context, target: Target, interaction: Interaction) -> None:
    """Everything that the collection holds now."""
    async with context.database.pool.acquire() as connection:
        ids = await store.load_ids(connection, target.path)
    interaction.delete_from(context.model, target.xid, target.plural, {id: {} for id in ids})
