"""The copies of an entity: at its owner, in this catalog, and at the followers. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

from catalog.console.page import ENTITIES, in_words, short_authority
from catalog.operations.authoritycards import Card, KnownAuthority
from catalog.operations.federation import Freshness
from catalog.operations.followers import Arrival, Arrivals

_SAFE_IN_URL = "/:@~!$&'()*+,;="


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedCopy:
    """A copy at a catalog.

    Args:
        says: the state of the copy, in words.
        severity: the gravity of the state, or "ok".
        since: the time since which the state has been as it is.
        url: the page of the entity there.
    """

    authority: str
    name: str
    region: str
    contact: str
    says: str
    severity: str
    epoch: int | None = None
    since: datetime | None = None
    seenat: datetime | None = None
    url: str = ""
    is_owner: bool = False


def copies_of(
    owner: Freshness, arrivals: Arrivals, here: KnownAuthority, host: str
) -> list[PlacedCopy]:
    """The copies of an entity: the owner's first, those that are behind before the rest.

    Args:
        here: this catalog.
        host: the name of this catalog, where its card tells none.
    """
    found = [_original(owner, arrivals.epoch if owner.state == "own" else None, host)]
    if owner.state != "own":
        found.append(_here(owner, arrivals.epoch, here, host))
    return [
        *found,
        *(
            _arrived(each, owner)
            for each in arrivals.followers
            # The owner may follow this catalog for others' entities.
            if each.authority != owner.authority
        ),
    ]


def _original(owner: Freshness, epoch: int | None, host: str) -> PlacedCopy:
    card = owner.card or Card()
    return PlacedCopy(
        authority=owner.authority,
        name=card.name or (f"{host}, this catalog" if owner.state == "own" else ""),
        region=card.region,
        contact=card.contact,
        says="owns it",
        severity="ok",
        epoch=epoch,
        url=owner.editurl or "",
        is_owner=True,
    )


def _here(owner: Freshness, epoch: int | None, here: KnownAuthority, host: str) -> PlacedCopy:
    card, lag = here.card or Card(), owner.lag or 0.0
    states = {
        "current": ("ok", "copy, current"),
        "behind": ("warning", f"copy, {in_words(lag)} behind"),
        "unknown": ("note", "copy, and no link brings it"),
    }
    severity, says = states[owner.state]
    if owner.through is not None:
        says += f", through {short_authority(owner.through)}"
    return PlacedCopy(
        authority=here.authority,
        name=f"{card.name or host}, this catalog",
        region=card.region,
        contact=card.contact,
        says=says,
        severity=severity,
        epoch=epoch,
        seenat=owner.confirmedat,
    )


def _arrived(arrival: Arrival, owner: Freshness) -> PlacedCopy:
    card = arrival.card or Card()
    says, severity = {
        "arrived": ("has it", "ok"),
        "awaited": ("awaits it", "warning"),
        "unselected": ("does not ask for it", "note"),
    }[arrival.state]
    if arrival.state == "awaited" and arrival.epoch is None and arrival.since is not None:
        says = "lacks it, and waits"
    elif arrival.state == "awaited" and arrival.since is not None:
        says = "has an earlier one, and waits"
    path = quote(owner.of, safe=_SAFE_IN_URL)
    is_there = card.url and arrival.state == "arrived"
    return PlacedCopy(
        authority=arrival.authority,
        name=card.name,
        region=card.region,
        contact=card.contact,
        says=says,
        severity=severity,
        epoch=arrival.epoch,
        since=arrival.since,
        seenat=arrival.seenat,
        url=f"{card.url}{ENTITIES}{path}" if is_there else "",
    )
