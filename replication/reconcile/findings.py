"""The differences of a run, and a list of differences in memory for small numbers."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Protocol, get_args

import pyarrow as pa
import pyarrow.parquet as pq

from catalog.model.entity import Origin
from catalog.model.xid import depth
from catalog.operations.reconciliations import REPAIRABLE, FindingName

FINDINGS: tuple[FindingName, ...] = get_args(FindingName)
SIGNATURE_FINDINGS: frozenset[FindingName] = frozenset({"unsigned", "forged"})
COPY_FINDINGS: frozenset[FindingName] = SIGNATURE_FINDINGS | {"damaged"}
"""The findings about a single copy, independent of the copies at other catalogs."""

Counts = Mapping[FindingName, Mapping[str, int]]
"""The number of differences by finding and catalog, without zeros."""

_INTEGERS = frozenset({"epoch", "reference_epoch", "changedat", "reference_changedat"})
_FLAGS = frozenset({"deleted", "reference_deleted"})


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
    def key(self) -> tuple[str, str, str, bool]:
        """The origin, the catalog and the kind of finding, to match two readings.

        The kind is part of the key, since a copy may be both different and falsely signed.
        """
        return self.authority, self.origin, self.catalog, self.finding in COPY_FINDINGS


@dataclass(frozen=True, slots=True)
class WantedRepair:
    """An origin that a catalog should fetch again, the finding, and the epoch of the reference."""

    origin: Origin
    finding: FindingName
    epoch: int | None


class Findings(Protocol):
    """The differences, for reports and repairs."""

    def counts(self) -> Counts:
        """The number of differences, by finding and catalog."""

    def samples(self, most: int) -> dict[FindingName, tuple[Difference, ...]]:
        """The first `most` differences of each finding, by authority, origin and catalog."""

    def ranked(self, most: int) -> tuple[Difference, ...]:
        """At most `most` differences, in turn from each finding at each catalog."""

    def authorities(self) -> Mapping[str, Mapping[str, int]]:
        """The numbers of repairable differences, by catalog and authority."""

    def repairs(
        self, catalog: str, authorities: Collection[str], sources: Collection[str]
    ) -> Iterator[WantedRepair]:
        """The origins that a catalog should fetch again, parents before their children.

        Args:
            sources: the catalogs from which the catalog fetches. Origins with `COPY_FINDINGS` at
                a source are left out.
        """

    def withheld(self, catalog: str, authorities: Collection[str], sources: Collection[str]) -> int:
        """The number of origins that `repairs` leaves out for the sake of `sources`."""

    def write(self, path: Path) -> None:
        """Write the differences to the Parquet directory `path`, and replace earlier contents."""


@dataclass(frozen=True, slots=True)
class FindingsList:
    """Differences in memory, ordered by authority, origin and catalog."""

    differences: Sequence[Difference]

    def counts(self) -> Counts:
        pairs = Counter((one.finding, one.catalog) for one in self.differences)
        return counts_of((finding, catalog, count) for (finding, catalog), count in pairs.items())

    def samples(self, most: int) -> dict[FindingName, tuple[Difference, ...]]:
        return {
            finding: found
            for finding in FINDINGS
            if (found := tuple(d for d in self.differences if d.finding == finding)[:most])
        }

    def ranked(self, most: int) -> tuple[Difference, ...]:
        seen: Counter[tuple[str, str]] = Counter()
        ranks = []
        for one in self.differences:
            ranks.append(seen[one.finding, one.catalog])
            seen[one.finding, one.catalog] += 1
        # The sort is stable, so that differences of a rank keep their order.
        order = sorted(range(len(ranks)), key=ranks.__getitem__)
        return tuple(self.differences[each] for each in order[:most])

    def authorities(self) -> Mapping[str, Mapping[str, int]]:
        pairs = Counter((one.catalog, one.authority) for one in self._repairable())
        return by_catalog((*pair, number) for pair, number in pairs.items())

    def repairs(
        self, catalog: str, authorities: Collection[str], sources: Collection[str]
    ) -> Iterator[WantedRepair]:
        wanted = self._wanted(catalog, authorities)
        origins = wanted.keys() - self._spoilt(sources)
        for origin in sorted(origins, key=lambda one: (depth(one.xid), one.xid, one.authority)):
            yield wanted[origin]

    def withheld(self, catalog: str, authorities: Collection[str], sources: Collection[str]) -> int:
        return len(self._wanted(catalog, authorities).keys() & self._spoilt(sources))

    def write(self, path: Path) -> None:
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        table = pa.Table.from_pylist([asdict(one) for one in self.differences], _schema())
        pq.write_table(table, path / "part-00000.parquet", compression="zstd")

    def _wanted(self, catalog: str, authorities: Collection[str]) -> dict[Origin, WantedRepair]:
        """The repairs by origin; of several findings about a copy, the first by name."""
        found = sorted(self._repairable(), key=lambda one: one.finding, reverse=True)
        return {
            origin: WantedRepair(origin, one.finding, one.reference_epoch)
            for one in found
            if one.catalog == catalog and one.authority in authorities
            for origin in [Origin(one.authority, one.origin)]
        }

    def _spoilt(self, sources: Collection[str]) -> set[Origin]:
        return {
            Origin(one.authority, one.origin)
            for one in self.differences
            if one.catalog in sources and one.finding in COPY_FINDINGS
        }

    def _repairable(self) -> Iterator[Difference]:
        return (one for one in self.differences if one.finding in REPAIRABLE)


def counts_of(triples: Iterator[tuple[FindingName, str, int]]) -> Counts:
    counts: dict[FindingName, dict[str, int]] = {}
    for finding, catalog, count in sorted(triples, key=lambda one: FINDINGS.index(one[0])):
        counts.setdefault(finding, {})[catalog] = count
    return counts


def by_catalog(numbers: Iterable[tuple[str, str, int]]) -> dict[str, dict[str, int]]:
    """Numbers by catalog and authority."""
    found: dict[str, dict[str, int]] = {}
    for catalog, authority, number in sorted(numbers):
        found.setdefault(catalog, {})[authority] = number
    return found


def _schema() -> pa.Schema:
    types = dict.fromkeys(_INTEGERS, pa.int64()) | dict.fromkeys(_FLAGS, pa.bool_())
    names = [field.name for field in fields(Difference)]
    return pa.schema([(name, types.get(name, pa.string())) for name in names])
