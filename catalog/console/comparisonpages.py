"""The pages of comparisons: runs and their trend, findings by class and catalog, both sides of one.

A page shows at once what this node has and what the comparison has read. The other catalog is asked
for its present state by a further request, so that a catalog that is away delays no page.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from shlex import quote
from typing import get_args

from aiohttp import web

from catalog.console import actions
from catalog.console.page import ConsolePage, page_route, render, roles_for
from catalog.console.startpage import reports_for
from catalog.model.errors import NotFound
from catalog.model.masking import counted
from catalog.model.roles import Permission
from catalog.operations.peers import REPAIR, OriginName, WantedOrigins
from catalog.operations.reconciliations import (
    LIST_FINDINGS,
    MEANINGS,
    REPAIRABLE,
    SHOW_FINDING,
    FindingName,
    FindingQuery,
    FindingSides,
    FindingsQuery,
    Reconciliation,
    StoredFinding,
    StoredFindings,
)

_PATH = "/console/comparisons"
_FINDING = _PATH + "/{run}/{number}"
_SHOWN = 50
# In a command, in place of what is not known.
_URL = "URL"
_MOST_BARS = 40
# What a node fetches within the time of a request.
_MOST_FETCHED = 100
_NAMES: tuple[FindingName, ...] = get_args(FindingName)


async def show_comparisons(page: ConsolePage) -> web.Response:
    """A page about a comparison, else the latest: numbers by class and catalog, and the entities.

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
    found, following, fault = StoredFindings(findings=[], count=0), "", ""
    if report is not None:
        query, fault = _query_of(given)
        found, following = await page.node.page(LIST_FINDINGS, query, run=str(report.run))
    rivals = {each.rivalauthority for each in found.findings if each.rivalauthority}
    return await render(
        page,
        "comparisons.html",
        reports=reports,
        report=report,
        bars=_bars(reports),
        matrix=[] if report is None else _matrix(report),
        found=found,
        cards=await page.node.cards(sorted(rivals)),
        given=given,
        fault=fault,
        names=_NAMES,
        meanings=MEANINGS,
        next=following,
        offers=actions.offers(page, [fetch_all], {"finding": given["finding"]}, run=str(report.run))
        if report is not None and report.kept and REPAIRABLE & report.findings.keys()
        else None,
    )


def _query_of(given: dict[str, str]) -> tuple[FindingsQuery, str]:
    """The query of the filters of a page, and what is wrong with them."""
    members = {name: text for name, text in given.items() if text}
    try:
        return FindingsQuery.model_validate({**members, "limit": _SHOWN}), ""
    except ValueError:
        return FindingsQuery(limit=_SHOWN), "The filter is left out: a path is as /messagegroups/g."


