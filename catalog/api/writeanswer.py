"""Answers writes with what they wrote, as a GET would show it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from aiohttp import hdrs, web
from multidict import CIMultiDict

from catalog.api.entityread import answer_document, answer_owner, read_one, shown, version_shown
from catalog.api.notes import notes_on
from catalog.api.readplan import ReadPlan
from catalog.api.requesttarget import RequestTarget
from catalog.api.scope import UNFILTERED, Scope
from catalog.api.subtreejson import SubtreeWriter
from catalog.http.headers import interaction_headers
from catalog.http.responses import JSON_TYPE, json_response
from catalog.model.entity import Entity
from catalog.model.interaction import Interaction
from catalog.model.xid import Xid, collection_of
from catalog.reading import entities
from catalog.reading.find import find_among, put_in_order
from catalog.reading.loaded import Loaded
from catalog.store.database import Connection
from catalog.writing.outcome import Outcome


async def answer_written(
    view: ReadPlan, interaction: Interaction, outcome: Outcome
) -> web.StreamResponse:
    """The one entity that a request is directed to, or those of a collection in it."""
    request, target, headers = view.request, view.target, interaction_headers(outcome)
    headers |= await notes_on(view, interaction, outcome)
    if target.kind == "collection" or (
        request.method == hdrs.METH_POST and target.kind in ("registry", "group")
    ):
        return await _answer_processed(view, interaction, outcome, headers)
    target = _entity_written(request, target, interaction, outcome)
    view = replace(view, target=target)
    status = 201 if outcome.is_new(target.xid) else 200
    headers |= _places(view.context.base_url(request), target, outcome, status)
    if target.kind in ("registry", "group") and view.query.inline:
        return await answer_owner(view, CIMultiDict(headers), status=status)
    known = await _known_after(view, outcome)
    if target.is_document and not view.query.doc:
        return await _answer_document(view, known, status, headers)
    body = shown(view.renderer(known, await _scope_of_one(view)), view)
    return json_response(body, status=status, headers=headers)


async def _scope_of_one(view: ReadPlan) -> Scope:
    """What filters leave over below an entity that was written; below versions nothing is."""
    if view.query.filters is None or view.target.kind in ("version", "meta"):
        return UNFILTERED
    async with view.context.database.pool.acquire() as connection:
        return await view.scope(connection)


async def _answer_document(
    view: ReadPlan, known: Loaded, status: int, headers: dict[str, str]
) -> web.Response:
    version = version_shown(known, view.xid)
    async with view.context.database.pool.acquire() as connection:
        await entities.load_documents(connection, known, [version])
    body = known.document_of(version)
    return answer_document(view, known, body, status=status, headers=headers)


async def _answer_processed(
    view: ReadPlan, interaction: Interaction, outcome: Outcome, headers: dict[str, str]
) -> web.StreamResponse:
    """The entities that were processed by id, or by type and id."""
    target, inline = view.target, view.query.inline
    written = _processed(target, interaction, outcome)
    if inline and target.plural != "versions":
        async with view.snapshot() as snapshot:
            listed, scope = await _asked_for(snapshot.connection, view, written)
            writer = SubtreeWriter(snapshot.connection, view.renderer(Loaded(), scope))
            pieces = writer.listed(target.path, listed, inline)
            headers["Content-Type"] = JSON_TYPE
            return await view.send(snapshot, writer, pieces, CIMultiDict(headers))
    async with view.context.database.pool.acquire() as connection:
        listed, scope = await _asked_for(connection, view, written)
        known = await entities.read_entities(connection, view.model, written, follows=view.follows)
        known = _with_own_writes(known, outcome)
        if inline:
            versions = [known.entities[str(xid)] for xid in written]
            await entities.load_documents(connection, known, versions)
    renderer = view.renderer(known, scope)
    by_type: dict[str, Any] = {
        collection.rpartition("/")[2]: renderer.collection(xids, inline)
        for collection, xids in listed.items()
    }
    if target.kind == "collection":
        by_type = by_type.get(target.plural, {})
    return json_response(by_type, headers=headers)


async def _asked_for(
    connection: Connection, view: ReadPlan, written: Sequence[Xid]
) -> tuple[dict[str, list[str]], Scope]:
    """What a request wants to see of what it wrote, by collection and in order."""
    target, query, listed = view.target, view.query, _by_collection(written)
    if query.sort is not None:
        for xids in listed.values():
            xids[:] = await put_in_order(connection, view.xid, target.plural, xids, query.sort)
    if query.filters is None:
        return listed, UNFILTERED
    if target.kind != "collection":
        scope = await view.scope(connection)
    else:
        xids = [str(xid) for xid in written]
        scope = Scope(await find_among(connection, view.xid, query.filters, target.plural, xids))
    for xids in listed.values():
        xids[:] = [xid for xid in xids if scope.shows(xid)]
    return listed, scope


def _by_collection(written: Iterable[Xid]) -> dict[str, list[str]]:
    collections: dict[str, list[str]] = {}
    for xid in written:
        collections.setdefault(collection_of(xid), []).append(str(xid))
    return collections


def answer_deleted(outcome: Outcome) -> web.Response:
    return web.Response(status=204, headers=interaction_headers(outcome))


def _places(base: str, target: RequestTarget, outcome: Outcome, status: int) -> dict[str, str]:
    """Where a new entity is, and a new version (core/http.md, "Creating or Updating Entities")."""
    kind = target.resource_type
    suffix = "$details" if target.details and kind is not None and kind.hasdocument else ""
    places = {}
    if status == 201:
        places["Location"] = f"{base}{target.path}{suffix}"
    version = _new_version(target.xid, outcome)
    if version is not None and target.kind in ("resource", "version"):
        places["Content-Location"] = f"{base}{version}{suffix}"
    return places


def _new_version(xid: Xid, outcome: Outcome) -> str | None:
    """The version that a request created, rather the default one if there are several."""
    new = [
        each for each in outcome.after if "/versions/" in each and outcome.is_new(Xid.parse(each))
    ]
    resource = outcome.after.get(str(xid.resource))
    if isinstance(resource, Entity):
        default = f"{resource.xid}/versions/{resource.attributes.get('defaultversionid')}"
        if default in new:
            return default
    return new[0] if new else None


def _entity_written(
    request: web.Request, target: RequestTarget, interaction: Interaction, outcome: Outcome
) -> RequestTarget:
    """`POST` to a resource answers with the one version that it wrote."""
    if not (request.method == hdrs.METH_POST and target.kind == "resource"):
        return target
    vid = interaction.resources[0].versions[0].vid
    written = str(target.xid.version(vid)) if vid else _new_version(target.xid, outcome)
    assert written is not None, "without an id, a version is new"
    return RequestTarget(
        kind="version",
        xid=Xid.parse(written),
        details=target.details,
        resource_type=target.resource_type,
    )


async def _known_after(view: ReadPlan, outcome: Outcome) -> Loaded:
    """What a GET would know now; for one resource the interaction has all of it at hand."""
    xid, inline = view.xid, view.query.inline
    if xid.rid and not inline and not _is_reference(xid, outcome):
        states = {**outcome.before, **outcome.after}
        return Loaded.of(state for state in states.values() if isinstance(state, Entity))
    async with view.context.database.pool.acquire() as connection:
        if inline:
            return await read_one(connection, view)
        known = await entities.read_entities(connection, view.model, [xid], follows=view.follows)
        return _with_own_writes(known, outcome)


def _is_reference(xid: Xid, outcome: Outcome) -> bool:
    resource = outcome.after.get(str(xid.resource))
    return isinstance(resource, Entity) and "xref" in resource.attributes


def _with_own_writes(known: Loaded, outcome: Outcome) -> Loaded:
    """Other requests may have changed or deleted since what this one is to show."""
    for xid, state in {**outcome.before, **outcome.after}.items():
        if isinstance(state, Entity) and not ("xref" in state.attributes and xid in known.entities):
            known.entities[xid] = state
    return known


def _processed(target: RequestTarget, interaction: Interaction, outcome: Outcome) -> list[Xid]:
    """What was asked for, without what was overlooked, or was too old to be kept."""
    if target.kind == "collection" and target.xid.rid:
        versions = (v for upsert in interaction.resources for v in upsert.versions)
        asked = [target.xid.version(version.vid) for version in versions]
        return [xid for xid in asked if isinstance(outcome.after.get(str(xid)), Entity)]
    upserts = interaction.resources if target.xid.gid else interaction.groups
    return [each.xid for each in upserts if str(each.xid) not in outcome.left_alone]
