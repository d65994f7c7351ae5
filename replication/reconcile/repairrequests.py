"""Repair: tell each catalog which origins to fetch again from its link sources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import orjson

from catalog.model.entity import Origin
from replication.reconcile.errors import ReconcileError
from replication.reconcile.findings import Findings
from replication.reconcile.remotecatalog import RemoteCatalog
from replication.reconcile.topology import Topology

MOST_PER_REQUEST = 1000
MOST_UNRESOLVED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairOutcome:
    """The answers of one catalog to the requests to fetch origins again.

    `verdicts` are counted by name; `unresolved` are the first origins that no source has.
    """

    catalog: str
    requested: int = 0
    verdicts: Mapping[str, int] = field(default_factory=dict)
    unresolved: tuple[str, ...] = ()

    def plus(
        self, requested: int, verdicts: Mapping[str, int], unresolved: Sequence[str]
    ) -> RepairOutcome:
        counts = Counter(self.verdicts) + Counter(verdicts)
        return RepairOutcome(
            catalog=self.catalog,
            requested=self.requested + requested,
            verdicts=dict(sorted(counts.items())),
            unresolved=(*self.unresolved, *unresolved)[:MOST_UNRESOLVED],
        )


def repair(
    findings: Findings,
    topology: Topology,
    remotes: Sequence[RemoteCatalog],
    progress: Callable[[str], None],
) -> tuple[RepairOutcome, ...]:
    """Have the catalogs fetch again all origins with repairable differences.

    Catalogs nearer to an authority go first, and parents before their children, because a
    catalog can fetch only what its source has, below entities that it has.

    Raises:
        ReconcileError: a catalog refuses, or can't be reached; earlier repairs stay.
    """
    outcomes = {remote.name: RepairOutcome(catalog=remote.name) for remote in remotes}
    for remote, origins in _in_order(findings, topology, remotes):
        while batch := list(islice(origins, MOST_PER_REQUEST)):
            progress(f"{remote.name} fetches {len(batch)} origins again")
            answer = _request(remote, batch)
            outcomes[remote.name] = outcomes[remote.name].plus(len(batch), *answer)
    return tuple(outcome for outcome in outcomes.values() if outcome.requested)


def _in_order(
    findings: Findings, topology: Topology, remotes: Sequence[RemoteCatalog]
) -> Iterator[tuple[RemoteCatalog, Iterator[Origin]]]:
    authorities = findings.authorities()
    for hops in range(len(remotes) + 1):
        for position, remote in enumerate(remotes):
            found = authorities.get(remote.name, frozenset())
            at_hops = {one for one in found if topology.hops(position, one) == hops}
            if at_hops:
                yield remote, findings.repairs(remote.name, at_hops)


def _request(
    remote: RemoteCatalog, origins: Sequence[Origin]
) -> tuple[Mapping[str, int], list[str]]:
    """Request a repair; return the verdicts and the unresolved origins."""
    body = {"origins": [{"authority": one.authority, "origin": one.xid} for one in origins]}
    answer = remote.call(
        lambda client: client.request("POST", "/replication/repair", body=body, is_repeatable=True)
    )
    try:
        document = orjson.loads(answer.body)
        return dict(document["verdicts"]), [_text(one) for one in document.get("unresolved", ())]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ReconcileError(
            f"Catalog {remote.name} answered a repair in a way that this job can't read: {error!r}."
        ) from error


def _text(unresolved: Any) -> str:
    if isinstance(unresolved, Mapping):
        return f"{unresolved.get('authority')} {unresolved.get('origin')}"
    return str(unresolved)
