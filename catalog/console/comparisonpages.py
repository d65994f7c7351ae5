"""The pages of comparisons: runs and their trend, findings by class and catalog, both sides of one.

A page shows at once what this node has and what the comparison has read. The other catalog is asked
for its present state by a further request, so that a catalog that is away delays no page.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from shlex import quote
from typing import get_args

from aiohttp import web

from catalog.console.actions import (
    Action,
    ActionQuestion,
    ActionResult,
    action_routes,
    offers,
    sentence,
)
from catalog.console.forms import Form
from catalog.console.overview import reports_for
from catalog.console.page import ConsolePage, page_route, render, roles_for
from catalog.model.errors import NotFound
from catalog.model.roles import Permission
from catalog.operations.peers import REPAIR, OriginName, WantedOrigins
from catalog.operations.reconciliations import (
    LIST_FINDINGS,
    REPAIRABLE,
    SHOW_FINDING,
    FindingName,
    FindingQuery,
    FindingSides,
    FindingsQuery,
    Reconciliation,
    StoredFindings,
)

_PATH = "/console/comparisons"
_FINDING = _PATH + "/{run}/{number}"
_SHOWN = 50
# In a command, in place of what is not known.
_URL = "URL"
_MOST_BARS = 40
_NAMES: tuple[FindingName, ...] = get_args(FindingName)
_MEANINGS: dict[FindingName, str] = {
    "missing": "A link should have brought the entity, and the catalog does not have it.",
    "stale": "The copy is older than the original, or its authority has deleted it.",
    "ahead": "The copy is newer than at its authority, which may have lost data.",
    "orphaned": "Its authority has neither the entity nor a tombstone.",
    "diverged": "The epochs are equal, and the contents differ.",
    "collided": "An entity of another authority has its path at the catalog.",
    "unsigned": "The copy has no signature, and its authority signs everything.",
    "forged": "The signature is false, or of a key that does not count.",
    "damaged": "The content is not that of the digest that the catalog has stored.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendBar:
    """A comparison in the trend, with the height of its bar in percent of the highest one."""

    report: Reconciliation
    differences: int
    height: int


async def show_comparisons(page: ConsolePage) -> web.Response:
    """The latest comparison, or another one: what differs by class and catalog, and which entities.

    Raises:
        NotFound: the node was not told of the comparison.
    """
    wanted = page.request.match_info.get("run")
    if not page.may_everywhere(Permission.REPLICATE):
        role = roles_for(Permission.REPLICATE)
        return await render(page, "comparisons.html", reports=None, role=role)
    reports = sorted(await reports_for(page), key=lambda each: each.endedat, reverse=True)
    report = next((each for each in reports if wanted in (None, str(each.run))), None)
    if report is None and wanted is not None:
        raise NotFound(page.request.path)
    asked = page.request.query
    given = {name: asked.get(name, "")[:1000] for name in ("finding", "catalog", "path", "after")}
    found, fault = StoredFindings(findings=[], count=0), ""
    if report is not None:
        query, fault = _query_of(given)
        found = await page.node.call(LIST_FINDINGS, query=query, run=str(report.run))
    return await render(
        page,
        "comparisons.html",
        items=len(found.findings) + len(reports),
        reports=reports,
        report=report,
        bars=_bars(reports),
        matrix=[] if report is None else _matrix(report),
        found=found,
        given=given,
        fault=fault,
        names=_NAMES,
        meanings=_MEANINGS,
        next=found.findings[-1].number if len(found.findings) == _SHOWN else "",
    )


def _query_of(given: dict[str, str]) -> tuple[FindingsQuery, str]:
    """The query of the filters of a page, and what is wrong with them."""
    members = {name: text for name, text in given.items() if text}
    try:
        return FindingsQuery.model_validate({**members, "limit": _SHOWN}), ""
    except ValueError:
        return FindingsQuery(limit=_SHOWN), "The filter is left out: a path is as /messagegroups/g."


def _bars(reports: Sequence[Reconciliation]) -> list[TrendBar]:
    """The trend of differences, the oldest first; heights follow the logarithm of the numbers."""
    compared = [each for each in reports if each.outcome != "failed"][:_MOST_BARS]
    numbers = [sum(each.findings.values()) for each in compared]
    most = max((number.bit_length() for number in numbers), default=0)
    return [
        TrendBar(
            report=each,
            differences=number,
            height=100 * number.bit_length() // most if most else 0,
        )
        for each, number in zip(reversed(compared), reversed(numbers), strict=True)
    ]


def _matrix(report: Reconciliation) -> list[tuple[FindingName, list[int]]]:
    """The numbers of each class that was found, at each compared catalog."""
    compared = report.compared
    rows = [(name, [each.findings.get(name, 0) for each in compared]) for name in _NAMES]
    return [(name, numbers) for name, numbers in rows if any(numbers)]


async def show_comparison_finding(page: ConsolePage) -> web.Response:
    """A difference with both sides as they are now, and what settles it."""
    sides, reports = await asyncio.gather(_sides_of(page), reports_for(page))
    report = _report_in(page, reports)
    compared = {each.name: each for each in report.compared}
    return await render(
        page,
        "finding.html",
        report=report,
        run=str(report.run),
        sides=sides,
        finding=sides.finding,
        meaning=_MEANINGS[sides.finding.finding],
        is_asked="ask" in page.request.query,
        compared=compared,
        command=_command_for(sides, report),
        offers=offers(page, [FETCH_AGAIN], **page.request.match_info)
        if sides.isrepairable and not sides.isequal
        else None,
    )


async def _sides_of(page: ConsolePage) -> FindingSides:
    at = page.request.match_info
    query = FindingQuery(ask="ask" in page.request.query)
    return await page.node.call(SHOW_FINDING, query=query, run=at["run"], number=at["number"])


def _report_in(page: ConsolePage, reports: Sequence[Reconciliation]) -> Reconciliation:
    for each in reports:
        if str(each.run) == page.request.match_info["run"]:
            return each
    raise NotFound(page.request.path)


def _command_for(sides: FindingSides, report: Reconciliation) -> str:
    """The command that may settle a finding, which this node alone cannot."""
    if sides.finding.finding not in REPAIRABLE:
        return ""
    given = [f"--catalog {quote(f'{each.name}={each.url or _URL}')}" for each in report.compared]
    return f"concord reconcile {' '.join(given)} --repair"


async def _ask_fetch(page: ConsolePage, _: Form) -> ActionQuestion:
    at = page.request.match_info
    sides = await page.node.call(
        SHOW_FINDING, query=FindingQuery(ask=True), run=at["run"], number=at["number"]
    )
    return ActionQuestion(
        title=sentence("Fetch {} again?", sides.finding.origin),
        button="Fetch it again",
        back=_FINDING.format(**at),
        effects=(
            "The links of this node that may bring the entity are asked for it, its authority "
            "first. What they bring replaces the copy here, whatever its epoch.",
            "Nothing changes at other catalogs but what follows from the copy here.",
        ),
        template="fetchagain.html",
        values={"sides": sides, "finding": sides.finding},
    )


async def _fetch_again(page: ConsolePage, _: Form) -> ActionResult:
    at = page.request.match_info
    sides = await page.node.call(
        SHOW_FINDING, query=FindingQuery(), run=at["run"], number=at["number"]
    )
    finding = sides.finding
    wanted = OriginName(authority=finding.authority, origin=finding.origin)
    done = await page.node.call(REPAIR, WantedOrigins(origins=[wanted]))
    result = _FINDING.format(**at)
    if done.unresolved:
        says = f"It could not be repaired: {done.unresolved[0].reason}."
        return ActionResult(says=says, page=result, is_well=False)
    verdicts = ", ".join(done.verdicts)
    return ActionResult(says=f"It was fetched again: {verdicts}.", page=result)


FETCH_AGAIN = Action(
    path=f"{_FINDING}/repair",
    name="Fetch it again",
    needs=Permission.REPLICATE,
    ask=_ask_fetch,
    act=_fetch_again,
)

comparison_routes = (
    page_route(_PATH, show_comparisons),
    page_route(_PATH + "/{run}", show_comparisons),
    page_route(_FINDING, show_comparison_finding),
    *action_routes(FETCH_AGAIN),
)
