"""Repair: tell each catalog which origins to fetch again from its link sources.

What comes by links that cannot be asked for single origins (topics, pushes, walks) comes again if
the whole link is reset.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice

from catalog.client import Client
from catalog.model.entity import Origin
from catalog.operations.peers import MOST_ORIGINS, Repairs, UnresolvedOrigin, WantedOrigins
from replication.reconcile.catalogs import SurveyedCatalog
from replication.reconcile.findings import Findings
from replication.reconcile.linkresets import reset_links, spoilt_catalogs
from replication.reconcile.topology import Topology

MOST_UNRESOLVED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairOutcome:
    """The answers of one catalog to the requests to fetch origins again.

    `verdicts` are counted by name; `unresolved` are the first origins that no source has, with
    reasons. `withheld` origins were not asked for, because they are unsigned or forged at a
    source. `resets` tells of links that bring everything again.
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


def repair(
    findings: Findings,
    topology: Topology,
    catalogs: Sequence[SurveyedCatalog],
    progress: Callable[[str], None],
) -> tuple[RepairOutcome, ...]:
    """Have the catalogs fetch again all origins with repairable differences.

    Catalogs nearer to an authority go first, and parents before their children, because a
    catalog can fetch only what its source has, below entities that it has.

    Raises:
        ReconcileError: a catalog refuses, or can't be reached; earlier repairs stay.
    """
    outcomes = {catalog.name: RepairOutcome(catalog=catalog.name) for catalog in catalogs}
    missed: dict[str, set[str]] = {catalog.name: set() for catalog in catalogs}
    for position, authorities in _in_order(findings, topology, len(catalogs)):
        remote, sources = catalogs[position].remote, topology.sources[position]
        origins = findings.repairs(remote.name, authorities, sources)
        while batch := list(islice(origins, MOST_ORIGINS)):
            progress(f"{remote.name} fetches {len(batch)} origins again")
            repairs = remote.call(partial(_ask, origins=batch))
            missed[remote.name] |= {each.authority for each in repairs.unresolved}
            shown = [*map(_text, repairs.unresolved)]
            outcomes[remote.name] = outcomes[remote.name].plus(len(batch), repairs.verdicts, shown)
        withheld = findings.withheld(remote.name, authorities, sources)
        outcome = outcomes[remote.name]
        outcomes[remote.name] = replace(outcome, withheld=outcome.withheld + withheld)
    spoilt = spoilt_catalogs(findings)
    for catalog in catalogs:
        resets = reset_links(catalog, missed[catalog.name], catalogs, spoilt, progress)
        outcomes[catalog.name] = replace(outcomes[catalog.name], resets=tuple(resets))
    return tuple(one for one in outcomes.values() if one.requested or one.withheld)


def _in_order(
    findings: Findings, topology: Topology, catalogs: int
) -> Iterator[tuple[int, set[str]]]:
    """The positions of catalogs, and authorities of which each has to fetch, in order.

    No catalog can fetch what it is the authority of.
    """
    authorities = findings.authorities()
    for hops in range(1, catalogs + 1):
        for position, name in enumerate(topology.names):
            found = authorities.get(name, frozenset())
            if at_hops := {one for one in found if topology.hops(position, one) == hops}:
                yield position, at_hops


async def _ask(client: Client, origins: Sequence[Origin]) -> Repairs:
    return await client.repair(WantedOrigins.of(origins))


def _text(unresolved: UnresolvedOrigin) -> str:
    return f"{unresolved.authority} {unresolved.origin} ({unresolved.reason})"
