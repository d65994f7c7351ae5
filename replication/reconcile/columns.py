"""The rule that names a difference, as Spark columns: `rule.py` for 10^8 rows.

One shuffle brings the copies of an origin together, with plain numbers only: two 64-bit
hashes stand for the origin, and one flat aggregate for each column of each catalog. (An
aggregate of a struct or a string would make Spark sort instead of hash.) `evidence.py` puts
the few origins that differ into words.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from replication.reconcile.rule import FINDINGS, FindingName
from replication.reconcile.topology import Carriage, Topology

CODES: dict[FindingName, int] = {name: code for code, name in enumerate(FINDINGS, 1)}
EQUAL = 0
NOWHERE = -1

KEY = ["h1", "h2"]
_FLAT = ("epoch", "deleted", "fp", "contested")


def keyed(rows: DataFrame) -> DataFrame:
    """`rows` with what all steps need of their strings, hashed once.

    `h1` and `h2` are independent hashes of the origin: together they clash by accident in
    one of 10^22 runs. `place` is one of the xid, `holder` one of the authority.
    """
    return rows.withColumns(
        {
            "h1": F.xxhash64(F.lit(1), "authority", "origin"),
            "h2": F.xxhash64(F.lit(2), "authority", "origin"),
            "place": F.xxhash64("xid"),
            "holder": F.xxhash64("authority"),
        }
    )


def judge(rows: DataFrame, topology: Topology, totals: Observation) -> DataFrame:
    """Each origin at each catalog where something is wrong: (h1, h2, catalog, code, reference).

    `rows` are `keyed`. `catalog` and `reference` are positions, `code` is one of `CODES`.
    `totals` observes `origins`, `unverifiable` (those whose authority is not among the
    inputs) and `doubled` (those that one catalog lists twice).
    """
    states = _states(rows, topology).observe(
        totals,
        F.count(F.lit(1)).alias("origins"),
        F.count_if(F.col("owner") == NOWHERE).alias("unverifiable"),
        F.count_if(F.col("copies") > F.bit_count("present")).alias("doubled"),
    )
    suspects = states.where(_is_suspect()).withColumn("reference", _reference(topology))
    for part in ("epoch", "deleted", "fp"):
        suspects = suspects.withColumn(f"reference_{part}", _picked(part, topology))
    # From here on a row is one catalog's, so that the code which Spark generates for the rule
    # does not grow with the number of catalogs.
    each = suspects.select(
        *KEY,
        "owner",
        "expected",
        "reference",
        *(f"reference_{part}" for part in ("epoch", "deleted", "fp")),
        F.inline(F.array(*(_held_at(catalog) for catalog in range(len(topology.names))))),
    )
    judged = each.select(*KEY, "reference", "catalog", _code().alias("code"))
    return judged.where(F.col("code") != EQUAL)


def _held_at(catalog: int) -> Column:
    parts = (F.col(f"{name}_{catalog}").alias(name) for name in _FLAT)
    return F.struct(F.lit(catalog).alias("catalog"), *parts)


def _bit(catalog: Column) -> Column:
    """A mask of one catalog. (`F.shiftleft` shifts by a constant only.)"""
    return F.call_function("shiftleft", F.lit(1).cast("bigint"), catalog)


def _is_suspect() -> Column:
    """Whether anything about an origin can be wrong: cheap, and true of few."""
    differing = (F.col(f"least_{name}") != F.col(f"most_{name}") for name in ("epoch", "fp"))
    missing = F.col("expected").bitwiseAND(F.bitwise_not("present")) != 0
    orphaned = (F.col("owner") != NOWHERE) & (
        F.col("present").bitwiseAND(_bit(F.col("owner"))) == 0
    )
    return reduce(or_, differing) | (F.col("most_contested") == 1) | missing | orphaned


def _states(rows: DataFrame, topology: Topology) -> DataFrame:
    """One row for each origin: what every catalog holds of it, as numbers."""
    flat = _marked(rows).select(
        "catalog",
        *KEY,
        _owner(topology).alias("owner"),
        _expected(topology).alias("expected"),
        "epoch",
        F.col("deleted").cast("int").alias("deleted"),
        "fp",
        "contested",
        _bit(F.col("catalog")).alias("bit"),
    )
    here = [
        F.max(F.when(F.col("catalog") == catalog, F.col(name))).alias(f"{name}_{catalog}")
        for catalog in range(len(topology.names))
        for name in _FLAT
    ]
    return flat.groupBy(*KEY).agg(
        F.max("owner").alias("owner"),
        F.max("expected").alias("expected"),
        F.count(F.lit(1)).alias("copies"),
        F.bit_or(F.col("bit")).alias("present"),
        F.min("epoch").alias("least_epoch"),
        F.max("epoch").alias("most_epoch"),
        F.min("fp").alias("least_fp"),
        F.max("fp").alias("most_fp"),
        F.max("contested").alias("most_contested"),
        *here,
    )


def _marked(rows: DataFrame) -> DataFrame:
    """`rows` with `contested`: 1 where two authorities hold the same xid of one catalog."""
    shared = (
        rows.where(~F.col("deleted"))
        .groupBy("catalog", "place")
        .agg(F.min("holder").alias("least"), F.max("holder").alias("most"))
        .where(F.col("least") != F.col("most"))
        .select("catalog", "place", F.lit(1).alias("shared"))
    )
    # Few share a place, and without the hint Spark would shuffle all rows to find them.
    marked = rows.join(F.broadcast(shared), ["catalog", "place"], "left")
    return marked.withColumn("contested", F.coalesce("shared", F.lit(0)))


def _owner(topology: Topology) -> Column:
    owners = (
        F.when(F.col("authority") == authority, place)
        for place, authority in enumerate(topology.authorities)
    )
    return F.coalesce(*owners, F.lit(NOWHERE))


def _expected(topology: Topology) -> Column:
    """A mask of the catalogs that are supposed to hold the origin, one bit each."""
    bits = (
        F.when(_carries(carried), F.lit(1 << place).cast("bigint")).otherwise(
            F.lit(0).cast("bigint")
        )
        for place, carried in enumerate(topology.carried)
    )
    return reduce(lambda mask, bit: mask.bitwiseOR(bit), bits)


def _carries(carried: Mapping[str, Carriage]) -> Column:
    return reduce(
        or_,
        (
            (F.col("authority") == authority) & _in_scope(carriage)
            for authority, carriage in carried.items()
        ),
        F.lit(False),
    )


def _in_scope(carriage: Carriage) -> Column:
    origin = F.col("origin")
    return reduce(
        or_,
        ((origin == path) | origin.startswith(path + "/") for path in sorted(carriage.scope)),
        F.lit(False),
    )


def _reference(topology: Topology) -> Column:
    """The owner's position, or that of the first copy with the greatest epoch."""
    epochs = [F.col(f"epoch_{catalog}") for catalog in range(len(topology.names))]
    newest = F.greatest(*epochs)
    firsts = (F.when(epoch == newest, catalog) for catalog, epoch in enumerate(epochs))
    owner = F.col("owner")
    return F.when(owner != NOWHERE, owner).otherwise(F.coalesce(*firsts))


