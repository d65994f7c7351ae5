"""The causes of differences, as the links that should bring the entities tell them.

A link that is paused, stopped or behind explains why a catalog lacks changes, and what its operator
can do about it. The differences stay differences: the catalogs do not agree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from catalog.operations.reconciliations import FindingName
from replication.reconcile.catalogs import ReportedLink, SurveyedCatalog
from replication.reconcile.findings import Findings
from replication.reconcile.topology import Places

_STOPPED = frozenset({"waiting", "unauthenticated", "forbidden", "refused"})
_SHOW = "concord link show {id} --url {url}"
_COMMANDS = {
    "paused": "concord link resume {id} --url {url}",
    "asking": "concord link allow {id} --url {url}",
    **dict.fromkeys(_STOPPED, _SHOW),
}

COMMANDS: Mapping[FindingName, str] = {
    "ahead": "concord recover --from {url} --url {owner}",
    "orphaned": "concord link reset {link} --full --url {url}",
    "collided": "concord link set {link} --prefix NAME- --url {url}",
}
"""The command for a finding that no repair settles; a person decides whether it is right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """The state of a link that explains differences of an authority's entities at a catalog.

    Args:
        differences: the number of repairable differences at the catalog.
        text: the state of the link, as a sentence.
        command: the command that shows or changes the state.
    """

    catalog: str
    authority: str
    differences: int
    text: str
    command: str


def find_causes(findings: Findings, catalogs: Sequence[SurveyedCatalog]) -> tuple[Cause, ...]:
    """Find the links that are to bring entities which differ, and are not current."""
    places = Places(catalogs)
    return tuple(
        Cause(
            catalog=name,
            authority=authority,
            differences=number,
            text=text,
            command=_COMMANDS.get(link.state, _SHOW).format(id=link.id, url=url),
        )
        for name, by_authority in findings.authorities().items()
        for authority, number in by_authority.items()
        for url, link in bringing(name, authority, places)
        if (text := _text(link))
    )


def commands_for(
    finding: FindingName, catalog: str, authority: str, catalogs: Sequence[SurveyedCatalog]
) -> list[str]:
    """The commands that may settle a finding at a catalog, for a person to choose from."""
    if finding not in COMMANDS:
        return []
    places = Places(catalogs)
    [here] = [each for each in catalogs if each.name == catalog]
    owners = [each.input.url for each in catalogs if each.authority == authority]
    if finding == "ahead":
        return [COMMANDS[finding].format(url=here.input.url, owner=owners[0] if owners else "URL")]
    return [
        COMMANDS[finding].format(url=url, link=link.id)
        for url, link in bringing(catalog, authority, places)
    ]


def bringing(catalog: str, authority: str, places: Places) -> list[tuple[str, ReportedLink]]:
    """The links that are to bring an authority's entities to a catalog, with the URLs of nodes."""
    found = []
    for reporter in places.catalogs:
        for link in reporter.links:
            target, source = places.target(link), places.source(link)
            if target is None or places.catalogs[target].name != catalog:
                continue
            if link.brings(authority, None if source is None else places.catalogs[source]):
                found.append((reporter.input.url, link))
    return found


def _text(link: ReportedLink) -> str:
    """The state of a link that is not current, as a sentence; "" for a current link."""
    current = f", current last at {link.currentat}" if link.currentat else ", never yet current"
    reason = f": {link.reason.rstrip('.')}" if link.reason else ""
    match link.state:
        case "paused" | "asking":
            return f"Link {link.id} is {link.state}{link.since}{current}{reason}."
        case "new" | "copying" | "behind":
            return f"Link {link.id} is {link.state}{current}."
        case state if state in _STOPPED:
            return f"Link {link.id} is {state}{link.since}{current}{reason}."
    if link.conflicts:
        return f"Link {link.id} has conflicts about {link.conflicts:,} entities."
    return ""
