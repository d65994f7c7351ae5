"""Repair: tell each catalog which origins to fetch again from its link sources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from catalog.model.entity import Origin
from replication.reconcile.errors import ReconcileError
from replication.reconcile.findings import Findings
from replication.reconcile.remote import Remote
from replication.reconcile.topology import Topology

MOST_PER_REQUEST = 1000
MOST_UNRESOLVED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairOutcome:
    """What one catalog made of what it was asked to fetch again.

    `verdicts` counts them by name; `unresolved` names the first that no source has.
    """

    catalog: str
    requested: int
    verdicts: Mapping[str, int]
    unresolved: tuple[str, ...]


def repair(
    findings: Findings,
    topology: Topology,
    remotes: Sequence[Remote],
    progress: Callable[[str], None],
) -> tuple[RepairOutcome, ...]:
    """Have everything fetched again that this can settle.

    A catalog near the authority goes before those that are fed by it, and a parent before
    its children, since each fetch must find what it stands on.

    Raises:
        ReconcileError: a catalog refuses, or can't be reached; what came before is done.
    """
    tallies = {remote.name: _Tally(Counter(), []) for remote in remotes}
    for remote, origins in _steps(findings, topology, remotes):
        for batch in _batches(origins):
            progress(f"{remote.name} fetches {len(batch)} origins again")
            tallies[remote.name].add(len(batch), remote, _post(remote, batch))
    return tuple(tally.outcome(name) for name, tally in tallies.items() if tally.requested)


def _steps(
    findings: Findings, topology: Topology, remotes: Sequence[Remote]
) -> Iterator[tuple[Remote, Iterator[Origin]]]:
    authorities = findings.authorities()
    for hops in range(len(remotes) + 1):
        for place, remote in enumerate(remotes):
            there = authorities.get(remote.name, frozenset())
            at_hops = {one for one in there if topology.hops(place, one) == hops}
            if at_hops:
                yield remote, findings.repairs(remote.name, at_hops)


def _batches(origins: Iterator[Origin]) -> Iterator[list[Origin]]:
    while batch := list(islice(origins, MOST_PER_REQUEST)):
        yield batch


def _post(remote: Remote, batch: Sequence[Origin]) -> Any:
    origins = [{"authority": one.authority, "origin": one.xid} for one in batch]
    return remote.post_json("/replication/repair", {"origins": origins})


@dataclass(slots=True)
class _Tally:
    verdicts: Counter[str]
    unresolved: list[str]
    requested: int = 0

    def add(self, requested: int, remote: Remote, answer: Any) -> None:
        self.requested += requested
        try:
            self.verdicts.update(answer["verdicts"])
            self.unresolved += [_text(one) for one in answer.get("unresolved", ())]
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ReconcileError(
                f"Catalog {remote.name} answered a repair in a way that this job "
                f"can't read: {error!r}."
            ) from error

    def outcome(self, name: str) -> RepairOutcome:
        return RepairOutcome(
            catalog=name,
            requested=self.requested,
            verdicts=dict(sorted(self.verdicts.items())),
            unresolved=tuple(self.unresolved[:MOST_UNRESOLVED]),
        )


def _text(unresolved: Any) -> str:
    if isinstance(unresolved, Mapping):
        return f"{unresolved.get('authority')} {unresolved.get('origin')}"
    return str(unresolved)
