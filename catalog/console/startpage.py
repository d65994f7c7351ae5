"""The start page: what needs a look, what the catalog holds, and the latest changes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase

from aiohttp import hdrs, web

from catalog.console import attention
from catalog.console.accesspages import requests_for
from catalog.console.changepage import changes_for, shown_changes
from catalog.console.page import ConsolePage, answer_refusal, page_route, render, roles_for
from catalog.http.route import Route
from catalog.model.masking import counted
from catalog.model.roles import ROLES, WHOLE_CATALOG, Permission, Role
from catalog.operations.access import LIST_TOKENS
from catalog.operations.links import LIST_LINKS, LinkAnswer
from catalog.operations.operation import Answered, Anyone, Operation, Query
from catalog.operations.reconciliations import LIST_RECONCILIATIONS, Reconciliation
from catalog.operations.subscriptions import LIST_SUBSCRIPTIONS, SubscriptionAnswer

_MOST_PAGES = 20
_MOST_SHOWN = 100
_LATEST = 8
_MOST_GRANTS = 10
_MOST_GROUPS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCount:
    """A type of groups, with the number of groups that the reader sees."""

    plural: str
    number: int
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnGroup:
    """A group in which the reader has a role by a rule."""

    path: str
    name: str
    role: Role


async def show_start(page: ConsolePage) -> web.Response:
    """What needs a look, what the catalog holds, and the latest changes."""
    links, subscriptions, reports, (entries, _, _), types, requests = await asyncio.gather(
        links_for(page),
        subscriptions_for(page),
        reports_for(page),
        changes_for(page, {}),
        group_counts(page),
        requests_for(page),
    )
    tokens = await all_pages(page, LIST_TOKENS, Permission.ADMINISTER)
    now = datetime.now(UTC)
    faulty = [link for link in links if attention.concern_of_link(link) is not None]
    cards = await page.node.cards(sorted({each.authority for each in faulty if each.authority}))
    concerns = attention.worst_first(
        [
            *(attention.concern_of_link(each, cards) for each in faulty),
            *map(attention.concern_of_subscription, subscriptions),
            attention.concern_of_comparisons(reports, now),
            *(attention.concern_of_request(each, now) for each in requests),
            *(attention.concern_of_credential(each, now) for each in subscriptions),
            *(attention.concern_of_token(each, now) for found in tokens for each in found.tokens),
        ]
    )
    return await render(
        page,
        "start.html",
        concerns=concerns[:_MOST_SHOWN],
        more=max(0, len(concerns) - _MOST_SHOWN),
        types=types,
        own_groups=await own_groups(page),
        changes=shown_changes(entries)[:_LATEST],
        watched=_watched(page, links, subscriptions, reports),
        is_operator=page.may_everywhere(Permission.REPLICATE),
        has_watch=bool(concerns)
        or page.may(Permission.REPLICATE)
        or page.may(Permission.SUBSCRIBE),
        operators=roles_for(Permission.REPLICATE),
    )


async def group_counts(page: ConsolePage) -> list[GroupCount]:
    """The types of groups of the catalog, with the numbers of groups."""
    root, model = await asyncio.gather(page.node.get("/"), page.node.get("/model"))
    return [
        GroupCount(
            plural=plural,
            number=root.get(f"{plural}count", 0),
            description=kind.get("description", ""),
        )
        for plural, kind in model.get("groups", {}).items()
    ]


async def own_groups(page: ConsolePage) -> list[OwnGroup]:
    """The first groups in which the reader has roles by rules, each with the strongest."""
    grants = [each for each in page.reader.grants if each.path != WHOLE_CATALOG][:_MOST_GRANTS]
    grants.sort(key=lambda each: ROLES.index(each.role))
    if not grants:
        return []
    model = await page.node.get("/model")
    asked = [
        (grant.role, plural, {"filter": f"{kind['singular']}id={id}", "limit": str(_MOST_GROUPS)})
        for grant in grants
        for wanted, _, id in [grant.path.removeprefix("/").partition("/")]
        for plural, kind in model.get("groups", {}).items()
        if fnmatchcase(plural.lower(), wanted.lower())
    ]
    answers = await asyncio.gather(
        *(page.node.found(f"/{plural}", params) for _, plural, params in asked)
    )
    groups = {
        (plural, id): OwnGroup(path=f"/{plural}/{id}", name=group.get("name", ""), role=role)
        for (role, plural, _), found in zip(asked, answers, strict=True)
        for id, group in (found or {}).items()
    }
    return [*groups.values()][:_MOST_GROUPS]


async def links_for(page: ConsolePage) -> list[LinkAnswer]:
    """The links of the node; none for a reader who may not see links."""
    pages = await all_pages(page, LIST_LINKS, Permission.REPLICATE)
    return [link for each in pages for link in each.links]


async def subscriptions_for(page: ConsolePage) -> list[SubscriptionAnswer]:
    """The subscriptions that the reader may know of."""
    pages = await all_pages(page, LIST_SUBSCRIPTIONS, Permission.SUBSCRIBE)
    return [found for each in pages for found in each.root]


async def reports_for(page: ConsolePage) -> list[Reconciliation]:
    pages = await all_pages(page, LIST_RECONCILIATIONS, Permission.REPLICATE)
    return [report for each in pages for report in each.reconciliations]


async def all_pages(
    page: ConsolePage,
    operation: Operation[None, Answered],
    permission: Permission,
    *,
    query: Query | None = None,
    most: int = _MOST_PAGES,
) -> list[Answered]:
    """The first pages of a list; none if the reader lacks the permission."""
    found: list[Answered] = []

    async def collect() -> None:
        async for each in page.node.call_pages(operation, query=query):
            found.append(each)
            if len(found) == most:
                break

    if page.may(permission):
        # The right may have been withdrawn since the page asked who its reader is.
        await page.node.told(collect(), 403)
    return found


def _watched(
    page: ConsolePage,
    links: Sequence[LinkAnswer],
    subscriptions: Sequence[SubscriptionAnswer],
    reports: Sequence[Reconciliation],
) -> str:
    """What was looked at, in words, for a page on which nothing needs a look."""
    parts = []
    if page.may(Permission.REPLICATE):
        parts.append(counted(len(links), "links"))
    if page.may(Permission.SUBSCRIBE):
        parts.append(counted(len(subscriptions), "subscriptions"))
    if page.may(Permission.REPLICATE):
        parts.append(counted(len(reports), "comparisons"))
    return ", ".join(parts)


def _is_browser(request: web.Request) -> bool:
    """Whether a browser asks for a page; programs accept anything, JSON, or HTML at most."""
    accepted = request.headers.get(hdrs.ACCEPT, "").lower()
    return "text/html" in accepted and "application/xhtml+xml" in accepted


async def lead_to_console(request: web.Request) -> web.Response:
    """Lead a browser that opens the registry to the start page."""
    headers = {hdrs.LOCATION: "/console", hdrs.VARY: hdrs.ACCEPT}
    return web.Response(status=302, headers=headers)


start_routes = (
    Route(
        Operation(method="GET", path="/", needs=Anyone.UNASKED, is_kept=False),
        lead_to_console,
        answer_refusal,
        _is_browser,
    ),
    page_route("/console", show_start),
)
