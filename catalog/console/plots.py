"""Plots of figures over time, as paths of SVG that fill the width of the page. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

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
