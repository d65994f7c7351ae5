"""The watch of change streams: what they say about an origin at several catalogs, within seconds.

A feed shows the newest state of an entity, so it may skip epochs, and skipped epochs are no gap. A
gap is a stream that does not go on where it was read to: changes may have been missed there.

Spark keeps the state of each origin, and takes offsets and states together into its checkpoint. A
batch that is executed again after a crash may read later states of a node, and find something else.
Its file keeps the findings of the first execution and gets the new findings; no later batch raises
a finding of the first execution again.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial, reduce
from pathlib import Path
from typing import Any, Literal, NamedTuple

import orjson
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from replication.reconcile.inputs.capturedinputs import TopicInput
from replication.reconcile.inputs.nodeinput import NodeInput
from replication.reconcile.streamsource import changes_of
from replication.reconcile.topology import Topology, covers

_MOST_TOLD = 20

StreamFindingName = Literal["gap", "regressed", "diverged", "late"]
FINDINGS = "findings"
CHECKPOINT = "checkpoint"
_PARTITIONS = 2
_TYPES = {
    **dict.fromkeys(("id", "finding", "catalog", "authority", "origin"), "string"),
    **dict.fromkeys(("epoch", "expected"), "bigint"),
    **{"at": "double", "detail": "string"},
}
_ARROW_TYPES = {"string": pa.string(), "bigint": pa.int64(), "double": pa.float64()}
_COLUMNS = pa.schema([(name, _ARROW_TYPES[type]) for name, type in _TYPES.items()])


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The state of an origin at a catalog, as the stream of the catalog shows it.

    Args:
        catalog: the name of the catalog.
        at: the time of the observation, in seconds since 1970.
        gap: why the stream does not go on where it was read to; then there is no origin.
    """

    catalog: str
    authority: str
    origin: str
    epoch: int
    deleted: bool
    digest: str
    at: float
    gap: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFinding:
    """A finding about a catalog; the same finding has the same id in every execution.

    Args:
        epoch: the epoch at the catalog; `None` if the catalog has shown no state.
        expected: the epoch that was to be expected.
    """

    id: str
    finding: StreamFindingName
    catalog: str
    authority: str
    origin: str
    epoch: int | None
    expected: int | None
    at: float
    detail: str


class _State(NamedTuple):
    epoch: int
    deleted: bool
    digest: str
    at: float


@dataclass(slots=True)
class OriginWatch:
    """The last state of an origin at each catalog, and the ids of the findings about it."""

    states: dict[str, _State] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, text: str) -> OriginWatch:
        """Read back what `written` returns."""
        data = orjson.loads(text)
        return cls({name: _State(*state) for name, state in data["states"].items()}, data["told"])

    def written(self) -> str:
        states = {name: [*one] for name, one in self.states.items()}
        return orjson.dumps({"states": states, "told": self.told}).decode()

    def observe(self, seen: Observation) -> list[StreamFinding]:
        """Note a state; return the findings that the state is the cause of.

        A state that is shown again, as after a restart, changes nothing.
        """
        before = self.states.get(seen.catalog)
        found = []
        if before is not None and seen.epoch < before.epoch:
            detail = "the catalog may have lost data, or was restored from a backup"
            found.append(_finding("regressed", seen, before.epoch, detail))
        for name, other in self.states.items():
            is_same = (other.digest, other.deleted) == (seen.digest, seen.deleted)
            if name != seen.catalog and other.epoch == seen.epoch and not is_same:
                found.append(_finding("diverged", seen, other.epoch, f"{name} has another content"))
        if before is None or before.epoch != seen.epoch:
            self.states[seen.catalog] = _State(seen.epoch, seen.deleted, seen.digest, seen.at)
        else:
            self.states[seen.catalog] = before._replace(deleted=seen.deleted, digest=seen.digest)
        return self._untold(found)

    def late(
        self, owner: str, origin: tuple[str, str], expected: Collection[str], now: float, lag: float
    ) -> tuple[list[StreamFinding], float | None]:
        """The catalogs that have not shown the owner's epoch within `lag` seconds.

        Args:
            owner: the authority's own catalog.
            origin: the authority and the path.
            expected: the catalogs that should have the origin.

        Returns:
            the findings, and the seconds after which to look again; `None` if nobody is awaited.
        """
        own = self.states.get(owner)
        if own is None:
            return [], None
        behind = [
            name
            for name in sorted({*expected} - {owner})
            if name not in self.states or self.states[name].epoch < own.epoch
        ]
        # A replica that never had an entity needs no tombstone of it.
        behind = [name for name in behind if not own.deleted or name in self.states]
        if not behind or (left := own.at + lag - now) > 0:
            return [], left if behind else None
        found = []
        for name in behind:
            state = self.states.get(name)
            seen = Observation(
                catalog=name,
                authority=origin[0],
                origin=origin[1],
                epoch=-1 if state is None else state.epoch,
                deleted=False,
                digest="",
                at=now,
            )
            found.append(_finding("late", seen, own.epoch, f"{owner} has it since {own.at:.0f}"))
        return self._untold(found), None

    def _untold(self, found: list[StreamFinding]) -> list[StreamFinding]:
        # Several catalogs may contradict one state.
        distinct: dict[str, StreamFinding] = {}
        for each in found:
            distinct.setdefault(each.id, each)
        fresh = [each for each in distinct.values() if each.id not in self.told]
        # The ids of a few findings are enough: an older finding has a lower epoch.
        self.told = [*self.told, *(each.id for each in fresh)][-_MOST_TOLD:]
        return fresh


