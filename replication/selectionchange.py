"""A handler that changes what a link brings, and under which names and addresses."""

from __future__ import annotations

from dataclasses import replace

from aiohttp import web

from catalog.context import CONTEXT
from catalog.store import links
from catalog.store.linkcredentials import renew_credential, save_credential
from replication.credentials.givencredential import given_credential
from replication.links import answer_link, check_selection, existing_link
from replication.wire import ChangeBody, read_request


async def change_selection(request: web.Request) -> web.Response:
    """`PATCH /replication/links/{id}`: what the body has replaces what the link selected or named.

    What is no longer selected leaves, what is newly selected is fetched, groups are renamed, and
    endpoints get other addresses. The acceptance of a pusher can be changed in the same way. A
    `token` or `credential` takes the place of what the link had; if there is nothing else in the
    body, the link goes on with it from where it is.
    """
    context = request.app[CONTEXT]
    body = await read_request(request, ChangeBody)
    async with context.database.transaction() as connection:
        before = await existing_link(connection, request)
        definition = replace(before.definition, **body.given)
        check_selection(definition, request.path)
        credential = given_credential(body, definition, context.settings, request.path)
        if credential is not None and not body.given:
            renewed = await renew_credential(connection, context.keys, before, credential)
            return answer_link(request, renewed)
        changed = await links.replace(connection, before, definition, before.authority)
        if changed is not None and credential is not None:
            changed = await save_credential(connection, context.keys, changed, credential)
        return answer_link(request, changed)
