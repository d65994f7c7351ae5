"""Repairs: a plan of fetches as data, its execution at once or later, and the reset of links.

An action asks a catalog to fetch one origin again from the sources of its links. A fetch decides by
authority and epoch what it applies, so an action that comes too late, or twice, changes nothing.
Links that cannot fetch single origins (topics, pushes, walks) are reset, which brings every entity
of the link again.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import groupby, islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from catalog.client import Client
from catalog.model.entity import Origin
from catalog.operations.links import LinkReset
from catalog.operations.peers import MOST_ORIGINS, REPAIR, Repairs, UnresolvedOrigin, WantedOrigins
from catalog.operations.reconciliations import FindingName
from replication.reconcile.catalogs import ReportedLink, SurveyedCatalog
from replication.reconcile.errors import ReconcileError
from replication.reconcile.findings import COPY_FINDINGS, Findings
from replication.reconcile.inputs.nodeinput import NodeInput
from replication.reconcile.topology import Places, Topology

PLAN_FILE = "plan.parquet"
JOURNAL_FILE = "repaired.txt"
"""The file with the ids of the actions that are done."""
_COLUMNS = pa.schema(
    {
        "id": pa.string(),
        "catalog": pa.string(),
        "url": pa.string(),
        "authority": pa.string(),
        "origin": pa.string(),
        "finding": pa.string(),
        "epoch": pa.int64(),
    }
)
_ACTIONS_AT_ONCE = 50_000
MOST_UNRESOLVED = 20
_RESETTABLE = frozenset({"kafka", "push", "walk"})
_STATES = {
    "new": "is copying everything already",
    "copying": "is copying everything already",
    "asking": "stays: it asks whether it may delete much",
    "paused": "stays: it is paused",
}
"""The states in which a link is not reset, with the reasons."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairAction:
    """A fetch of one origin.

    Args:
        id: the same for the same finding in every run.
        catalog, url: the catalog that fetches.
        finding: why it fetches.
        epoch: the epoch of the reference.
    """

    id: str
    catalog: str
    url: str
    authority: str
    origin: str
    finding: FindingName
    epoch: int | None


def planned(
    findings: Findings,
    topology: Topology,
    catalogs: Sequence[SurveyedCatalog],
    shrunk: Collection[str],
    progress: Callable[[str], None],
) -> Iterator[RepairAction]:
    """The actions in order.

    Catalogs nearer to an authority go first, because a catalog can fetch only entities of its
    source. Parents go before their children, because a child needs its parent in the catalog.

    Args:
        shrunk: the names of catalogs that may have lost entities. Repairs do not fetch from a
            shrunk catalog, so a catalog with a link from a shrunk catalog is not repaired.
    """
    for position, authorities in in_order(findings, topology):
        catalog, sources = catalogs[position], topology.sources[position]
        if catalog.node is None:
            progress(f"{catalog.name} is not repaired, as it was not read from a running node")
            continue
        if doubtful := sorted({*shrunk} & {*sources}):
            names = " and ".join(doubtful)
            progress(f"{catalog.name} is not repaired, as it fetches from {names}")
            continue
        for origin, finding, epoch in findings.repairs(catalog.name, authorities, sources):
            named = (catalog.authority, *origin, finding, epoch)
            yield RepairAction(
                id=hashlib.sha256("\n".join(map(str, named)).encode()).hexdigest()[:32],
                catalog=catalog.name,
                url=catalog.input.url,
                authority=origin.authority,
                origin=origin.xid,
                finding=finding,
                epoch=epoch,
            )


def in_order(findings: Findings, topology: Topology) -> Iterator[tuple[int, set[str]]]:
    """Pairs of a catalog's position and the authorities to fetch, in the order of the repair.

    The catalog's own authority is left out, because a catalog cannot fetch its own entities.
    """
    authorities = findings.authorities()
    # Hops from 1 leave out the catalog's own authority, and an authority without a path has the
    # greatest number of hops, so its origins come last.
    for hops in range(1, len(topology.names) + 1):
        for position, name in enumerate(topology.names):
            found = authorities.get(name, {})
            if at_hops := {one for one in found if topology.hops(position, one) == hops}:
                yield position, at_hops


def write_plan(path: Path, actions: Iterable[RepairAction]) -> int:
    """Write actions to a Parquet file; return the number of actions."""
    rest, count = iter(actions), 0
    with pq.ParquetWriter(path, _COLUMNS, compression="zstd") as writer:
        while part := [asdict(each) for each in islice(rest, _ACTIONS_AT_ONCE)]:
            writer.write_table(pa.Table.from_pylist(part, _COLUMNS))
            count += len(part)
    return count


def read_plan(path: Path) -> Iterator[RepairAction]:
    """Read the actions of a Parquet file, in order.

    Raises:
        ReconcileError: the file is missing, or is no plan.
    """
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(columns=_COLUMNS.names):
                for row in batch.to_pylist():
                    yield RepairAction(**row)
    except (OSError, pa.ArrowInvalid, KeyError, TypeError) as error:
        reason = " ".join(str(error).split())[:300].rstrip(".")
        raise ReconcileError(
            f"{path} cannot be read: {reason}.",
            "Name the directory of `concord reconcile --report`.",
        ) from error


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


