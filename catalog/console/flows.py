"""Who follows whom in a federation, and how well: from the links that catalogs tell. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from catalog.console.attention import LATE_SECONDS, Severity
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
