"""Handles the paths of entities: PUT, PATCH, POST and DELETE, and reads by path or short URL.

The model defines the paths. Each write is one interaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiohttp import hdrs, web

from catalog.access.identity import demand
from catalog.api.answercache import find_answer
from catalog.api.configuration import CONFIGURABLE, reconfiguration_in
from catalog.api.documents import as_document, read_registry
from catalog.api.entityread import answer_loaded, answer_read, load
from catalog.api.metadataheaders import forbid_metadata, metadata_from
from catalog.api.readplan import ReadPlan
from catalog.api.requestflags import NO_FLAGS, read_answer_flags, read_write_flags
from catalog.api.requesttarget import (
    RequestTarget,
    answer_options,
    check_method,
    methods_of,
    parse_path,
)
from catalog.api.writeanswer import answer_deleted, answer_written
from catalog.context import CONTEXT, Context
from catalog.http.body import read_attributes, read_body, read_json
from catalog.http.conditions import condition_on
from catalog.http.stream import DEADLINE, Deadline
from catalog.load.workthread import aside
from catalog.model.configuration import Configuration
from catalog.model.errors import ExtraXregistryHeader, NotFound, XRegistryError
from catalog.model.interaction import Interaction, VersionDocument
from catalog.model.roles import Permission
from catalog.model.schema import Model
from catalog.model.xid import key_in
from catalog.store import entities as store
from catalog.store.database import Connection
from catalog.store.entities import find_by_key
from catalog.writing.writetransaction import Condition

_SET = frozenset(CONFIGURABLE)


async def answer_write(
    request: web.Request, context: Context, target: RequestTarget
) -> web.StreamResponse:
    """Handle PUT, PATCH and POST (core/http.md, "Creating or Updating Entities")."""
    configuration = context.configuration
    flags = read_write_flags(request, target, configuration.capabilities)
    interaction = _interaction(request, context, target, flags.ignore)
    after, reconfiguration = configuration, None
    if target.is_document:
        await _read_document(request, target, interaction, configuration.model)
    else:
        forbid_metadata(request)
        body = await (read_registry if target.kind == "registry" else read_attributes)(request)
        if target.kind == "registry" and request.method != hdrs.METH_POST:
            body = {name: value for name, value in body.items() if name not in flags.ignore & _SET}
            reconfiguration = await reconfiguration_in(request, configuration, body)
            if reconfiguration is not None:
                demand(request, Permission.ADMINISTER)
            body = {name: value for name, value in body.items() if name not in _SET}
            after = reconfiguration.configuration if reconfiguration else configuration
        await aside(0, _read, request, target, interaction, after.model, body)
    if flags.default is not None:
        # The id of a single new version may have to be chosen by the server.
        creates_one = request.method == hdrs.METH_POST and target.kind == "resource"
        interaction.choose_default(flags.default, creates_one=creates_one)
    # Before the write, since an invalid flag has to refuse the request.
    shape = read_answer_flags(request, target, configuration.capabilities, after.model)
    condition = condition_of(request, context, configuration, target)
    outcome = await context.writer.apply(
        configuration, interaction, reconfiguration, condition=condition
    )
    if reconfiguration is not None:
        context.shared.adopt(reconfiguration.configuration)
    plan = ReadPlan(request, context.configuration, target, shape)
    return await answer_written(plan, interaction, outcome)


def _interaction(
    request: web.Request, context: Context, target: RequestTarget, ignore: frozenset[str]
) -> Interaction:
    return Interaction(
        caller=context.caller,
        at=target.xid,
        path=request.path,
        is_collection=target.kind == "collection",
        ignore=ignore,
        most_entities=context.settings.max_request_entities,
    )


def _read(
    request: web.Request,
    target: RequestTarget,
    interaction: Interaction,
    model: Model,
    body: Mapping[str, Any],
) -> None:
    """Add the upserts of a body of metadata to an interaction."""
    patch = request.method == hdrs.METH_PATCH
    is_post = request.method == hdrs.METH_POST
    xid = target.xid
    match target.kind:
        case "registry" | "group" if is_post:
            interaction.post_collections(model, xid, body)
        case "registry":
            interaction.put_registry(model, body, patch=patch)
        case "collection":
            interaction.put_collection(model, xid, target.plural, body, patch=patch)
        case "group":
            interaction.put_group(model, xid, body, patch=patch)
        case "resource" if is_post:
            interaction.post_version(model, xid, body)
        case "resource":
            interaction.put_resource(model, xid, body, patch=patch)
        case "meta":
            interaction.put_meta(model, xid, body, patch=patch)
        case "version":
            interaction.put_version(model, xid.resource, xid.vid, body, patch=patch)


async def _read_document(
    request: web.Request, target: RequestTarget, interaction: Interaction, model: Model
) -> None:
    """Add the upsert of a version, with the document in the body and the metadata in headers."""
    kind = target.resource_type
    assert kind is not None, "only resource types have documents"
    body = metadata_from(request, kind)
    content = await read_body(request)
    if body.get(f"{kind.singular}url") is not None and content:
        raise ExtraXregistryHeader(
            request.path,
            name=f"xRegistry-{kind.singular}url",
            error_detail="the body needs to be empty when the document is elsewhere",
        )
    document, xid = VersionDocument(body=content), target.xid
    if request.method == hdrs.METH_POST:
        interaction.post_version(model, xid, body, document=document)
    elif xid.vid:
        interaction.put_version(model, xid.resource, xid.vid, body, patch=True, document=document)
    else:
        interaction.put_resource(model, xid, body, patch=True, document=document)


async def answer_delete(
    request: web.Request, context: Context, target: RequestTarget
) -> web.Response:
    """Handle DELETE (core/spec.md, "Deleting Entities")."""
    configuration = context.configuration
    flags = read_write_flags(request, target, configuration.capabilities)
    interaction = _interaction(request, context, target, flags.ignore)
    if flags.default is not None:
        interaction.choose_default(flags.default, creates_one=False)
    if target.kind != "collection":
        interaction.delete(target.xid, flags.epoch)
    else:
        doomed = await _doomed(request, context, target)
        count = len(doomed) if isinstance(doomed, dict) else 0
        arguments = (configuration.model, target.xid, target.plural, doomed)
        await aside(count, interaction.delete_from, *arguments)
    request[DEADLINE].extend_for(interaction)
    condition = condition_of(request, context, configuration, target)
    outcome = await context.writer.apply(configuration, interaction, condition=condition)
    return answer_deleted(outcome)


async def _doomed(request: web.Request, context: Context, target: RequestTarget) -> Any:
    """The members of a collection that the body names, without a body all that it shows now.

    Raises:
        NotFound: the collection has no owner, and so does not exist.
    """
    xid, is_named = str(target.xid), bool(await read_body(request))
    async with context.database.acquire() as connection:
        owner = (await store.load(connection, [xid])).get(xid)
        if owner is None:
            raise NotFound(xid)
        if not is_named:
            # A resource that is a cross reference shows the versions of its target.
            xref = owner.attributes.get("xref") if target.xid.rid else None
            path = target.path if xref is None else f"{xref}/versions"
            return {id: {} for id in await store.load_ids(connection, path)}
    return await read_json(request)


def condition_of(
    request: web.Request, context: Context, configuration: Configuration, target: RequestTarget
) -> Condition | None:
    """The condition of a write, which compares tags with the tag of a GET without flags.

    Raises:
        PreconditionFailed: as `condition_on`.
    """

    async def read(connection: Connection) -> web.Response:
        plan = ReadPlan(request, configuration, target, NO_FLAGS)
        return answer_loaded(plan, await load(connection, plan))

    return condition_on(request, None if target.kind == "collection" else read)


async def handle_entity(request: web.Request) -> web.StreamResponse:
    """Answer any method on any path that the model defines, in bounded time."""
    if request.path == "/":
        return await as_document(request, _answer)
    return await _answer(request)


async def _answer(request: web.Request) -> web.StreamResponse:
    if request.method == hdrs.METH_GET and (cached := await find_answer(request)):
        return cached
    try:
        async with Deadline(request, request[CONTEXT].settings):
            return await _handle(request)
    except XRegistryError as error:
        error.request_path = request.path
        raise


async def _handle(request: web.Request) -> web.StreamResponse:
    context = request[CONTEXT]
    target = parse_path(request.rel_url.raw_path, context.model)
    allow = methods_of(target, context.capabilities)
    check_method(request, target, allow)
    match request.method:
        case hdrs.METH_OPTIONS:
            return answer_options(allow)
        case hdrs.METH_GET | hdrs.METH_HEAD:
            return await answer_read(request, context, target)
        case hdrs.METH_DELETE:
            return await answer_delete(request, context, target)
        case _:
            return await answer_write(request, context, target)


async def redirect(request: web.Request) -> web.Response:
    """Redirect every method from the short URL of an entity, with the rest of path and query.

    Raises:
        NotFound: no entity has the URL, or the capability `shortself` is off.
    """
    context = request[CONTEXT]
    if not context.capabilities.shortself:
        raise NotFound(request.path)
    key, below = request.match_info["key"], request.match_info["below"]
    xid = "" if key == "" else await _find(request, key)
    path = request.rel_url.raw_path.partition(f"/~{key}")[2] if below else ""
    query = f"?{request.rel_url.raw_query_string}" if request.rel_url.raw_query_string else ""
    location = f"{context.base_url(request)}{xid}{path or ('' if xid else '/')}{query}"
    return web.Response(status=307, headers={"Location": location})


async def _find(request: web.Request, text: str) -> str:
    key = key_in(text)
    if key is not None:
        async with request[CONTEXT].database.acquire() as connection:
            if (xid := await find_by_key(connection, key)) is not None:
                return xid
    raise NotFound(request.path)
