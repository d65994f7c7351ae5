"""The comparison: read the digest rows, find the differences, and read the differences again.

The catalogs change while the requests of a reading follow each other, so a first difference may
only mean that an entity was replicated between two requests.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from catalog.client import Client
from catalog.model.digest import bucket
from catalog.model.entity import Entity, Origin
from catalog.operations.peers import MOST_ORIGINS
from replication.deciding.batch import origin_of
from replication.deciding.copycontent import DifferingAttribute, compared
from replication.feed.feedlines import read_line
from replication.reconcile import rule
from replication.reconcile.bucketplan import BucketPlan
from replication.reconcile.catalogs import SurveyedCatalog
from replication.reconcile.engine import Engine, Statement
from replication.reconcile.errors import CatalogUnread
from replication.reconcile.findings import Difference, Findings, Key
from replication.reconcile.signatures import survey_keys
from replication.reconcile.topology import Topology

MOST_CONFIRMED = 100_000
"""The most differences to keep in memory and to read a second time."""

_BY_CATALOG = Statement("SELECT catalog, count(*) AS number FROM {rows} GROUP BY catalog")
_BY_SIGNATURE = Statement(
    "SELECT authority, signature, count(*) AS number FROM {rows} GROUP BY authority, signature"
)
_DOUBLED = Statement(
    "SELECT catalog, authority, origin FROM {rows} GROUP BY catalog, authority, origin"
    " HAVING count(*) > 1 LIMIT 1"
)


@dataclass(frozen=True, slots=True)
class Stages:
    """Announces each stage of a run to `progress`, and keeps the duration in seconds."""

    progress: Callable[[str], None]
    elapsed: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str, line: str) -> Iterator[None]:
        self.progress(line)
        started = time.monotonic()
        yield
        self.elapsed[name] = round(time.monotonic() - started, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogComparison:
    """The differences, the number of compared `rows` by catalog, and the number of `origins`.

    `signatures` are the numbers of copies by authority and code, empty if signatures were not
    checked. `unverifiable` origins belong to authorities that were not compared. `vanished`
    differences were gone at the second reading, and `in_flight` differences are by changes that a
    catalog's rows are too old to show. `is_confirmed` is false if the differences were too
    many for a second reading.
    """

    findings: Findings
    rows: Sequence[int]
    origins: int = 0
    unverifiable: int = 0
    vanished: int = 0
    in_flight: int = 0
    is_confirmed: bool = True
    signatures: Mapping[str, Mapping[int, int]] = field(default_factory=dict)


@contextmanager
def compare(
    engine: Engine, plan: BucketPlan, settle: Callable[[], None], stages: Stages
) -> Iterator[CatalogComparison]:
    """Compare the catalogs; the findings can be used while the context is open.

    Args:
        settle: waits before the second reading of differences.

    Raises:
        ReconcileError: a catalog can't be read, sends malformed rows, or lists an origin twice.
    """
    topology = plan.topology
    requests = len(plan.requests)
    with engine.read(plan, stages.progress) as rows:
        with stages.stage("read", f"reading {plan.buckets:,} buckets in {requests} requests"):
            counts = _count_by_catalog(engine, rows, len(plan.catalogs))
            signatures = {} if plan.keys is None else _count_signatures(engine, rows)
        with ExitStack() as stack:
            with stages.stage("compare", f"comparing {sum(counts):,} rows"):
                found = stack.enter_context(find_differences(engine, rows, topology))
                _check_doubled(found.totals, engine, rows, topology)
                first = _differences(engine, found.frame, topology) if found.is_few else []
            result = CatalogComparison(
                findings=Findings.of(first),
                rows=counts,
                origins=found.totals["origins"],
                unverifiable=found.totals["unverifiable"],
                signatures=signatures,
                in_flight=found.number - len(first) if found.is_few else 0,
            )
            if not found.is_few:
                # The findings are computed from frames that live as long as the open contexts.
                with engine.keep(found.frame) as kept:
                    yield replace(result, findings=Findings(engine, kept), is_confirmed=False)
                return
    # Few differences are in memory by now, so the frames are released before the second reading.
    # Catalogs that were read before the comparison would show the same rows again.
    if first and any(each.moment is None for each in plan.catalogs):
        with stages.stage("confirm", f"reading {len(first):,} differences again"):
            settle()
            if plan.keys is not None:
                # Since the first reading, an authority may have begun to sign with a new key.
                plan = replace(plan, keys=survey_keys(plan.catalogs))
            again = _confirmed(engine, first, plan)
        result = replace(result, findings=Findings.of(again), vanished=len(first) - len(again))
    yield result


@dataclass(frozen=True, slots=True)
class FoundDifferences:
    """The number of differences that the rule finds in rows, and the `TOTALS` of the origins.

    `frame` has the columns of `Difference`, if there are differences, and may have fewer rows than
    `number`: changes in flight are left out. `is_few` says whether the rows fit into the memory.
    """

    number: int
    totals: Mapping[str, int]
    frame: str

    @property
    def is_few(self) -> bool:
        return self.number <= MOST_CONFIRMED


@contextmanager
def find_differences(engine: Engine, rows: str, topology: Topology) -> Iterator[FoundDifferences]:
    """Find differences in rows; the frame can be used while the context is open."""
    if not engine.count(rows):
        # Spark gives no observation of a frame without rows.
        yield FoundDifferences(0, dict.fromkeys(rule.TOTALS, 0), rows)
        return
    per_origin = engine.query(rule.origins_of(topology), rows=rows)
    origins, totals = engine.observe(per_origin, rule.TOTALS)
    judged = engine.query(rule.differences_in(topology), origins=origins)
    with ExitStack() as kept:
        found = kept.enter_context(engine.keep(judged))
        # The totals come last: Spark observes them only while the frame `found` is computed.
        result = FoundDifferences(engine.count(found), totals(), found)
        if not result.number:
            yield result
            return
        # Kept, since the rows would be read once more for each use of a frame.
        held = engine.query(rule.held_of(is_few=result.is_few), rows=rows, found=found)
        held = kept.enter_context(engine.keep(held))
        copies = engine.query(rule.copies_of(), found=found, held=held)
        copies = kept.enter_context(engine.keep(copies))
        statement = rule.described(topology, is_few=result.is_few)
        yield replace(result, frame=engine.query(statement, rows=rows, copies=copies))


def _differences(engine: Engine, frame: str, topology: Topology) -> list[Difference]:
    """The differences of a frame, by authority, origin and catalog."""
    position = topology.names.index
    found = (Difference(**row) for row in engine.fetch(frame))
    return sorted(found, key=lambda one: (*one.key[:2], position(one.catalog), one.key[3]))


def _confirmed(engine: Engine, first: Sequence[Difference], plan: BucketPlan) -> list[Difference]:
    """The differences of `first` that a second reading finds again, as the second reading shows."""
    origins = {Origin(one.authority, one.origin) for one in first}
    rivals = {
        Origin(one.rival_authority, one.rival_origin)
        for one in first
        if one.rival_authority is not None and one.rival_origin is not None
    }
    buckets = {bucket(one.authority, one.xid) for one in origins | rivals}
    with (
        engine.read(plan.again(buckets), in_silence) as rows,
        find_differences(engine, rows, plan.topology) as found,
    ):
        again = _differences(engine, found.frame, plan.topology)
    # A difference that only the second reading shows may be a replication under way.
    before = {one.key: one for one in first}
    return [one for one in again if one.key in before and not _has_moved(before[one.key], one)]


def in_silence(line: str) -> None:
    """No progress: the second reading is short."""


def _has_moved(before: Difference, now: Difference) -> bool:
    """Whether the difference of `before` is over, and a new difference has come up since.

    A stale replica that has reached the earlier reference epoch is behind by a new change, and an
    authority that has reached the earlier epoch of a replica ahead has lost no data.
    """
    if now.finding == "stale" and before.reference_epoch is not None:
        return now.epoch is not None and now.epoch >= before.reference_epoch
    if now.finding == "ahead" and before.epoch is not None:
        return now.reference_epoch is not None and now.reference_epoch >= before.epoch
    return False


def _check_doubled(
    totals: Mapping[str, int], engine: Engine, rows: str, topology: Topology
) -> None:
    if not totals["doubled"]:
        return
    example = engine.fetch(engine.query(_DOUBLED, rows=rows))[0]
    name = topology.names[example["catalog"]]
    raise CatalogUnread(
        f"Catalog {name} lists {example['origin']} of {example['authority']} more than once.",
        "Its store is damaged, or two of its links give one origin two names.",
        name,
    )


def _count_signatures(engine: Engine, rows: str) -> dict[str, dict[int, int]]:
    counts: dict[str, dict[int, int]] = {}
    for row in engine.fetch(engine.query(_BY_SIGNATURE, rows=rows)):
        counts.setdefault(row["authority"], {})[row["signature"]] = row["number"]
    return counts


def _count_by_catalog(engine: Engine, rows: str, catalogs: int) -> list[int]:
    """The number of rows from each catalog; with Spark, the query triggers the reading of rows."""
    found = engine.fetch(engine.query(_BY_CATALOG, rows=rows))
    counts = {row["catalog"]: row["number"] for row in found}
    return [counts.get(catalog, 0) for catalog in range(catalogs)]


def differing_attributes(
    differences: Iterable[Difference], catalogs: Sequence[SurveyedCatalog]
) -> dict[Key, tuple[DifferingAttribute, ...]]:
    """Ask the nodes for both copies of differences, and compare the copies attribute by attribute.

    Differences without a live copy at each side, or with a side that was not read from a running
    node, are left out.

    Raises:
        CatalogUnread
    """
    wanted = [one for one in differences if one.reference is not None and one.epoch is not None]
    origins: dict[str, set[Origin]] = defaultdict(set)
    for one in wanted:
        for name in (one.catalog, one.reference):
            origins[str(name)].add(Origin(one.authority, one.origin))
    copies = {
        each.name: _fetch(each, sorted(origins[each.name]))
        for each in catalogs
        if each.node is not None and each.name in origins
    }
    found = {}
    for one in wanted:
        origin = Origin(one.authority, one.origin)
        here = copies.get(one.catalog, {}).get(origin)
        there = copies.get(str(one.reference), {}).get(origin)
        if here is not None and there is not None and one.reference != one.catalog:
            found[one.key] = compared(here, there)
    return found


def _fetch(catalog: SurveyedCatalog, origins: Sequence[Origin]) -> dict[Origin, Entity]:
    node, found = catalog.node, {}
    assert node is not None, "only nodes are asked"
    for start in range(0, len(origins), MOST_ORIGINS):
        part = origins[start : start + MOST_ORIGINS]
        copies = node.call(partial(_read_copies, origins=part))
        found.update({origin_of(each): each for each in copies if isinstance(each, Entity)})
    return found


async def _read_copies(client: Client, *, origins: Sequence[Origin]) -> list[object]:
    return [read_line(line) async for line in client.fetch_lines(origins)]
