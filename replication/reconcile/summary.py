"""What one run found, as the caller, the JSON file and the report see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from replication.reconcile.findings import Counts
from replication.reconcile.repair import RepairOutcome
from replication.reconcile.rule import FINDINGS, Difference, FindingName

MEANINGS: Mapping[FindingName, str] = {
    "missing": "The authority holds it, and a catalog that should carry it does not.",
    "stale": "The replica has an older epoch, or still shows what the authority deleted.",
    "ahead": "The replica has a newer epoch than its authority, which may have lost data.",
    "orphaned": "The replica is there, and its authority knows neither it nor a tombstone of it.",
    "diverged": "Both have the same epoch and not the same content.",
    "collided": "Another authority's entity holds its place at the catalog.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogSummary:
    """One catalog's part: live entities by its own count, rows read, and its cursor."""

    name: str
    url: str
    authority: str
    entities: int
    rows: int
    as_of: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The outcome of one reconciliation.

    `counts` has the differences by finding and catalog, `samples` the first of each finding.
    `unverifiable` origins belong to an authority that was not given: information, not a
    difference. `vanished` differences were gone on the second look, which `is_confirmed`
    says was taken. `elapsed` is in seconds by stage. `repair` is `None` where none was asked for.
    """

    startedat: datetime
    verify: bool
    catalogs: tuple[CatalogSummary, ...]
    buckets_read: int
    origins: int
    unverifiable: int
    vanished: int
    is_confirmed: bool
    counts: Counts
    samples: Mapping[FindingName, tuple[Difference, ...]]
    repair: tuple[RepairOutcome, ...] | None
    elapsed: Mapping[str, float]
    paths: tuple[Path, ...]

    @property
    def is_equal(self) -> bool:
        """Whether no difference was found; repairs do not change the answer of this run."""
        return not self.counts

    @property
    def differences(self) -> int:
        return sum(self.total(finding) for finding in FINDINGS)

    def total(self, finding: FindingName) -> int:
        """How many differences of this finding there are in all catalogs."""
        return sum(self.counts.get(finding, {}).values())

    def matrix(self) -> list[tuple[FindingName, list[int], int]]:
        """One row for each finding: its count at each catalog, in order, and their sum."""
        return [
            (
                finding,
                [self.counts.get(finding, {}).get(one.name, 0) for one in self.catalogs],
                self.total(finding),
            )
            for finding in FINDINGS
        ]

    def verdict(self) -> str:
        """The outcome in one sentence."""
        names = " and ".join(
            [", ".join(one.name for one in self.catalogs[:-1]), self.catalogs[-1].name]
        )
        if self.is_equal:
            return f"{names} agree."
        kinds = ", ".join(f"{self.total(f):,} {f}" for f in FINDINGS if f in self.counts)
        noun = "difference" if self.differences == 1 else "differences"
        return f"{names} do not agree: {self.differences:,} {noun} ({kinds})."

    def to_document(self) -> dict[str, Any]:
        """The summary as JSON values, the same as in `summary.json`."""
        return {
            "equal": self.is_equal,
            "differences": self.differences,
            "startedat": self.startedat.isoformat().replace("+00:00", "Z"),
            "verified": self.verify,
            "confirmed": self.is_confirmed,
            "catalogs": [asdict(one) for one in self.catalogs],
            "bucketsread": self.buckets_read,
            "origins": self.origins,
            "unverifiable": self.unverifiable,
            "vanished": self.vanished,
            "counts": {finding: dict(counts) for finding, counts in self.counts.items()},
            "samples": {f: [asdict(one) for one in found] for f, found in self.samples.items()},
            "repair": None if self.repair is None else [asdict(one) for one in self.repair],
            "elapsed": dict(self.elapsed),
            "paths": [str(path) for path in self.paths],
        }
