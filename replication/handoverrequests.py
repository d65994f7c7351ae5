"""Handlers by which operators hand groups over: offer one, consent to one, show and abort them."""

from __future__ import annotations

import shlex
import uuid
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from catalog.client import Client, ClientError, Refused
from catalog.context import CONTEXT, Context
from catalog.http.flags import read_page
from catalog.http.outbound import open_session
from catalog.http.outboundaddress import why_refused
from catalog.http.responses import json_response
from catalog.model.concorderrors import HandoverRefused, LimitReached
from catalog.model.errors import InvalidAttribute, NotFound
from catalog.model.timestamps import format_time
from catalog.store import handovers, linkauthorities
from catalog.store.database import Connection
from catalog.store.handovers import ENDED, Handover
from catalog.store.locks import Touched, lock_and_load
from catalog.store.peercredentials import seal_credential
from replication.accessremedies import NO_LINK
from replication.credentials.givencredential import check_credential
from replication.credentials.peeraccess import access_for, access_of_row
from replication.handovercopies import Unfit
from replication.handovergiving import load_given
from replication.handovertaking import find_obstacle
from replication.handshake import PROBE_SECONDS, describe, peer_at, shake_hands, why_own
from replication.links import next_page
from replication.wire import HandoverBody, read_request

_MOST_OPEN = 100
_PROMISED = "this node has promised to take it, and only the giver knows whether it is given"


async def list_handovers(request: web.Request) -> web.Response:
    """`GET /replication/handovers`: in pages."""
    context = request.app[CONTEXT]
    after, limit = read_page(request)
    async with context.database.pool.acquire(timeout=30) as connection:
        found = await handovers.page(connection, after, limit + 1)
    headers = next_page(request, limit, found[limit - 1].id) if len(found) > limit else {}
    return json_response({"handovers": [_show(each) for each in found[:limit]]}, headers=headers)


async def get_handover(request: web.Request) -> web.Response:
    """`GET /replication/handovers/{id}`."""
    async with request.app[CONTEXT].database.pool.acquire(timeout=30) as connection:
        return json_response(_show(await _existing(connection, request)))


async def begin_handover(request: web.Request) -> web.Response:
    """`POST /replication/handovers`: offer a group to another catalog, or consent to take one.

    The operator of the taker consents first. The catalog of the other side is asked who it is.

    Raises:
        HandoverRefused
    """
    body = await read_request(request, HandoverBody)
    if body.to is not None:
        return await _offer(request, body, body.to)
    assert body.source is not None
    return await _consent(request, body, body.source)


async def abort_handover(request: web.Request) -> web.Response:
    """`DELETE /replication/handovers/{id}`: end a handover, unless the group was given.

    A taker that has promised to take the group asks the giver, who ends it as well. With `?force`,
    it does so though the giver does not answer.

    Raises:
        HandoverRefused
    """
    context = request.app[CONTEXT]
    async with context.database.pool.acquire(timeout=30) as connection:
        found = await _existing(connection, request)
    if found.state == "promised":
        await _ask_giver(context, found, is_forced="force" in request.query)
    async with context.database.transaction() as connection:
        current = await handovers.lock(connection, found.id)
        if current is None:
            raise NotFound(request.path)
        if current.state == "aborted":
            return json_response(_show(current))
        if current.state in ("given", "done"):
            detail = (
                f"the group is {current.authority}'s" if current.role == "give" else "it is here"
            )
            raise HandoverRefused(
                request.path,
                group=current.xid,
                error_detail=f"it was given, so {detail}, and the handover can only be completed",
            )
        if current.state == "promised" and found.state != "promised":
            raise HandoverRefused(request.path, group=current.xid, error_detail=_PROMISED)
        ended = await handovers.move_on(
            connection, current, "aborted", datetime.now(UTC), error="an operator ended it"
        )
    return json_response(_show(ended))


async def _offer(request: web.Request, body: HandoverBody, url: str) -> web.Response:
    context, group = request.app[CONTEXT], body.group
    authority = await _meet(context, url, body, request.path, asks_consent=True)
    async with context.database.transaction() as connection:
        made = await _add(connection, request, "give", body, url, authority)
        try:
            await load_given(context, connection, made)
        except Unfit as error:
            raise HandoverRefused(request.path, group=group, error_detail=str(error)) from error
        links = await linkauthorities.pinned_to(connection, [authority])
    shown = {**_show(made), "followsby": len(links)}
    return json_response(shown, status=201, headers=_location(request, made))


async def _consent(request: web.Request, body: HandoverBody, url: str) -> web.Response:
    context, group = request.app[CONTEXT], body.group
    authority = await _meet(context, url, body, request.path, asks_consent=False)
    touched = Touched(groups=frozenset({group}), groups_exclusive=True, registry_exclusive=True)
    async with context.database.transaction() as connection:
        await lock_and_load(connection, touched)
        if obstacle := await find_obstacle(connection, group, authority):
            raise HandoverRefused(request.path, group=group, error_detail=obstacle)
        made = await _add(connection, request, "take", body, url, authority)
    return json_response(_show(made), status=201, headers=_location(request, made))


