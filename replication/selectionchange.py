"""A handler that changes what a link brings, and under which names and addresses."""

from __future__ import annotations

from dataclasses import replace

from aiohttp import web

from catalog.context import CONTEXT
from catalog.store import links
from catalog.store.linktokens import save_token
from replication.links import answer_link, check_selection, check_token, existing_link
from replication.wire import ChangeBody, read_request


async def change_selection(request: web.Request) -> web.Response:
    """`PATCH /replication/links/{id}`: what the body has replaces what the link selected or named.

    What is no longer selected leaves, what is newly selected is fetched, groups are renamed, and
    endpoints get other addresses. The acceptance of a pusher can be changed in the same way. A
    `token` takes the place of the one that the link had.
    """
    context = request.app[CONTEXT]
    body = await read_request(request, ChangeBody)
    async with context.database.transaction() as connection:
        before = await existing_link(connection, request)
        definition = replace(before.definition, **body.given)
        check_selection(definition, request.path)
        check_token(definition, body, request.path)
        changed = await links.replace(connection, before, definition, before.authority)
        if changed is not None and body.token is not None:
            token = body.token.get_secret_value()
            changed = await save_token(connection, context.keys, changed, token)
        return answer_link(request, changed)
