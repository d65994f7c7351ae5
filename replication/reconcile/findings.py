"""The differences of a run, and the questions of reports and repairs to them, as SQL."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa

from catalog.model.entity import Origin
from catalog.operations.reconciliations import REPAIRABLE, FindingName
from replication.reconcile.engine import DuckdbEngine, Engine, Statement

FINDINGS: tuple[FindingName, ...] = get_args(FindingName)
SIGNATURE_FINDINGS: frozenset[FindingName] = frozenset({"unsigned", "forged"})
COPY_FINDINGS: frozenset[FindingName] = SIGNATURE_FINDINGS | {"damaged"}
"""The findings about a single copy, independent of the copies at other catalogs."""

Counts = Mapping[FindingName, Mapping[str, int]]
"""The number of differences by finding and catalog, without zeros."""
Key = tuple[str, str, str, bool]
"""The key of a difference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """An origin whose copy at a catalog is missing or wrong.

    The reference is the copy at the authority's own catalog or, if that catalog is not compared,
    the copy with the greatest epoch. Copies with `COPY_FINDINGS` are references only if the origin
    has no sound copy. The rival of a collided copy is the entity of another authority with the
    same xid. The detail of a finding about a single copy is the fault of the copy. The times
    of changes are those at the authority, in microseconds since 1970.
    """

    finding: FindingName
    catalog: str
    authority: str
    origin: str
    xid: str | None = None
    epoch: int | None = None
    deleted: bool | None = None
    digest: str | None = None
    changedat: int | None = None
    reference: str | None = None
    reference_epoch: int | None = None
    reference_deleted: bool | None = None
    reference_digest: str | None = None
    reference_changedat: int | None = None
    rival_authority: str | None = None
    rival_origin: str | None = None
    detail: str | None = None

    @property
    def key(self) -> Key:
        """The origin, the catalog and the kind of finding, to match two readings.

        The kind is part of the key, since a copy may be both different and falsely signed.
        """
        return self.authority, self.origin, self.catalog, self.finding in COPY_FINDINGS


_NAMES = [field.name for field in fields(Difference)]
_TYPES = {
    **dict.fromkeys(("epoch", "reference_epoch", "changedat", "reference_changedat"), pa.int64()),
    **dict.fromkeys(("deleted", "reference_deleted"), pa.bool_()),
}
_COLUMNS = pa.schema([(name, _TYPES.get(name, pa.string())) for name in _NAMES])
_ORDER = "authority, origin, catalog, finding"


