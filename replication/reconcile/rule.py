"""The rule that names differences, as Spark columns, for 10^8 rows.

The reference of an origin is the copy at its authority's own catalog or, if that catalog is not
compared, the copy with the greatest epoch. `_finding` compares the copy at each other catalog
with it, and `_with_rivals` explains missing copies whose xid another authority holds. What is
unsigned or forged is a finding besides, and is no reference if there is another copy.

One shuffle brings the copies of an origin together, as plain numbers: two 64-bit hashes stand
for the origin, and one flat aggregate for each column of each catalog. (An aggregate of a
struct or a string would make Spark sort instead of hash.) `described` adds the readable strings
for the few origins that differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from catalog.operations.reconciliations import FindingName
from replication.reconcile.copysignatures import DETAILS, UNSIGNED
from replication.reconcile.findings import (
    FINDINGS,
    SIGNATURE_FINDINGS,
    Difference,
)
from replication.reconcile.topology import Coverage, Topology

CODES: dict[FindingName, int] = {name: code for code, name in enumerate(FINDINGS, 1)}
NO_FINDING = 0
NO_OWNER = -1
Hint = Callable[[DataFrame], DataFrame]

KEY = ["h1", "h2"]
_COMPARED = ("epoch", "deleted", "fp")
_PER_CATALOG = (*_COMPARED, "contested")
_SHOWN = ("authority", "origin", "xid", "epoch", "deleted", "digest")


def origin_key() -> list[Column]:
    """Two independent hashes of an origin. Together they clash in one of 10^22 runs."""
    return [F.xxhash64(F.lit(n), "authority", "origin").alias(f"h{n}") for n in (1, 2)]


def hashed(rows: DataFrame) -> DataFrame:
    """`rows` with hashes of their strings, so that later steps move numbers only.

    `xid_hash` and `authority_hash` serve to find xids that two authorities hold.
    """
    return rows.select(
        "*",
        *origin_key(),
        F.xxhash64("xid").alias("xid_hash"),
        F.xxhash64("authority").alias("authority_hash"),
    )


def find_differences(rows: DataFrame, topology: Topology, totals: Observation) -> DataFrame:
    """Each origin at each catalog where it differs: (h1, h2, catalog, code, reference).

    `rows` are `hashed`. `catalog` and `reference` are positions, `code` is one of `CODES`.
    `totals` observes the number of `origins`, of `unverifiable` ones (whose authority is not
    among the catalogs) and of `doubled` ones (which a catalog lists twice).
    """
    origins = _origins(rows, topology).observe(
        totals,
        F.count(F.lit(1)).alias("origins"),
        F.count_if(F.col("owner") == NO_OWNER).alias("unverifiable"),
        F.count_if(F.col("copies") > F.bit_count("present")).alias("doubled"),
    )
    suspects = origins.where(_may_differ()).withColumn("reference", _reference(topology))
    codes = F.array(_finding(), _signature_finding())
    # From here on a row is one catalog's, so that the code which Spark generates for the rule
    # does not grow with the number of catalogs.
    copies = suspects.select(
        *KEY,
        "owner",
        "expected",
        "reference",
        "unsigned",
        "forged",
        *(_of_reference(name, topology).alias(f"reference_{name}") for name in _COMPARED),
        F.inline(F.array(*(_copy_at(catalog) for catalog in range(len(topology.names))))),
    )
    found = copies.select(*KEY, "reference", "catalog", F.explode(codes).alias("code"))
    return found.where(F.col("code") != NO_FINDING)


def _finding() -> Column:
    """The code of the first condition that holds; none holds for a copy as it should be."""
    catalog, epoch, deleted = F.col("catalog"), F.col("epoch"), F.col("deleted") == 1
    at_reference, gone = F.col("reference_epoch"), F.col("reference_deleted") == 1
    is_expected = F.col("expected").bitwiseAND(_bit(catalog)) != 0
    no_copy, no_reference = epoch.isNull(), at_reference.isNull()
    is_changed = (F.col("fp") != F.col("reference_fp")) | (deleted != gone)
    conditions: list[tuple[Column, FindingName | None]] = [
        (F.col("owner") == catalog, None),
        (no_copy & (no_reference | gone | ~is_expected), None),
        (no_copy, "missing"),
        ((F.col("contested") == 1) & ~deleted, "collided"),
        (no_reference & deleted, None),
        (no_reference, "orphaned"),
        (deleted & gone, None),
        (epoch < at_reference, "stale"),
        (epoch > at_reference, "ahead"),
        (is_changed, "diverged"),
    ]
    codes = (F.when(holds, CODES[name] if name else NO_FINDING) for holds, name in conditions)
    return F.coalesce(*codes, F.lit(NO_FINDING))


def _signature_finding() -> Column:
    """The code of what is wrong with the signature of a copy, also at its authority's catalog."""
    return (
        F.when(_is_in("forged"), CODES["forged"])
        .when(_is_in("unsigned"), CODES["unsigned"])
        .otherwise(NO_FINDING)
    )


