"""Handlers of the commands to a link: pause, resume, run, allow."""

from __future__ import annotations

from datetime import UTC, datetime

from aiohttp import web

from catalog.context import CONTEXT
from catalog.model.concorderrors import UnresolvedConflict
from catalog.model.errors import BadRequest
from catalog.model.printable import counted
from catalog.operations.links import (
    DryRunAnswer,
    LinkAllowance,
    LinkAnswer,
    LinkPause,
    RunQuery,
)
from catalog.store import allowances, linklosses, links
from catalog.store.linkcommands import pause, resume, run_now
from catalog.store.links import Link
from replication.dryrunrequest import try_link
from replication.linkanswers import answer_link
from replication.links import existing_link

_PAUSED = "paused on request"


async def pause_link(request: web.Request, body: LinkPause) -> LinkAnswer:
    """Let a link bring nothing until it is resumed; it keeps its place."""
    async with request.app[CONTEXT].database.transaction() as connection:
        link = await existing_link(connection, request)
        return answer_link(request, await pause(connection, link, body.reason or _PAUSED))


async def resume_link(request: web.Request) -> LinkAnswer:
    """Let a link go on from where it was paused."""
    async with request.app[CONTEXT].database.transaction() as connection:
        link = await existing_link(connection, request)
        return answer_link(request, await resume(connection, link))


async def run_link(request: web.Request, query: RunQuery) -> LinkAnswer | DryRunAnswer:
    """Let a link read its source now, or tell what it would do.

    One that waits after a failure, or has stopped, begins anew. With `?dryrun`, it stays as it is.
    """
    if query.dryrun:
        async with request.app[CONTEXT].database.pool.acquire(timeout=30) as connection:
            found = await existing_link(connection, request)
        return await try_link(request, found)
    async with request.app[CONTEXT].database.transaction() as connection:
        link = await existing_link(connection, request)
        _check_not_paused(link, request.path)
        return answer_link(request, await run_now(connection, link))


async def allow_link(request: web.Request, body: LinkAllowance) -> LinkAnswer:
    """Let a link lose what it asks about.

    The body names the `digest` of the question, so that nobody allows what they have not seen.
    """
    async with request.app[CONTEXT].database.transaction() as connection:
        link = await existing_link(connection, request)
        _check_not_paused(link, request.path)
        if link.question is None:
            detail = "The link does not ask anything"
            raise BadRequest(request.path, error_detail=detail)
        digest, allowed = link.question["digest"], link.question["deletions"]
        if body.digest != digest:
            fault = f"it asks another question, with the digest {digest}"
            detail = f"`concord link show {link.id}` lists the entities that it is about."
            raise UnresolvedConflict(request.path, error_detail=fault, detail=detail)
        await linklosses.allow(connection, link)
        if link.authority is not None and not link.definition.sends:
            await allowances.allow(connection, link.authority, digest, link.id)
        at, told = datetime.now(UTC), f"{counted(allowed, 'deletions')}, of the digest {digest}"
        await links.remember(connection, link, at, "allowed", told)
        after = answer_link(request, await links.get(connection, link.id))
        return after.model_copy(update={"allowed": allowed})


def _check_not_paused(link: Link, subject: str) -> None:
    """Refuse to let a paused link do anything.

    Raises:
        UnresolvedConflict
    """
    if link.paused is not None:
        fault = f"the link is paused ({link.paused})"
        raise UnresolvedConflict(subject, error_detail=fault, detail="Resume it first.")
