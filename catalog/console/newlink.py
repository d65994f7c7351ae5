"""A new link: what it would do, and then the link."""

from __future__ import annotations

from typing import Any, Literal

from catalog.console.actions import Action, ActionQuestion, ActionResult, FormFault, digest_of
from catalog.console.forms import Form
from catalog.console.linkactions import FEDERATION, Trial, link_page, tried_in_time
from catalog.console.page import ConsolePage
from catalog.model.linkterms import MODE_TERMS, Mode
from catalog.model.masking import counted
from catalog.model.roles import Permission
from catalog.operations.links import CREATE_LINK, TRY_LINK, FoundCatalog, NewLinkQuery

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


async def _ask(_: ConsolePage, form: Form) -> ActionQuestion:
    return _question(form)


def _question(form: Form, trial: Trial | None = None, tried: str = "") -> ActionQuestion:
    return ActionQuestion(
        title="Add a link",
        button="Add the link" if trial else "Show what it would do",
        back=FEDERATION,
        template="newlink.html",
        values={"ways": _WAYS, "trial": trial, "tried": tried, "has_more": _has_more(form)},
    )


async def _act(page: ConsolePage, form: Form) -> ActionResult | ActionQuestion:
    wanted, force = _definition_in(form), "force" in form
    # What was told is added, and not what was typed after it was told.
    digest = digest_of({name: value for name, value in wanted.items() if name != "token"})
    if form.get("step") == "add" and (force or form.get("tried") == digest):
        made = await page.node.call(CREATE_LINK, wanted, query=NewLinkQuery(force=force))
        says = f"The link is made. {_told(made.found)}".rstrip()
        return ActionResult(says=says, page=link_page(made.id))
    if wanted.get("mode") == "accept":
        told = "What the authority will push is not known before it begins."
        return _question(form, Trial(None, told), digest)
    trying = page.node.call(TRY_LINK, wanted, query=NewLinkQuery(dryrun=True))
    trial = await tried_in_time(trying, "concord link add URL --dry-run")
    return _question(form, trial, digest)


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


def _told(found: FoundCatalog | None) -> str:
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


ADD_LINK = Action(
    path="/console/new/link",
    name="Add a link",
    needs=Permission.ADMINISTER,
    ask=_ask,
    act=_act,
)