def _picked(part: str, topology: Topology) -> Column:
    return F.coalesce(
        *(
            F.when(F.col("reference") == catalog, F.col(f"{part}_{catalog}"))
            for catalog in range(len(topology.names))
        )
    )


def _code() -> Column:
    """`rule._judge` and `rule._compare`, save that a missing entity's place is looked up later."""
    catalog, epoch, deleted = F.col("catalog"), F.col("epoch"), F.col("deleted") == 1
    theirs, gone = F.col("reference_epoch"), F.col("reference_deleted") == 1
    is_expected = F.col("expected").bitwiseAND(_bit(catalog)) != 0
    same = (F.col("fp") == F.col("reference_fp")) & (deleted == gone)
    return (
        F.when(F.col("owner") == catalog, EQUAL)
        .when(epoch.isNull() & theirs.isNotNull() & ~gone & is_expected, CODES["missing"])
        .when(epoch.isNull(), EQUAL)
        .when((F.col("contested") == 1) & ~deleted, CODES["collided"])
        .when(theirs.isNull(), F.when(deleted, EQUAL).otherwise(CODES["orphaned"]))
        .when(deleted & gone, EQUAL)
        .when(epoch < theirs, CODES["stale"])
        .when(epoch > theirs, CODES["ahead"])
        .otherwise(F.when(same, EQUAL).otherwise(CODES["diverged"]))
    )