def fetch_planned(
    actions: Iterable[RepairAction],
    nodes: Mapping[str, NodeInput],
    note: Callable[[Sequence[RepairAction], Repairs], None],
    progress: Callable[[str], None],
    *,
    most: int = MOST_ORIGINS,
) -> dict[str, RepairOutcome]:
    """Ask catalogs to fetch origins again, in batches; return the outcomes by catalog.

    Args:
        nodes: the nodes of the actions, by name.
        note: receives each batch, when its catalog has answered.
        most: the most origins of a batch.

    Raises:
        ReconcileError: a catalog refuses a request, or can't be reached; earlier repairs stay.
    """
    outcomes: dict[str, RepairOutcome] = {}
    for name, of_catalog in groupby(actions, key=lambda each: each.catalog):
        while batch := list(islice(of_catalog, most)):
            progress(f"{name} fetches {len(batch)} origins again")
            wanted = WantedOrigins.of([Origin(each.authority, each.origin) for each in batch])
            repairs = nodes[name].call(partial(Client.call, operation=REPAIR, body=wanted))
            outcome = outcomes.get(name, RepairOutcome(catalog=name))
            outcomes[name] = outcome.plus(len(batch), repairs)
            note(batch, repairs)
    return outcomes


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
    missed: dict[str, set[str]] = defaultdict(set)

    def note(batch: Sequence[RepairAction], repairs: Repairs) -> None:
        missed[batch[0].catalog] |= {each.authority for each in repairs.unresolved}

    nodes = {catalog.name: catalog.node for catalog in catalogs if catalog.node is not None}
    actions = planned(findings, topology, catalogs, shrunk, progress)
    fetched = fetch_planned(actions, nodes, note, progress)
    outcomes = {
        each.name: fetched.get(each.name, RepairOutcome(catalog=each.name)) for each in catalogs
    }
    for position, authorities in in_order(findings, topology):
        name, sources = topology.names[position], topology.sources[position]
        if name in nodes and not {*shrunk} & {*sources}:
            withheld = outcomes[name].withheld + findings.withheld(name, authorities, sources)
            outcomes[name] = replace(outcomes[name], withheld=withheld)
    counts = findings.counts()
    spoilt = {name for finding in COPY_FINDINGS for name in counts.get(finding, ())}
    suspects = {
        **dict.fromkeys(spoilt, "has unsigned, forged or damaged copies"),
        **dict.fromkeys(shrunk, "has far fewer entities than before"),
    }
    for catalog in catalogs:
        resets = _reset_links(catalog, missed[catalog.name], catalogs, suspects, progress)
        outcomes[catalog.name] = replace(outcomes[catalog.name], resets=tuple(resets))
    return tuple(one for one in outcomes.values() if one.requested or one.withheld)


def _text(unresolved: UnresolvedOrigin) -> str:
    return f"{unresolved.authority} {unresolved.origin} ({unresolved.reason})"


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
            reset = node.call(partial(_reset, link=link))
            yield f"{place} {reset}"


async def _reset(client: Client, *, link: ReportedLink) -> str:
    """Reset a link unless its state forbids a reset; return the outcome in words."""
    # The survey's state may be out of date after a long comparison.
    state = (await client.link(link.id)).state
    if (why_not := _STATES.get(state)) is not None:
        return why_not
    await client.reset_link(link.id, LinkReset(full=link.mode == "walk"))
    return "brings everything again"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPlan:
    """The plan in the directory of a report, and the journal of the actions that are done.

    Args:
        only: the findings to repair; empty for all.
    """

    directory: Path
    only: Collection[FindingName] = ()

    def left(self) -> Iterator[RepairAction]:
        """The actions that are wanted and not done, in order.

        Raises:
            ReconcileError
        """
        done = self._done()
        for each in read_plan(self.directory / PLAN_FILE):
            if each.id not in done and (not self.only or each.finding in self.only):
                yield each

    def _done(self) -> frozenset[str]:
        journal = self.directory / JOURNAL_FILE
        return frozenset(journal.read_text().split()) if journal.exists() else frozenset()

    def execute(
        self,
        nodes: Mapping[str, NodeInput],
        *,
        per_second: int,
        progress: Callable[[str], None],
        sleep: Callable[[float], None] = time.sleep,
    ) -> list[RepairOutcome]:
        """Ask the catalogs to fetch what is left, in batches; return what became of it.

        Each batch is noted in the journal when its catalog has answered, so that an execution that
        was interrupted goes on.

        Args:
            nodes: the nodes of the plan, by name.
            per_second: the most origins to ask for in a second, of all catalogs together.

        Raises:
            ReconcileError: a catalog can't be reached or refuses; what is done stays noted.
        """
        began = time.monotonic()
        with (self.directory / JOURNAL_FILE).open("a") as journal:

            def note(batch: Sequence[RepairAction], _: Repairs) -> None:
                nonlocal began
                # A crash before this line fetches the batch again, which changes nothing.
                journal.writelines(f"{each.id}\n" for each in batch)
                journal.flush()
                sleep(max(0.0, len(batch) / per_second - (time.monotonic() - began)))
                began = time.monotonic()

            most = min(MOST_ORIGINS, per_second)
            outcomes = fetch_planned(self.left(), nodes, note, progress, most=most)
        return list(outcomes.values())
