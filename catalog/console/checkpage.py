"""The page that checks a message: its definition is found, and violations stand at their lines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import orjson
from aiohttp import web

from catalog.client.errors import BadAnswer, Refused
from catalog.console.actions import Form, form_route
from catalog.console.nodecalls import refusal_in_words
from catalog.console.page import ConsolePage, json_text, page_route, render
from catalog.load.workthread import aside
from catalog.messages.textlines import find_lines
from catalog.model.roles import Permission
from catalog.operations.validate import VALIDATE, ValidationAnswer, ViolationAnswer

_PATH = "/console/check"
_LARGEST = 2 * 1024 * 1024
# A page of more lines is of no use to its reader: lines far from each violation are left out.
_MOST_LINES = 1000
_AROUND = 5


@dataclass(frozen=True, slots=True)
class CheckedLine:
    """A line of a message with its violations; the number 0 stands for lines that are left out."""

    number: int
    text: str
    violations: Sequence[ViolationAnswer] = ()


async def show_check(page: ConsolePage) -> web.Response:
    """The form for a message."""
    page.demand(Permission.READ)
    return await _shown(page, message="", type=page.request.query.get("type", "")[:2048])


async def check_message(page: ConsolePage, form: Form) -> web.Response:
    """Check the message of the form, and show the verdict; nothing is written."""
    message, type = form.get("message", ""), form.get("type", "").strip()
    if not message.strip():
        return await _shown(page, message, type, fault="Paste a message first.", status=400)
    try:
        given = {"type": type} if type else {}
        answer = await page.node.request(
            "POST",
            VALIDATE.path,
            params=given,
            body=message.encode(errors="replace"),
            headers={"Content-Type": "application/json"},
        )
    except Refused as error:
        if error.problem.status == 401:
            raise
        fault = refusal_in_words(error)
        if not type and '"specversion"' not in message:
            fault += " If it is only the data of an event, give the type of the event below."
        return await _shown(page, message, type, fault=fault, status=error.problem.status)
    except BadAnswer as error:
        return await _shown(page, message, type, fault=error.message, status=502)
    found = ValidationAnswer.model_validate_json(answer.body)
    lines = await aside(0, _lines_of, message, found.violations)
    return await _shown(page, message, type, found=found, lines=lines)


async def _shown(
    page: ConsolePage,
    message: str,
    type: str,
    *,
    fault: str = "",
    status: int = 200,
    found: ValidationAnswer | None = None,
    lines: Sequence[CheckedLine] = (),
) -> web.Response:
    return await render(
        page,
        "check.html",
        status=status,
        message=message,
        type=type,
        fault=fault,
        found=found,
        lines=lines,
        largest=_LARGEST // 4,
    )


def _lines_of(message: str, violations: Sequence[ViolationAnswer]) -> list[CheckedLine]:
    """The lines of a message, each with its violations; JSON in one line is broken up."""
    at = defaultdict(list)
    text = _broken_up(message.strip("\n"))
    places = {} if text is None else find_lines(text, {each.pointer for each in violations})
    for each in violations:
        at[places.get(each.pointer, each.line) or 1].append(each)
    texts = (message if text is None else text).split("\n")
    near = {number for line in at for number in range(line - _AROUND, line + _AROUND + 1)}
    found: list[CheckedLine] = []
    for number, line in enumerate(texts, 1):
        if len(texts) <= _MOST_LINES or number in near:
            found.append(CheckedLine(number, line, at.get(number, ())))
        elif not found or found[-1].number:
            found.append(CheckedLine(0, "…"))
        if len(found) >= 2 * _MOST_LINES:
            break
    return found


def _broken_up(message: str) -> str | None:
    """JSON in one line as JSON in many; `None` for a message with lines of its own, or no JSON."""
    if "\n" in message:
        return None
    try:
        return json_text(orjson.loads(message))
    except ValueError:
        return None


check_routes = (page_route(_PATH, show_check), form_route(_PATH, check_message, largest=_LARGEST))
