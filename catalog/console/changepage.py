"""The page of changes: who changed what, the newest first."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from aiohttp import web

from catalog.client.errors import Refused
from catalog.console.page import ConsolePage, page_route, render, roles_for
from catalog.model.roles import Permission
from catalog.operations.audit import READ_AUDIT, AuditEntries, AuditQuery

_SHOWN = 50
_SINCE = {"hour": timedelta(hours=1), "day": timedelta(days=1), "week": timedelta(days=7)}
_OUTCOMES = ("done", "refused")


async def show_changes(page: ConsolePage) -> web.Response:
    """The changes, filtered by path, person, time and outcome."""
    asked = page.request.query
    given = {
        name: asked.get(name, "")[:1000]
        for name in ("path", "identity", "since", "outcome", "before")
    }
    if not page.may_everywhere(Permission.ADMINISTER):
        return await render(
            page, "changes.html", given=given, entries=None, role=roles_for(Permission.ADMINISTER)
        )
    since = _SINCE.get(given["since"])
    query = AuditQuery(
        limit=_SHOWN,
        path=given["path"] or None,
        identity=given["identity"] or None,
        since=None if since is None else datetime.now(UTC) - since,
        outcome=given["outcome"] if given["outcome"] in _OUTCOMES else None,
        before=given["before"] or None,
    )
    fault, found = "", AuditEntries(audit=[])
    try:
        found = await page.node.call(READ_AUDIT, query=query)
    except Refused as error:
        if error.problem.status != 400:
            raise
        fault = f"{error.message} {error.hint}".strip()
    entries = found.audit
    return await render(
        page,
        "changes.html",
        given={**given, "before": ""},
        entries=entries,
        fault=fault,
        next=entries[-1].sequence if len(entries) == _SHOWN else "",
    )


change_routes = (page_route("/console/changes", show_changes),)
