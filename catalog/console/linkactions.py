"""What an operator may do with a link: each action says what it will do, and asks once."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from catalog.client.errors import BadAnswer, Refused
from catalog.console.actions import (
    Act,
    Action,
    ActionQuestion,
    ActionResult,
    Ask,
    Offers,
    action_routes,
    offers,
    sentence,
)
from catalog.console.attention import peer_of
from catalog.console.forms import Form
from catalog.console.page import ConsolePage
from catalog.model.roles import Permission
from catalog.operations.links import (
    CHANGE_LINK,
    GET_LINK,
    TRY_RUN,
    DryRunAnswer,
    LinkAnswer,
    RunQuery,
)

_LINK = "/console/federation/{id}"
_TEMPLATE = "linkaction.html"
# A peer that does not answer must not delay a page.
_TRIED_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Trial:
    """What a dry run has told, or why it has told nothing."""

    found: DryRunAnswer | None
    fault: str = ""


async def trial_of(page: ConsolePage, id: str) -> Trial:
    """What a run of a link would do, as far as its peer tells in time."""
    try:
        async with asyncio.timeout(_TRIED_SECONDS):
            found = await page.node.call(TRY_RUN, query=RunQuery(dryrun=True), id=id)
            return Trial(found)
    except TimeoutError:
        return Trial(None, f"The other catalog has not answered within {_TRIED_SECONDS:.0f} s.")
    except (BadAnswer, Refused) as error:
        if isinstance(error, Refused) and error.problem.status in (401, 403, 404):
            raise
        return Trial(None, f"{error.message} {error.hint}".strip())


async def _link_of(page: ConsolePage) -> LinkAnswer:
    return await page.node.call(GET_LINK, id=page.request.match_info["id"])


def _page_of(link: LinkAnswer) -> str:
    return f"/console/federation/{link.id}"


def _about(title: str, link: LinkAnswer) -> str:
    return sentence(title, peer_of(link))


async def _ask_pause(page: ConsolePage, _: Form) -> ActionQuestion:
    link = await _link_of(page)
    return ActionQuestion(
        title=_about("Pause the link to {}?", link),
        button="Pause",
        back=_page_of(link),
        effects=(
            "The link brings nothing until it is resumed. Its copies stay, and the link keeps its "
            "place: it goes on from there.",
            "After a pause longer than the other catalog keeps its log, the link compares both "
            "catalogs instead.",
        ),
        template=_TEMPLATE,
        values={"fields": ("reason",)},
    )


async def _pause(page: ConsolePage, form: Form) -> ActionResult:
    link = await _change(page, paused=True, reason=form.get("reason", "").strip() or None)
    return ActionResult(says="The link is paused.", page=_page_of(link))


async def _ask_resume(page: ConsolePage, _: Form) -> ActionQuestion:
    link = await _link_of(page)
    return ActionQuestion(
        title=_about("Resume the link to {}?", link),
        button="Resume",
        back=_page_of(link),
        effects=("The link goes on from its place.",),
        template=_TEMPLATE,
        values={"trial": await trial_of(page, link.id)},
    )


async def _resume(page: ConsolePage, _: Form) -> ActionResult:
    link = await _change(page, paused=False)
    return ActionResult(says="The link runs again.", page=_page_of(link))


async def _change(page: ConsolePage, **members: object) -> LinkAnswer:
    given = {name: value for name, value in members.items() if value is not None}
    return await page.node.call(CHANGE_LINK, given, id=page.request.match_info["id"])


def _action(path: str, name: str, ask: Ask, act: Act) -> Action:
    return Action(path=f"{_LINK}/{path}", name=name, needs=Permission.ADMINISTER, ask=ask, act=act)


PAUSE = _action("pause", "Pause", _ask_pause, _pause)
RESUME = _action("resume", "Resume", _ask_resume, _resume)


def link_offers(page: ConsolePage, link: LinkAnswer) -> Offers:
    """The actions that make sense in the state of a link."""
    return offers(page, [RESUME if link.state == "paused" else PAUSE], id=link.id)


link_action_routes = tuple(action_routes(PAUSE, RESUME))
