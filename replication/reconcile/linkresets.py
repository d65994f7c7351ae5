"""Resets of links that cannot be asked for single origins: they bring everything again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial

from catalog.client import Client
from catalog.operations.links import LinkReset
from replication.reconcile.catalogs import ReportedLink, SurveyedCatalog
from replication.reconcile.findings import SIGNATURE_FINDINGS, Findings
from replication.reconcile.topology import Places

_RESETTABLE = frozenset({"kafka", "push", "walk"})
_STATES = {
    "new": "is copying everything already",
    "copying": "is copying everything already",
    "asking": "stays: it asks whether it may delete much",
    "paused": "stays: it is paused",
}
"""The states in which a link is not reset."""


def spoilt_catalogs(findings: Findings) -> set[str]:
    """The catalogs that have unsigned or forged copies."""
    counts = findings.counts()
    return {name for finding in SIGNATURE_FINDINGS for name in counts.get(finding, ())}


def reset_links(
    catalog: SurveyedCatalog,
    authorities: Collection[str],
    catalogs: Sequence[SurveyedCatalog],
    spoilt: Collection[str],
    progress: Callable[[str], None],
) -> Iterator[str]:
    """Reset the links that bring authorities to a catalog; tell what became of each.

    A link is not reset while it copies anyway or waits for an operator, nor if its source is
    spoilt.

    Raises:
        ReconcileError: a catalog refuses, or can't be reached.
    """
    places = Places(catalogs)
    for reporter in catalogs:
        for link in reporter.links:
            target, source = places.target(link), places.source(link)
            if link.mode not in _RESETTABLE or target is None or catalogs[target] != catalog:
                continue
            given = None if source is None else catalogs[source]
            if not any(_brings(link, given, each) for each in authorities):
                continue
            place = f"{link.id} at {reporter.name}"
            if given is not None and given.name in spoilt:
                yield f"{place} stays: {given.name} has unsigned or forged copies"
                continue
            progress(f"resetting {place}")
            reset = partial(_reset, id=link.id, is_full=link.mode == "walk")
            yield f"{place} {reporter.remote.call(reset)}"


def _brings(link: ReportedLink, source: SurveyedCatalog | None, authority: str) -> bool:
    own = source.authority if source is not None else link.pinned
    return authority in (link.authorities or (own,)) or "*" in link.authorities


async def _reset(client: Client, *, id: str, is_full: bool) -> str:
    """Reset a link if that helps; say what becomes of it."""
    state = (await client.link(id)).state
    if (why_not := _STATES.get(state)) is not None:
        return why_not
    await client.reset_link(id, LinkReset(full=is_full))
    return "brings everything again"
