"""Repair: ask each catalog to fetch origins again from the sources of its links.

Links that cannot fetch single origins (topics, pushes, walks) are reset, which brings every entity
of the link again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice

from catalog.client import Client
from catalog.model.entity import Origin
from catalog.operations.links import LinkReset
from catalog.operations.peers import MOST_ORIGINS, Repairs, UnresolvedOrigin, WantedOrigins
from replication.reconcile.catalogs import SurveyedCatalog
from replication.reconcile.findings import COPY_FINDINGS, Findings
from replication.reconcile.topology import Places, Topology

MOST_UNRESOLVED = 20


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

    def plus(
        self, requested: int, verdicts: Mapping[str, int], unresolved: Sequence[str]
    ) -> RepairOutcome:
        counts = Counter(self.verdicts) + Counter(verdicts)
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
    """Have the catalogs fetch again the origins with repairable differences.

    Catalogs nearer to an authority go first, because a catalog can fetch only entities of its
    source. Parents go before their children, because a child needs its parent in the catalog.

    Args:
        shrunk: the names of catalogs that may have lost entities. Repairs do not fetch from a
            shrunk catalog, so a catalog with a link from a shrunk catalog is not repaired.

    Raises:
        ReconcileError: a catalog refuses a request, or can't be reached; earlier repairs stay.
    """
    outcomes = {catalog.name: RepairOutcome(catalog=catalog.name) for catalog in catalogs}
    missed: dict[str, set[str]] = {catalog.name: set() for catalog in catalogs}
    for position, authorities in _in_order(findings, topology, len(catalogs)):
        node, sources = catalogs[position].node, topology.sources[position]
        name = topology.names[position]
        if node is None:
            progress(f"{name} is not repaired, as it was not read from a running node")
            continue
        if doubtful := sorted({*shrunk} & {*sources}):
            names = " and ".join(doubtful)
            progress(f"{name} is not repaired, as it fetches from {names}")
            continue
        origins = findings.repairs(name, authorities, sources)
        while batch := list(islice(origins, MOST_ORIGINS)):
            progress(f"{name} fetches {len(batch)} origins again")
            repairs = node.call(partial(_ask, origins=batch))
            missed[name] |= {each.authority for each in repairs.unresolved}
            shown = [*map(_text, repairs.unresolved)]
            outcomes[name] = outcomes[name].plus(len(batch), repairs.verdicts, shown)
        withheld = findings.withheld(name, authorities, sources)
        outcome = outcomes[name]
        outcomes[name] = replace(outcome, withheld=outcome.withheld + withheld)
    suspects = {
        **dict.fromkeys(_spoilt_catalogs(findings), "has unsigned, forged or damaged copies"),
        **dict.fromkeys(shrunk, "has far fewer entities than before"),
    }
    for catalog in catalogs:
        resets = _reset_links(catalog, missed[catalog.name], catalogs, suspects, progress)
        outcomes[catalog.name] = replace(outcomes[catalog.name], resets=tuple(resets))
    return tuple(one for one in outcomes.values() if one.requested or one.withheld)


def _in_order(
    findings: Findings, topology: Topology, catalogs: int
) -> Iterator[tuple[int, set[str]]]:
    """Pairs of a catalog's position and the authorities to fetch, in the order of the repair.

    The catalog's own authority is left out, because a catalog cannot fetch its own entities.
    """
    authorities = findings.authorities()
    # Hops from 1 leave out the catalog's own authority, and an authority without a path has the
    # greatest number of hops, so its origins come last.
    for hops in range(1, catalogs + 1):
        for position, name in enumerate(topology.names):
            found = authorities.get(name, {})
            if at_hops := {one for one in found if topology.hops(position, one) == hops}:
                yield position, at_hops


async def _ask(client: Client, origins: Sequence[Origin]) -> Repairs:
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
