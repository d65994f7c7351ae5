"""Repair: ask each catalog to fetch origins again from the sources of its links.

Links that cannot fetch single origins (topics, pushes, walks) are reset, which brings every entity
of the link again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby, islice

from catalog.client import Client
from catalog.model.entity import Origin
from catalog.operations.links import LinkReset
from catalog.operations.peers import MOST_ORIGINS, Repairs, UnresolvedOrigin, WantedOrigins
from replication.reconcile.catalogs import SurveyedCatalog
from replication.reconcile.findings import COPY_FINDINGS, Findings
from replication.reconcile.repairplan import in_order, planned
from replication.reconcile.topology import Places, Topology

MOST_UNRESOLVED = 20
MOST_AT_ONCE = MOST_ORIGINS


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairOutcome:
    """The answers of one catalog to the requests to fetch origins again.

    `verdicts` are the numbers of origins by verdict. `unresolved` are the first
    `MOST_UNRESOLVED` origins that no source could deliver, with reasons. `withheld` origins were
    not requested, because a source has unsigned, forged or damaged copies of them. `resets` says
    of each link that could bring unresolved origins whether the link was reset, or why not.
    """

    catalog: str
    requested: int = 0
    verdicts: Mapping[str, int] = field(default_factory=dict)
    unresolved: tuple[str, ...] = ()
    withheld: int = 0
    resets: tuple[str, ...] = ()

    def plus(self, requested: int, repairs: Repairs) -> RepairOutcome:
        """The outcome with the answer to a further request."""
        counts = Counter(self.verdicts) + Counter(repairs.verdicts)
        unresolved = map(_text, repairs.unresolved)
        return replace(
            self,
            requested=self.requested + requested,
            verdicts=dict(sorted(counts.items())),
            unresolved=(*self.unresolved, *unresolved)[:MOST_UNRESOLVED],
        )


_RESETTABLE = frozenset({"kafka", "push", "walk"})
_STATES = {
    "new": "is copying everything already",
    "copying": "is copying everything already",
    "asking": "stays: it asks whether it may delete much",
    "paused": "stays: it is paused",
}
"""The states in which a link is not reset, with the reasons."""


def repair(
    findings: Findings,
    topology: Topology,
    catalogs: Sequence[SurveyedCatalog],
    shrunk: Collection[str],
    progress: Callable[[str], None],
) -> tuple[RepairOutcome, ...]:
    """Execute the plan of the repair, and reset links that cannot fetch single entities.

    Args:
        shrunk: see `planned`.

    Raises:
        ReconcileError: a catalog refuses a request, or can't be reached; earlier repairs stay.
    """
    outcomes = {catalog.name: RepairOutcome(catalog=catalog.name) for catalog in catalogs}
    missed: dict[str, set[str]] = {catalog.name: set() for catalog in catalogs}
    nodes = {catalog.name: catalog.node for catalog in catalogs if catalog.node is not None}
    actions = planned(findings, topology, catalogs, shrunk, progress)
    for name, of_catalog in groupby(actions, key=lambda each: each.catalog):
        while batch := [each.key for each in islice(of_catalog, MOST_AT_ONCE)]:
            progress(f"{name} fetches {len(batch)} origins again")
            repairs = nodes[name].call(partial(fetch_again, origins=batch))
            missed[name] |= {each.authority for each in repairs.unresolved}
            outcomes[name] = outcomes[name].plus(len(batch), repairs)
    for position, authorities in in_order(findings, topology):
        name, sources = topology.names[position], topology.sources[position]
        if name in nodes and not {*shrunk} & {*sources}:
            withheld = outcomes[name].withheld + findings.withheld(name, authorities, sources)
            outcomes[name] = replace(outcomes[name], withheld=withheld)
    suspects = {
        **dict.fromkeys(_spoilt_catalogs(findings), "has unsigned, forged or damaged copies"),
        **dict.fromkeys(shrunk, "has far fewer entities than before"),
    }
    for catalog in catalogs:
        resets = _reset_links(catalog, missed[catalog.name], catalogs, suspects, progress)
        outcomes[catalog.name] = replace(outcomes[catalog.name], resets=tuple(resets))
    return tuple(one for one in outcomes.values() if one.requested or one.withheld)


async def fetch_again(client: Client, *, origins: Sequence[Origin]) -> Repairs:
    """Ask a catalog to fetch up to `MOST_AT_ONCE` origins again."""
    return await client.repair(WantedOrigins.of(origins))


def _text(unresolved: UnresolvedOrigin) -> str:
    return f"{unresolved.authority} {unresolved.origin} ({unresolved.reason})"


def _spoilt_catalogs(findings: Findings) -> set[str]:
    """The names of catalogs with unsigned, forged or damaged copies."""
    counts = findings.counts()
    return {name for finding in COPY_FINDINGS for name in counts.get(finding, ())}


def _reset_links(
    catalog: SurveyedCatalog,
    authorities: Collection[str],
    catalogs: Sequence[SurveyedCatalog],
    suspects: Mapping[str, str],
    progress: Callable[[str], None],
) -> Iterator[str]:
    """Reset the links that bring entities of authorities to a catalog; yield a sentence for each.

    A link stays as it is while it copies anyway or waits for an operator, and if the source of the
    link is suspect.

    Args:
        suspects: the reasons to copy nothing from a catalog, by the name of the catalog.

    Raises:
        ReconcileError: a catalog refuses a request, or can't be reached.
    """
    places = Places(catalogs)
    for reporter in catalogs:
        if (node := reporter.node) is None:
            continue
        for link in reporter.links:
            target, source = places.target(link), places.source(link)
            if link.mode not in _RESETTABLE or target is None or catalogs[target] != catalog:
                continue
            given = None if source is None else catalogs[source]
            if not any(link.brings(each, given) for each in authorities):
                continue
            place = f"{link.id} at {reporter.name}"
            if given is not None and given.name in suspects:
                yield f"{place} stays: {given.name} {suspects[given.name]}"
                continue
            progress(f"resetting {place}")
            reset = partial(_reset, id=link.id, is_full=link.mode == "walk")
            yield f"{place} {node.call(reset)}"


async def _reset(client: Client, *, id: str, is_full: bool) -> str:
    """Reset a link unless its state forbids a reset; return the outcome in words."""
    # The survey's state may be out of date after a long comparison.
    state = (await client.link(id)).state
    if (why_not := _STATES.get(state)) is not None:
        return why_not
    await client.reset_link(id, LinkReset(full=is_full))
    return "brings everything again"
