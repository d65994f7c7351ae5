"""Actions and their forms: each action has a page that says what will happen, and asks once.

GET shows the question and changes nothing. POST acts, and leads to the page that shows the result,
with a notice. What the node refuses is told beside the form, which keeps what was typed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import parse_qsl, quote, urlencode

import orjson
from aiohttp import web
from markupsafe import Markup
from multidict import MultiDict, MultiMapping

from catalog.client.errors import BadAnswer, Problem, Refused
from catalog.console.nodecalls import refusal_in_words
from catalog.console.page import (
    ConsolePage,
    Notice,
    bare_route,
    lead_to,
    open_page,
    page_route,
    render,
    roles_for,
)
from catalog.console.sessions import check_same_site
from catalog.http.body import read_body
from catalog.http.route import Route
from catalog.model.concorderrors import LimitExceeded, UnsupportedMediaType
from catalog.model.roles import Permission

LARGEST_FORM = 256 * 1024
_MOST_FIELDS = 1000
_URLENCODED = "application/x-www-form-urlencoded"

T = TypeVar("T")

Form = MultiMapping[str]
"""The fields of a form by name, in their order; a name may come several times."""

Take = Callable[[ConsolePage, Form], Awaitable[web.Response]]


def form_route(path: str, take: Take, *, largest: int = LARGEST_FORM) -> Route:
    """The route of a form that pages of this console send to a path.

    Args:
        path: the path with placeholders.
        take: answers the form, as the reader of the page.
        largest: the most bytes of the form as sent.
    """

    async def answer(request: web.Request) -> web.Response:
        form = await read_form(request, largest=largest)
        return await take(await open_page(request), form)

    answer.__name__ = take.__name__
    answer.__doc__ = take.__doc__
    # Each operation that the form calls has a time limit of its own, which may be longer.
    return bare_route("POST", path, answer, is_bounded=False)


async def read_form(request: web.Request, *, largest: int = LARGEST_FORM) -> Form:
    """Read a form of a page of this console; lines end with a line feed alone.

    Raises:
        OriginRefused: a page of another origin has sent the form.
        UnsupportedMediaType: the body is no form.
        LimitExceeded: the form has too many fields; and the errors of `read_body`.
    """
    check_same_site(request)
    if request.content_type != _URLENCODED:
        raise UnsupportedMediaType(
            request.path, contenttype=request.content_type, detail=f"A form is {_URLENCODED}."
        )
    body = await read_body(request, most=largest)
    if body.count(b"&") >= _MOST_FIELDS:
        raise LimitExceeded(
            request.path,
            limit=str(_MOST_FIELDS),
            things="fields in a form",
            setting="a fixed limit",
        )
    pairs = parse_qsl(body.decode("ascii", errors="replace"), keep_blank_values=True)
    return MultiDict((name, text.replace("\r\n", "\n")) for name, text in pairs)


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


def action(
    path: str, name: str, needs: Permission, ask: Ask, *, largest: int = LARGEST_FORM
) -> Callable[[Act], Action]:
    """Declare a function as what an action does; the parameters are those of `Action`."""
    return lambda act: Action(path=path, name=name, needs=needs, ask=ask, act=act, largest=largest)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionSubject(Generic[T]):
    """What actions are about, such as a link.

    Args:
        path: the page of the subject, with the placeholder `id`.
        needs: the permission for the actions.
        template: the template of the questions, which has the variable `subject`.
        read: reads the subject of a page.
        name_of: the name of a subject, as the questions tell it.
    """

    path: str
    needs: Permission
    template: str
    read: Callable[[ConsolePage], Awaitable[T]]
    name_of: Callable[[T], str]

    def page(self, id: str) -> str:
        """The page of a subject."""
        return self.path.format(id=id)

    def question(
        self,
        page: ConsolePage,
        subject: T,
        title: str,
        button: str,
        *effects: str,
        is_harmful: bool = False,
        can_act: bool = True,
        **values: Any,
    ) -> ActionQuestion:
        """A question about a subject; `title` has a placeholder for the name of the subject."""
        return ActionQuestion(
            title=sentence(title, self.name_of(subject)),
            button=button,
            back=self.page(page.request.match_info["id"]),
            effects=effects,
            is_harmful=is_harmful,
            can_act=can_act,
            template=self.template,
            values={"subject": subject, "fields": (), **values},
        )

    def action(
        self,
        path: str,
        name: str,
        title: str = "",
        *effects: str,
        button: str = "",
        ask: Ask | None = None,
        also: Callable[[ConsolePage], Awaitable[Mapping[str, Any]]] | None = None,
        is_harmful: bool = False,
        fields: Sequence[str] = (),
    ) -> Callable[[Act], Action]:
        """Declare a function as what an action does.

        Args:
            path: the last part of the path of the action's page.
            title, effects, button, is_harmful: see `question`; the button is the name by default.
            ask: makes the question, if it depends on the subject or the form.
            also: reads what else the template needs.
            fields: the fields that the form has.
        """

        async def ask_simply(page: ConsolePage, _: Form) -> ActionQuestion:
            values = {"fields": fields} if also is None else {**await also(page), "fields": fields}
            found, words = await self.read(page), button or name
            return self.question(
                page, found, title, words, *effects, is_harmful=is_harmful, **values
            )

        return action(f"{self.path}/{path}", name, self.needs, ask or ask_simply)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offers:
    """The actions of a page: names with addresses, and actions that need another role."""

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
            # A session that has ended leads to the log-in, as on every page.
            if error.problem.status == 401:
                raise
            question, fault = await action.ask(page, form), refusal_in_words(error)
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
        status=status,
        question=question,
        title=question.title,
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
