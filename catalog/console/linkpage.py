"""The page of a link: its state, its figures over time, and both sides of its conflicts."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, Literal

from aiohttp import web

from catalog.console.attention import row_of_link
from catalog.console.linkactions import link_offers
from catalog.console.page import ConsolePage, in_words, json_text, render, roles_for
from catalog.model.roles import Permission
from catalog.operations import links
from catalog.operations.linkfigures import READ_LINK_FIGURES, FiguresQuery, LinkFigure

_CONFLICTS_SHOWN = 25
_SPANS: dict[Literal["minute", "hour"], tuple[timedelta, timedelta]] = {
    "minute": (timedelta(days=1), timedelta(minutes=3)),
    "hour": (timedelta(days=30), timedelta(hours=2)),
}


async def show_link(page: ConsolePage) -> web.Response:
    """A link: its state in words, its figures over time, both sides of its conflicts, its past."""
    id = page.request.match_info["id"]
    after = page.request.query.get("after", "")[:4096]
    step: Literal["minute", "hour"] = "hour" if "month" in page.request.query else "minute"
    link, figures = await asyncio.gather(
        page.node.call(links.GET_LINK, id=id),
        page.node.call(READ_LINK_FIGURES, query=FiguresQuery(step=step), id=id),
    )
    conflicts, following = [], ""
    if link.conflicts and page.may_everywhere(Permission.ADMINISTER):
        query = links.ConflictQuery(limit=_CONFLICTS_SHOWN, after=after)
        found, following = await page.node.page(links.LIST_CONFLICTS, query, id=id)
        conflicts = found.conflicts
    sides = [side for each in conflicts for side in (each.refused, each.held) if side is not None]
    named = {link.authority, *(side.authority for side in sides)} - {None}
    return await render(
        page,
        "link.html",
        row=row_of_link(link),
        link=link,
        cards=await page.node.cards(sorted(str(each) for each in named)),
        plots=[] if not figures.figures else _plots(figures.figures, step),
        step=step,
        conflicts=[sides_of(each) for each in conflicts],
        offers=link_offers(page, link),
        admins=roles_for(Permission.ADMINISTER),
        next=following,
    )


def _plots(figures: Sequence[LinkFigure], step: Literal["minute", "hour"]) -> list[Plot]:
    span, gap = _SPANS[step]
    end = datetime.now(UTC)

    def drawn(title: str, values: Iterable[float | None], words: Any) -> Plot:
        points = [
            Point(at=figure.at, value=value) for figure, value in zip(figures, values, strict=True)
        ]
        return plot(title, points, words, end=end, span=span, gap=gap)

    shown = [
        drawn("Lag", (each.lag for each in figures), _lag_in_words),
        drawn("Copies a second", (each.rate for each in figures), _rate_in_words),
    ]
    often = "a minute" if step == "minute" else "an hour"
    numbers = (each.errors for each in figures)
    errors = drawn(f"Errors {often}", numbers, lambda value: f"{value:,.0f}")
    return [*shown, *([errors] if errors.has_values else [])]


def _lag_in_words(value: float) -> str:
    return "none" if value == 0 else in_words(value)


def _rate_in_words(value: float) -> str:
    return "none" if value == 0 else f"{value:,.1f}" if value >= 0.1 else "under 0.1"


_MOST_ATTRIBUTES = 100
_MOST_LINES = 2000
_MOST_DIFFERENCES = 200
_LONGEST_VALUE = 2000
_KINDS = {"+": "added", "-": "removed", "@": "place"}


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeSides:
    """An attribute at both sides; "" for a side that lacks it."""

    name: str
    refused: str
    held: str

    @property
    def differs(self) -> bool:
        return self.refused != self.held


@dataclass(frozen=True, slots=True, kw_only=True)
class ConflictSides:
    """A conflict, and how its sides differ.

    Args:
        attributes: the attributes of both sides, those that differ first.
        lines: the lines in which the documents differ, each with the name of its kind: `removed`
            is here, `added` is in the refused copy.
    """

    conflict: links.CopyConflict
    attributes: Sequence[AttributeSides]
    lines: Sequence[tuple[str, str]]


def sides_of(conflict: links.CopyConflict) -> ConflictSides:
    """Compare the sides of a conflict."""
    refused, held = conflict.refused, conflict.held
    attributes = list(islice(_attributes(refused, held), _MOST_ATTRIBUTES))
    return ConflictSides(
        conflict=conflict,
        attributes=sorted(attributes, key=lambda each: not each.differs),
        lines=_lines(refused, held),
    )


def _attributes(
    refused: links.ConflictSide | None, held: links.ConflictSide | None
) -> Iterator[AttributeSides]:
    one, other = (side.attributes or {} if side else {} for side in (refused, held))
    for name in sorted({*one, *other}):
        yield AttributeSides(name=name, refused=_text(one, name), held=_text(other, name))


def _text(attributes: dict[str, Any], name: str) -> str:
    if name not in attributes:
        return ""
    value = attributes[name]
    if isinstance(value, str):
        return value[:_LONGEST_VALUE] or '""'
    return json_text(value)[:_LONGEST_VALUE]


def _lines(
    refused: links.ConflictSide | None, held: links.ConflictSide | None
) -> list[tuple[str, str]]:
    if refused is None or held is None or refused.document == held.document:
        return []
    here, there = (
        [*islice((side.document or "").splitlines(), _MOST_LINES)] for side in (held, refused)
    )
    found = islice(difflib.unified_diff(here, there, lineterm="", n=2), 2, _MOST_DIFFERENCES)
    return [(_KINDS.get(line[:1], "same"), line) for line in found]


_WIDTH, _HEIGHT = 1000.0, 100.0
# Room above the highest value, so that its line is not cut.
_ROOM = 6.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A value at a time; `None` stands for no value."""

    at: datetime
    value: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """A plot of one figure.

    Args:
        title: the name of the figure.
        line: the path of the line in a box of 1,000 by 100; empty without values.
        area: the path of the area below the line.
        most: the highest value, in words.
        now: the last value, in words.
        begin: the time at the left edge.
        end: the time at the right edge.
        has_values: whether a value is other than 0.
    """

    title: str
    line: str
    area: str
    most: str
    now: str
    begin: datetime
    end: datetime
    has_values: bool

    @property
    def text(self) -> str:
        """The plot in words, for those who do not see it."""
        return f"{self.title}: at most {self.most}, at the end {self.now}"