@dataclass(frozen=True, slots=True)
class Findings:
    """The differences in a frame of an engine with the columns of `Difference`."""

    engine: Engine
    frame: str

    @classmethod
    def of(cls, differences: Iterable[Difference]) -> Findings:
        """Differences in memory."""
        engine = DuckdbEngine()
        rows = [asdict(one) for one in differences]
        return cls(engine, engine.load(pa.Table.from_pylist(rows, _COLUMNS)))

    def counts(self) -> Counts:
        """The number of differences, by finding and catalog."""
        text = "SELECT finding, catalog, count(*) AS number FROM {found} GROUP BY finding, catalog"
        counts: dict[FindingName, dict[str, int]] = {}
        rows = self._fetched(Statement(text))
        for row in sorted(rows, key=lambda row: FINDINGS.index(row["finding"])):
            counts.setdefault(row["finding"], {})[row["catalog"]] = row["number"]
        return counts

    def samples(self, most: int) -> dict[FindingName, tuple[Difference, ...]]:
        """The first `most` differences of each finding, by authority, origin and catalog."""
        found: dict[FindingName, tuple[Difference, ...]] = {}
        for one in self._first(most, "finding", f"ORDER BY {_ORDER}"):
            found[one.finding] = (*found.get(one.finding, ()), one)
        return {finding: found[finding] for finding in FINDINGS if finding in found}

    def ranked(self, most: int) -> tuple[Difference, ...]:
        """At most `most` differences, in turn from each finding at each catalog."""
        order = f"ORDER BY place, {_ORDER} LIMIT {most}"
        return tuple(self._first(most, "finding, catalog", order))

    def authorities(self) -> Mapping[str, Mapping[str, int]]:
        """The numbers of repairable differences, by catalog and authority."""
        text = f"""
SELECT catalog, authority, count(*) AS number FROM {{found}}
WHERE finding IN ({_quoted(REPAIRABLE)}) GROUP BY catalog, authority ORDER BY catalog, authority"""
        found: dict[str, dict[str, int]] = {}
        for row in self._fetched(Statement(text)):
            found.setdefault(row["catalog"], {})[row["authority"]] = row["number"]
        return found

    def repairs(
        self, catalog: str, authorities: Collection[str], sources: Collection[str]
    ) -> Iterator[tuple[Origin, FindingName, int | None]]:
        """The origins that a catalog should fetch again, parents before their children.

        Each comes with the finding, and with the epoch of the reference.

        Args:
            authorities: the authorities whose origins the catalog should fetch; at least one.
            sources: the catalogs from which the catalog fetches. Origins with `COPY_FINDINGS` at
                a source are left out.
        """
        # The differences may exceed the memory, so they are read as they are needed.
        for row in self.engine.stream(self._wanted("ANTI", catalog, authorities, sources)):
            yield Origin(row["authority"], row["origin"]), row["finding"], row["epoch"]

    def withheld(self, catalog: str, authorities: Collection[str], sources: Collection[str]) -> int:
        """The number of origins that `repairs` leaves out for the sake of `sources`."""
        return self.engine.count(self._wanted("SEMI", catalog, authorities, sources))

    def write(self, path: Path) -> None:
        """Write the differences to the Parquet directory `path`, and replace earlier contents."""
        self.engine.write(self.frame, path)

    def _fetched(self, statement: Statement) -> list[dict[str, Any]]:
        return self.engine.fetch(self.engine.query(statement, found=self.frame))

    def _first(self, most: int, each: str, order: str) -> list[Difference]:
        """The first `most` differences of each combination of the columns `each`."""
        # For a condition on `place`, Spark keeps `most` rows of a combination while it sorts.
        text = f"""
WITH numbered AS (
    SELECT *, row_number() OVER (PARTITION BY {each} ORDER BY {_ORDER}) AS place FROM {{found}}
)
SELECT {", ".join(_NAMES)} FROM numbered WHERE place <= {most} {order}"""
        return [Difference(**row) for row in self._fetched(Statement(text))]

    def _wanted(
        self, join: str, catalog: str, authorities: Collection[str], sources: Collection[str]
    ) -> str:
        """A frame of the origins to repair that have, or have not, an unsound copy at a source.

        Args:
            join: `SEMI` for the origins with an unsound copy, `ANTI` for the others.
        """
        arguments = {
            "catalog0": catalog,
            **{f"authority{n}": each for n, each in enumerate(authorities)},
            **{f"source{n}": each for n, each in enumerate(sources)},
        }
        named = ", ".join(f":{name}" for name in arguments if name.startswith("authority"))
        given = ", ".join(f":{name}" for name in arguments if name.startswith("source")) or "NULL"
        # Of several findings about a copy, the first by name counts.
        text = f"""
WITH wanted AS (
    SELECT authority, origin, min(finding) AS finding, max(reference_epoch) AS epoch FROM {{found}}
    WHERE finding IN ({_quoted(REPAIRABLE)}) AND catalog = :catalog0 AND authority IN ({named})
    GROUP BY authority, origin
), spoilt AS (
    SELECT DISTINCT authority, origin FROM {{found}}
    WHERE finding IN ({_quoted(COPY_FINDINGS)}) AND catalog IN ({given})
)
SELECT w.authority, w.origin, w.finding, w.epoch FROM wanted AS w {join} JOIN spoilt AS s
    ON s.authority = w.authority AND s.origin = w.origin
ORDER BY length(w.origin) - length(replace(w.origin, '/', '')), w.origin, w.authority"""
        return self.engine.query(Statement(text, arguments), found=self.frame)


def _quoted(findings: Iterable[FindingName]) -> str:
    return ", ".join(f"'{each}'" for each in sorted(findings))
