"""Handlers that change the course of a link: pause, resume, run."""

from __future__ import annotations

from aiohttp import web

from catalog.context import CONTEXT
from catalog.model.concorderrors import UnresolvedConflict
from catalog.store.linkcommands import pause, resume, run_now
from replication.links import answer_link, existing_link
from replication.wire import PauseBody, read_request

_PAUSED = "paused on request"


async def pause_link(request: web.Request) -> web.Response:
    """`POST /replication/links/{id}/pause`: it brings nothing until it is resumed.

    It keeps its place. The body may have a `reason`, which the link shows.
    """
    body = await read_request(request, PauseBody) if request.can_read_body else PauseBody()
    async with request.app[CONTEXT].database.transaction() as connection:
        link = await existing_link(connection, request)
        return answer_link(request, await pause(connection, link, body.reason or _PAUSED))


async def resume_link(request: web.Request) -> web.Response:
    """`POST /replication/links/{id}/resume`: it goes on from where it was paused."""
    async with request.app[CONTEXT].database.transaction() as connection:
        link = await existing_link(connection, request)
        return answer_link(request, await resume(connection, link))


async def run_link(request: web.Request) -> web.Response:
    """`POST /replication/links/{id}/run`: it reads its source now.

    One that waits after a failure, or has stopped, begins anew.
    """
    async with request.app[CONTEXT].database.transaction() as connection:
        link = await existing_link(connection, request)
        if link.paused is not None:
            raise UnresolvedConflict(
                request.path,
                error_detail=f"the link is paused ({link.paused})",
                detail="Resume it instead.",
            )
        return answer_link(request, await run_now(connection, link))
