"""The rule in Spark, on its cases and against the oracle in plain Python."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, Observation, SparkSession

from replication.reconcile.copysignatures import DETAILS, UNCHECKED, UNSIGNED, VERIFIED
from replication.reconcile.digestrows import fingerprints
from replication.reconcile.findings import FINDINGS, Difference, FindingName, differences_of
from replication.reconcile.rule import described, find_differences, hashed
from tests.spark.cases import ABSENT, CASES, OWNER_A, OWNER_B, TOPOLOGY, copy
from tests.spark.oracle import Copy, classify

pytestmark = pytest.mark.slow


def frame_of(spark: SparkSession, copies: Sequence[Copy]) -> DataFrame:
    columns = {name: [getattr(one, name) for one in copies] for name in asdict(copies[0])}
    digests = pa.array(columns["digest"])
    types = {
        "catalog": pa.int32(),
        "epoch": pa.int64(),
        "deleted": pa.bool_(),
        "signature": pa.int8(),
    }
    arrays = {name: pa.array(column, types.get(name)) for name, column in columns.items()}
    return spark.createDataFrame(pa.table({**arrays, "fp": fingerprints(digests)}))


def compared(
    spark: SparkSession, copies: Sequence[Copy]
) -> tuple[list[Difference], dict[str, Any]]:
    rows = hashed(frame_of(spark, copies).coalesce(2)).cache()
    totals = Observation()
    found = find_differences(rows, TOPOLOGY, totals).cache()
    found.count()
    differences = differences_of(described(rows, found, TOPOLOGY, is_few=True))
    found.unpersist()
    rows.unpersist()
    names = TOPOLOGY.names
    ordered = sorted(
        differences, key=lambda one: (*one.key[:2], names.index(one.catalog), one.key[3])
    )
    return ordered, totals.get


def named(found: Sequence[Difference]) -> set[tuple[str, str, str, FindingName]]:
    return {(one.authority, one.origin, one.catalog, one.finding) for one in found}


@pytest.fixture(scope="module")
def all_found(spark: SparkSession) -> list[Difference]:
    return compared(spark, [one for case in CASES.values() for one in case.copies])[0]


@pytest.mark.parametrize("name", CASES)
def test_spark_finds(name: str, all_found: list[Difference]) -> None:
    case = CASES[name]
    origins = {(one.authority, one.origin) for one in case.copies}
    found = [one for one in all_found if (one.authority, one.origin) in origins]
    assert named(found) == case.found


@pytest.mark.parametrize("name", CASES)
def test_the_oracle_finds(name: str) -> None:
    found = classify(CASES[name].copies, TOPOLOGY)

    assert named(found) == CASES[name].found


def test_the_cases_show_every_finding() -> None:
    assert {finding for case in CASES.values() for *_, finding in case.found} == set(FINDINGS)


HOLDINGS = st.none() | st.tuples(
    st.integers(1, 3),
    st.booleans(),
    st.sampled_from("xy"),
    st.sampled_from(["", "-mapped"]),
    st.sampled_from([UNCHECKED, VERIFIED, VERIFIED, *range(UNSIGNED, UNSIGNED + len(DETAILS))]),
)
WORLDS = st.lists(
    st.tuples(
        st.sampled_from([OWNER_A, OWNER_B, ABSENT, "https://c"]),
        st.sampled_from(["one", "two"]),
        st.sampled_from(["/groups/wide/{}/1", "/groups/{}"]),
        st.tuples(HOLDINGS, HOLDINGS, HOLDINGS),
    ),
    max_size=6,
)


def world(number: int, drawn: list[Any]) -> list[Copy]:
    """The copies that were drawn, under names that no other world uses."""
    held = {}
    for authority, name, path, holdings in drawn:
        origin = path.format(f"{name}{number}")
        for catalog, holding in enumerate(holdings):
            if holding is not None:
                epoch, deleted, content, suffix, signature = holding
                held[catalog, authority, origin] = copy(
                    catalog,
                    origin,
                    epoch,
                    authority=authority,
                    deleted=deleted,
                    content=content,
                    xid=origin + suffix,
                    signature=signature,
                )
    return list(held.values())


def drawn_worlds(count: int) -> list[Copy]:
    """`count` worlds side by side: Spark takes as long for all of them as for one."""
    copies: list[Copy] = []
    numbers = itertools.count()

    @settings(max_examples=count, deadline=None, database=None)
    @given(WORLDS)
    def collect(drawn: list[Any]) -> None:
        copies.extend(world(next(numbers), drawn))

    collect()
    return copies


def test_spark_and_the_oracle_find_the_same(spark: SparkSession) -> None:
    copies = drawn_worlds(400)

    found, totals = compared(spark, copies)

    assert found == classify(copies, TOPOLOGY)
    assert {one.finding for one in found} == set(FINDINGS)
    origins = {(one.authority, one.origin) for one in copies}
    assert totals["origins"] == len(origins)
    assert totals["unverifiable"] == sum(authority == ABSENT for authority, _ in origins)
    assert totals["doubled"] == 0


def test_an_origin_that_a_catalog_lists_twice_is_counted(spark: SparkSession) -> None:
    one = copy(1, "/groups/twice")

    _, totals = compared(spark, [copy(0, "/groups/twice"), one, replace(one, xid="/groups/again")])

    assert totals["doubled"] == 1


def test_the_comparison_hashes_and_never_sorts(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    find_differences(
        hashed(frame_of(spark, [copy(0, "/groups/g")])), TOPOLOGY, Observation()
    ).explain()

    plan = capsys.readouterr().out
    assert "HashAggregate" in plan
    assert "SortAggregate" not in plan
    assert "SortMergeJoin" not in plan
