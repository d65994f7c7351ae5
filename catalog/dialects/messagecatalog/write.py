"""Handlers of writes of groups, definitions and versions (message catalog, 4.2 to 4.4)."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

from aiohttp import web
from aiohttp.typedefs import Handler

from catalog.api.writeanswer import answer_deleted
from catalog.context import CONTEXT, Context
from catalog.dialects import handlers
from catalog.dialects.bodypath import BodyPath
from catalog.dialects.messagecatalog import translate, uris
from catalog.dialects.messagecatalog.dataschemas import check_embedded, check_policy
from catalog.dialects.messagecatalog.definitionformats import (
    DEFINITION_FORMATS,
    check_format,
    format_of,
    kept_in,
)
from catalog.dialects.messagecatalog.read import (
    all_versions,
    read_definition,
    read_group,
    read_version,
)
from catalog.dialects.versionnumbers import last_number
from catalog.http.body import read_object
from catalog.model import errors
from catalog.model.concorderrors import UnresolvedConflict
from catalog.model.configuration import Configuration
from catalog.model.entity import Entity
from catalog.model.interaction import GroupUpsert, Interaction, ResourceUpsert, VersionUpsert
from catalog.model.xid import Xid
from catalog.store import entities as store
from catalog.store.database import Connection

_Read: TypeAlias = Callable[[web.Request, Connection], Awaitable[web.Response]]

_MOST_ATTEMPTS = 20
# Versions are CloudEvents Integers.
_LARGEST_NUMBER = 2**31 - 1


def _retried(handler: Handler) -> Handler:
    """Run a handler again if a concurrent write changed the entities between read and write.

    Clients of the API know no epochs, so they cannot retry with the current epoch.

    Raises:
        UnresolvedConflict: a new version breaks a compatibility rule of the model.
    """

    @functools.wraps(handler)
    async def handle(request: web.Request) -> web.StreamResponse:
        for _ in range(_MOST_ATTEMPTS):
            try:
                return await handler(request)
            except errors.MismatchedEpoch:
                continue
            except errors.CompatibilityViolation as error:
                raise UnresolvedConflict(error.subject, error_detail=error.detail) from error
        raise errors.ServerBusy(request.path)

    return handle


@_retried
async def put_group(request: web.Request) -> web.Response:
    """Create a message definition group, or update its attributes."""
    configuration = _writable(request)
    xid = uris.group_in(request, configuration.model)
    body = await read_object(request)
    async with request[CONTEXT].database.acquire() as connection:
        held = (await store.load(connection, [str(xid)])).get(str(xid))
    if held is None:
        uris.check_new_id(xid.gid, request.path)
    attributes: Mapping[str, Any] = {} if held is None else held.attributes
    format = format_of(attributes)
    if format is not None and body.get("format", format) != format:
        raise UnresolvedConflict(str(xid), error_detail=f'its format is "{format}" for good')
    native = translate.group_to_entity(xid.gid, body, attributes, str(xid))
    interaction = Interaction(caller=request[CONTEXT].caller, at=xid, path=request.path)
    # The write fails at a different epoch, and `_retried` reads the group again.
    epoch = 0 if held is None else held.epoch
    interaction.put_group(configuration.model, xid, {**native, "epoch": epoch}, patch=False)
    reading = functools.partial(read_group, request)
    outcome = await handlers.apply(request, configuration, interaction, reading)
    group = outcome.after[str(xid)]
    assert isinstance(group, Entity), "it was just written"
    status = 201 if held is None else 200
    return handlers.answer_written(outcome, translate.show_group(group), status=status)


@_retried
async def post_version(request: web.Request) -> web.Response:
    """Create a message definition, or add a version to one."""
    context, configuration = request[CONTEXT], _writable(request)
    group = uris.group_in(request, configuration.model)
    body: Mapping[str, Any] = await read_object(request)
    if "id" not in body:
        raise errors.RequiredAttributeMissing(request.path, list="id")
    xid = group.child(uris.GROUP_MESSAGES, uris.check_new_id(body["id"], request.path))
    holder, resource, earlier = await _load(context, xid)
    subject = str(xid)
    format = _format(body, holder, earlier, subject)
    body = _with_authority(body, earlier, context)
    native = translate.version_to_entity(xid.rid, body, format, subject)
    _check_protocol(native, holder, subject)
    checks = context.checked_requests.begin(context.caller.client)
    if format in DEFINITION_FORMATS:
        place = BodyPath(subject, f"definition.{DEFINITION_FORMATS[format].schema}")
        await check_embedded(native, place, configuration.capabilities, checks)
    await check_policy(
        kept_in(holder.attributes).get("compatibility"),
        earlier,
        native,
        subject=subject,
        capabilities=configuration.capabilities,
        checker=checks,
    )
    vid = await _new_number(context, xid, body, earlier)
    versions = (VersionUpsert(vid=vid, body=native, patch=False),)
    interaction = Interaction(caller=context.caller, at=xid, path=request.path)
    # Since the entities were read, a concurrent request may have deleted the group, or added a
    # version: then the epoch of the meta differs, and `_retried` computes a new number.
    interaction.groups.append(GroupUpsert(xid=xid.group, body=None, must_exist=True))
    meta = {"epoch": 0 if resource is None else resource.epoch}
    interaction.resources.append(ResourceUpsert(xid=xid, patch=True, meta=meta, versions=versions))
    outcome = await handlers.apply(request, configuration, interaction)
    entities = [one for one in outcome.after.values() if isinstance(one, Entity)]
    [version] = (one for one in entities if one.kind == "version" and outcome.is_new(one.path))
    [resource] = (one for one in entities if one.path == xid)
    location = f"{context.base_url(request)}{uris.path_of(version.path) or uris.CATALOG_ROOT}"
    shown = translate.show_version(version, resource, context.database.node.authority)
    return handlers.answer_written(outcome, shown, status=201, location=location)


async def _load(context: Context, xid: Xid) -> tuple[Entity, Entity | None, list[Entity]]:
    """The group, the definition if it exists, and the definition's versions, newest first."""
    async with context.database.snapshot() as connection:
        held = await store.load(connection, [str(xid.group), str(xid)])
        if str(xid.group) not in held:
            raise errors.NotFound(str(xid.group))
        resource = held.get(str(xid))
        earlier = [] if resource is None else await all_versions(connection, context, xid)
    return held[str(xid.group)], resource, earlier


