"""The pages of subscriptions: their states, their attempts, and the events that sinks missed."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from urllib.parse import urlsplit

import orjson
from aiohttp import web

from catalog.console.actions import Offers, offers
from catalog.console.attention import Concern, concern_of_subscription, rank_of
from catalog.console.newsubscription import SUBSCRIBE
from catalog.console.page import ConsolePage, page_route, render, roles_for
from catalog.console.startpage import subscriptions_for
from catalog.console.subscriptionactions import (
    DISCARD,
    REDELIVER,
    SUBSCRIPTIONS,
    subscription_offers,
)
from catalog.model.roles import Permission
from catalog.operations.deliveries import (
    GET_DEAD_LETTER,
    LIST_ATTEMPTS,
    LIST_CAUSES,
    LIST_DEAD_LETTERS,
    LONGEST_CAUSE,
    DeadLetterQuery,
    NumberQuery,
)
from catalog.operations.feed import NOTIFY
from catalog.operations.subscriptions import GET_SUBSCRIPTION, State, SubscriptionAnswer

_MOST_ATTEMPTS = 20
_SHOWN = 50
_WORDS: dict[State, str] = {
    "pending": "waits until its sink agrees",
    "active": "delivers",
    "paused": "is paused",
    "suspended": "is suspended, and delivers nothing",
    "expired": "has expired",
    "ended": "has ended",
}


@dataclass(frozen=True, slots=True)
class SubscriptionRow:
    """A subscription, and its worst fault, as a page shows them."""

    subscription: SubscriptionAnswer
    concern: Concern | None

    @classmethod
    def of(cls, subscription: SubscriptionAnswer) -> SubscriptionRow:
        return cls(subscription, concern_of_subscription(subscription))

    @property
    def says(self) -> str:
        """The state or the worst fault, as the rest of a sentence about the subscription."""
        if self.concern is not None:
            return self.concern.says
        return _WORDS[self.subscription.status.state]

    @property
    def severity(self) -> str:
        return "ok" if self.concern is None else self.concern.severity


async def show_subscriptions(page: ConsolePage) -> web.Response:
    """The subscriptions, the worst first."""
    is_shown = page.may(Permission.SUBSCRIBE)
    rows = [SubscriptionRow.of(each) for each in await subscriptions_for(page)]
    rows.sort(key=lambda row: (rank_of(row.concern), row.subscription.id))
    return await render(
        page,
        "subscriptions.html",
        items=len(rows),
        rows=rows if is_shown else None,
        waking={row.subscription.id for row in rows if _wakes_link(row.subscription)},
        faulty=sum(row.concern is not None for row in rows),
        offers=offers(page, [SUBSCRIBE]),
        role=roles_for(Permission.SUBSCRIBE),
    )


def _wakes_link(subscription: SubscriptionAnswer) -> bool:
    """Whether the events wake a link of another catalog, which has made the subscription."""
    sink = urlsplit(subscription.sink)
    return sink.path.endswith(NOTIFY.path) and sink.query.startswith("link=")


async def show_subscription(page: ConsolePage) -> web.Response:
    """A subscription: its state, its dead letters by cause, its attempts, its definition."""
    id = page.request.match_info["id"]
    found, attempts, causes = await asyncio.gather(
        page.node.call(GET_SUBSCRIPTION, id=id),
        page.node.call(LIST_ATTEMPTS, query=NumberQuery(limit=_MOST_ATTEMPTS), id=id),
        page.node.call(LIST_CAUSES, id=id),
    )
    definition = found.model_dump(
        mode="json", by_alias=True, exclude_none=True, exclude={"status", "signingkeys"}
    )
    return await render(
        page,
        "subscription.html",
        row=SubscriptionRow.of(found),
        subscription=found,
        delivery=found.status,
        attempts=attempts.root,
        causes=[(each, _letter_offers(page, id, cause=each.reason)) for each in causes.causes],
        definition=orjson.dumps(definition, option=orjson.OPT_INDENT_2).decode(),
        offers=subscription_offers(page, found),
    )


async def show_dead_letters(page: ConsolePage) -> web.Response:
    """The dead letters of a subscription, of one cause or all."""
    id, asked = page.request.match_info["id"], page.request.query
    cause, after = asked.get("cause", "")[:LONGEST_CAUSE], asked.get("after", "")
    is_number = after.isascii() and after.isdigit() and len(after) < 19
    query = DeadLetterQuery(
        limit=_SHOWN, after=int(after) if is_number else None, cause=cause or None
    )
    subscription, found = await asyncio.gather(
        page.node.call(GET_SUBSCRIPTION, id=id),
        page.node.call(LIST_DEAD_LETTERS, query=query, id=id),
    )
    letters = found.root
    return await render(
        page,
        "deadletters.html",
        items=len(letters),
        subscription=subscription,
        letters=[(each, _letter_offers(page, id, number=str(each.number))) for each in letters],
        cause=cause,
        next=letters[-1].number if len(letters) == _SHOWN else "",
        offers=_letter_offers(page, id, cause=cause) if letters else None,
    )


async def show_dead_letter(page: ConsolePage) -> web.Response:
    """A dead letter with its event."""
    id, number = page.request.match_info["id"], page.request.match_info["number"]
    subscription, found = await asyncio.gather(
        page.node.call(GET_SUBSCRIPTION, id=id),
        page.node.call(GET_DEAD_LETTER, id=id, number=number),
    )
    return await render(
        page,
        "deadletter.html",
        subscription=subscription,
        letter=found,
        event=orjson.dumps(found.event, option=orjson.OPT_INDENT_2).decode(),
        offers=_letter_offers(page, id, number=number),
    )


def _letter_offers(page: ConsolePage, id: str, **which: str) -> Offers:
    """The actions for a dead letter, for those of a cause, or for all."""
    return offers(page, [REDELIVER, DISCARD], which, id=id)


subscription_routes = (
    page_route(SUBSCRIPTIONS, show_subscriptions),
    page_route(f"{SUBSCRIPTIONS}/{{id}}", show_subscription),
    page_route(f"{SUBSCRIPTIONS}/{{id}}/deadletters", show_dead_letters),
    page_route(f"{SUBSCRIPTIONS}/{{id}}/deadletters/{{number}}", show_dead_letter),
)
