"""Takes writes of the Message Catalog API: each request is one interaction."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from aiohttp import web

from catalog.api.writeanswer import answer_deleted
from catalog.context import CONTEXT, Context
from catalog.dialects.messagecatalog.address import (
    GROUP_MESSAGES,
    check_new_id,
    definition_in,
    group_in,
    version_in,
)
from catalog.dialects.messagecatalog.bodypath import BodyPath
from catalog.dialects.messagecatalog.dataschemas import check_embedded
from catalog.dialects.messagecatalog.definitionformats import (
    DEFINITION_FORMATS,
    check_format,
    format_of,
    kept_in,
)
from catalog.dialects.messagecatalog.events import CATALOG_ROOT, path_of
from catalog.dialects.messagecatalog.numbers import last_number, new_number
from catalog.dialects.messagecatalog.policy import check_policy
from catalog.dialects.messagecatalog.read import (
    all_versions,
    read_definition,
    read_group,
    read_version,
)
from catalog.dialects.messagecatalog.translate import (
    authority_of,
    group_to_entity,
    show_group,
    show_version,
    version_to_entity,
)
from catalog.http.body import read_object
from catalog.http.deadline import Handler
from catalog.http.headers import interaction_headers
from catalog.http.preconditions import condition_on
from catalog.http.responses import json_response
from catalog.model.configuration import Configuration
from catalog.model.entity import Entity
from catalog.model.errors import (
    ActionNotSupported,
    CompatibilityViolation,
    MismatchedEpoch,
    NotFound,
    RequiredAttributeMissing,
    ServerBusy,
)
from catalog.model.interaction import GroupUpsert, Interaction, ResourceUpsert, VersionUpsert
from catalog.model.ownerrors import UnresolvedConflict
from catalog.model.xid import Xid
from catalog.store import entities as store
from catalog.store.database import Connection
from catalog.writing.transaction import Outcome

_Read: TypeAlias = Callable[[web.Request, Connection], Awaitable[web.Response]]

_MOST_ATTEMPTS = 20


def afresh(handler: Handler) -> Handler:
    """A handler that is run again where what it had read was changed before it wrote.

    Clients of this API know no epochs, so they cannot be the ones to try again.

    Raises:
        Conflict: the model has a rule of compatibility, and a new version breaks it.
    """

    @functools.wraps(handler)
    async def handle(request: web.Request) -> web.StreamResponse:
        for _ in range(_MOST_ATTEMPTS):
            try:
                return await handler(request)
            except MismatchedEpoch:
                continue
            except CompatibilityViolation as error:
                raise UnresolvedConflict(error.subject, error_detail=error.detail) from error
        raise ServerBusy(request.path)

    return handle


async def put_group(request: web.Request) -> web.Response:
    """Create a message definition group, or update its attributes."""
    context = request.app[CONTEXT]
    configuration = _writable(request, context)
    xid = group_in(request, context)
    body = await read_object(request)
    async with context.database.pool.acquire() as connection:
        held = (await store.load(connection, [str(xid)])).get(str(xid))
    if held is None:
        check_new_id(xid.gid, request.path)
    attributes: Mapping[str, Any] = {} if held is None else held.attributes
    _check_same_format(str(xid), body, attributes)
    native = group_to_entity(xid.gid, body, attributes, str(xid))
    interaction = Interaction(at=xid, path=request.path)
    epoch = 0 if held is None else held.epoch
    interaction.put_group(configuration.model, xid, {**native, "epoch": epoch}, patch=False)
    outcome = await _apply(request, configuration, interaction, read_group)
    group = outcome.after[str(xid)]
    assert isinstance(group, Entity), "it was just written"
    status = 201 if held is None else 200
    return json_response(show_group(group), status=status, headers=interaction_headers(outcome))


def _check_same_format(subject: str, body: Mapping[str, Any], held: Mapping[str, Any]) -> None:
    format = format_of(held)
    if format is not None and body.get("format", format) != format:
        raise UnresolvedConflict(subject, error_detail=f'its format is "{format}" for good')


async def post_version(request: web.Request) -> web.Response:
    """Create a message definition, or add a version to one."""
    context = request.app[CONTEXT]
    configuration = _writable(request, context)
    group = group_in(request, context)
    body: Mapping[str, Any] = await read_object(request)
    if "id" not in body:
        raise RequiredAttributeMissing(request.path, list="id")
    xid = group.child(GROUP_MESSAGES, check_new_id(body["id"], request.path))
    holder, resource, earlier = await _read(context, xid)
    subject = str(xid)
    format = _format(body, holder, earlier, subject)
    body = _inherited(body, earlier, context)
    native = version_to_entity(xid.rid, body, format, subject)
    _check_protocol(native, holder, subject)
    if format in DEFINITION_FORMATS:
        place = BodyPath(subject, f"definition.{DEFINITION_FORMATS[format].schema}")
        await check_embedded(native, place, configuration.capabilities, context.checker)
    await check_policy(
        kept_in(holder.attributes).get("compatibility"),
        earlier,
        native,
        subject=subject,
        capabilities=configuration.capabilities,
        checker=context.checker,
    )
    number = new_number(body, await last_number(context, xid, earlier))
    epoch = 0 if resource is None else resource.epoch
    interaction = _adding(request, xid, number, native, epoch)
    outcome = await _apply(request, configuration, interaction, None)
    return _answer(request, context, outcome, xid)


async def _read(context: Context, xid: Xid) -> tuple[Entity, Entity | None, list[Entity]]:
    """The group, the definition if there is one, and its versions, the newest first."""
    async with context.database.snapshot() as connection:
        held = await store.load(connection, [str(xid.group), str(xid)])
        if str(xid.group) not in held:
            raise NotFound(str(xid.group))
        resource = held.get(str(xid))
        earlier = [] if resource is None else await all_versions(connection, context, xid)
    return held[str(xid.group)], resource, earlier


def _format(body: Mapping[str, Any], group: Entity, earlier: list[Entity], subject: str) -> str:
    """The format that a definition is to have: its group's, or else that of earlier versions."""
    given = body.get("format")
    held = format_of(group.attributes) or (format_of(earlier[0].attributes) if earlier else None)
    if given is None and held is None:
        raise RequiredAttributeMissing(subject, list="format")
    if given is None or held is None:
        return check_format(given or held, BodyPath(subject, "format"))
    if given != held:
        raise BodyPath(subject, "format").fault(f'it needs to be "{held}", as for all of the group')
    return held


