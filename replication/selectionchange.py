"""A handler that changes what a link brings, and under which names and addresses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from catalog.context import CONTEXT, Context
from catalog.operations.links import ForceQuery, LinkAnswer, LinkChanges
from catalog.store import links
from catalog.store.linkcredentials import renew_credential, save_credential
from catalog.store.links import Link
from replication.credentials.givencredential import given_credential
from replication.credentials.peeraccess import PeerAccess, access_of
from replication.linkanswers import answer_link
from replication.links import check_selection, existing_link, members_of
from replication.movedpeer import check_moved, moved_peer


async def change_link(request: web.Request, body: LinkChanges, query: ForceQuery) -> LinkAnswer:
    """Replace the members of a link that the body has: what it selects, names and shows.

    What is no longer selected leaves, what is newly selected is fetched, groups are renamed, and
    endpoints get other addresses. The acceptance of a pusher can be changed in the same way. A
    `token` or `credential` takes the place of what the link had; if there is nothing else in the
    body, the link goes on with it from where it is. So it does with another `source` or `target`
    that is asked first whether it is the same catalog, unless `?force` is given.
    """
    context = request.app[CONTEXT]
    given = members_of(body, request.path)
    async with context.database.pool.acquire(timeout=30) as connection:
        found = await existing_link(connection, request)
    moved: Mapping[str, Any] = moved_peer(body, found, request.path)
    if moved and not query.force:
        await _check_moved(context, found, body, request.path)
    async with context.database.transaction() as connection:
        before = await existing_link(connection, request)
        definition = replace(before.definition, **moved, **given)
        check_selection(definition, request.path)
        credential = given_credential(body, definition, context.settings, request.path)
        if credential is not None and not (given or moved):
            renewed = await renew_credential(connection, context.keys, before, credential)
            return answer_link(request, renewed)
        changed = await links.replace(
            connection, before, definition, before.authority, is_moved=bool(moved)
        )
        if changed is not None and moved:
            detail = f"from {before.definition.peer} to {definition.peer}"
            await links.remember(connection, changed, datetime.now(UTC), "moved", detail)
            changed = await links.get(connection, changed.id)
        if changed is not None and credential is not None:
            changed = await save_credential(connection, context.keys, changed, credential)
        return answer_link(request, changed)


async def _check_moved(context: Context, link: Link, body: LinkChanges, subject: str) -> None:
    """Check a new URL with the credential of the body, or else with that of the link."""
    moved: Mapping[str, Any] = moved_peer(body, link, subject)
    definition = replace(link.definition, **moved)
    given = given_credential(body, definition, context.settings, subject)
    access = access_of(link, context)
    if given is not None:
        access = PeerAccess(given, context.settings, link=link.id)
    await check_moved(context, link, definition.peer, access, subject)
