"""The differences of one run: a list where they are few, a frame of Spark where they are many."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import groupby
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from catalog.model.entity import Origin
from catalog.model.xid import depth
from replication.reconcile.rule import FINDINGS, REPAIRABLE, Difference, FindingName

Counts = Mapping[FindingName, Mapping[str, int]]
"""How many differences of each finding there are at each catalog; zeros are left out."""

_INTEGERS = frozenset({"epoch", "reference_epoch"})
_FLAGS = frozenset({"deleted", "reference_deleted"})


class Findings(Protocol):
    """What a report and a repair want to know of the differences."""

    def counts(self) -> Counts:
        """How many there are, by finding and catalog."""

    def samples(self, most: int) -> dict[FindingName, tuple[Difference, ...]]:
        """The first of each finding, by authority, origin and catalog."""

    def authorities(self) -> dict[str, frozenset[str]]:
        """For each catalog the authorities of what a repair there can settle."""

    def repairs(self, catalog: str, authorities: Collection[str]) -> Iterator[Origin]:
        """What to fetch again at a catalog, parents before their children."""

    def write(self, path: Path) -> None:
        """Write them to the Parquet directory `path`, in place of what is there."""


@dataclass(frozen=True, slots=True)
class Listed:
    """Differences in memory, ordered by authority, origin and catalog."""

    differences: Sequence[Difference]

    def counts(self) -> Counts:
        pairs = Counter((one.finding, one.catalog) for one in self.differences)
        return _counts((finding, catalog, count) for (finding, catalog), count in pairs.items())

    def samples(self, most: int) -> dict[FindingName, tuple[Difference, ...]]:
        return {
            finding: found
            for finding in FINDINGS
            if (found := tuple(d for d in self.differences if d.finding == finding)[:most])
        }

    def authorities(self) -> dict[str, frozenset[str]]:
        return _by_catalog((one.catalog, one.authority) for one in self._repairable())

    def repairs(self, catalog: str, authorities: Collection[str]) -> Iterator[Origin]:
        origins = {
            Origin(one.authority, one.origin)
            for one in self._repairable()
            if one.catalog == catalog and one.authority in authorities
        }
        yield from sorted(origins, key=lambda one: (depth(one.xid), one.xid, one.authority))

    def write(self, path: Path) -> None:
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        table = pa.Table.from_pylist([asdict(one) for one in self.differences], _schema())
        pq.write_table(table, path / "part-00000.parquet", compression="zstd")

    def _repairable(self) -> Iterator[Difference]:
        return (one for one in self.differences if one.finding in REPAIRABLE)


@dataclass(frozen=True, slots=True)
class Framed:
    """Differences in a persisted frame with the columns of `Difference`."""

    frame: DataFrame

    def counts(self) -> Counts:
        return _counts(
            (row["finding"], row["catalog"], row["count"])
            for row in self.frame.groupBy("finding", "catalog").count().collect()
        )

    def samples(self, most: int) -> dict[FindingName, tuple[Difference, ...]]:
        return {
            finding: found
            for finding in FINDINGS
            if (found := tuple(differences_in(self._first(finding, most))))
        }

    def _first(self, finding: FindingName, most: int) -> DataFrame:
        ordered = self.frame.where(F.col("finding") == finding).orderBy(
            "authority", "origin", "catalog"
        )
        return ordered.limit(most)

    def authorities(self) -> dict[str, frozenset[str]]:
        pairs = self._repairable().select("catalog", "authority").distinct().collect()
        return _by_catalog((row["catalog"], row["authority"]) for row in pairs)

    def repairs(self, catalog: str, authorities: Collection[str]) -> Iterator[Origin]:
        origins = (
            self._repairable()
            .where((F.col("catalog") == catalog) & F.col("authority").isin(*authorities))
            .select("authority", "origin")
            .orderBy(F.size(F.split("origin", "/")), "origin", "authority")
        )
        for row in origins.toLocalIterator():
            yield Origin(row["authority"], row["origin"])

    def write(self, path: Path) -> None:
        self.frame.write.mode("overwrite").option("compression", "zstd").parquet(str(path))

    def _repairable(self) -> DataFrame:
        return self.frame.where(F.col("finding").isin(*REPAIRABLE))


def differences_in(frame: DataFrame) -> list[Difference]:
    """The differences of a frame, in memory."""
    return [Difference(**row.asDict()) for row in frame.collect()]


def _counts(triples: Iterator[tuple[FindingName, str, int]]) -> Counts:
    counts: dict[FindingName, dict[str, int]] = {}
    for finding, catalog, count in sorted(triples, key=lambda one: FINDINGS.index(one[0])):
        counts.setdefault(finding, {})[catalog] = count
    return counts


def _by_catalog(pairs: Iterator[tuple[str, str]]) -> dict[str, frozenset[str]]:
    grouped = groupby(sorted(pairs), key=lambda pair: pair[0])
    return {catalog: frozenset(authority for _, authority in each) for catalog, each in grouped}


def _schema() -> pa.Schema:
    def type_of(name: str) -> pa.DataType:
        if name in _INTEGERS:
            return pa.int64()
        return pa.bool_() if name in _FLAGS else pa.string()

    return pa.schema([(field.name, type_of(field.name)) for field in fields(Difference)])
