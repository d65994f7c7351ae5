"""Handlers of POST and PUT of groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiohttp import hdrs, web

from catalog.context import CONTEXT
from catalog.dialects.registry04.address import Address, address_of
from catalog.dialects.registry04.answers import group_answer, show_for
from catalog.dialects.registry04.attributechecks import (
    check_body,
    group_attributes,
    without_implied_name,
)
from catalog.dialects.registry04.nested import native_resources
from catalog.dialects.registry04.requestcontent import (
    UNUSED_EPOCH,
    apply,
    check_identity,
    expected_epoch,
    interaction_at,
    new_id,
    patch_of,
)
from catalog.dialects.registry04.translate import to_entity
from catalog.dialects.registry04.wellformed import creation_of
from catalog.http.body import read_object
from catalog.http.headers import interaction_headers
from catalog.model.entity import Entity
from catalog.model.errors import NotFound
from catalog.model.ownerrors import AlreadyExists
from catalog.model.xid import Xid
from catalog.store import entities as store


async def post_group(request: web.Request) -> web.Response:
    """Add a group, with the resources that it comes with."""
    context = request.app[CONTEXT]
    at = address_of(request, context.model)
    body = await read_object(request)
    gid = new_id(request.path, body.get("id"))
    place = Address(types=at.types, xid=Xid(at.types.group.native, gid))
    if await _load(request, place) is not None:
        raise AlreadyExists(place.path)
    types, show = place.types, show_for(request)
    own = group_attributes(types, body)
    check_body(types.group_kind, place.path, own)
    fill = show.fill(types.group_type.own_attributes)
    native = to_entity(types.group_kind, own, None, fill, show.references)
    native |= {"epoch": UNUSED_EPOCH, **creation_of(place.path, body)}
    resources = native_resources(types, show, place.path, body.get(types.resource.plural))
    interaction = interaction_at(request, place)
    native[types.resource.native] = resources
    interaction.put_group(context.model, place.xid, native, patch=False)
    headers = interaction_headers(await apply(request, interaction))
    headers[hdrs.LOCATION] = f"{show.root}/{types.group.plural}/{gid}"
    return await group_answer(request, place, status=201, headers=headers)


async def put_group(request: web.Request) -> web.Response:
    """Replace a group's attributes; its resources stay."""
    context = request.app[CONTEXT]
    place = address_of(request, context.model)
    body: Mapping[str, Any] = await read_object(request)
    check_identity(place.path, {"id": place.xid.gid}, body)
    own = group_attributes(place.types, body)
    check_body(place.types.group_kind, place.path, own)
    before = await _load(request, place)
    if before is None:
        raise NotFound(place.path)
    own = without_implied_name(own, place.xid.gid, before.attributes)
    definitions = place.types.group_type.own_attributes
    patch = patch_of(place.types.group_kind, own, before, show_for(request), definitions)
    patch |= {"epoch": expected_epoch(request, body), **creation_of(place.path, body)}
    interaction = interaction_at(request, place)
    interaction.put_group(context.model, place.xid, patch, patch=True)
    outcome = await apply(request, interaction, place)
    return await group_answer(request, place, status=200, headers=interaction_headers(outcome))


async def _load(request: web.Request, place: Address) -> Entity | None:
    async with request.app[CONTEXT].database.pool.acquire() as connection:
        return (await store.load(connection, [place.path])).get(place.path)
