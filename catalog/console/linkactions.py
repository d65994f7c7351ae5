"""What an operator may do with a link, and a new link: each action says first what it will do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, Literal

from catalog.client.errors import BadAnswer, Refused
from catalog.console.actions import (
    Action,
    ActionQuestion,
    ActionResult,
    ActionSubject,
    Form,
    FormFault,
    Offers,
    action,
    digest_of,
    offers,
)
from catalog.console.attention import peer_of
from catalog.console.nodecalls import refusal_in_words
from catalog.console.page import ConsolePage
from catalog.model.linkterms import MODE_TERMS, Mode
from catalog.model.masking import counted
from catalog.model.roles import Permission
from catalog.operations import links

FEDERATION = "/console/federation"
# A peer that does not answer must not delay a page.
_TRIED_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Trial:
    """What a dry run has told, or why it has told nothing."""

    found: links.DryRunAnswer | None
    fault: str = ""


def link_offers(page: ConsolePage, link: links.LinkAnswer) -> Offers:
    """The actions that make sense in the state of a link, the likeliest first."""
    terms, found = MODE_TERMS[link.mode], list[Action]()
    if link.state == "asking":
        found.append(allow)
    if link.state == "unauthenticated":
        found.append(renew)
    found += [resume] if link.state == "paused" else [run, pause]
    found.append(reset)
    if terms.has("authority") and not terms.is_fixed:
        found.append(pin)
    if terms.moves:
        found.append(move)
    if renew not in found and not terms.is_topic and not terms.is_fixed:
        found.append(renew)
    return offers(page, [*found, remove], id=link.id)


async def _link_of(page: ConsolePage) -> links.LinkAnswer:
    return await page.node.call(links.GET_LINK, id=page.request.match_info["id"])


LINK = ActionSubject(
    path=f"{FEDERATION}/{{id}}",
    needs=Permission.ADMINISTER,
    template="linkaction.html",
    read=_link_of,
    name_of=peer_of,
)


async def tried_in_time(trying: Awaitable[links.DryRunAnswer], longer: str) -> Trial:
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


async def _trial_of(page: ConsolePage) -> dict[str, Trial]:
    """What a run of a link would do, or why the other catalog does not tell."""
    id = page.request.match_info["id"]
    trying = page.node.call(links.TRY_RUN, query=links.RunQuery(dryrun=True), id=id)
    try:
        return {"trial": await tried_in_time(trying, f"concord link run {id} --dry-run")}
    except (BadAnswer, Refused) as error:
        if isinstance(error, Refused) and error.problem.status in (401, 403, 404):
            raise
        return {"trial": Trial(None, refusal_in_words(error))}


async def _change(
    page: ConsolePage, says: str, *, force: bool = False, **members: Any
) -> ActionResult:
    """Change a link; `says` is true of the link afterwards."""
    id = page.request.match_info["id"]
    await page.node.call(links.CHANGE_LINK, members, query=links.ForceQuery(force=force), id=id)
    return ActionResult(says=says, page=LINK.page(id))


def _typed(form: Form, name: str) -> str:
    return form.get(name, "").strip()


@LINK.action(
    "pause",
    "Pause",
    "Pause the link with {}?",
    "The link reads and writes nothing until it is resumed. Its copies stay, and it goes on from "
    "its place.",
    "After a pause longer than the log of changes is kept, the link compares both catalogs first.",
    fields=("reason",),
)
async def pause(page: ConsolePage, form: Form) -> ActionResult:
    reason = _typed(form, "reason")
    members: dict[str, Any] = {"paused": True, "reason": reason} if reason else {"paused": True}
    return await _change(page, "The link is paused.", **members)


@LINK.action(
    "resume",
    "Resume",
    "Resume the link with {}?",
    "The link goes on from its place.",
    also=_trial_of,
)
async def resume(page: ConsolePage, _: Form) -> ActionResult:
    return await _change(page, "The link runs again.", paused=False)


@LINK.action(
    "run",
    "Run now",
    "Run the link with {} now?",
    "The link reads at once, even if it waits after a failure or has stopped. Copies that it could "
    "not apply are tried again.",
    also=_trial_of,
)
async def run(page: ConsolePage, _: Form) -> ActionResult:
    id = page.request.match_info["id"]
    await page.node.call(links.RUN_LINK, id=id)
    return ActionResult(says="The link runs now.", page=LINK.page(id))


@LINK.action(
    "reset",
    "Compare anew",
    "Compare the link with {} anew?",
    "The link compares both catalogs, and copies again what differs.",
    also=_trial_of,
    fields=("full", "drop"),
)
async def reset(page: ConsolePage, form: Form) -> ActionResult:
    id = page.request.match_info["id"]
    extent = links.LinkReset(full="full" in form, drop="drop" in form)
    await page.node.call(links.RESET_LINK, extent, id=id)
    return ActionResult(says="The link compares both catalogs anew.", page=LINK.page(id))


async def _ask_allow(page: ConsolePage, _: Form) -> ActionQuestion:
    link = await _link_of(page)
    asked = link.question
    if asked is None:
        told = "The link has no question, and waits for no answer."
        title = "Let the link with {} delete?"
        return LINK.question(page, link, title, "Delete", told, can_act=False)
    return LINK.question(
        page,
        link,
        f"Let the link with {{}} delete {asked.deletions:,} of {asked.of:,} entities?",
        f"Delete {asked.deletions:,}",
        "The other catalog shows these entities no longer. If it has lost them by mistake, mend it "
        "first, and run the link: without your answer, nothing is deleted.",
        "The answer is for these entities alone: for another loss, the link asks again.",
        is_harmful=True,
        asked=asked,
    )


@LINK.action("allow", "Allow the deletions", ask=_ask_allow)
async def allow(page: ConsolePage, form: Form) -> ActionResult:
    # The digest is that of the entities that the page has shown.
    digest = _typed(form, "digest")
    return await _change(page, "The link may delete these entities.", allow=digest)


@LINK.action(
    "pin",
    "Pin an authority",
    "Pin the link with {} to an authority?",
    "The link copies only while the other catalog speaks for this authority. With another one than "
    "now, the link begins anew.",
    button="Pin",
    fields=("authority",),
)
async def pin(page: ConsolePage, form: Form) -> ActionResult:
    return await _change(page, "The link is pinned.", authority=_typed(form, "authority"))


@LINK.action(
    "move",
    "New URL",
    "Has the catalog at {} moved?",
    "The link goes on from its place, after a check that the same catalog answers at the new URL.",
    button="Use the new URL",
    fields=("url",),
)
async def move(page: ConsolePage, form: Form) -> ActionResult:
    member = "target" if (await _link_of(page)).direction == "out" else "source"
    moved = {member: _typed(form, member)}
    return await _change(page, "The link has the new URL.", force="force" in form, **moved)


@LINK.action(
    "credential",
    "New credential",
    "Give the link with {} a new token?",
    "The link shows the token to the other catalog, and goes on from its place. The node keeps the "
    "token encrypted, and shows it to nobody.",
    button="Use the new token",
    fields=("token",),
)
async def renew(page: ConsolePage, form: Form) -> ActionResult:
    return await _change(page, "The link has the new token.", token=_typed(form, "token"))


async def _ask_remove(page: ConsolePage, _: Form) -> ActionQuestion:
    link = await _link_of(page)
    drops = MODE_TERMS[link.mode].drops
    stays = (
        "Its copies stay, and stay read-only."
        if drops
        else "What it has sent stays at the other catalog."
    )
    return LINK.question(
        page,
        link,
        "Remove the link with {}?",
        "Remove",
        f"The link and its history are gone. {stays}",
        fields=("drop",) if drops else (),
        is_harmful=True,
    )


@LINK.action("remove", "Remove", ask=_ask_remove)
async def remove(page: ConsolePage, form: Form) -> ActionResult:
    id, drop = page.request.match_info["id"], "drop" in form
    await page.node.call(links.DELETE_LINK, query=links.DropQuery(drop=drop), id=id)
    says = "The link ends once its copies are deleted." if drop else "The link is removed."
    return ActionResult(says=says, page=FEDERATION)


LINK_ACTIONS = (pause, resume, run, reset, allow, pin, move, renew, remove)
_WAYS: tuple[tuple[Mode | Literal[""], str], ...] = (
    ("", "Follow it, in the way that it offers"),
    ("events", "Follow it, woken by its events"),
    ("pull", "Follow it, and ask from time to time"),
    ("walk", "Read all of it again and again: a server of other software"),
    ("kafka", "Read a topic of Kafka"),
    ("accept", "Take what an authority pushes here"),
    ("push", "Push changes of this catalog to it"),
    ("publish", "Publish changes of this catalog to a topic of Kafka"),
    ("write", "Write changes of this catalog to an xRegistry server"),
)
_LISTS = ("scope", "types", "labels", "authorities")


async def _ask_new(_: ConsolePage, form: Form) -> ActionQuestion:
    return _new_question(form)


def _new_question(form: Form, trial: Trial | None = None, tried: str = "") -> ActionQuestion:
    return ActionQuestion(
        title="Add a link",
        button="Add the link" if trial else "Show what it would do",
        back=FEDERATION,
        template="newlink.html",
        values={"ways": _WAYS, "trial": trial, "tried": tried, "has_more": _has_more(form)},
    )


@action("/console/new/link", "Add a link", Permission.ADMINISTER, _ask_new)
async def add_link(page: ConsolePage, form: Form) -> ActionResult | ActionQuestion:
    wanted, force = _definition_in(form), "force" in form
    # What was told is added, and not what was typed after it was told.
    digest = digest_of({name: value for name, value in wanted.items() if name != "token"})
    if form.get("step") == "add" and (force or form.get("tried") == digest):
        made = await page.node.call(
            links.CREATE_LINK, wanted, query=links.NewLinkQuery(force=force)
        )
        says = f"The link is made. {_told_of(made.found)}".rstrip()
        return ActionResult(says=says, page=LINK.page(made.id))
    if wanted.get("mode") == "accept":
        told = "What the authority will push is not known before it begins."
        return _new_question(form, Trial(None, told), digest)
    trying = page.node.call(links.TRY_LINK, wanted, query=links.NewLinkQuery(dryrun=True))
    trial = await tried_in_time(trying, "concord link add URL --dry-run")
    return _new_question(form, trial, digest)


def _definition_in(form: Form) -> dict[str, Any]:
    """The definition of a link that a form has, without what was left empty."""
    given = {name: text.strip() for name, text in form.items()}
    mode, url = given.get("mode", ""), given.get("url", "")
    if not url and mode != "accept":
        raise FormFault("The link needs the URL of the other catalog.", url="It is missing.")
    needs = next((terms.needs for name, terms in MODE_TERMS.items() if name == mode), "source")
    members: dict[str, Any] = {"mode": mode, **({needs: url} if mode != "accept" else {})}
    members |= {name: given.get(name, "") for name in ("id", "authority", "prefix", "token")}
    members |= {name: given.get(name, "").split() for name in _LISTS}
    return {name: value for name, value in members.items() if value}


def _has_more(form: Form) -> bool:
    return any(form.get(name, "").strip() for name in (*_LISTS, "id", "authority", "prefix"))


def _told_of(found: links.FoundCatalog | None) -> str:
    """What the other catalog has said of itself, in words."""
    if found is None:
        return ""
    told = [f"It is {found.software}"]
    if found.entities is not None:
        told[0] += f" with {counted(found.entities, 'entities')}"
    if found.left:
        told.append(f"The model here lacks {', '.join(found.left[:5])}, which stay away")
    if found.followedby:
        told.append(f"Its authority is followed by {', '.join(found.followedby[:5])} already")
    return ". ".join(told) + "."
