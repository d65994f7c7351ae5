"""Who follows whom in a federation, how well, and where, from what catalogs tell. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from catalog.console.attention import LATE_SECONDS, SEVERITIES, Severity
from catalog.console.page import in_words
from catalog.operations.federation import FederatedCatalog, SharedLink
from catalog.operations.followers import Follower

_EVER = datetime.min.replace(tzinfo=UTC)
_STOPPED = {
    "unauthenticated": "not let in",
    "forbidden": "lacks a role",
    "refused": "stopped",
    "asking": "asks",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """What flows from a source to a target, by the link that brings or sends it.

    Args:
        severity: the gravity of a fault; `None` for a flow that is well.
        says: the state in a few words.
        teller: the authority of the catalog that tells of the link.
        link: the id of the link, if it is one of this node.
    """

    source: str
    target: str
    severity: Severity | None
    says: str
    lag: float | None
    teller: str
    link: str | None = None


def flows_in(
    catalogs: Iterable[FederatedCatalog], followers: Iterable[Follower] = ()
) -> list[Flow]:
    """The flows between catalogs, one of each pair.

    A catalog knows best how far it follows another one. Where it tells nothing, the other one's
    link that sends to it is shown, or what it has reported as a follower.
    """
    best: dict[tuple[str, str], tuple[int, Flow]] = {}
    own = ""
    for catalog in catalogs:
        own = catalog.authority if catalog.isown else own
        for link in catalog.links or ():
            brings = link.direction == "in"
            ends = (catalog.authority, link.authority)
            ends = ends[::-1] if brings else ends
            _offer(best, 0 if brings else 1, _flow(ends, link, catalog))
    # A follower that shows another credential than before has several reports.
    latest = sorted(followers, key=lambda each: each.seenat or _EVER, reverse=True)
    for follower in latest:
        if own and not follower.link:
            _offer(best, 2, _reported(own, follower))
    return [flow for _, flow in best.values()]


def _offer(best: dict[tuple[str, str], tuple[int, Flow]], rank: int, flow: Flow) -> None:
    held = best.setdefault((flow.source, flow.target), (rank, flow))
    if rank < held[0]:
        best[flow.source, flow.target] = (rank, flow)


def _flow(ends: tuple[str, str], link: SharedLink, catalog: FederatedCatalog) -> Flow:
    severity, says = _state(link)
    return Flow(
        source=ends[0],
        target=ends[1],
        severity=severity,
        says=says,
        lag=link.lag,
        teller=catalog.authority,
        link=link.id if catalog.isown else None,
    )


def _state(link: SharedLink) -> tuple[Severity | None, str]:
    """The gravity of the state of a link, and the state in a few words."""
    if link.state in _STOPPED:
        return "fault", _STOPPED[link.state]
    if link.state == "paused":
        return "note", "paused"
    if link.failures:
        return "fault", "fails"
    if link.conflicts:
        return "warning", f"{link.conflicts:,} conflict{'s' if link.conflicts > 1 else ''}"
    return _lagging(link.lag)


def _lagging(lag: float | None) -> tuple[Severity | None, str]:
    if lag is None:
        return "note", "not begun"
    is_late = lag > LATE_SECONDS
    return "warning" if is_late else None, f"{in_words(lag)} behind" if lag else "current"


def _reported(own: str, follower: Follower) -> Flow:
    severity, says = _lagging(follower.lag)
    return Flow(
        source=own,
        target=follower.authority,
        severity=severity,
        says=says,
        lag=follower.lag,
        teller=own,
    )


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
    """The links from one region to another region: the number, and the worst state of a link."""

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
    source: str, target: str, found: Sequence[Flow], centres: dict[str, tuple[float, float]]
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
