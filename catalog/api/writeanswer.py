"""Answers writes with the written entities, in the form of a GET."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from aiohttp import hdrs, web
from multidict import CIMultiDict

from catalog.api.entityread import answer_document, answer_owner, load, shown, version_shown
from catalog.api.notes import notes_on
from catalog.api.readplan import ReadPlan
from catalog.api.requesttarget import RequestTarget
from catalog.api.subtreejson import SubtreeWriter
from catalog.http.responses import JSON_TYPE, interaction_headers, json_response
from catalog.load.longwork import aside
from catalog.model.entity import Entity
from catalog.model.errors import NotFound
from catalog.model.interaction import Interaction
from catalog.model.xid import Xid, collection_of
from catalog.reading import entities
from catalog.reading.entities import Loaded
from catalog.reading.find import find_among, put_in_order
from catalog.reading.visible import EVERYTHING, Visible
from catalog.store.database import Connection
from catalog.writing.outcome import Outcome


async def answer_written(
    plan: ReadPlan, interaction: Interaction, outcome: Outcome
) -> web.StreamResponse:
    """Answer with the target of a write, or with the written members of a collection."""
    request, target, headers = plan.request, plan.target, interaction_headers(outcome)
    headers |= await notes_on(plan.request, plan.model, interaction, outcome)
    if target.kind == "collection" or (
        request.method == hdrs.METH_POST and target.kind in ("registry", "group")
    ):
        return await _answer_processed(plan, interaction, outcome, headers)
    target = _entity_written(request, target, interaction, outcome)
    if target is not plan.target:
        plan = replace(plan, target=target)
    status = 201 if outcome.is_new(target.xid) else 200
    headers |= _places(plan.context.base_url(request), target, outcome, status)
    if target.kind in ("registry", "group") and plan.flags.inline:
        return await answer_owner(plan, CIMultiDict(headers), status=status)
    loaded = await _load_written(plan, outcome)
    if plan.shows_document:
        async with plan.context.database.acquire() as connection:
            await _load_documents(connection, loaded, [version_shown(loaded, plan.xid)])
        return answer_document(plan, loaded, status=status, headers=headers)
    visible = EVERYTHING
    if plan.flags.filters is not None and plan.target.kind not in ("version", "meta"):
        async with plan.context.database.acquire() as connection:
            visible = await plan.visible(connection)
    body = await aside(len(outcome.after), shown, plan.renderer(loaded, visible), plan)
    return json_response(body, status=status, headers=headers)


async def _answer_processed(
    plan: ReadPlan, interaction: Interaction, outcome: Outcome, headers: dict[str, str]
) -> web.StreamResponse:
    """Answer with the written entities by id, or by type and id."""
    target, inline = plan.target, plan.flags.inline
    written = await aside(interaction.size, _processed, target, interaction, outcome)
    if inline and target.plural != "versions":
        async with plan.snapshot() as snapshot:
            listed, visible = await _asked_for(snapshot.connection, plan, written)
            writer = SubtreeWriter(snapshot.connection, plan.renderer(Loaded(), visible))
            pieces = writer.listed(target.path, listed, inline)
            headers["Content-Type"] = JSON_TYPE
            return await plan.send(snapshot, writer, pieces, CIMultiDict(headers))
    async with plan.connection() as connection:
        listed, visible = await _asked_for(connection, plan, written)
        loaded = await entities.read_entities(connection, plan.model, written, follows=plan.follows)
        loaded = await aside(len(outcome.after), _with_own_writes, loaded, outcome)
        if inline:
            versions = [loaded.entities[str(xid)] for xid in written]
            await _load_documents(connection, loaded, versions)
    renderer = plan.renderer(loaded, visible)
    by_type: dict[str, Any] = {
        collection.rpartition("/")[2]: await aside(len(xids), renderer.collection, xids, inline)
        for collection, xids in listed.items()
    }
    if target.kind == "collection":
        by_type = by_type.get(target.plural, {})
    return json_response(by_type, headers=headers)


async def _load_documents(
    connection: Connection, loaded: Loaded, versions: Sequence[Entity]
) -> None:
    """Load the documents of written versions.

    Raises:
        NotFound: a later request has deleted a written document.
    """
    await entities.load_documents(connection, loaded, versions)
    for version in versions:
        stored = loaded.stored.get(version.xid, version.xid)
        is_read = version.document is not None or stored in loaded.documents
        if version.document_sha256 is not None and not is_read:
            detail = "It was written, and another request has deleted it since."
            raise NotFound(version.xid, detail=detail)


async def _asked_for(
    connection: Connection, plan: ReadPlan, written: Sequence[Xid]
) -> tuple[dict[str, list[str]], Visible]:
    """The written entities in the answer, by collection and in the requested order."""
    target, flags, listed = plan.target, plan.flags, defaultdict[str, list[str]](list)
    for xid in written:
        listed[collection_of(xid)].append(str(xid))
    if flags.sort is not None:
        for xids in listed.values():
            xids[:] = await put_in_order(connection, plan.xid, target.plural, xids, flags.sort)
    if flags.filters is None:
        return listed, EVERYTHING
    if target.kind != "collection":
        visible = await plan.visible(connection)
    else:
        xids = [str(xid) for xid in written]
        visible = await find_among(connection, plan.xid, flags.filters, target.plural, xids)
    for xids in listed.values():
        xids[:] = [xid for xid in xids if visible.shows(xid)]
    return listed, visible


def answer_deleted(outcome: Outcome) -> web.Response:
    return web.Response(status=204, headers=interaction_headers(outcome))


def _places(base: str, target: RequestTarget, outcome: Outcome, status: int) -> dict[str, str]:
    """The URLs of a new entity and version (core/http.md, "Creating or Updating Entities")."""
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
    """The version that a request created; of several versions, preferably the default version."""
    versions = (each for each in outcome.after if "/versions/" in each)
    new = [each for each in versions if outcome.is_new(Xid.parse(each))]
    resource = outcome.after.get(str(xid.resource))
    if isinstance(resource, Entity):
        default = f"{resource.xid}/versions/{resource.attributes.get('defaultversionid')}"
        if default in new:
            return default
    return new[0] if new else None


def _entity_written(
    request: web.Request, target: RequestTarget, interaction: Interaction, outcome: Outcome
) -> RequestTarget:
    """The target of the answer: for `POST` to a resource, the written version."""
    if not (request.method == hdrs.METH_POST and target.kind == "resource"):
        return target
    vid = interaction.resources[0].versions[0].vid
    written = str(target.xid.version(vid)) if vid else _new_version(target.xid, outcome)
    assert written is not None, "without an id, a version is new"
    return replace(target, kind="version", xid=Xid.parse(written))


async def _load_written(plan: ReadPlan, outcome: Outcome) -> Loaded:
    """Load the entities that a GET would show, from the outcome for a single resource."""
    xid, inline = plan.xid, plan.flags.inline
    resource = outcome.after.get(str(xid.resource))
    is_reference = isinstance(resource, Entity) and "xref" in resource.attributes
    if xid.rid and not inline and not is_reference:
        return _loaded_from(outcome, f"{xid.resource}/versions")
    async with plan.connection() as connection:
        if inline:
            return await load(connection, plan)
        loaded = await entities.read_entities(connection, plan.model, [xid], follows=plan.follows)
        return _with_own_writes(loaded, outcome)


def _loaded_from(outcome: Outcome, versions: str) -> Loaded:
    """The entities of one resource without inlined parts.

    Args:
        versions: the path of the versions of the resource.
    """
    states = {**outcome.before, **outcome.after}
    shown = {xid: state for xid, state in states.items() if isinstance(state, Entity)}
    count = sum(xid.startswith(f"{versions}/") for xid in shown)
    return Loaded(entities=shown, counts={versions: count})


def _with_own_writes(loaded: Loaded, outcome: Outcome) -> Loaded:
    """Show the states that the request wrote, though later requests may have changed them."""
    # A loaded cross reference stays, since it shows the attributes of the target.
    for xid, state in {**outcome.before, **outcome.after}.items():
        if isinstance(state, Entity) and not (
            "xref" in state.attributes and xid in loaded.entities
        ):
            loaded.entities[xid] = state
    return loaded


def _processed(target: RequestTarget, interaction: Interaction, outcome: Outcome) -> list[Xid]:
    """The requested xids, without entities that were ignored or pruned."""
    if target.kind == "collection" and target.xid.rid:
        versions = (v for upsert in interaction.resources for v in upsert.versions)
        asked = [target.xid.version(version.vid) for version in versions]
        return [xid for xid in asked if isinstance(outcome.after.get(str(xid)), Entity)]
    upserts = interaction.resources if target.xid.gid else interaction.groups
    return [each.xid for each in upserts if str(each.xid) not in outcome.left_alone]