def _format(body: Mapping[str, Any], group: Entity, earlier: list[Entity], subject: str) -> str:
    """The format of a new version: the format of the group, or else of earlier versions."""
    given = body.get("format")
    held = format_of(group.attributes) or (format_of(earlier[0].attributes) if earlier else None)
    if given is None and held is None:
        raise errors.RequiredAttributeMissing(subject, list="format")
    if given is None or held is None:
        return check_format(given or held, BodyPath(subject, "format"))
    if given != held:
        raise BodyPath(subject, "format").fault(f'it needs to be "{held}", as for all of the group')
    return held


def _with_authority(
    body: Mapping[str, Any], earlier: list[Entity], context: Context
) -> Mapping[str, Any]:
    """A version's attributes with the definition's authority, which no version can change."""
    if not earlier:
        return body
    held = translate.authority_of(earlier[0], context.database.node.authority)
    given = body.get("authority") or held
    if given != held:
        detail = f"its authority is {held or 'this catalog'} for good"
        raise UnresolvedConflict(str(earlier[0].path.resource), error_detail=detail)
    return {**body, "authority": held}


def _check_protocol(native: Mapping[str, Any], group: Entity, subject: str) -> None:
    """Refuse a different protocol than the group's: a native group may be of one MQTT version."""
    wanted, given = group.attributes.get("protocol"), native.get("protocol")
    if wanted and given and str(wanted).lower() != given.lower():
        raise BodyPath(subject, "definition").fault(f"the group's messages are of {wanted}")


async def _new_number(
    context: Context, xid: Xid, body: Mapping[str, Any], earlier: Sequence[Entity]
) -> str:
    """The number of a new version, above the numbers of present and deleted versions (2.2.5).

    A version of a definition with a foreign authority keeps the number from the authority, so that
    the version has the same URI at every catalog (2.2.2 and 5.3).

    Args:
        body: the version, with the authority of the definition.
        earlier: the present versions; empty for a new definition, even if a definition of the same
            name was deleted.
    """
    deleted: Mapping[str, Sequence[range]] = {}
    if earlier:
        async with context.database.acquire() as connection:
            deleted = await store.numbers_of_deleted_versions(
                connection, context.database.node.authority, [str(xid)]
            )
    last = last_number((one.path.vid for one in earlier), deleted.get(str(xid), ()))
    given = body.get("version")
    if body.get("authority") and type(given) is int and last < given <= _LARGEST_NUMBER:
        return str(given)
    return str(last + 1)


async def delete_group(request: web.Request) -> web.Response:
    """Delete a message definition group with everything in it."""
    return await _delete(request, uris.group_in, read_group)


async def delete_definition(request: web.Request) -> web.Response:
    """Delete a message definition with all its versions."""
    return await _delete(request, uris.definition_in, read_definition)


async def delete_version(request: web.Request) -> web.Response:
    """Delete one version of a message definition, which goes with its last one."""
    return await _delete(request, uris.version_in, read_version)


async def delete_definitions(request: web.Request) -> web.Response:
    """Delete all message definitions of a group."""
    configuration = _writable(request)
    group = uris.group_in(request, configuration.model)
    return await handlers.delete_members(request, configuration, group, uris.GROUP_MESSAGES)


async def _delete(request: web.Request, xid_in: Callable[..., Xid], read: _Read) -> web.Response:
    xid = xid_in(request, request[CONTEXT].model)
    configuration = _writable(request)
    interaction = Interaction(caller=request[CONTEXT].caller, at=xid, path=request.path)
    interaction.delete(xid, None)
    reading = functools.partial(read, request)
    return answer_deleted(await handlers.apply(request, configuration, interaction, reading))


def _writable(request: web.Request) -> Configuration:
    """The configuration in force; raises `ActionNotSupported` if it does not permit writes."""
    configuration = request[CONTEXT].configuration
    if not configuration.capabilities.is_mutable("entities"):
        reads = ("GET", "HEAD", "OPTIONS")
        raise errors.ActionNotSupported(request.path, action=request.method, allow=reads)
    return configuration