def gap_in(seen: Observation) -> StreamFinding:
    """The finding about a stream that does not go on where it was read to."""
    return _finding("gap", seen, None, seen.gap)


def _finding(
    name: StreamFindingName, seen: Observation, expected: int | None, detail: str
) -> StreamFinding:
    key = (name, seen.catalog, seen.authority, seen.origin, seen.epoch, expected)
    named = (*key, seen.at) if name == "gap" else key
    return StreamFinding(
        id=hashlib.sha256("\n".join(map(str, named)).encode()).hexdigest()[:32],
        finding=name,
        catalog=seen.catalog,
        authority=seen.authority,
        origin=seen.origin,
        epoch=None if seen.epoch < 0 else seen.epoch,
        expected=expected,
        at=seen.at,
        detail=detail,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamWatch:
    """What is watched, and where the findings go.

    Args:
        inputs: the nodes, and the topics to which nodes publish.
        topology: of the nodes; names the catalogs that should have an origin.
        directory: for the checkpoint and the findings.
        every_seconds: the time between two batches.
        lag_seconds: how long a replica may take to show a change.
        tell: receives the findings of a batch, after they are written.
    """

    inputs: Sequence[NodeInput | TopicInput]
    topology: Topology
    directory: Path
    every_seconds: float
    lag_seconds: float
    tell: Callable[[list[StreamFinding]], None]

    def start(self, spark: SparkSession) -> StreamingQuery:
        """Start the query, from its checkpoint or else from now."""
        (self.directory / FINDINGS).mkdir(parents=True, exist_ok=True)
        # A batch is small, and each partition of the states costs a worker in each batch.
        spark.conf.set("spark.sql.shuffle.partitions", str(_PARTITIONS))
        streams = [changes_of(spark, each) for each in self.inputs]
        changes = reduce(DataFrame.unionAll, streams)
        columns = ", ".join(f"{name} {type}" for name, type in _TYPES.items())
        judge = partial(_judge, topology=self.topology, lag=self.lag_seconds)
        found = changes.groupBy("authority", "origin").applyInPandasWithState(
            judge, columns, "watch string", "append", GroupStateTimeout.ProcessingTimeTimeout
        )
        # Spark executes only the last batch again, so older files repeat no finding. The last file
        # is read here, since operators may take files away while the watch runs.
        files = sorted((self.directory / FINDINGS).glob("batch-*.parquet"))
        write = partial(self._write, earlier={file: _findings_in(file) for file in files[-1:]})
        return (
            found.writeStream.foreachBatch(write)
            .option("checkpointLocation", str(self.directory / CHECKPOINT))
            .trigger(processingTime=f"{int(1000 * self.every_seconds)} milliseconds")
            .start()
        )

    def _write(
        self, batch: DataFrame, number: int, *, earlier: Mapping[Path, list[StreamFinding]]
    ) -> None:
        file = self.directory / FINDINGS / f"batch-{number:012}.parquet"
        known = {each.id for findings in earlier.values() for each in findings}
        fresh = [StreamFinding(**row.asDict()) for row in batch.collect()]
        found = [*earlier.get(file, ()), *(each for each in fresh if each.id not in known)]
        if not found:
            return
        # The rename shows a reader a whole file or none.
        table = pa.Table.from_pylist([asdict(each) for each in found], _COLUMNS)
        pq.write_table(table, file.with_suffix(".part"), compression="zstd")
        file.with_suffix(".part").replace(file)
        self.tell(found)


def _findings_in(file: Path) -> list[StreamFinding]:
    return [StreamFinding(**row) for row in pq.read_table(file).to_pylist()]


def _judge(
    key: tuple[Any, ...],
    batches: Iterator[pd.DataFrame],
    state: GroupState,
    *,
    topology: Topology,
    lag: float,
) -> Iterator[pd.DataFrame]:
    """The findings about an origin, and its new state; the origin of a gap is empty."""
    authority, origin = map(str, key)
    watch = OriginWatch.read(state.get[0]) if state.exists else OriginWatch()
    found: list[StreamFinding] = []
    for batch in batches:
        for row in batch.to_dict("records"):
            seen = Observation(**{str(name): value for name, value in row.items()})
            found += [gap_in(seen)] if seen.gap else watch.observe(seen)
    if origin:
        late, again = _late(watch, authority, origin, topology, lag)
        found += late
        state.update((watch.written(),))
        if again is not None:
            state.setTimeoutDuration(max(1, int(1000 * again)))
    yield pd.DataFrame([asdict(each) for each in found], columns=_COLUMNS.names).astype(
        {"epoch": "Int64", "expected": "Int64"}
    )


def _late(
    watch: OriginWatch, authority: str, origin: str, topology: Topology, lag: float
) -> tuple[list[StreamFinding], float | None]:
    if authority not in topology.authorities:
        return [], None
    owner = topology.names[topology.authorities.index(authority)]
    expected = [
        name
        for name, coverage in zip(topology.names, topology.coverage, strict=True)
        if authority in coverage
        and any(covers(path, origin) for path in coverage[authority].subtrees)
    ]
    return watch.late(owner, (authority, origin), expected, time.time(), lag)
