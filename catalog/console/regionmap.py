"""A map of regions: where the catalogs of a federation are, and what flows between them. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from catalog.console.attention import SEVERITIES, Severity
from catalog.console.flows import Flow

NOWHERE = "no region told"
_WIDTH, _HEIGHT = 960, 460
_BOX_WIDTH, _BOX_HEIGHT = 148, 58
_MARGIN = 8
_MOST_REGIONS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """A region on the map: `x` and `y` are the centre of its box."""

    name: str
    x: float
    y: float
    catalogs: Sequence[str]
    severity: Severity | None

    @property
    def left(self) -> float:
        return self.x - _BOX_WIDTH / 2

    @property
    def top(self) -> float:
        return self.y - _BOX_HEIGHT / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """What flows from one region to another: the number of links, and their worst state."""

    source: str
    target: str
    number: int
    severity: Severity | None
    path: str
    label_x: float
    label_y: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionMap:
    """The regions on a map, and the streams between them.

    Args:
        within: the number of links within each region.
        more: the number of regions that are left out.
        top: the top of the drawing, below 0 where an arc leads above the regions.
    """

    regions: Sequence[Region]
    streams: Sequence[Stream]
    within: dict[str, int]
    more: int
    width: int = _WIDTH
    top: float = 0.0
    height: float = _HEIGHT
    box_width: int = _BOX_WIDTH
    box_height: int = _BOX_HEIGHT


def draw_map(places: dict[str, str], names: dict[str, str], flows: Iterable[Flow]) -> RegionMap:
    """Draw the regions on an ellipse, the largest first.

    Args:
        places: the region of each authority; "" for an authority that tells none.
        names: the name of each authority.
    """
    members: dict[str, list[str]] = defaultdict(list)
    for authority, region in places.items():
        members[region or NOWHERE].append(names[authority])
    ordered = sorted(members, key=lambda name: (name == NOWHERE, -len(members[name]), name))
    shown = sorted(ordered[:_MOST_REGIONS], key=lambda name: (name == NOWHERE, name))
    centres = dict(zip(shown, _centres(len(shown)), strict=True))
    lowest = max((y for _, y in centres.values()), default=0.0)
    between: dict[tuple[str, str], list[Flow]] = defaultdict(list)
    for flow in flows:
        source = places.get(flow.source, "") or NOWHERE
        target = places.get(flow.target, "") or NOWHERE
        between[source, target].append(flow)
    worst: dict[str, Severity | None] = {}
    for (_, target), found in between.items():
        worst[target] = _worst([worst.get(target), *(flow.severity for flow in found)])
    # The worst streams are drawn last, above the others.
    streams = sorted(
        (
            _stream(source, target, found, centres)
            for (source, target), found in sorted(between.items())
            if source != target and source in centres and target in centres
        ),
        key=lambda stream: -SEVERITIES.index(stream.severity),
    )
    top = min([0.0, *(stream.label_y - _MARGIN for stream in streams)])
    bottom = max([lowest + _BOX_HEIGHT / 2, *(stream.label_y for stream in streams)]) + _MARGIN
    return RegionMap(
        regions=[
            Region(
                name=name,
                x=centres[name][0],
                y=centres[name][1],
                catalogs=sorted(members[name]),
                severity=worst.get(name),
            )
            for name in shown
        ],
        streams=streams,
        within={
            source: len(found) for (source, target), found in between.items() if source == target
        },
        more=len(ordered) - len(shown),
        top=top,
        height=bottom - top,
    )


def _centres(number: int) -> list[tuple[float, float]]:
    """Places on an ellipse, from the top on clockwise; a single one is in the middle."""
    middle = (_WIDTH / 2, _HEIGHT / 2)
    if number == 1:
        return [(middle[0], _BOX_HEIGHT / 2 + _MARGIN)]
    # Two regions are beside each other, as texts are wide.
    turn = math.pi if number == 2 else -math.pi / 2
    wide = (_WIDTH - _BOX_WIDTH) / 2 - _MARGIN
    high = 60 if number == 2 else (_HEIGHT - _BOX_HEIGHT) / 2 - _MARGIN
    middle = (middle[0], high + _BOX_HEIGHT / 2 + _MARGIN)
    angles = [turn + 2 * math.pi * each / number for each in range(number)]
    return [
        (middle[0] + wide * math.cos(angle), middle[1] + high * math.sin(angle)) for angle in angles
    ]


def _stream(
    source: str,
    target: str,
    found: Sequence[Flow],
    centres: dict[str, tuple[float, float]],
) -> Stream:
    """An arc from region to region, bent to its right, so that both directions are seen."""
    (x1, y1), (x2, y2) = centres[source], centres[target]
    length = math.hypot(x2 - x1, y2 - y1) or 1.0
    across_x, across_y = -(y2 - y1) / length, (x2 - x1) / length
    bend = 0.12 * length
    mid_x = (x1 + x2) / 2 + across_x * bend
    mid_y = (y1 + y2) / 2 + across_y * bend
    begin, end = _edge((x1, y1), (mid_x, mid_y)), _edge((x2, y2), (mid_x, mid_y))
    return Stream(
        source=source,
        target=target,
        number=len(found),
        severity=_worst(flow.severity for flow in found),
        path=f"M{begin[0]:.0f},{begin[1]:.0f} Q{mid_x:.0f},{mid_y:.0f} {end[0]:.0f},{end[1]:.0f}",
        label_x=(begin[0] + 2 * mid_x + end[0]) / 4,
        label_y=(begin[1] + 2 * mid_y + end[1]) / 4,
    )


def _edge(centre: tuple[float, float], towards: tuple[float, float]) -> tuple[float, float]:
    """Where a line from the centre of a box towards a point leaves the box, with some room."""
    across, down = towards[0] - centre[0], towards[1] - centre[1]
    wide, high = _BOX_WIDTH / 2 + 7, _BOX_HEIGHT / 2 + 7
    share = min(
        wide / abs(across) if across else math.inf, high / abs(down) if down else math.inf, 1.0
    )
    return centre[0] + across * share, centre[1] + down * share


def _worst(found: Iterable[Severity | None]) -> Severity | None:
    return min(found, key=SEVERITIES.index, default=None)
