"""The pages of the operation of a node: health, settings, access, keys and handovers."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from aiohttp import web

from catalog.client.errors import Refused
from catalog.console.accesspages import can_ask, requests_for
from catalog.console.actions import (
    ActionQuestion,
    ActionResult,
    Form,
    action,
    action_routes,
    sentence,
)
from catalog.console.page import ConsolePage, page_route, render, roles_for
from catalog.console.startpage import all_pages
from catalog.model.roles import Permission
from catalog.operations import access, nodestate
from catalog.operations.handovers import LIST_HANDOVERS
from catalog.operations.operation import PageQuery
from catalog.operations.recovery import GET_RECOVERY, RecoveryAnswer
from catalog.operations.signing import GET_SIGNING, LIST_TRUST

_PATH = "/console/operation"
_SHOWN = 100
# The owners that are named on the page of health.
_MOST_OWNERS = 12
_TABS = (
    ("", "Health"),
    ("/settings", "Settings"),
    ("/access", "Access"),
    ("/authority", "Authority"),
)
_SEVERITIES = {"error": "fault", "warning": "warning", "ok": "ok"}


async def _render(page: ConsolePage, template: str, **values: Any) -> web.Response:
    tabs = [(_PATH + path, title) for path, title in _TABS]
    admins = roles_for(Permission.ADMINISTER)
    is_admin = page.may_everywhere(Permission.ADMINISTER)
    if is_admin:
        tabs.append(("/console/audit", "Audit"))
    return await render(page, template, tabs=tabs, admins=admins, is_admin=is_admin, **values)


async def show_health(page: ConsolePage) -> web.Response:
    """Whether the node can work, what its checks say, and what it holds.

    The checks are made by a further request, as they may take seconds.
    """
    wanted = page.request.query.get("checks", "")
    waits, counts, (found, fault) = await asyncio.gather(
        _why_not_ready(page), page.node.call(nodestate.COUNT_ENTITIES), _examined(page, wanted)
    )
    return await _render(
        page,
        "health.html",
        waits=waits,
        counts=counts,
        cards=await page.node.cards([each.value for each in counts.authority[:_MOST_OWNERS]]),
        checks=None
        if found is None
        else sorted(found.checks, key=lambda each: [*_SEVERITIES].index(each.level)),
        levels=Counter() if found is None else Counter(each.level for each in found.checks),
        severities=_SEVERITIES,
        fault=fault,
        wanted=wanted,
    )


async def _why_not_ready(page: ConsolePage) -> str:
    """Why the node can do nothing for clients; empty if it is ready."""
    try:
        await page.node.request("GET", "/health/ready")
    except Refused as error:
        return error.message
    return ""


async def _examined(page: ConsolePage, wanted: str) -> tuple[nodestate.Examination | None, str]:
    """The findings of the checks that were asked for, or why there are none."""
    if not wanted or not page.may_everywhere(Permission.ADMINISTER):
        return None, ""
    query = nodestate.ExaminationQuery(outside=wanted == "outside")
    return await page.node.told(page.node.call(nodestate.EXAMINE_NODE, query=query), 429)


async def show_settings(page: ConsolePage) -> web.Response:
    """The settings in force, those that were given first."""
    found = None
    if page.may_everywhere(Permission.ADMINISTER):
        found = (await page.node.call(nodestate.READ_SETTINGS)).settings
    return await _render(
        page,
        "settings.html",
        given=None if found is None else [each for each in found if each.source != "default"],
        defaults=[each for each in found or () if each.source == "default"],
    )


async def show_access(page: ConsolePage) -> web.Response:
    """Requests for access, tokens and rules, as far as the reader decides about them."""
    after = page.request.query.get("after", "")[:64]
    requests, tokens, (rules, following) = await asyncio.gather(
        requests_for(page),
        all_pages(page, access.LIST_TOKENS, Permission.ADMINISTER),
        _rules(page, after),
    )
    return await _render(
        page,
        "operationaccess.html",
        open_requests=[each for each in requests if each.state == "open"],
        decided=[each for each in requests if each.state != "open"],
        can_ask=can_ask(page),
        tokens=[each for found in tokens for each in found.tokens] if tokens else None,
        names={f"token={each.id}": each.name for found in tokens for each in found.tokens},
        rules=rules,
        manages_rules=page.may(Permission.GRANT),
        next=following,
        owners=roles_for(Permission.GRANT),
    )


async def _rules(page: ConsolePage, after: str) -> tuple[list[access.GrantingRule], str]:
    """A page of rules, and the place of the next page; none if the reader may not read rules."""
    if not page.may(Permission.GRANT):
        return [], ""
    query = PageQuery(limit=_SHOWN, after=after)
    # The right may have been withdrawn since the page asked who its reader is.
    told, _ = await page.node.told(page.node.page(access.LIST_RULES, query), 403)
    return ([], "") if told is None else (told[0].rules, told[1])


async def show_authority(page: ConsolePage) -> web.Response:
    """The keys of this authority and of others, handovers of groups, and the recovery."""
    signing, trusted, handovers, recovery = await asyncio.gather(
        all_pages(page, GET_SIGNING, Permission.REPLICATE, most=1),
        all_pages(page, LIST_TRUST, Permission.ADMINISTER, most=1),
        all_pages(page, LIST_HANDOVERS, Permission.ADMINISTER, most=1),
        _recovery(page),
    )
    return await _render(
        page,
        "authoritykeys.html",
        signing=signing[0] if signing else None,
        trusted=[each for found in trusted for each in found.trusted],
        handovers=[each for found in handovers for each in found.handovers],
        recovery=recovery,
        operators=roles_for(Permission.REPLICATE),
    )


async def _recovery(page: ConsolePage) -> RecoveryAnswer | None:
    asking = all_pages(page, GET_RECOVERY, Permission.ADMINISTER, most=1)
    found, _ = await page.node.told(asking, 404)
    return found[0] if found else None


async def _ask_end_token(page: ConsolePage, _: Form) -> ActionQuestion:
    token = await page.node.call(access.GET_TOKEN, id=page.request.match_info["id"])
    return ActionQuestion(
        title=sentence("Remove the token {}?", token.name or token.id),
        button="Remove it",
        back=f"{_PATH}/access",
        effects=(
            "Requests with the token are refused within two seconds, at every process of the node. "
            "Sessions of the console that began with the token end.",
            "The rules for the token are gone, and its subscriptions are suspended. A new token "
            "has another id.",
        ),
        is_harmful=True,
    )


@action(f"{_PATH}/access/tokens/{{id}}/remove", "Remove", Permission.ADMINISTER, _ask_end_token)
async def end_token(page: ConsolePage, _: Form) -> ActionResult:
    await page.node.call(access.DELETE_TOKEN, id=page.request.match_info["id"])
    return ActionResult(says="The token is removed.", page=f"{_PATH}/access")


async def _ask_end_rule(page: ConsolePage, _: Form) -> ActionQuestion:
    rule = await page.node.call(access.GET_RULE, id=page.request.match_info["id"])
    return ActionQuestion(
        title=sentence("Take the role {} from {}?", rule.role, rule.who),
        button="Take it back",
        back=f"{_PATH}/access",
        effects=(
            sentence("Within two seconds, the role is gone in {}.", ", ".join(rule.paths[:20])),
            "Roles by other rules, by tokens and by the settings stay.",
        ),
        is_harmful=True,
    )


@action(f"{_PATH}/access/rules/{{id}}/remove", "Remove", Permission.GRANT, _ask_end_rule)
async def end_rule(page: ConsolePage, _: Form) -> ActionResult:
    await page.node.call(access.DELETE_RULE, id=page.request.match_info["id"])
    return ActionResult(says="The rule is removed.", page=f"{_PATH}/access")


operation_routes = (
    page_route(_PATH, show_health),
    page_route(f"{_PATH}/settings", show_settings),
    page_route(f"{_PATH}/access", show_access),
    page_route(f"{_PATH}/authority", show_authority),
    *action_routes(end_token, end_rule),
)
