"""The streaming query of the watch: streams into states of origins, and states into findings.

Spark keeps the state of each origin, and takes offsets and states together into its checkpoint. A
batch that is executed again after a crash writes its file of findings again, under the same name:
each finding is in the files once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial, reduce
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from replication.reconcile.inputs.nodeinput import NodeInput
from replication.reconcile.inputs.topicinput import TopicInput
from replication.reconcile.topology import Topology, covers
from replication.reconcile.watching.streamrule import (
    Observation,
    OriginWatch,
    StreamFinding,
    gap_in,
)
from replication.reconcile.watching.streamsource import changes_of

FINDINGS = "findings"
CHECKPOINT = "checkpoint"
_PARTITIONS = 2
_FOUND = (
    "id string, finding string, catalog string, authority string, origin string, epoch bigint, "
    "expected bigint, at double, detail string"
)
_COLUMNS = pa.schema(
    {
        **dict.fromkeys(("id", "finding", "catalog", "authority", "origin"), pa.string()),
        **dict.fromkeys(("epoch", "expected"), pa.int64()),
        "at": pa.float64(),
        "detail": pa.string(),
    }
)
_NAMES = [each.name for each in fields(StreamFinding)]


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
        judge = partial(_judge, topology=self.topology, lag=self.lag_seconds)
        found = changes.groupBy("authority", "origin").applyInPandasWithState(
            judge, _FOUND, "watch string", "append", GroupStateTimeout.ProcessingTimeTimeout
        )
        return (
            found.writeStream.foreachBatch(self._write)
            .option("checkpointLocation", str(self.directory / CHECKPOINT))
            .trigger(processingTime=f"{int(1000 * self.every_seconds)} milliseconds")
            .start()
        )

    def _write(self, batch: DataFrame, number: int) -> None:
        found = [StreamFinding(**row.asDict()) for row in batch.collect()]
        if not found:
            return
        file = self.directory / FINDINGS / f"batch-{number:012}.parquet"
        table = pa.Table.from_pylist([asdict(each) for each in found], _COLUMNS)
        pq.write_table(table, file.with_suffix(".part"), compression="zstd")
        file.with_suffix(".part").replace(file)
        self.tell(found)


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
    yield pd.DataFrame([asdict(each) for each in found], columns=_NAMES).astype(
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
