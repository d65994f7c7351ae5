"""The pages of subscriptions: their states, attempts and missed events, and a new subscription."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import orjson
from aiohttp import web

from catalog.console.actions import (
    ActionQuestion,
    ActionResult,
    Form,
    FormFault,
    Offers,
    action,
    digest_of,
    offers,
)
from catalog.console.attention import rank_of, row_of_subscription
from catalog.console.page import (
    ConsolePage,
    entity_url,
    json_text,
    local_path,
    page_route,
    render,
    roles_for,
)
from catalog.console.startpage import subscriptions_for
from catalog.console.subscriptionactions import (
    SUBSCRIPTION,
    SUBSCRIPTIONS,
    discard,
    redeliver,
    subscription_offers,
)
from catalog.model.roles import Permission
from catalog.model.sinkterms import protocol_of
from catalog.operations import deliveries
from catalog.operations.feed import NOTIFY
from catalog.operations.subscriptions import (
    CREATE_SUBSCRIPTION,
    GET_SUBSCRIPTION,
    TRY_SUBSCRIPTION,
    NewSubscriptionQuery,
    SubscriptionAnswer,
    TriedSubscription,
)

_SIGNATURES = (
    ("", "not signed"),
    ("ed25519", "signed, checked with a public key"),
    ("hmac-sha256", "signed, checked with a shared secret"),
)
_MODES = (
    ("", "attributes in headers, data in the body"),
    ("structured", "one JSON object"),
    ("batched", "arrays of JSON objects"),
)


async def _ask_new(_: ConsolePage, form: Form) -> ActionQuestion:
    return _new_question(form)


def _new_question(
    form: Form, trial: TriedSubscription | None = None, tried: str = ""
) -> ActionQuestion:
    about = local_path(form.get("about", "").strip())
    return ActionQuestion(
        title="Send events of changes",
        button="Subscribe",
        back=entity_url(about) if about else SUBSCRIPTIONS,
        template="newsubscription.html",
        values={
            "trial": trial,
            "tried": tried,
            "modes": _MODES,
            "signatures": _SIGNATURES,
            "has_more": any(form.get(name) for name in ("types", "filters", "settings")),
        },
    )


@action("/console/new/subscription", "Subscribe", Permission.SUBSCRIBE, _ask_new)
async def subscribe(page: ConsolePage, form: Form) -> ActionResult | ActionQuestion | web.Response:
    wanted = _definition_in(form)
    digest = digest_of(wanted)
    # What was told is made, and not what was typed after it was told.
    if form.get("step") != "add" or form.get("tried") != digest:
        query = NewSubscriptionQuery(dryrun=True)
        trial = await page.node.call(TRY_SUBSCRIPTION, wanted, query=query)
        return _new_question(form, trial, digest)
    made = await page.node.call(CREATE_SUBSCRIPTION, wanted)
    if any(key.secret for key in made.signingkeys or ()):
        # The secret is in this answer alone, so no other page can show it.
        keys = made.signingkeys
        return await render(page, "newkey.html", keys=keys, back=SUBSCRIPTION.page(made.id))
    says = "The subscription is made: each later change is sent."
    if made.status.state == "pending":
        says = "The subscription is made, and waits until its sink agrees."
    return ActionResult(says=says, page=SUBSCRIPTION.page(made.id))


def _definition_in(form: Form) -> dict[str, Any]:
    """The definition of a subscription that a form has, without what was left empty."""
    given = {name: text.strip() for name, text in form.items()}
    sink, about = given.get("sink", ""), given.get("about", "").rstrip("/")
    if not sink:
        raise FormFault("The subscription needs the URL that events are sent to.", sink="Missing.")
    filters = _json_in(given, "filters", list)
    if about:
        subject = {"exact": {"subject": about}}
        filters = [{"any": [subject, {"prefix": {"subject": f"{about}/"}}]}, *filters]
    settings = _json_in(given, "settings", dict)
    settings |= {name: given[name] for name in ("contentmode", "signature") if given.get(name)}
    definition: dict[str, Any] = {
        "sink": sink,
        "protocol": protocol_of(sink),
        "types": given.get("types", "").split(),
        "filters": filters,
        "protocolsettings": settings,
    }
    return {name: value for name, value in definition.items() if value}


def _json_in(given: Mapping[str, str], name: str, kind: type[Any]) -> Any:
    """The JSON in a field; an empty value of the kind for an empty field."""
    text = given.get(name, "")
    if not text:
        return kind()
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise FormFault("A field has no JSON.", **{name: f"It is no JSON: {error}."}) from None
    if not isinstance(found, kind):
        form = "an array of filters" if kind is list else "an object"
        raise FormFault("A field has other JSON than it needs.", **{name: f"It needs {form}."})
    return found


TELL_ME = replace(subscribe, name="Tell me when it changes")


_MOST_ATTEMPTS = 20
_SHOWN = 50


async def show_subscriptions(page: ConsolePage) -> web.Response:
    """The subscriptions, the worst first."""
    is_shown = page.may(Permission.SUBSCRIBE)
    rows = [row_of_subscription(each) for each in await subscriptions_for(page)]
    rows.sort(key=lambda row: (rank_of(row.concern), row.about.id))
    return await render(
        page,
        "subscriptions.html",
        rows=rows if is_shown else None,
        waking={row.about.id for row in rows if _wakes_link(row.about)},
        faulty=sum(row.concern is not None for row in rows),
        offers=offers(page, [subscribe]),
        role=roles_for(Permission.SUBSCRIBE),
    )


def _wakes_link(subscription: SubscriptionAnswer) -> bool:
    """Whether the events wake a link of another catalog, which has made the subscription."""
    sink = urlsplit(subscription.sink)
    return sink.path.endswith(NOTIFY.path) and sink.query.startswith("link=")


async def show_subscription(page: ConsolePage) -> web.Response:
    """The page of a subscription: state, dead letters by cause, attempts and definition."""
    id = page.request.match_info["id"]
    found, attempts, causes = await asyncio.gather(
        page.node.call(GET_SUBSCRIPTION, id=id),
        page.node.call(
            deliveries.LIST_ATTEMPTS, query=deliveries.NumberQuery(limit=_MOST_ATTEMPTS), id=id
        ),
        page.node.call(deliveries.LIST_CAUSES, id=id),
    )
    definition = found.model_dump(
        mode="json", by_alias=True, exclude_none=True, exclude={"status", "signingkeys"}
    )
    return await render(
        page,
        "subscription.html",
        row=row_of_subscription(found),
        subscription=found,
        delivery=found.status,
        attempts=attempts.root,
        causes=[(each, _letter_offers(page, id, cause=each.reason)) for each in causes.causes],
        definition=json_text(definition),
        offers=subscription_offers(page, found),
    )


async def show_dead_letters(page: ConsolePage) -> web.Response:
    """The dead letters of a subscription, of one cause or all."""
    id, asked = page.request.match_info["id"], page.request.query
    cause, after = asked.get("cause", "")[: deliveries.LONGEST_CAUSE], asked.get("after", "")
    is_number = after.isascii() and after.isdigit() and len(after) < 19
    query = deliveries.DeadLetterQuery(
        limit=_SHOWN, after=int(after) if is_number else None, cause=cause or None
    )
    subscription, (found, following) = await asyncio.gather(
        page.node.call(GET_SUBSCRIPTION, id=id),
        page.node.page(deliveries.LIST_DEAD_LETTERS, query, id=id),
    )
    letters = found.root
    return await render(
        page,
        "deadletters.html",
        subscription=subscription,
        letters=[(each, _letter_offers(page, id, number=str(each.number))) for each in letters],
        cause=cause,
        next=following,
        offers=_letter_offers(page, id, cause=cause) if letters else None,
    )


async def show_dead_letter(page: ConsolePage) -> web.Response:
    """A dead letter with its event."""
    id, number = page.request.match_info["id"], page.request.match_info["number"]
    subscription, found = await asyncio.gather(
        page.node.call(GET_SUBSCRIPTION, id=id),
        page.node.call(deliveries.GET_DEAD_LETTER, id=id, number=number),
    )
    return await render(
        page,
        "deadletter.html",
        subscription=subscription,
        letter=found,
        event=json_text(found.event),
        offers=_letter_offers(page, id, number=number),
    )


def _letter_offers(page: ConsolePage, id: str, **which: str) -> Offers:
    """The actions for a dead letter, for those of a cause, or for all."""
    return offers(page, [redeliver, discard], which, id=id)


subscription_routes = (
    page_route(SUBSCRIPTIONS, show_subscriptions),
    page_route(f"{SUBSCRIPTIONS}/{{id}}", show_subscription),
    page_route(f"{SUBSCRIPTIONS}/{{id}}/deadletters", show_dead_letters),
    page_route(f"{SUBSCRIPTIONS}/{{id}}/deadletters/{{number}}", show_dead_letter),
)
