"""Handlers for links: define, show and delete them, list their conflicts, repair origins."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from aiohttp import web

from catalog.context import CONTEXT, Context
from catalog.http.body import read_json
from catalog.http.flags import read_page
from catalog.http.outboundaddress import why_refused
from catalog.http.responses import json_response
from catalog.model.entity import Origin
from catalog.model.errors import BadRequest, InvalidAttribute, NotFound
from catalog.model.timestamps import format_time
from catalog.store import links
from catalog.store.links import Link, LinkConflict, LinkDefinition
from replication.handshake import probe
from replication.repair import repair
from replication.wire import LinkBody, OriginsBody, read_as


async def list_links(request: web.Request) -> web.Response:
    """`GET /replication/links`: in pages."""
    context = request.app[CONTEXT]
    after, limit = read_page(request)
    async with context.database.pool.acquire(timeout=30) as connection:
        found = await links.page(connection, after, limit + 1)
    headers = _next_page(request, limit, found[limit - 1].id) if len(found) > limit else {}
    return json_response({"links": [_show(link) for link in found[:limit]]}, headers=headers)


async def create_link(request: web.Request) -> web.Response:
    """`POST /replication/links`: create a link; `?force` does not ask the source first."""
    context = request.app[CONTEXT]
    body = read_as(LinkBody, await read_json(request), request.path)
    definition = _checked(context, body.to_definition(), request.path)
    id = body.id or uuid.uuid4().hex[:12]
    is_forced = "force" in request.query
    found = None if is_forced else await probe(context, definition.source, request.path)
    async with context.database.transaction() as connection:
        others = [] if found is None else await links.following(connection, found["authority"])
        link = await links.create(connection, id, definition)
    if link is None:
        raise BadRequest(request.path, error_detail=f'There is a link "{id}" already')
    location = f"{context.base_url(request)}/replication/links/{quote(id)}"
    shown = _show(link)
    if found is not None:
        shown["found"] = {**found, "followedby": others}
    return json_response(shown, status=201, headers={"Location": location})


async def get_link(request: web.Request) -> web.Response:
    """`GET /replication/links/{id}`."""
    async with request.app[CONTEXT].database.pool.acquire(timeout=30) as connection:
        return _answer(request, await links.get(connection, request.match_info["id"]))


async def replace_link(request: web.Request) -> web.Response:
    """`PUT /replication/links/{id}`: unless its mode alone differs, a link copies all again."""
    context, id = request.app[CONTEXT], request.match_info["id"]
    body = read_as(LinkBody, await read_json(request), request.path)
    if body.id not in (None, id):
        raise InvalidAttribute(request.path, name="id", error_detail=f'it needs to be "{id}"')
    definition = _checked(context, body.to_definition(), request.path)
    async with context.database.transaction() as connection:
        return _answer(request, await links.replace(connection, id, definition))


async def delete_link(request: web.Request) -> web.Response:
    """`DELETE /replication/links/{id}`: its replicas stay, and stay read-only."""
    async with request.app[CONTEXT].database.transaction() as connection:
        return _answer(request, await links.delete(connection, request.match_info["id"]))


async def list_conflicts(request: web.Request) -> web.Response:
    """`GET /replication/links/{id}/conflicts`: the copies that were not applied, in pages."""
    context, id = request.app[CONTEXT], request.match_info["id"]
    _, limit = read_page(request)
    authority, _, xid = request.query.get("after", "").partition("\n")
    async with context.database.pool.acquire(timeout=30) as connection:
        if await links.get(connection, id) is None:
            raise NotFound(request.path)
        found = await links.load_conflicts(connection, id, Origin(authority, xid), limit + 1)
    headers = {}
    if len(found) > limit:
        last = found[limit - 1].origin
        headers = _next_page(request, limit, f"{last.authority}\n{last.xid}")
    shown = [_show_conflict(conflict) for conflict in found[:limit]]
    return json_response({"conflicts": shown}, headers=headers)


async def post_repair(request: web.Request) -> web.Response:
    """`POST /replication/repair`: fetch these origins again; the source is right."""
    body = read_as(OriginsBody, await read_json(request), request.path)
    repaired = await repair(request.app[CONTEXT], body.to_origins())
    return json_response(
        {
            "verdicts": repaired.verdicts,
            "unresolved": [
                {"authority": origin.authority, "origin": origin.xid, "reason": reason}
                for origin, reason in repaired.unresolved.items()
            ],
        }
    )


def _checked(context: Context, definition: LinkDefinition, subject: str) -> LinkDefinition:
    refusal = why_refused(definition.source, context.settings)
    if definition.source in (context.public_base, context.settings.public_url):
        refusal = "it is this node itself"
    if refusal is not None:
        raise InvalidAttribute(subject, name="source", error_detail=refusal)
    return definition


def _next_page(request: web.Request, limit: int, after: str) -> dict[str, str]:
    url = f"{request.app[CONTEXT].base_url(request)}{request.path}"
    return {"Link": f"<{url}?limit={limit}&after={quote(after, safe='')}>;rel=next"}


def _answer(request: web.Request, link: Link | None) -> web.Response:
    if link is None:
        raise NotFound(request.path)
    return json_response(_show(link))


def _show(link: Link) -> dict[str, Any]:
    """A link as operators see it. `lag` and `confirmed` are in seconds, `None` if unknown.

    `confirmed` is the time since the source was last found to have no further change. `lag` is the
    greatest possible age of a change that is missing here: 0 while the link is current, else as
    `confirmed`.
    """
    definition = link.definition
    return {
        "id": link.id,
        "source": definition.source,
        "mode": definition.mode,
        "authorities": definition.authorities,
        "scope": definition.scope,
        "authority": link.authority,
        "instance": None if link.instance is None else str(link.instance),
        "state": link.state,
        "cursor": link.cursor,
        "lag": 0.0 if link.state == "current" else _seconds_since(link.currentat),
        "confirmed": _seconds_since(link.currentat),
        "currentat": link.currentat and format_time(link.currentat),
        "applied": link.applied,
        "appliedat": link.appliedat and format_time(link.appliedat),
        "conflicts": link.conflicts,
        "failures": link.failures,
        "error": link.error,
        "subscription": link.subscription,
        "history": link.history,
    }


def _show_conflict(conflict: LinkConflict) -> dict[str, Any]:
    return {
        "authority": conflict.origin.authority,
        "origin": conflict.origin.xid,
        "xid": conflict.xid,
        "epoch": conflict.epoch,
        "verdict": conflict.verdict,
        "detail": conflict.detail,
        "at": format_time(conflict.at),
    }


def _seconds_since(time: datetime | None) -> float | None:
    return None if time is None else round((datetime.now(UTC) - time).total_seconds(), 1)
