"""Who may read and write a group, and requests for roles: asked, granted, declined, withdrawn."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web

from catalog.console.actions import (
    ActionQuestion,
    ActionResult,
    Ask,
    Form,
    Offers,
    action,
    action_routes,
    offers,
    sentence,
)
from catalog.console.page import ConsolePage, entity_url, page_route, render
from catalog.model.roles import ROLES, Permission, Role
from catalog.operations import access
from catalog.operations.operation import Operation

_MOST_REQUESTS = 100
_REQUEST = "/console/access/requests/{id}"
MAY: dict[Role, str] = {
    "reader": "read",
    "writer": "read and write",
    "replicator": "read, follow and push copies to",
    "admin": "read, write and grant roles in",
}
"""What a role lets its holder do with a group, before the name of the group."""


async def group_access(page: ConsolePage, group: str) -> dict[str, Any]:
    """What the tab "access" of a group, and of what is in it, shows."""
    holders, requests = await asyncio.gather(
        page.node.call(access.LIST_HOLDERS, query=access.HoldersQuery(of=group)),
        requests_for(page, path=group),
    )
    return {
        "group": group,
        "holders": holders,
        "requests": requests,
        "may_words": MAY,
        "roles": ROLES,
        "can_ask": can_ask(page),
        "asking": offers(page, [request_access], {"path": group})
        if can_ask(page) and "admin" not in holders.yours
        else None,
    }


def can_ask(page: ConsolePage) -> bool:
    """Whether a rule could be for the reader."""
    return not page.reader.open and page.reader.kind != "anonymous"


async def requests_for(
    page: ConsolePage, *, state: access.RequestState | None = None, path: str | None = None
) -> list[access.AccessRequest]:
    """The requests that the reader has made or may decide, the latest first."""
    if not can_ask(page):
        return []
    query = access.AccessRequestsQuery(limit=_MOST_REQUESTS, state=state, path=path)
    return (await page.node.call(access.LIST_REQUESTS, query=query)).requests


async def show_request(page: ConsolePage) -> web.Response:
    """A request for access, with what its reader may do about it."""
    found = await _request_of(page)
    return await render(
        page, "accessrequest.html", found=found, offers=request_offers(page, found), may_words=MAY
    )


def request_offers(page: ConsolePage, found: access.AccessRequest) -> Offers:
    """What the reader may do about a request."""
    actions = [grant, decline] if found.isdecidable and found.state == "open" else []
    if found.isown or found.isdecidable:
        actions = [*actions, withdraw]
    return offers(page, actions, id=found.id)


async def _request_of(page: ConsolePage) -> access.AccessRequest:
    return await page.node.call(access.GET_REQUEST, id=page.request.match_info["id"])


async def _ask_access(page: ConsolePage, form: Form) -> ActionQuestion:
    path = form.get("path", "")
    return ActionQuestion(
        title="Ask for access",
        button="Ask",
        back=f"{entity_url(path)}?tab=access" if path.startswith("/") else "/console/e",
        effects=("Those who may grant the role in the group decide. The start page tells you.",),
        can_act=can_ask(page),
        template="askaccess.html",
        values={"roles": [(role, f"{role}: {MAY[role]} the group") for role in ROLES]},
    )


@action("/console/access/request", "Ask for access", Permission.READ, _ask_access)
async def request_access(page: ConsolePage, form: Form) -> ActionResult:
    wanted = {name: form.get(name, "") for name in ("role", "path", "reason")}
    made = await page.node.call(access.REQUEST_ACCESS, wanted)
    # A group that the reader does not see has no page for the reader.
    result = f"/console/access/requests/{made.id}"
    return ActionResult(says="Your request waits for those who decide.", page=result)


def _deciding(title: str, button: str, effect: str) -> Ask:
    async def ask(page: ConsolePage, _: Form) -> ActionQuestion:
        found = await _request_of(page)
        return ActionQuestion(
            title=sentence(title, found.role, found.name or "the caller", found.path),
            button=button,
            back=_REQUEST.format(id=found.id),
            effects=(sentence("The reason: {}", found.reason), effect),
            can_act=found.state == "open",
            template="decideaccess.html",
        )

    return ask


async def _decide(
    page: ConsolePage,
    form: Form,
    decision: Operation[access.AccessDecision, access.AccessRequest],
) -> access.AccessRequest:
    note = {"note": form.get("note", "")}
    return await page.node.call(decision, note, id=page.request.match_info["id"])


@action(
    f"{_REQUEST}/grant",
    "Grant",
    Permission.GRANT,
    _deciding(
        "Give the role {} to {} in {}?",
        "Grant",
        "A rule gives the role to this caller alone. Removing the rule takes it back.",
    ),
)
async def grant(page: ConsolePage, form: Form) -> ActionResult:
    done = await _decide(page, form, access.GRANT_REQUEST)
    says = f"Granted: rule {done.rule} gives the role within two seconds."
    return ActionResult(says=says, page=_REQUEST.format(id=done.id))


@action(
    f"{_REQUEST}/decline",
    "Decline",
    Permission.GRANT,
    _deciding("Decline the role {} for {} in {}?", "Decline", "Nothing changes for the caller."),
)
async def decline(page: ConsolePage, form: Form) -> ActionResult:
    done = await _decide(page, form, access.DECLINE_REQUEST)
    return ActionResult(says="The request is declined.", page=_REQUEST.format(id=done.id))


async def _ask_withdraw(page: ConsolePage, _: Form) -> ActionQuestion:
    found = await _request_of(page)
    return ActionQuestion(
        title=sentence("Forget the request for the role {} in {}?", found.role, found.path),
        button="Forget it",
        back=_REQUEST.format(id=found.id),
        effects=("A rule that was granted stays.",),
    )


@action(f"{_REQUEST}/withdraw", "Forget", Permission.READ, _ask_withdraw)
async def withdraw(page: ConsolePage, _: Form) -> ActionResult:
    await page.node.call(access.WITHDRAW_REQUEST, id=page.request.match_info["id"])
    return ActionResult(says="The request is gone.", page="/console/operation/access")


access_routes = (
    page_route(_REQUEST, show_request),
    *action_routes(request_access, grant, decline, withdraw),
)
