"""What may be done with a subscription: each action says what it will do, and asks once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import orjson
from aiohttp import web

from catalog.console.actions import (
    Act,
    Action,
    ActionQuestion,
    ActionResult,
    Ask,
    FormFault,
    Offers,
    offers,
    sentence,
)
from catalog.console.forms import Form
from catalog.console.page import ConsolePage, render
from catalog.model.masking import counted
from catalog.model.roles import Permission
from catalog.operations.deliveries import (
    CHANGE_SUBSCRIPTION,
    DELETE_DEAD_LETTER,
    DELETE_DEAD_LETTERS,
    GET_DEAD_LETTER,
    LIST_DEAD_LETTERS,
    LONGEST_CAUSE,
    REDELIVER_DEAD_LETTERS,
    SEND_EXAMPLE,
    CauseQuery,
    DeadLetterAnswer,
    DeadLetterQuery,
)
from catalog.operations.subscriptions import (
    ADD_KEY,
    DELETE_SUBSCRIPTION,
    GET_SUBSCRIPTION,
    REPLACE_SUBSCRIPTION,
    SubscriptionAnswer,
)

SUBSCRIPTIONS = "/console/subscriptions"
OVER = ("ended", "expired", "suspended")
_MOST_LETTERS = 10
_ACTIVE_AGAIN = "The subscription is active again."


def subscription_page(id: str) -> str:
    """The page of a subscription."""
    return f"{SUBSCRIPTIONS}/{id}"


def subscription_offers(page: ConsolePage, subscription: SubscriptionAnswer) -> Offers:
    """The actions that make sense in the state of a subscription, the likeliest first."""
    status, found = subscription.status, list[Action]()
    if status.state in OVER:
        found.append(ACTIVATE)
    elif status.state == "paused":
        found.append(RESUME)
    elif status.failures:
        found.append(RETRY)
    if status.state not in OVER and status.deadletters.dead:
        found.append(REDELIVER)
    if status.state != "pending":
        found.append(TEST)
    if status.state == "active":
        found.append(PAUSE)
    if status.state in ("active", "paused"):
        found.append(REPLAY)
    if subscription.signingkeys:
        found.append(ROTATE)
    return offers(page, [*found, CREDENTIAL, REMOVE], id=subscription.id)


def _asking(title: str, button: str, *effects: str, fields: Sequence[str] = ()) -> Ask:
    """A question about a subscription.

    Args:
        title: the question, with a placeholder for the sink.
        fields: the fields that the form has.
    """

    async def ask(page: ConsolePage, _: Form) -> ActionQuestion:
        found = await _read(page)
        return _about(found, sentence(title, found.sink), button, *effects, fields=fields)

    return ask


def _about(
    subscription: SubscriptionAnswer,
    title: str,
    button: str,
    *effects: str,
    is_harmful: bool = False,
    fields: Sequence[str] = (),
    letters: Sequence[DeadLetterAnswer] | None = None,
) -> ActionQuestion:
    return ActionQuestion(
        title=title,
        button=button,
        back=subscription_page(subscription.id),
        effects=effects,
        is_harmful=is_harmful,
        template="subscriptionaction.html",
        values={"fields": fields, "letters": letters, "most": _MOST_LETTERS},
    )


async def _read(page: ConsolePage) -> SubscriptionAnswer:
    return await page.node.call(GET_SUBSCRIPTION, id=page.request.match_info["id"])


async def _change(page: ConsolePage, members: Mapping[str, Any], says: str) -> ActionResult:
    id = page.request.match_info["id"]
    await page.node.call(CHANGE_SUBSCRIPTION, members, id=id)
    return ActionResult(says=says, page=subscription_page(id))


async def _pause(page: ConsolePage, form: Form) -> ActionResult:
    reason = form.get("reason", "").strip()
    members = {"paused": True, "reason": reason} if reason else {"paused": True}
    return await _change(page, members, "The subscription is paused.")


async def _resume(page: ConsolePage, _: Form) -> ActionResult:
    return await _change(page, {"paused": False}, "The subscription delivers.")


async def _replay(page: ConsolePage, form: Form) -> ActionResult:
    start = form.get("cursor", "").strip()
    return await _change(page, {"cursor": start}, f"The subscription goes on from {start}.")


async def _send_example(page: ConsolePage, _: Form) -> ActionResult:
    id = page.request.match_info["id"]
    found = await page.node.call(SEND_EXAMPLE, id=id)
    is_well = found.outcome == "delivered"
    verb = "accepted" if is_well else "did not accept"
    says = f"The sink {verb} the example event after {found.milliseconds} ms: {found.answer}."
    return ActionResult(says=says, page=subscription_page(id), is_well=is_well)


async def _ask_redeliver(page: ConsolePage, form: Form) -> ActionQuestion:
    subscription, letters = await asyncio.gather(_read(page), _letters_for(page, form))
    effects = [
        "The events are sent in their order, and those that wait behind them. What the sink "
        "refuses once more stays a dead letter."
    ]
    if subscription.status.state == "paused":
        effects.append("The subscription is paused: they are sent when it is resumed.")
    return _about(
        subscription,
        _named_in(form, "Deliver {} again?", "Deliver again what failed because {}?"),
        "Deliver again",
        *effects,
        letters=letters,
    )


async def _redeliver(page: ConsolePage, form: Form) -> ActionResult:
    id = page.request.match_info["id"]
    found = await page.node.call(REDELIVER_DEAD_LETTERS, _redelivery_in(form), id=id)
    events = counted(found.accepted, "events")
    says = f"{events} will be delivered again." if found.accepted else "Nothing is left to deliver."
    return ActionResult(says=says, page=subscription_page(id))


def _redelivery_in(form: Form) -> dict[str, Any]:
    if cause := form.get("cause", ""):
        return {"cause": cause}
    if number := form.get("number", ""):
        return {"number": _number(number)}
    return {}


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise FormFault("There is no such dead letter.")
    return int(text)


def _named_in(form: Form, title: str, of_cause: str) -> str:
    """A question about the dead letters that a form names.

    Args:
        title: a question with a placeholder for the dead letters.
        of_cause: the question about those of a cause, with a placeholder for the cause.
    """
    if cause := form.get("cause", ""):
        return sentence(of_cause, cause)
    number = form.get("number", "")
    return sentence(title, f"dead letter {number}" if number else "every dead letter")


async def _letters_for(page: ConsolePage, form: Form) -> list[DeadLetterAnswer]:
    """The first dead letters that a form names."""
    id = page.request.match_info["id"]
    if number := form.get("number", ""):
        letter = await page.node.call(GET_DEAD_LETTER, id=id, number=number)
        return [letter]
    query = DeadLetterQuery(
        limit=_MOST_LETTERS, cause=form.get("cause", "")[:LONGEST_CAUSE] or None
    )
    return (await page.node.call(LIST_DEAD_LETTERS, query=query, id=id)).root


async def _ask_discard(page: ConsolePage, form: Form) -> ActionQuestion:
    subscription, letters = await asyncio.gather(_read(page), _letters_for(page, form))
    return _about(
        subscription,
        _named_in(form, "Delete {}?", "Delete what failed because {}?"),
        "Delete",
        "The sink will never get these events. Those that wait behind them are delivered.",
        is_harmful=True,
        letters=letters,
    )


async def _discard(page: ConsolePage, form: Form) -> ActionResult:
    id = page.request.match_info["id"]
    if number := form.get("number", ""):
        await page.node.call(DELETE_DEAD_LETTER, id=id, number=str(_number(number)))
        deleted = 1
    else:
        query = CauseQuery(cause=form.get("cause") or None)
        deleted = (await page.node.call(DELETE_DEAD_LETTERS, query=query, id=id)).deleted
    says = f"{counted(deleted, 'dead letters')} deleted."
    return ActionResult(says=says, page=subscription_page(id))


async def _rotate(page: ConsolePage, form: Form) -> web.Response:
    id = page.request.match_info["id"]
    exchange = {"overlapseconds": 0} if "now" in form else {}
    made = await page.node.call(ADD_KEY, exchange, id=id)
    # The secret is in this answer alone, so no other page can show it.
    return await render(page, "newkey.html", keys=[made], back=subscription_page(id))


async def _activate(page: ConsolePage, _: Form) -> ActionResult:
    return await _replace(page, {}, _ACTIVE_AGAIN)


async def _renew(page: ConsolePage, form: Form) -> ActionResult:
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
    unchanged = {"If-Match": found.headers["ETag"]}
    given = {name: value for name, value in definition.items() if value is not None}
    await page.node.call(REPLACE_SUBSCRIPTION, given, headers=unchanged, id=id)
    return ActionResult(says=says, page=subscription_page(id))


async def _ask_remove(page: ConsolePage, _: Form) -> ActionQuestion:
    found = await _read(page)
    return _about(
        found,
        sentence("Remove the subscription of {}?", found.sink),
        "Remove",
        "Nothing more is sent to the sink. The dead letters and the record of attempts are gone.",
        is_harmful=True,
    )


async def _remove(page: ConsolePage, _: Form) -> ActionResult:
    await page.node.call(DELETE_SUBSCRIPTION, id=page.request.match_info["id"])
    return ActionResult(says="The subscription is removed.", page=SUBSCRIPTIONS)


def _action(path: str, name: str, ask: Ask, act: Act) -> Action:
    return Action(
        path=f"{SUBSCRIPTIONS}/{{id}}/{path}",
        name=name,
        needs=Permission.SUBSCRIBE,
        ask=ask,
        act=act,
    )


PAUSE = _action(
    "pause",
    "Pause",
    _asking(
        "Pause the deliveries to {}?",
        "Pause",
        "Nothing is sent until the subscription is resumed. It keeps its place, so that no event "
        "is missed as long as the log of changes reaches back.",
        fields=("reason",),
    ),
    _pause,
)
RESUME = _action(
    "resume",
    "Resume",
    _asking("Resume the deliveries to {}?", "Resume", "The subscription goes on from its place."),
    _resume,
)
RETRY = _action(
    "retry",
    "Try again now",
    _asking(
        "Try {} again now?",
        "Try again",
        "The event that the sink has refused is sent at once, and not at the next attempt.",
    ),
    _resume,
)
REPLAY = _action(
    "replay",
    "Replay",
    _asking(
        "From where shall {} get the events again?",
        "Replay",
        "The subscription goes back, or forward, and delivers from there in order: events that the "
        "sink has already come again, with the same ids.",
        fields=("cursor",),
    ),
    _replay,
)
TEST = _action(
    "test",
    "Send an example",
    _asking(
        "Send an example event to {}?",
        "Send",
        "The sink gets an event of the type concord.subscription.test now, and you see its answer. "
        "The subscription stays as it is.",
    ),
    _send_example,
)
REDELIVER = _action("redeliver", "Deliver again", _ask_redeliver, _redeliver)
DISCARD = _action("discard", "Delete", _ask_discard, _discard)
ROTATE = _action(
    "rotate",
    "New signing key",
    _asking(
        "Sign what is sent to {} with a new key?",
        "Make a new key",
        "The old key signs beside the new one for a day, so that the receiver has time to learn "
        "the new one. A secret is shown once, on the next page.",
        fields=("now",),
    ),
    _rotate,
)
CREDENTIAL = _action(
    "credential",
    "New credential",
    _asking(
        "Give {} another credential?",
        "Use this credential",
        "The node shows it to the sink, keeps it encrypted, and shows it to nobody else.",
        fields=("credential",),
    ),
    _renew,
)
ACTIVATE = _action(
    "activate",
    "Make active",
    _asking(
        "Make the subscription of {} active again?",
        "Make active",
        "It goes on from its place. A suspended subscription becomes yours, and delivers what you "
        "may see.",
    ),
    _activate,
)
REMOVE = _action("remove", "Remove", _ask_remove, _remove)
SUBSCRIPTION_ACTIONS = (
    *(PAUSE, RESUME, RETRY, REPLAY, TEST, REDELIVER, DISCARD),
    *(ROTATE, CREDENTIAL, ACTIVATE, REMOVE),
)