def plot(
    title: str,
    points: Sequence[Point],
    in_words: Callable[[float], str],
    *,
    end: datetime,
    span: timedelta,
    gap: timedelta,
) -> Plot:
    """Plot the points of a time.

    Args:
        in_words: tells a value with its unit.
        end: the time at the right edge.
        span: the time from the left edge to the right edge.
        gap: the line is broken where two points are further apart.
    """
    begin = end - span
    shown = [point for point in points if point.at >= begin]
    values = [point.value for point in shown if point.value is not None]
    top = max(values, default=0.0) or 1.0
    lines, areas = [], []
    for run in _runs(shown, gap):
        places = [_place(point, begin, span, top) for point in run]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        lines.append(f"M{path}" if len(places) > 1 else f"M{path} h1")
        areas.append(f"M{places[0][0]:.1f},{_HEIGHT} L{path} V{_HEIGHT} Z")
    return Plot(
        title=title,
        line=" ".join(lines),
        area=" ".join(areas),
        most=in_words(max(values, default=0.0)),
        now=in_words(values[-1]) if values and shown[-1].value is not None else "unknown",
        begin=begin,
        end=end,
        has_values=any(values),
    )


def _runs(points: Sequence[Point], gap: timedelta) -> list[list[Point]]:
    """The points with values, apart where a value is missing or points are too far apart."""
    runs: list[list[Point]] = []
    before: Point | None = None
    for point in points:
        if point.value is not None:
            is_apart = before is None or before.value is None or point.at - before.at > gap
            if is_apart:
                runs.append([])
            runs[-1].append(point)
        before = point
    return runs


def _place(point: Point, begin: datetime, span: timedelta, top: float) -> tuple[float, float]:
    assert point.value is not None, "only points with values are drawn"
    x = (point.at - begin) / span * _WIDTH
    return x, _HEIGHT - point.value / top * (_HEIGHT - _ROOM)