async def _add(
    connection: Connection,
    request: web.Request,
    role: Any,
    body: HandoverBody,
    url: str,
    authority: str,
) -> Handover:
    id, keys = uuid.uuid4().hex[:12], request.app[CONTEXT].keys
    if await handovers.count_open(connection) >= _MOST_OPEN:
        things = "handovers under way"
        raise LimitReached(request.path, limit=str(_MOST_OPEN), things=things, setting="fixed")
    made = await handovers.add(
        connection,
        id=id,
        role=role,
        xid=body.group,
        peer=url,
        authority=authority,
        at=datetime.now(UTC),
        sealed=await seal_credential(connection, keys, body.shown, "handovers", id),
    )
    if made is None:
        detail = "a handover of it is under way already; `concord handover list` shows it"
        raise HandoverRefused(request.path, group=body.group, error_detail=detail)
    return made


async def _meet(
    context: Context, url: str, body: HandoverBody, subject: str, *, asks_consent: bool
) -> str:
    """Ask a catalog who it is, and if it is to take a group, whether its operator has consented.

    Raises:
        HandoverRefused
    """
    if (refusal := why_refused(url, context.settings)) is not None:
        name = "to" if asks_consent else "from"
        raise InvalidAttribute(subject, name=name, error_detail=refusal)
    seconds = min(context.settings.request_timeout_seconds, PROBE_SECONDS)
    own, group = context.database.node.authority, body.group
    check_credential(body.shown, url, context.settings, subject)
    access = await access_for(context, url, body.shown)
    async with open_session(context.settings, total_seconds=seconds) as session:
        peer = peer_at(url, session, seconds, credential=access)
        try:
            found = await shake_hands(peer)
            if fault := why_own(context, found):
                raise HandoverRefused(subject, group=group, error_detail=f"at {url}, {fault}")
            if asks_consent:
                await _ask_consent(context, peer, group, subject)
        except ClientError as error:
            fault = describe(error, url, NO_LINK).rstrip(".")
            raise HandoverRefused(subject, group=group, error_detail=fault) from error
    assert found.authority != own
    return found.authority


async def _ask_consent(context: Context, peer: Client, group: str, subject: str) -> None:
    try:
        await peer.consent(group, context.database.node.authority)
    except Refused as error:
        if error.problem.status != 404:
            raise
        command = shlex.join(["concord", "handover", "accept", group, "--from"])
        raise HandoverRefused(
            subject,
            group=group,
            error_detail=f"the operator of {peer.url} has not consented",
            detail=f"There, run `{command} {context.public_base}`.",
        ) from error


async def _ask_giver(context: Context, handover: Handover, *, is_forced: bool) -> None:
    """Have the giver end a handover, or make sure that it knows of none.

    Raises:
        HandoverRefused
    """
    assert handover.theirs is not None
    seconds = min(context.settings.request_timeout_seconds, PROBE_SECONDS)
    access = await access_of_row(context, handover.peer, handover.sealed, "handovers", handover.id)
    async with open_session(context.settings, total_seconds=seconds) as session:
        peer = peer_at(handover.peer, session, seconds, credential=access)
        try:
            await peer.abort_handover(handover.theirs)
        except ClientError as error:
            is_unknown = isinstance(error, Refused) and error.problem.name == "not_found"
            if is_forced or is_unknown:
                return
            raise HandoverRefused(
                handover.xid,
                group=handover.xid,
                error_detail=f"{_PROMISED}: {describe(error, handover.peer, NO_LINK).rstrip('.')}",
                detail="`--force` ends it here all the same. If it was given, nobody can write to "
                "the group then until it is accepted again.",
            ) from error


async def _existing(connection: Connection, request: web.Request) -> Handover:
    found = await handovers.get(connection, request.match_info["id"])
    if found is None:
        raise NotFound(request.path)
    return found


def _location(request: web.Request, handover: Handover) -> dict[str, str]:
    base = request.app[CONTEXT].base_url(request)
    return {"Location": f"{base}/replication/handovers/{handover.id}"}


def _show(handover: Handover) -> dict[str, Any]:
    """A handover as operators see it, and the other side. `isover` says whether it has ended."""
    return {
        "id": handover.id,
        "role": handover.role,
        "group": handover.xid,
        "peer": handover.peer,
        "authority": handover.authority,
        "state": handover.state,
        "isover": handover.state in ENDED,
        "theirs": handover.theirs,
        "entities": handover.entities,
        "failures": handover.failures,
        "error": handover.error,
        "nextattemptat": handover.nextattemptat and format_time(handover.nextattemptat),
        "startedat": format_time(handover.startedat),
        "endedat": handover.endedat and format_time(handover.endedat),
    }
