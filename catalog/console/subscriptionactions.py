"""What may be done with a subscription: each action says what it will do, and asks once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import orjson
from aiohttp import web

from catalog.console.actions import (
    Action,
    ActionQuestion,
    ActionResult,
    ActionSubject,
    Form,
    FormFault,
    Offers,
    offers,
    sentence,
)
from catalog.console.page import ConsolePage, render
from catalog.model.masking import counted
from catalog.model.roles import Permission
from catalog.operations import deliveries, subscriptions
from catalog.operations.subscriptions import SubscriptionAnswer

SUBSCRIPTIONS = "/console/subscriptions"
OVER = ("ended", "expired", "suspended")
_MOST_LETTERS = 10


def subscription_offers(page: ConsolePage, subscription: SubscriptionAnswer) -> Offers:
    """The actions that make sense in the state of a subscription, the likeliest first."""
    status, found = subscription.status, list[Action]()
    if status.state in OVER:
        found.append(activate)
    elif status.state == "paused":
        found.append(resume)
    elif status.failures:
        found.append(retry)
    if status.state not in OVER and status.deadletters.dead:
        found.append(redeliver)
    if status.state != "pending":
        found.append(send_example)
    if status.state == "active":
        found.append(pause)
    if status.state in ("active", "paused"):
        found.append(replay)
    if subscription.signingkeys:
        found.append(rotate)
    return offers(page, [*found, renew, remove], id=subscription.id)


async def _read(page: ConsolePage) -> SubscriptionAnswer:
    return await page.node.call(subscriptions.GET_SUBSCRIPTION, id=page.request.match_info["id"])


SUBSCRIPTION = ActionSubject(
    path=f"{SUBSCRIPTIONS}/{{id}}",
    needs=Permission.SUBSCRIBE,
    template="subscriptionaction.html",
    read=_read,
    name_of=lambda subscription: subscription.sink,
)


async def _change(page: ConsolePage, members: Mapping[str, Any], says: str) -> ActionResult:
    id = page.request.match_info["id"]
    await page.node.call(deliveries.CHANGE_SUBSCRIPTION, members, id=id)
    return ActionResult(says=says, page=SUBSCRIPTION.page(id))


@SUBSCRIPTION.action(
    "pause",
    "Pause",
    "Pause the deliveries to {}?",
    "Nothing is sent until the subscription is resumed. It keeps its place, so that no event is "
    "missed as long as the log of changes reaches back.",
    fields=("reason",),
)
async def pause(page: ConsolePage, form: Form) -> ActionResult:
    reason = form.get("reason", "").strip()
    members = {"paused": True, "reason": reason} if reason else {"paused": True}
    return await _change(page, members, "The subscription is paused.")


async def _resume(page: ConsolePage, _: Form) -> ActionResult:
    return await _change(page, {"paused": False}, "The subscription delivers.")


resume = SUBSCRIPTION.action(
    "resume", "Resume", "Resume the deliveries to {}?", "The subscription goes on from its place."
)(_resume)
retry = SUBSCRIPTION.action(
    "retry",
    "Try again now",
    "Try {} again now?",
    "The event that the sink has refused is sent at once, and not at the next attempt.",
    button="Try again",
)(_resume)


@SUBSCRIPTION.action(
    "replay",
    "Replay",
    "From where shall {} get the events again?",
    "The subscription goes back, or forward, and delivers from there in order: events that the "
    "sink has already come again, with the same ids.",
    fields=("cursor",),
)
async def replay(page: ConsolePage, form: Form) -> ActionResult:
    start = form.get("cursor", "").strip()
    return await _change(page, {"cursor": start}, f"The subscription goes on from {start}.")


@SUBSCRIPTION.action(
    "test",
    "Send an example",
    "Send an example event to {}?",
    "The sink gets an event of the type concord.subscription.test now, and you see its answer. The "
    "subscription stays as it is.",
    button="Send",
)
async def send_example(page: ConsolePage, _: Form) -> ActionResult:
    id = page.request.match_info["id"]
    found = await page.node.call(deliveries.SEND_EXAMPLE, id=id)
    is_well = found.outcome == "delivered"
    verb = "accepted" if is_well else "did not accept"
    says = f"The sink {verb} the example event after {found.milliseconds} ms: {found.answer}."
    return ActionResult(says=says, page=SUBSCRIPTION.page(id), is_well=is_well)


async def _about_letters(
    page: ConsolePage, form: Form, titles: tuple[str, str], button: str, *effects: str
) -> ActionQuestion:
    """A question about the dead letters that a form names.

    Args:
        titles: the question about a dead letter, or about all; and that about those of a cause.
    """
    found, letters = await asyncio.gather(_read(page), _letters_for(page, form))
    if found.status.state == "paused" and "sent" in effects[0]:
        effects = (*effects, "The subscription is paused: they are sent when it is resumed.")
    asked = SUBSCRIPTION.question(
        page, found, "", button, *effects, letters=letters, most=_MOST_LETTERS
    )
    number, cause = form.get("number", ""), form.get("cause", "")
    named = cause or (f"dead letter {number}" if number else "every dead letter")
    return replace(asked, title=sentence(titles[bool(cause)], named))


async def _ask_redeliver(page: ConsolePage, form: Form) -> ActionQuestion:
    return await _about_letters(
        page,
        form,
        ("Deliver {} again?", "Deliver again what failed because {}?"),
        "Deliver again",
        "The events are sent in their order, and those that wait behind them. What the sink "
        "refuses once more stays a dead letter.",
    )


@SUBSCRIPTION.action("redeliver", "Deliver again", ask=_ask_redeliver)
async def redeliver(page: ConsolePage, form: Form) -> ActionResult:
    id = page.request.match_info["id"]
    found = await page.node.call(deliveries.REDELIVER_DEAD_LETTERS, _redelivery_in(form), id=id)
    events = counted(found.accepted, "events")
    says = f"{events} will be delivered again." if found.accepted else "Nothing is left to deliver."
    return ActionResult(says=says, page=SUBSCRIPTION.page(id))


def _redelivery_in(form: Form) -> dict[str, Any]:
    if cause := form.get("cause", ""):
        return {"cause": cause}
    if number := form.get("number", ""):
        return {"number": _number(number)}
    return {}


def _number(text: str) -> int:
    # `int` also reads signs, spaces, underscores and digits of further scripts.
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise FormFault("There is no such dead letter.")
    return int(text)


async def _letters_for(page: ConsolePage, form: Form) -> list[deliveries.DeadLetterAnswer]:
    """The first dead letters that a form names."""
    id = page.request.match_info["id"]
    if number := form.get("number", ""):
        letter = await page.node.call(deliveries.GET_DEAD_LETTER, id=id, number=number)
        return [letter]
    query = deliveries.DeadLetterQuery(
        limit=_MOST_LETTERS, cause=form.get("cause", "")[: deliveries.LONGEST_CAUSE] or None
    )
    return (await page.node.call(deliveries.LIST_DEAD_LETTERS, query=query, id=id)).root


async def _ask_discard(page: ConsolePage, form: Form) -> ActionQuestion:
    asked = await _about_letters(
        page,
        form,
        ("Delete {}?", "Delete what failed because {}?"),
        "Delete",
        "The sink will never get these events. Those that wait behind them are delivered.",
    )
    return replace(asked, is_harmful=True)


@SUBSCRIPTION.action("discard", "Delete", ask=_ask_discard)
async def discard(page: ConsolePage, form: Form) -> ActionResult:
    id = page.request.match_info["id"]
    if number := form.get("number", ""):
        await page.node.call(deliveries.DELETE_DEAD_LETTER, id=id, number=str(_number(number)))
        deleted = 1
    else:
        query = deliveries.CauseQuery(cause=form.get("cause") or None)
        deleted = (await page.node.call(deliveries.DELETE_DEAD_LETTERS, query=query, id=id)).deleted
    says = f"{counted(deleted, 'dead letters')} deleted."
    return ActionResult(says=says, page=SUBSCRIPTION.page(id))


@SUBSCRIPTION.action(
    "rotate",
    "New signing key",
    "Sign what is sent to {} with a new key?",
    "The old key signs beside the new one for a day, so that the receiver has time to learn the "
    "new one. A secret is shown once, on the next page.",
    button="Make a new key",
    fields=("now",),
)
async def rotate(page: ConsolePage, form: Form) -> web.Response:
    id = page.request.match_info["id"]
    exchange = {"overlapseconds": 0} if "now" in form else {}
    made = await page.node.call(subscriptions.ADD_KEY, exchange, id=id)
    # The secret is in this answer alone, so no other page can show it.
    return await render(page, "newkey.html", keys=[made], back=SUBSCRIPTION.page(id))


@SUBSCRIPTION.action(
    "activate",
    "Make active",
    "Make the subscription of {} active again?",
    "It goes on from its place. A suspended subscription becomes yours, and delivers what you may "
    "see.",
)
async def activate(page: ConsolePage, _: Form) -> ActionResult:
    return await _replace(page, {}, "The subscription is active again.")


@SUBSCRIPTION.action(
    "credential",
    "New credential",
    "Give {} another credential?",
    "The node shows it to the sink, keeps it encrypted, and shows it to nobody else.",
    button="Use this credential",
    fields=("credential",),
)
async def renew(page: ConsolePage, form: Form) -> ActionResult:
    kind = form.get("kind", "")
    given = {name: text.strip() for name, text in form.items()}
    credential: dict[str, str] | None = None
    if kind == "PLAIN":
        credential = {
            "credentialtype": kind,
            "identifier": given.get("identifier", ""),
            "secret": given.get("secret", ""),
        }
    elif kind == "ACCESSTOKEN":
        credential = {
            "credentialtype": kind,
            "accesstoken": given.get("token", ""),
            "accesstokentype": "Bearer",
            "accesstokenexpiresutc": given.get("until", ""),
        }
    says = "The sink gets the new credential." if credential else "The sink gets no credential."
    return await _replace(page, {"sinkcredential": credential}, says)


async def _replace(page: ConsolePage, members: Mapping[str, Any], says: str) -> ActionResult:
    """Replace a subscription by its own definition with other members."""
    id = page.request.match_info["id"]
    found = await page.node.request("GET", f"/subscriptions/{quote(id, safe='')}")
    definition = {**orjson.loads(found.body), **members}
    # Else a replacement by a second client in between would be undone.
    unchanged = {"If-Match": found.headers["ETag"]}
    given = {name: value for name, value in definition.items() if value is not None}
    await page.node.call(subscriptions.REPLACE_SUBSCRIPTION, given, headers=unchanged, id=id)
    return ActionResult(says=says, page=SUBSCRIPTION.page(id))


@SUBSCRIPTION.action(
    "remove",
    "Remove",
    "Remove the subscription of {}?",
    "Nothing more is sent to the sink. The dead letters and the record of attempts are gone.",
    is_harmful=True,
)
async def remove(page: ConsolePage, _: Form) -> ActionResult:
    id = page.request.match_info["id"]
    await page.node.call(subscriptions.DELETE_SUBSCRIPTION, id=id)
    return ActionResult(says="The subscription is removed.", page=SUBSCRIPTIONS)


SUBSCRIPTION_ACTIONS = (
    *(pause, resume, retry, replay, send_example, redeliver, discard),
    *(rotate, renew, activate, remove),
)