def _is_in(mask: str) -> Column:
    return F.col(mask).bitwiseAND(_bit(F.col("catalog"))) != 0


def _copy_at(catalog: int) -> Column:
    columns = (F.col(f"{name}_{catalog}").alias(name) for name in _PER_CATALOG)
    return F.struct(F.lit(catalog).alias("catalog"), *columns)


def _bit(catalog: Column) -> Column:
    """A mask of one catalog. (`F.shiftleft` shifts by a constant only.)"""
    return F.call_function("shiftleft", F.lit(1).cast("bigint"), catalog)


def _may_differ() -> Column:
    """Whether an origin may have a finding: cheap, and true of few."""
    differing = (F.col(f"least_{name}") != F.col(f"most_{name}") for name in ("epoch", "fp"))
    missing = F.col("expected").bitwiseAND(F.bitwise_not("present")) != 0
    orphaned = (F.col("owner") != NO_OWNER) & (
        F.col("present").bitwiseAND(_bit(F.col("owner"))) == 0
    )
    is_spoilt = F.col("unsigned").bitwiseOR(F.col("forged")) != 0
    return reduce(or_, differing) | (F.col("most_contested") == 1) | missing | orphaned | is_spoilt


def _origins(rows: DataFrame, topology: Topology) -> DataFrame:
    """One row for each origin, with the columns of the copy at every catalog."""
    copies = _with_contested(rows).select(
        "catalog",
        *KEY,
        _owner(topology).alias("owner"),
        _expected(topology).alias("expected"),
        "epoch",
        F.col("deleted").cast("int").alias("deleted"),
        "fp",
        "contested",
        _bit(F.col("catalog")).alias("bit"),
        "signature",
    )
    none, is_unsigned = F.lit(0).cast("bigint"), F.col("signature") == UNSIGNED
    per_catalog = [
        F.max(F.when(F.col("catalog") == catalog, F.col(name))).alias(f"{name}_{catalog}")
        for catalog in range(len(topology.names))
        for name in _PER_CATALOG
    ]
    return copies.groupBy(*KEY).agg(
        F.max("owner").alias("owner"),
        F.max("expected").alias("expected"),
        F.count(F.lit(1)).alias("copies"),
        F.bit_or(F.col("bit")).alias("present"),
        F.bit_or(F.when(is_unsigned, F.col("bit")).otherwise(none)).alias("unsigned"),
        F.bit_or(F.when(F.col("signature") > UNSIGNED, F.col("bit")).otherwise(none)).alias(
            "forged"
        ),
        F.min("epoch").alias("least_epoch"),
        F.max("epoch").alias("most_epoch"),
        F.min("fp").alias("least_fp"),
        F.max("fp").alias("most_fp"),
        F.max("contested").alias("most_contested"),
        *per_catalog,
    )


def _with_contested(rows: DataFrame) -> DataFrame:
    """`rows` with `contested`: 1 where two authorities hold the same xid of one catalog."""
    shared = (
        rows.where(~F.col("deleted"))
        .groupBy("catalog", "xid_hash")
        .agg(F.min("authority_hash").alias("least"), F.max("authority_hash").alias("most"))
        .where(F.col("least") != F.col("most"))
        .select("catalog", "xid_hash", F.lit(1).alias("shared"))
    )
    # Few xids are shared, and without the hint Spark would shuffle all rows to find them.
    marked = rows.join(F.broadcast(shared), ["catalog", "xid_hash"], "left")
    return marked.withColumn("contested", F.coalesce("shared", F.lit(0)))


def _owner(topology: Topology) -> Column:
    owners = (
        F.when(F.col("authority") == authority, position)
        for position, authority in enumerate(topology.authorities)
    )
    return F.coalesce(*owners, F.lit(NO_OWNER))


def _expected(topology: Topology) -> Column:
    """A mask of the catalogs that are supposed to hold the origin, one bit each."""
    none = F.lit(0).cast("bigint")
    bits = (
        F.when(_is_covered(coverage), F.lit(1 << position).cast("bigint")).otherwise(none)
        for position, coverage in enumerate(topology.coverage)
    )
    return reduce(lambda mask, bit: mask.bitwiseOR(bit), bits)


