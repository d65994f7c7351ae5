"""Handlers of DELETE, of one entity or of several: all of them, or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from catalog.context import CONTEXT
from catalog.dialects.registry04.address import Address, address_of
from catalog.dialects.registry04.answers import (
    load_group,
    load_resource_answer,
    show_for,
)
from catalog.dialects.registry04.layout import Json, latest_version
from catalog.dialects.registry04.load import load_resource, load_version
from catalog.dialects.registry04.requestcontent import (
    apply,
    check_identity,
    expected_epoch,
    interaction_at,
)
from catalog.http.body import read_json
from catalog.http.headers import interaction_headers
from catalog.http.responses import json_response
from catalog.model.entity import Entity
from catalog.model.errors import BadRequest, InvalidAttribute, MissingVersions, NotFound
from catalog.model.interaction import Interaction
from catalog.model.xid import Xid, is_valid_id
from catalog.reading.loaded import Loaded
from catalog.store import entities as store

_MOST_LISTED = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedEntity:
    """One entity that a request lists: by its id, and at the epoch that it has to have."""

    id: str
    epoch: int | None
    item: Json


async def delete_group(request: web.Request) -> web.Response:
    """Delete a group with all that it holds."""
    context = request.app[CONTEXT]
    place = address_of(request, context.model)
    async with context.database.pool.acquire() as connection:
        shown = await load_group(connection, request, place)
    interaction = interaction_at(request, place)
    interaction.delete(place.xid, expected_epoch(request))
    outcome = await apply(request, interaction, place)
    return json_response(shown, headers=interaction_headers(outcome))


async def delete_groups(request: web.Request) -> web.Response:
    """Delete the groups that the body lists, or all of a type."""
    context = request.app[CONTEXT]
    place = address_of(request, context.model)
    if not request.can_read_body:
        return await _delete_all(request, place, f"/{place.types.group.native}")
    interaction, shown = interaction_at(request, place), {}
    async with context.database.pool.acquire() as connection:
        for doomed in await _listed(request):
            group = Address(types=place.types, xid=Xid(place.types.group.native, doomed.id))
            shown[doomed.id] = await load_group(connection, request, group)
            interaction.delete(group.xid, doomed.epoch)
    outcome = await apply(request, interaction)
    return json_response(shown, headers=interaction_headers(outcome))


async def delete_resource(request: web.Request) -> web.Response:
    """Delete a resource with all of its versions."""
    context = request.app[CONTEXT]
    place = address_of(request, context.model)
    async with context.database.pool.acquire() as connection:
        answer = await load_resource_answer(connection, request, place)
        _, version = await load_version(connection, place)
    interaction = interaction_at(request, place)
    _delete_resource(request, interaction, version, expected_epoch(request))
    answer.headers.update(interaction_headers(await apply(request, interaction, place)))
    return answer


def _delete_resource(
    request: web.Request, interaction: Interaction, latest: Entity, epoch: int | None
) -> None:
    """Delete a resource whose latest version has to be at an epoch.

    The native epoch of a resource is another one. So the version is written first, which
    fails where its epoch is not the expected one, in the same transaction.
    """
    resource = latest.path.resource
    if epoch is not None:
        model, body = request.app[CONTEXT].model, {"epoch": epoch}
        interaction.put_version(model, resource, latest.path.vid, body, patch=True)
    interaction.delete(resource, None)


async def delete_resources(request: web.Request) -> web.Response:
    """Delete the resources that the body lists, or all of a group."""
    context = request.app[CONTEXT]
    place = address_of(request, context.model)
    native = place.types.resource.native
    if not request.can_read_body:
        return await _delete_all(request, place, f"{place.path}/{native}")
    interaction, show, shown = interaction_at(request, place), show_for(request), {}
    async with context.database.pool.acquire() as connection:
        for doomed in await _listed(request):
            xid = place.xid.child(native, doomed.id)
            known, resource = await load_resource(connection, xid)
            version = latest_version(known, resource)
            shown[doomed.id] = show.version(version, place.types)
            _delete_resource(request, interaction, version, doomed.epoch)
    outcome = await apply(request, interaction)
    return json_response(shown, headers=interaction_headers(outcome))


async def delete_version(request: web.Request) -> web.Response:
    """Delete a version of a resource, unless it is the only one."""
    context = request.app[CONTEXT]
    place = address_of(request, context.model)
    async with context.database.pool.acquire() as connection:
        known, resource = await load_resource(connection, place.xid)
        answer = await load_resource_answer(connection, request, place)
    interaction = interaction_at(request, place)
    _keep_one(request, interaction, known, resource, [place.xid])
    interaction.delete(place.xid, expected_epoch(request))
    answer.headers.update(interaction_headers(await apply(request, interaction, place)))
    return answer


async def delete_versions(request: web.Request) -> web.Response:
    """Delete the versions that the body lists, or all but the latest; never all of them."""
    context = request.app[CONTEXT]
    place = address_of(request, context.model)
    async with context.database.pool.acquire() as connection:
        known, resource = await load_resource(connection, place.xid)
    listed = await _listed_versions(request, place, known, resource)
    interaction, show = interaction_at(request, place), show_for(request)
    versions = {doomed.id: place.xid.version(doomed.id) for doomed in listed}
    if missing := [xid for xid in versions.values() if str(xid) not in known.entities]:
        raise NotFound(str(missing[0]))
    _keep_one(request, interaction, known, resource, [*versions.values()])
    for doomed in listed:
        interaction.delete(versions[doomed.id], doomed.epoch)
    outcome = await apply(request, interaction)
    shown = {
        id: show.version(known.entities[str(xid)], place.types) for id, xid in versions.items()
    }
    return json_response(shown, headers=interaction_headers(outcome))


async def _listed_versions(
    request: web.Request, place: Address, known: Loaded, resource: Entity
) -> list[ListedEntity]:
    if not request.can_read_body:
        latest = latest_version(known, resource)
        children = known.children(f"{resource.xid}/versions")
        return [
            ListedEntity(id=version.path.vid, epoch=None, item={})
            for version in children
            if version.xid != latest.xid
        ]
    return await _listed(request, place.xid.rid)


def _keep_one(
    request: web.Request,
    interaction: Interaction,
    known: Loaded,
    resource: Entity,
    doomed: Sequence[Xid],
) -> None:
    """Refuse to delete all versions, also where others are being deleted at the same time.

    Raises:
        MissingVersions
    """
    children = known.children(f"{resource.xid}/versions")
    if {version.path for version in children} <= {*doomed}:
        raise MissingVersions(resource.xid, detail="Delete the resource itself instead.")
    # The epoch of a resource's meta counts its versions that come and go.
    body = {"epoch": resource.epoch}
    interaction.put_meta(request.app[CONTEXT].model, resource.path, body, patch=True)


async def _delete_all(request: web.Request, place: Address, collection: str) -> web.Response:
    context = request.app[CONTEXT]
    plural = collection.rpartition("/")[2]
    async with context.database.pool.acquire() as connection:
        if place.path != "/" and place.path not in await store.load(connection, [place.path]):
            raise NotFound(place.path)
        ids = await store.load_ids(connection, collection)
    interaction = interaction_at(request, place)
    interaction.is_collection = True
    owner = place.xid if place.xid.gid else Xid()
    interaction.delete_from(context.model, owner, plural, {id: {} for id in ids})
    return web.Response(status=204, headers=interaction_headers(await apply(request, interaction)))


async def _listed(request: web.Request, rid: str = "") -> list[ListedEntity]:
    """What a body lists: ids with epochs; versions of the resource `rid` by their numbers.

    Raises:
        BadRequest: it is no list of that, or names something twice.
    """
    body = await read_json(request)
    if not isinstance(body, list) or len(body) > _MOST_LISTED:
        detail = f"the body needs to be an array of at most {_MOST_LISTED} objects"
        raise BadRequest(request.path, error_detail=detail)
    listed = [_doomed(request, item, rid) for item in body]
    if len({doomed.id for doomed in listed}) < len(listed):
        raise BadRequest(request.path, error_detail="the body lists something twice")
    return listed


def _doomed(request: web.Request, item: Any, rid: str) -> ListedEntity:
    if not isinstance(item, dict):
        raise BadRequest(request.path, error_detail="the body needs to be an array of objects")
    id = item.get("id")
    if rid and item.get("version") is not None:
        check_identity(request.path, {"id": rid}, item)
        id = item["version"]
        id = str(id) if isinstance(id, int) and not isinstance(id, bool) else id
    if not isinstance(id, str) or not is_valid_id(id):
        raise InvalidAttribute(request.path, name="id", error_detail="it needs to be an id")
    epoch = item.get("epoch")
    if epoch is not None and (not isinstance(epoch, int) or isinstance(epoch, bool) or epoch < 0):
        detail = "it needs to be an unsigned integer"
        raise InvalidAttribute(request.path, name="epoch", error_detail=detail)
    return ListedEntity(id=id, epoch=epoch, item=item)