def _inherited(
    body: Mapping[str, Any], earlier: list[Entity], context: Context
) -> Mapping[str, Any]:
    """A version's attributes with its definition's authority, which no version can change."""
    if not earlier:
        return body
    held = authority_of(earlier[0], context.database.node.authority)
    given = body.get("authority") or held
    if given != held:
        raise UnresolvedConflict(
            str(earlier[0].path.resource),
            error_detail=f"its authority is {held or 'this catalog'} for good",
        )
    return {**body, "authority": held}


def _check_protocol(native: Mapping[str, Any], group: Entity, subject: str) -> None:
    """Natively, a group may be of one version of MQTT."""
    wanted, given = group.attributes.get("protocol"), native.get("protocol")
    if wanted and given and str(wanted).lower() != given.lower():
        raise BodyPath(subject, "definition").fault(f"the group's messages are of {wanted}")


def _adding(
    request: web.Request, xid: Xid, vid: str, native: Mapping[str, Any], epoch: int
) -> Interaction:
    interaction = Interaction(at=xid, path=request.path)
    interaction.groups.append(GroupUpsert(xid=xid.group, body=None, must_exist=True))
    interaction.resources.append(
        ResourceUpsert(
            xid=xid,
            patch=True,
            meta={"epoch": epoch},
            versions=(VersionUpsert(vid=vid, body=native, patch=False),),
        )
    )
    return interaction


def _answer(request: web.Request, context: Context, outcome: Outcome, xid: Xid) -> web.Response:
    [version] = (
        one
        for one in outcome.after.values()
        if isinstance(one, Entity) and outcome.is_new(one.path) and one.kind == "version"
    )
    resource = outcome.after[str(xid)]
    assert isinstance(resource, Entity), "it was just written"
    location = f"{context.base_url(request)}{path_of(version.path) or CATALOG_ROOT}"
    body = show_version(version, resource, context.database.node.authority)
    return json_response(
        body, status=201, headers={"Location": location, **interaction_headers(outcome)}
    )


async def delete_group(request: web.Request) -> web.Response:
    """Delete a message definition group with everything in it."""
    return await _delete(request, group_in(request, request.app[CONTEXT]), read_group)


async def delete_definition(request: web.Request) -> web.Response:
    """Delete a message definition with all its versions."""
    return await _delete(request, definition_in(request, request.app[CONTEXT]), read_definition)


async def delete_version(request: web.Request) -> web.Response:
    """Delete one version of a message definition, which goes with its last one."""
    return await _delete(request, version_in(request, request.app[CONTEXT]), read_version)


async def delete_definitions(request: web.Request) -> web.Response:
    """Delete all message definitions of a group."""
    context = request.app[CONTEXT]
    configuration = _writable(request, context)
    group = group_in(request, context)
    async with context.database.pool.acquire() as connection:
        if not await store.load(connection, [str(group)]):
            raise NotFound(str(group))
        ids = await store.load_ids(connection, f"{group}/{GROUP_MESSAGES}")
    interaction = Interaction(at=group, path=request.path, is_collection=True)
    doomed: dict[str, Any] = {id: {} for id in ids}
    interaction.delete_from(configuration.model, group, GROUP_MESSAGES, doomed)
    return answer_deleted(await _apply(request, configuration, interaction, None))


async def _delete(request: web.Request, xid: Xid, read: _Read) -> web.Response:
    configuration = _writable(request, request.app[CONTEXT])
    interaction = Interaction(at=xid, path=request.path)
    interaction.delete(xid, None)
    return answer_deleted(await _apply(request, configuration, interaction, read))


def _writable(request: web.Request, context: Context) -> Configuration:
    configuration = context.configuration
    if not configuration.capabilities.is_mutable("entities"):
        raise ActionNotSupported(
            request.path, action=request.method, allow=("GET", "HEAD", "OPTIONS")
        )
    return configuration


async def _apply(
    request: web.Request, configuration: Configuration, interaction: Interaction, read: _Read | None
) -> Outcome:
    """Apply what a request asks for, on its conditions.

    Args:
        read: answers a GET of the same path, unless that is a collection.
    """
    reading = None if read is None else functools.partial(read, request)
    condition = condition_on(request, reading, str(interaction.at))
    writer = request.app[CONTEXT].writer
    return await writer.apply(configuration, interaction, condition=condition)
