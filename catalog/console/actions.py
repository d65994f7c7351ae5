"""Actions: each has a page of its own that says what will happen, and asks once.

GET shows the question and changes nothing. POST acts, and leads to the page that shows the result,
with a notice. What the node refuses is told beside the form, which keeps what was typed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

import orjson
from aiohttp import web
from markupsafe import Markup

from catalog.client.errors import BadAnswer, Problem, Refused
from catalog.console.forms import LARGEST_FORM, Form, form_route
from catalog.console.notices import Notice, lead_to
from catalog.console.page import ConsolePage, page_route, render, roles_for
from catalog.http.route import Route
from catalog.model.roles import Permission

_PLACEHOLDER = re.compile(r"{(\w+)(:[^}]*)?}")
_CONFIRM = "confirm.html"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionQuestion:
    """What an action will do, as the page of the action asks.

    Args:
        title: the question; texts of others in it are isolated by `sentence`.
        button: the answer yes, as a verb.
        back: the page to which the answer no leads.
        effects: sentences about what will be.
        is_harmful: whether something is lost that cannot be brought back.
        can_act: whether the action is possible at present; the effects say why not.
        template: a template that extends `confirm.html`.
        values: what the template needs.
        items: the number of rows on the page.
        form: the fields that the form shows in place of those that were typed.
    """

    title: str
    button: str
    back: str
    effects: Sequence[str] = ()
    is_harmful: bool = False
    can_act: bool = True
    template: str = _CONFIRM
    values: Mapping[str, Any] = field(default_factory=dict)
    items: int = 0
    form: Form | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionResult:
    """What an action has done: a sentence, and the page that shows the result."""

    says: str
    page: str
    is_well: bool = True


class FormFault(Exception):
    """A form cannot be sent to the node as it is.

    Args:
        fault: what is wrong, as a sentence.
        fields: what is wrong with single fields, by name.
    """

    def __init__(self, fault: str, **fields: str) -> None:
        super().__init__(fault)
        self.fault = fault
        self.fields = fields


Ask = Callable[[ConsolePage, Form], Awaitable[ActionQuestion]]
Act = Callable[[ConsolePage, Form], Awaitable[ActionResult | ActionQuestion | web.Response]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """Something that a reader with a permission may do.

    Args:
        path: the path of the page, with placeholders.
        name: the name on buttons.
        needs: the permission, in the whole catalog or in a group; the operation decides.
        ask: makes the question, from the fields of the form: at first those of the URL's query,
            with which a form is prefilled; then those that were typed.
        act: does what was asked, and returns the outcome, a further question, or a page that can
            only be shown at once, such as that of a new secret.
        largest: the most bytes of the form.
    """

    path: str
    name: str
    needs: Permission
    ask: Ask
    act: Act
    largest: int = LARGEST_FORM

    def address(self, **at: str) -> str:
        """The page of the action, for values of the placeholders."""
        return _PLACEHOLDER.sub(
            lambda found: quote(at[found[1]], safe="/:@~!$&'()*+,;=" if found[2] else ""), self.path
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Offers:
    """The actions that a page offers: names with addresses, and those that need another role."""

    allowed: list[tuple[str, str]]
    others: list[str]
    role: str = ""


def offers(
    page: ConsolePage,
    actions: Sequence[Action],
    given: Mapping[str, str] | None = None,
    *,
    within: str = "",
    **at: str,
) -> Offers:
    """The actions that a page offers its reader; of several roles that lack, the first is told.

    Args:
        given: fields with which the forms are filled.
        within: the path that the actions are about, where the reader may have a role of its own.
        at: the values of the placeholders.
    """
    filled = {name: text for name, text in (given or {}).items() if text}
    query = f"?{urlencode(filled, quote_via=quote)}" if filled else ""
    lacking = [each for each in actions if not page.may(each.needs, within)]
    return Offers(
        allowed=[
            (each.name, each.address(**at) + query) for each in actions if each not in lacking
        ],
        others=[each.name for each in lacking],
        role=roles_for(lacking[0].needs) if lacking else "",
    )


def action_routes(*actions: Action) -> Iterator[Route]:
    """The routes of the pages of actions, and of their forms."""
    for action in actions:
        yield _question_route(action)
        yield _answer_route(action)


def _question_route(action: Action) -> Route:
    async def show_question(page: ConsolePage) -> web.Response:
        page.demand(action.needs)
        asked = page.request.query
        return await ask(page, await action.ask(page, asked), asked)

    return page_route(action.path, show_question)


def _answer_route(action: Action) -> Route:
    async def take_answer(page: ConsolePage, form: Form) -> web.Response:
        page.demand(action.needs)
        try:
            found = await action.act(page, form)
        except FormFault as error:
            question = await action.ask(page, form)
            return await ask(page, question, form, error.fault, error.fields, status=400)
        except Refused as error:
            if error.problem.status == 401:
                raise
            question, fault = await action.ask(page, form), f"{error.message} {error.hint}".strip()
            faults, status = _faults_in(error.problem), error.problem.status
            return await ask(page, question, form, fault, faults, status=status)
        except BadAnswer as error:
            question = await action.ask(page, form)
            return await ask(page, question, form, error.message, status=502)
        match found:
            case ActionResult():
                return lead_to(page.request, found.page, Notice(found.says, found.is_well))
            case ActionQuestion():
                return await ask(page, found, form)
            case _:
                return found

    return form_route(action.path, take_answer, largest=action.largest)


async def ask(
    page: ConsolePage,
    question: ActionQuestion,
    form: Form,
    fault: str = "",
    faults: Mapping[str, str] | None = None,
    *,
    status: int = 200,
) -> web.Response:
    """The page of a question.

    Args:
        form: the fields that the form shows.
        fault: what was wrong with the answer.
        faults: what was wrong with single fields, by name.
    """
    return await render(
        page,
        question.template,
        items=question.items,
        status=status,
        title=question.title,
        button=question.button,
        back=question.back,
        effects=question.effects,
        is_harmful=question.is_harmful,
        can_act=question.can_act,
        form=form if question.form is None else question.form,
        fault=fault,
        faults=faults or {},
        **question.values,
    )


def _faults_in(problem: Problem) -> dict[str, str]:
    """What a refusal says of single members of the body, by name."""
    return {
        str(each.args["name"]): each.detail or each.title
        for each in problem.violations
        if "name" in each.args
    }


def digest_of(wanted: Mapping[str, Any]) -> str:
    """A digest of what was tried, by which a form proves that it was not changed since.

    Args:
        wanted: JSON without secrets.
    """
    return hashlib.sha256(orjson.dumps(wanted, option=orjson.OPT_SORT_KEYS)).hexdigest()[:32]


def sentence(text: str, *values: Any) -> Markup:
    """A sentence with texts of others at its placeholders `{}`, isolated from its direction.

    Args:
        text: the sentence, which has no text of others.
    """
    isolated = Markup("<bdi>{}</bdi>")
    return Markup(text).format(*(isolated.format(str(each)[:300]) for each in values))
