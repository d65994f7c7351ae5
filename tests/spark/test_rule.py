"""The rule in both engines, on its cases and against the oracle in plain Python."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from typing import Any, Protocol

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from replication.reconcile.compare import find_differences
from replication.reconcile.digestrows import ROWS
from replication.reconcile.engine import DuckdbEngine, Engine
from replication.reconcile.findings import FINDINGS, Difference, FindingName
from replication.reconcile.rule import differences_in, origins_of
from replication.reconcile.signatures import DETAILS, UNCHECKED, UNSIGNED, VERIFIED
from replication.reconcile.sparkengine import SparkEngine, hashed
from tests.spark.cases import ABSENT, CASES, OWNER_A, OWNER_B, TOPOLOGY, copy
from tests.spark.oracle import Copy, classify

pytestmark = pytest.mark.slow


class Compare(Protocol):
    """Compares copies with one engine: the differences in order, and the totals."""

    def __call__(self, copies: Sequence[Copy]) -> tuple[list[Difference], Mapping[str, int]]: ...


def table_of(copies: Sequence[Copy]) -> pa.Table:
    columns = {name: [getattr(one, name) for one in copies] for name in asdict(copies[0])}
    return pa.table({each.name: pa.array(columns[each.name], each.type) for each in ROWS})


def compared(engine: Engine, rows: str) -> tuple[list[Difference], Mapping[str, int]]:
    with find_differences(engine, rows, TOPOLOGY) as found:
        differences = [Difference(**row) for row in engine.fetch(found.frame)]
    position = TOPOLOGY.names.index
    ordered = sorted(differences, key=lambda one: (*one.key[:2], position(one.catalog), one.key[3]))
    return ordered, found.totals


def in_spark(spark: SparkSession, copies: Sequence[Copy]) -> DataFrame:
    return hashed(spark.createDataFrame(table_of(copies)).coalesce(2))


@pytest.fixture(scope="module", params=["spark", "duckdb"])
def compare(request: pytest.FixtureRequest) -> Iterator[Compare]:
    if request.param == "spark":
        spark = request.getfixturevalue("spark")

        def with_spark(copies: Sequence[Copy]) -> tuple[list[Difference], Mapping[str, int]]:
            engine = SparkEngine(spark)
            with engine.cached(in_spark(spark, copies)) as rows:
                return compared(engine, rows)

        yield with_spark
        return
    with closing(DuckdbEngine()) as engine:

        def with_duckdb(copies: Sequence[Copy]) -> tuple[list[Difference], Mapping[str, int]]:
            with engine.hashed(table_of(copies)) as rows:
                return compared(engine, rows)

        yield with_duckdb


def named(found: Sequence[Difference]) -> set[tuple[str, str, str, FindingName]]:
    return {(one.authority, one.origin, one.catalog, one.finding) for one in found}


@pytest.fixture(scope="module")
def all_found(compare: Compare) -> list[Difference]:
    return compare([one for case in CASES.values() for one in case.copies])[0]


@pytest.mark.parametrize("name", CASES)
def test_the_engine_finds(name: str, all_found: list[Difference]) -> None:
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


def test_the_engine_and_the_oracle_find_the_same(compare: Compare) -> None:
    copies = drawn_worlds(400)

    found, totals = compare(copies)

    assert found == classify(copies, TOPOLOGY)
    assert {one.finding for one in found} == set(FINDINGS)
    origins = {(one.authority, one.origin) for one in copies}
    assert totals["origins"] == len(origins)
    assert totals["unverifiable"] == sum(authority == ABSENT for authority, _ in origins)
    assert totals["doubled"] == 0


def test_an_origin_that_a_catalog_lists_twice_is_counted(compare: Compare) -> None:
    one = copy(1, "/groups/twice")

    _, totals = compare([copy(0, "/groups/twice"), one, replace(one, xid="/groups/again")])

    assert totals["doubled"] == 1


def test_the_comparison_hashes_and_never_sorts(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = SparkEngine(spark)
    rows = engine.view(in_spark(spark, [copy(0, "/groups/g")]))
    origins = engine.query(origins_of(TOPOLOGY), rows=rows)
    spark.table(engine.query(differences_in(TOPOLOGY), origins=origins)).explain()

    plan = capsys.readouterr().out
    assert "HashAggregate" in plan
    assert "SortAggregate" not in plan
    assert "SortMergeJoin" not in plan
