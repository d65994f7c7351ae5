"""Snapshots on this machine, whose files Spark reads itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from replication.reconcile.bucketplan import BucketPlan, plan_of
from replication.reconcile.catalogs import survey
from replication.reconcile.digestrows import BucketRange
from replication.reconcile.errors import CatalogUnread
from replication.reconcile.inputs.input import OpenedInput
from replication.reconcile.inputs.snapshotinput import SnapshotInput, write_snapshot
from replication.reconcile.job import ReconcileJob
from replication.reconcile.report import ReconcileSummary
from replication.reconcile.sparkengine import digest_rows, snapshot_rows
from tests.spark.federation import Federation, damaged, three_catalogs

pytestmark = pytest.mark.slow

Write = Callable[[], list[SnapshotInput]]


@pytest.fixture
def write(federation: Federation, tmp_path: Path) -> Write:
    """Writes a snapshot of each node of the federation into `tmp_path`."""

    def write_all() -> list[SnapshotInput]:
        written = []
        for one in federation.inputs():
            path = str(tmp_path / f"of {one.name}, 100 %")
            write_snapshot(one, path, verify=True, work=tmp_path, progress=print)
            written.append(SnapshotInput(name=one.name, directory=path, url=path))
        return written

    return write_all


def planned(inputs: Sequence[OpenedInput]) -> BucketPlan:
    return plan_of(survey(inputs), verify=True)


def rows_in(frame: DataFrame | None) -> list[str]:
    assert frame is not None
    return sorted(str(row.asDict()) for row in frame.collect())


def compared(spark: SparkSession, inputs: list[SnapshotInput]) -> ReconcileSummary:
    return ReconcileJob(
        inputs=inputs,
        report=None,
        repair=False,
        master="",
        verify=True,
        settle_seconds=1.0,
        progress=print,
        sleep=lambda seconds: pytest.fail("the rows of snapshots do not change"),
        spark=spark,
    ).run()


def test_spark_reads_the_same_rows_as_the_workers_of_python(
    spark: SparkSession, federation: Federation, write: Write
) -> None:
    eu, us, _ = three_catalogs(federation)
    us.own("/messagegroups/gone", deleted=True)
    eu.rows[us.authority, "/messagegroups/us1"] = damaged(
        eu.rows[us.authority, "/messagegroups/us1"]
    )
    plan = planned(write())

    assert rows_in(snapshot_rows(spark, plan)) == rows_in(digest_rows(spark, plan))


def test_python_reads_some_buckets_and_other_catalogs(
    spark: SparkSession, federation: Federation, write: Write
) -> None:
    three_catalogs(federation)
    [first, *others] = write()
    some = replace(planned([first, *others]), ranges=[BucketRange(0, 1000)])
    mixed = planned([federation.nodes["eu"].given, *others])

    assert snapshot_rows(spark, some) is None
    assert snapshot_rows(spark, mixed) is None


def test_differences_of_snapshots_are_found_and_not_read_again(
    spark: SparkSession, federation: Federation, write: Write
) -> None:
    eu, us, hub = three_catalogs(federation)
    us.hold(eu.authority, "/messagegroups/eu0", epoch=2)
    hub.hold(us.authority, "/messagegroups/nobody")

    found = compared(spark, write()).samples

    assert {(finding, one.catalog) for finding, all in found.items() for one in all} == {
        ("ahead", "us"),
        ("orphaned", "hub"),
    }


def test_snapshots_of_empty_catalogs_are_equal(
    spark: SparkSession, federation: Federation, write: Write
) -> None:
    federation.add("eu")
    federation.add("us")

    assert compared(spark, write()).is_equal


def test_a_snapshot_with_a_damaged_file_does_not_stop_the_others(
    spark: SparkSession, federation: Federation, write: Write, tmp_path: Path
) -> None:
    three_catalogs(federation)
    inputs = write()
    [file] = tmp_path.glob("of us*/part-00000.parquet")
    whole = file.read_bytes()
    file.write_bytes(whole[:4] + bytes(200) + whole[204:])

    summary = compared(spark, inputs)

    assert [(one.name, "could not read a file" in one.reason) for one in summary.unread] == [
        ("us", True)
    ]
    assert [one.name for one in summary.catalogs] == ["eu", "hub"]


def test_a_snapshot_that_lacks_a_value_is_refused(
    federation: Federation, write: Write, tmp_path: Path
) -> None:
    three_catalogs(federation)
    [first, *_] = write()
    [file] = tmp_path.glob("of eu*/part-00000.parquet")
    table = pq.read_table(file)
    origins = [None, *table["origin"].to_pylist()[1:]]
    pq.write_table(table.set_column(1, table.schema.field("origin"), [origins]), file)

    with pytest.raises(CatalogUnread, match="a value is missing"):
        first.survey()