def _bars(reports: Sequence[Reconciliation]) -> list[tuple[int, int]]:
    """The trend of differences, the oldest first: each number, and the height of its bar.

    The heights are in percent of the highest bar, and follow the logarithm of the numbers.
    """
    compared = [each for each in reports if each.outcome != "failed"][:_MOST_BARS]
    numbers = [sum(each.findings.values()) for each in reversed(compared)]
    most = max((number.bit_length() for number in numbers), default=0) or 1
    return [(number, 100 * number.bit_length() // most) for number in numbers]


def _matrix(report: Reconciliation) -> list[tuple[FindingName, list[int]]]:
    """The numbers of each class that was found, at each compared catalog."""
    compared = report.compared
    rows = [(name, [each.findings.get(name, 0) for each in compared]) for name in _NAMES]
    return [(name, numbers) for name, numbers in rows if any(numbers)]


async def show_comparison_finding(page: ConsolePage) -> web.Response:
    """A page about a difference: both catalogs' present entities, and what the operator can do."""
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
        meaning=MEANINGS[sides.finding.finding],
        is_asked="ask" in page.request.query,
        compared=compared,
        command=_command_for(sides, report),
        cards=await page.node.cards(
            sorted({sides.finding.authority, sides.finding.rivalauthority or ""} - {""})
        ),
        offers=actions.offers(
            page, [fetch_again], run=str(report.run), number=str(sides.finding.number)
        )
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
    """The command that may settle a finding; empty if a person has to decide."""
    if sides.finding.finding == "collided" and sides.reference is not None:
        # The link is known where it is one of this node.
        link = sides.reference.link if sides.copied.ishere else None
        return f"concord link set {link or 'LINK'} --prefix NAME-"
    if sides.finding.finding not in REPAIRABLE:
        return ""
    given = [f"--catalog {quote(f'{each.name}={each.url or _URL}')}" for each in report.compared]
    return f"concord reconcile {' '.join(given)} --repair"


async def _ask_fetch(page: ConsolePage, _: actions.Form) -> actions.ActionQuestion:
    at = page.request.match_info
    sides = await page.node.call(
        SHOW_FINDING, query=FindingQuery(ask=True), run=at["run"], number=at["number"]
    )
    return actions.ActionQuestion(
        title=actions.sentence("Fetch {} again?", sides.finding.origin),
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


@actions.action(f"{_FINDING}/repair", "Fetch it again", Permission.REPLICATE, _ask_fetch)
async def fetch_again(page: ConsolePage, _: actions.Form) -> actions.ActionResult:
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
        return actions.ActionResult(says=says, page=result, is_well=False)
    verdicts = ", ".join(done.verdicts)
    return actions.ActionResult(says=f"It was fetched again: {verdicts}.", page=result)


async def _ask_fetch_all(page: ConsolePage, form: actions.Form) -> actions.ActionQuestion:
    found, report = await _fetchable(page, form), await _report_of(page)
    return actions.ActionQuestion(
        title=f"Fetch {counted(len(found), 'entities')} again?",
        button="Fetch them again",
        back=f"{_PATH}/{report.run}",
        effects=(
            "The links of this node that may bring an entity are asked for it, its authority "
            "first. What they bring replaces the copy here, whatever its epoch.",
        )
        if found
        else ("No kept finding at this catalog is one that a fetch can settle.",),
        can_act=bool(found),
        template="fetchall.html",
        values={"found": found, "run": str(report.run), "most": _MOST_FETCHED},
    )


@actions.action(
    f"{_PATH}/{{run}}/repair", "Fetch what differs here again", Permission.REPLICATE, _ask_fetch_all
)
async def fetch_all(page: ConsolePage, form: actions.Form) -> actions.ActionResult:
    found, report = await _fetchable(page, form), await _report_of(page)
    wanted = [OriginName(authority=each.authority, origin=each.origin) for each in found]
    done = await page.node.call(REPAIR, WantedOrigins(origins=wanted))
    verdicts = [f"{number:,} {name}" for name, number in done.verdicts.items()]
    says = f"They were fetched again: {', '.join(verdicts) or 'none'}."
    if done.unresolved:
        first = done.unresolved[0]
        says += (
            f" {len(done.unresolved):,} were not: {first.origin}, as {first.reason}, is the first."
        )
    return actions.ActionResult(
        says=says, page=f"{_PATH}/{report.run}", is_well=not done.unresolved
    )


async def _fetchable(page: ConsolePage, form: actions.Form) -> list[StoredFinding]:
    """The first findings at this catalog that a fetch can settle, of one class if it is given."""
    report, wanted = await _report_of(page), form.get("finding", "")
    found: list[StoredFinding] = []
    query = FindingsQuery(catalog=report.name)
    async for part in page.node.call_pages(LIST_FINDINGS, query=query, run=str(report.run)):
        found += [
            each
            for each in part.findings
            if each.finding in REPAIRABLE and wanted in ("", each.finding)
        ]
        if len(found) >= _MOST_FETCHED:
            break
    return found[:_MOST_FETCHED]


async def _report_of(page: ConsolePage) -> Reconciliation:
    return _report_in(page, await reports_for(page))


comparison_routes = (
    page_route(_PATH, show_comparisons),
    page_route(_PATH + "/{run}", show_comparisons),
    # Before the page of a finding, whose path it has, too.
    *actions.action_routes(fetch_all, fetch_again),
    page_route(_FINDING, show_comparison_finding),
)
