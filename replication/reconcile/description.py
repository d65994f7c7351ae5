"""What was judged, in words: readable strings joined back for the few origins that differ."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from replication.reconcile.columns import CODES, KEY
from replication.reconcile.rule import FINDINGS, Difference
from replication.reconcile.topology import Topology

_NAMES = [field.name for field in fields(Difference)]
_SHOWN = ("authority", "origin", "xid", "epoch", "deleted", "digest")


def described(rows: DataFrame, judged: DataFrame, topology: Topology, *, is_few: bool) -> DataFrame:
    """What `judge` found, in words: the columns of `Difference`.

    Missing entities whose place is taken become collided ones. Where there are few
    differences every worker gets all of them, so that no row has to move.
    """
    near = F.broadcast if is_few else _unchanged
    evidence = rows.join(near(judged.select(*KEY).distinct()), KEY, "left_semi")
    reference = evidence.select(
        *KEY,
        F.col("catalog").alias("reference"),
        *(F.col(name).alias(f"reference_{name}") for name in _SHOWN),
    )
    local = evidence.select(*KEY, "catalog", *_SHOWN)
    full = (
        judged.join(reference, [*KEY, "reference"], "left")
        .join(local, [*KEY, "catalog"], "left")
        .withColumn("authority", F.coalesce("authority", "reference_authority"))
        .withColumn("origin", F.coalesce("origin", "reference_origin"))
        .withColumn("at", F.coalesce("xid", "origin"))
    )
    return _named(_with_rivals(full, rows, near), topology)


def _unchanged(frame: DataFrame) -> DataFrame:
    return frame


def _with_rivals(
    full: DataFrame, rows: DataFrame, near: Callable[[DataFrame], DataFrame]
) -> DataFrame:
    """`full` with the first other authority that holds the place of what is not there."""
    asked = full.where(F.col("code").isin(CODES["missing"], CODES["collided"]))
    holders = (
        rows.where(~F.col("deleted"))
        .withColumn("at", F.col("xid"))
        .join(near(asked.select("catalog", "at").distinct()), ["catalog", "at"], "left_semi")
        .select(
            "catalog",
            "at",
            F.col("authority").alias("rival_authority"),
            F.col("origin").alias("rival_origin"),
        )
    )
    rivals = (
        asked.select(*KEY, "catalog", "at", "authority")
        .join(holders, ["catalog", "at"])
        .where(F.col("rival_authority") != F.col("authority"))
        .groupBy(*KEY, "catalog")
        .agg(F.min(F.struct("rival_authority", "rival_origin")).alias("rival"))
    )
    taken = (F.col("code") == CODES["missing"]) & F.col("rival").isNotNull()
    code = F.when(taken, CODES["collided"]).otherwise(F.col("code"))
    return full.join(rivals, [*KEY, "catalog"], "left").withColumn("code", code)


def _named(full: DataFrame, topology: Topology) -> DataFrame:
    names = F.array(*(F.lit(name) for name in topology.names))
    has_reference = F.col("reference_epoch").isNotNull()
    spoken = {
        "finding": F.element_at(F.array(*(F.lit(name) for name in FINDINGS)), F.col("code")),
        "catalog": F.element_at(names, F.col("catalog") + 1),
        "reference": F.when(has_reference, F.element_at(names, F.col("reference") + 1)),
        "rival_authority": F.col("rival.rival_authority"),
        "rival_origin": F.col("rival.rival_origin"),
    }
    return full.select(*(spoken.get(n, F.col(n)).alias(n) for n in _NAMES))