def _is_covered(by_authority: Mapping[str, Coverage]) -> Column:
    origin = F.col("origin")
    covered = (
        (F.col("authority") == authority) & ((origin == path) | origin.startswith(path + "/"))
        for authority, coverage in by_authority.items()
        for path in sorted(coverage.subtrees)
    )
    return reduce(or_, covered, F.lit(False))


def _reference(topology: Topology) -> Column:
    """The position of the owner or, without one, of the first copy with the greatest epoch.

    Copies that are unsigned or forged come after the others, the owner's too.
    """
    owner, spoilt = F.col("owner"), F.col("unsigned").bitwiseOR(F.col("forged"))
    epochs = [F.col(f"epoch_{catalog}") for catalog in range(len(topology.names))]
    sound = [F.when(spoilt.bitwiseAND(1 << n) == 0, epoch) for n, epoch in enumerate(epochs)]
    has_owner = owner != NO_OWNER
    is_owner_sound = spoilt.bitwiseAND(_bit(owner)) == 0
    return F.coalesce(
        F.when(has_owner & is_owner_sound, owner),
        *_newest(sound),
        F.when(has_owner, owner),
        *_newest(epochs),
    )


def _newest(epochs: Sequence[Column]) -> list[Column]:
    """For each position, itself if none has a greater epoch."""
    return [F.when(epoch == F.greatest(*epochs), place) for place, epoch in enumerate(epochs)]


def _of_reference(name: str, topology: Topology) -> Column:
    copies = (
        F.when(F.col("reference") == catalog, F.col(f"{name}_{catalog}"))
        for catalog in range(len(topology.names))
    )
    return F.coalesce(*copies)


def described(rows: DataFrame, found: DataFrame, topology: Topology, *, is_few: bool) -> DataFrame:
    """The differences that `find_differences` found, with the columns of `Difference`.

    If they are few, every worker gets all of them, so that no row has to move.
    """
    hint: Hint = F.broadcast if is_few else lambda frame: frame
    copies = rows.join(hint(found.select(*KEY).distinct()), KEY, "left_semi")
    reference = copies.select(
        *KEY,
        F.col("catalog").alias("reference"),
        *(F.col(name).alias(f"reference_{name}") for name in _SHOWN),
    )
    full = (
        found.join(reference, [*KEY, "reference"], "left")
        .join(copies.select(*KEY, "catalog", *_SHOWN, "signature"), [*KEY, "catalog"], "left")
        .withColumn("authority", F.coalesce("authority", "reference_authority"))
        .withColumn("origin", F.coalesce("origin", "reference_origin"))
        .withColumn("at", F.coalesce("xid", "origin"))
    )
    return _with_names(_with_rivals(full, rows, hint), topology)


def _with_rivals(full: DataFrame, rows: DataFrame, hint: Hint) -> DataFrame:
    """`full` with the first other authority that holds the xid of a missing or collided copy.

    A missing copy with a rival is collided.
    """
    asked = full.where(F.col("code").isin(CODES["missing"], CODES["collided"]))
    holders = (
        rows.where(~F.col("deleted"))
        .withColumn("at", F.col("xid"))
        .join(hint(asked.select("catalog", "at").distinct()), ["catalog", "at"], "left_semi")
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
    is_taken = (F.col("code") == CODES["missing"]) & F.col("rival").isNotNull()
    code = F.when(is_taken, CODES["collided"]).otherwise(F.col("code"))
    return full.join(rivals, [*KEY, "catalog"], "left").withColumn("code", code)


def _with_names(full: DataFrame, topology: Topology) -> DataFrame:
    names = F.array(*(F.lit(name) for name in topology.names))
    has_reference = F.col("reference_epoch").isNotNull()
    is_collided = F.col("code") == CODES["collided"]
    details = F.array(*(F.lit(detail) for detail in DETAILS))
    is_about_signature = F.col("code").isin(*(CODES[name] for name in SIGNATURE_FINDINGS))
    named = {
        "finding": F.element_at(F.array(*(F.lit(name) for name in FINDINGS)), F.col("code")),
        "catalog": F.element_at(names, F.col("catalog") + 1),
        "reference": F.when(has_reference, F.element_at(names, F.col("reference") + 1)),
        "rival_authority": F.when(is_collided, F.col("rival.rival_authority")),
        "rival_origin": F.when(is_collided, F.col("rival.rival_origin")),
        "detail": F.when(
            is_about_signature, F.element_at(details, F.col("signature") - (UNSIGNED - 1))
        ),
    }
    columns = [field.name for field in fields(Difference)]
    return full.select(*(named.get(name, F.col(name)).alias(name) for name in columns))
