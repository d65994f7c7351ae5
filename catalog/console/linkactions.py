"""What an operator may do with a link: each action says what it will do, and asks once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from catalog.client.errors import BadAnswer, Refused
from catalog.console.actions import (
    Act,
    Action,
    ActionQuestion,
    ActionResult,
    Ask,
    Offers,
    offers,
    sentence,
)
from catalog.console.attention import peer_of
from catalog.console.forms import Form
from catalog.console.page import ConsolePage
from catalog.model.linkterms import MODE_TERMS
from catalog.model.roles import Permission
from catalog.operations.links import (
    CHANGE_LINK,
    DELETE_LINK,
    GET_LINK,
    RESET_LINK,
    RUN_LINK,
    TRY_RUN,
    DropQuery,
    DryRunAnswer,
    ForceQuery,
    LinkAnswer,
    LinkReset,
    RunQuery,
)

FEDERATION = "/console/federation"
# A peer that does not answer must not delay a page.
_TRIED_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Trial:
    """What a dry run has told, or why it has told nothing."""

    found: DryRunAnswer | None
    fault: str = ""


def link_page(id: str) -> str:
    """The page of a link."""
    return f"{FEDERATION}/{id}"


def link_offers(page: ConsolePage, link: LinkAnswer) -> Offers:
    """The actions that make sense in the state of a link, the likeliest first."""
    terms, found = MODE_TERMS[link.mode], list[Action]()
    if link.state == "asking":
        found.append(ALLOW)
    if link.state == "unauthenticated":
        found.append(RENEW)
    found += [RESUME] if link.state == "paused" else [RUN, PAUSE]
    found.append(RESET)
    if terms.has("authority") and not terms.is_fixed:
        found.append(PIN)
    if terms.moves:
        found.append(MOVE)
    if RENEW not in found and not terms.is_topic and not terms.is_fixed:
        found.append(RENEW)
    return offers(page, [*found, REMOVE], id=link.id)


def _asking(
    title: str,
    button: str,
    *effects: str,
    fields: Sequence[str] = (),
    is_tried: bool = False,
) -> Ask:
    """A question about a link.

    Args:
        title: the question, with a placeholder for the other catalog.
        fields: the fields that the form has.
        is_tried: whether the page shows what a run of the link would do now.
    """

    async def ask(page: ConsolePage, _: Form) -> ActionQuestion:
        link = await _link_of(page)
        trial = await _trial_of(page, link.id) if is_tried else None
        return _about(link, title, button, *effects, fields=fields, trial=trial)

    return ask


def _changing(says: str, members: Callable[[Form], Mapping[str, Any]]) -> Act:
    """A change of a link.

    Args:
        says: what is true of the link afterwards.
        members: what the form changes.
    """

    async def act(page: ConsolePage, form: Form) -> ActionResult:
        return await _change(page, members(form), says)

    return act


async def _change(
    page: ConsolePage, members: Mapping[str, Any], says: str, *, force: bool = False
) -> ActionResult:
    id = page.request.match_info["id"]
    await page.node.call(CHANGE_LINK, members, query=ForceQuery(force=force), id=id)
    return ActionResult(says=says, page=link_page(id))


async def _run(page: ConsolePage, _: Form) -> ActionResult:
    id = page.request.match_info["id"]
    await page.node.call(RUN_LINK, id=id)
    return ActionResult(says="The link runs now.", page=link_page(id))


async def _reset(page: ConsolePage, form: Form) -> ActionResult:
    id, extent = page.request.match_info["id"], LinkReset(full="full" in form, drop="drop" in form)
    await page.node.call(RESET_LINK, extent, id=id)
    return ActionResult(says="The link compares both catalogs anew.", page=link_page(id))


async def _ask_allow(page: ConsolePage, _: Form) -> ActionQuestion:
    link = await _link_of(page)
    asked = link.question
    if asked is None:
        told = "The link has no question, and waits for no answer."
        return _about(link, "Let the link with {} delete?", "Delete", told, can_act=False)
    return _about(
        link,
        f"Let the link with {{}} delete {asked.deletions:,} of {asked.of:,} entities?",
        f"Delete {asked.deletions:,}",
        "The other catalog shows these entities no longer. If it has lost them by mistake, mend it "
        "first, and run the link: without your answer, nothing is deleted.",
        "The answer is for these entities alone: for another loss, the link asks again.",
        is_harmful=True,
        asked=asked,
    )


async def _move(page: ConsolePage, form: Form) -> ActionResult:
    link = await _link_of(page)
    member = "target" if link.direction == "out" else "source"
    moved = {member: _typed(form, member)}
    return await _change(page, moved, "The link has the new URL.", force="force" in form)


async def _ask_remove(page: ConsolePage, _: Form) -> ActionQuestion:
    link = await _link_of(page)
    drops = MODE_TERMS[link.mode].drops
    return _about(
        link,
        "Remove the link with {}?",
        "Remove",
        "The link and its history are gone. "
        + (
            "Its copies stay, and stay read-only."
            if drops
            else "What it has sent stays at the other catalog."
        ),
        fields=("drop",) if drops else (),
        is_harmful=True,
    )


async def _remove(page: ConsolePage, form: Form) -> ActionResult:
    id, drop = page.request.match_info["id"], "drop" in form
    await page.node.call(DELETE_LINK, query=DropQuery(drop=drop), id=id)
    says = "The link ends once its copies are deleted." if drop else "The link is removed."
    return ActionResult(says=says, page=FEDERATION)


def _about(
    link: LinkAnswer,
    title: str,
    button: str,
    *effects: str,
    is_harmful: bool = False,
    can_act: bool = True,
    **values: Any,
) -> ActionQuestion:
    return ActionQuestion(
        title=sentence(title, peer_of(link)),
        button=button,
        back=link_page(link.id),
        effects=effects,
        is_harmful=is_harmful,
        can_act=can_act,
        template="linkaction.html",
        values={"link": link, "fields": (), "trial": None, "asked": None, **values},
    )


async def _link_of(page: ConsolePage) -> LinkAnswer:
    return await page.node.call(GET_LINK, id=page.request.match_info["id"])


async def tried_in_time(trying: Awaitable[DryRunAnswer], longer: str) -> Trial:
    """What a dry run tells, as far as the other catalog answers in time.

    Args:
        longer: the command that waits longer.
    """
    try:
        async with asyncio.timeout(_TRIED_SECONDS):
            return Trial(await trying)
    except TimeoutError:
        told = f"The other catalog has not told within {_TRIED_SECONDS:.0f} s"
        return Trial(None, f"{told}. A command waits longer: {longer}")


async def _trial_of(page: ConsolePage, id: str) -> Trial:
    """What a run of a link would do, or why the other catalog does not tell."""
    trying = page.node.call(TRY_RUN, query=RunQuery(dryrun=True), id=id)
    try:
        return await tried_in_time(trying, f"concord link run {id} --dry-run")
    except (BadAnswer, Refused) as error:
        if isinstance(error, Refused) and error.problem.status in (401, 403, 404):
            raise
        return Trial(None, f"{error.message} {error.hint}".strip())


def _typed(form: Form, name: str) -> str:
    return form.get(name, "").strip()


def _pause_of(form: Form) -> Mapping[str, Any]:
    reason = _typed(form, "reason")
    return {"paused": True, "reason": reason} if reason else {"paused": True}


def _action(path: str, name: str, ask: Ask, act: Act) -> Action:
    return Action(
        path=f"{FEDERATION}/{{id}}/{path}",
        name=name,
        needs=Permission.ADMINISTER,
        ask=ask,
        act=act,
    )


PAUSE = _action(
    "pause",
    "Pause",
    _asking(
        "Pause the link with {}?",
        "Pause",
        "The link reads and writes nothing until it is resumed. Its copies stay, and it goes on "
        "from its place.",
        "After a pause longer than the log of changes is kept, the link compares both catalogs "
        "first.",
        fields=("reason",),
    ),
    _changing("The link is paused.", _pause_of),
)
RESUME = _action(
    "resume",
    "Resume",
    _asking(
        "Resume the link with {}?", "Resume", "The link goes on from its place.", is_tried=True
    ),
    _changing("The link runs again.", lambda _: {"paused": False}),
)
RUN = _action(
    "run",
    "Run now",
    _asking(
        "Run the link with {} now?",
        "Run now",
        "The link reads at once, even if it waits after a failure or has stopped. Copies that it "
        "could not apply are tried again.",
        is_tried=True,
    ),
    _run,
)
RESET = _action(
    "reset",
    "Compare anew",
    _asking(
        "Compare the link with {} anew?",
        "Compare anew",
        "The link compares both catalogs, and copies again what differs.",
        fields=("full", "drop"),
        is_tried=True,
    ),
    _reset,
)
ALLOW = _action(
    "allow",
    "Allow the deletions",
    _ask_allow,
    # The digest is that of the entities that the page has shown.
    _changing(
        "The link may delete these entities.", lambda form: {"allow": _typed(form, "digest")}
    ),
)
PIN = _action(
    "pin",
    "Pin an authority",
    _asking(
        "Pin the link with {} to an authority?",
        "Pin",
        "The link copies only while the other catalog speaks for this authority. With another one "
        "than now, the link begins anew.",
        fields=("authority",),
    ),
    _changing("The link is pinned.", lambda form: {"authority": _typed(form, "authority")}),
)
MOVE = _action(
    "move",
    "New URL",
    _asking(
        "Has the catalog at {} moved?",
        "Use the new URL",
        "The link goes on from its place, after a check that the same catalog answers at the new "
        "URL.",
        fields=("url",),
    ),
    _move,
)
RENEW = _action(
    "credential",
    "New credential",
    _asking(
        "Give the link with {} a new token?",
        "Use the new token",
        "The link shows the token to the other catalog, and goes on from its place. The node keeps "
        "the token encrypted, and shows it to nobody.",
        fields=("token",),
    ),
    _changing("The link has the new token.", lambda form: {"token": _typed(form, "token")}),
)
REMOVE = _action("remove", "Remove", _ask_remove, _remove)
LINK_ACTIONS = (PAUSE, RESUME, RUN, RESET, ALLOW, PIN, MOVE, RENEW, REMOVE)
