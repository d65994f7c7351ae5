"""The result of a run: a summary, and the files with findings, summary and an HTML page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson
from jinja2 import Environment, PackageLoader, StrictUndefined

from catalog.operations.reconciliations import FindingName
from replication.reconcile.findings import (
    FINDINGS,
    REPAIRABLE,
    SIGNATURE_FINDINGS,
    Counts,
    Difference,
    Findings,
)
from replication.reconcile.repairrequests import RepairOutcome
from replication.reconcile.shrinkage import ShrunkCatalog
from replication.reconcile.uncompared import Uncompared

FINDINGS_FILE = "findings.parquet"
SUMMARY_FILE = "summary.json"
REPORT_FILE = "report.html"
SUCCESS_FILE = "_SUCCESS"

MEANINGS: Mapping[FindingName, str] = {
    "missing": "The authority has the entity, and a catalog that should carry it does not.",
    "stale": "The replica has an older epoch, or the authority has deleted the entity.",
    "ahead": "The replica has a newer epoch than its authority, which may have lost data.",
    "orphaned": "The catalog has a replica, and its authority neither the entity nor a tombstone.",
    "diverged": "Both have the same epoch, but not the same content.",
    "collided": "An entity of another authority has the same xid at the catalog.",
    "unsigned": "The copy has no signature, and its authority signs everything.",
    "forged": "The signature of the copy is false, or of a key that does not count.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogSummary:
    """A catalog, the number of its live entities and of the rows read, and its cursor."""

    name: str
    url: str
    authority: str
    entities: int
    rows: int
    as_of: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadCatalog:
    """A catalog that could not be read, so that the others were compared without it."""

    name: str
    url: str
    reason: str
    advice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthoritySignatures:
    """The numbers of an authority's copies by their signatures, before the second reading.

    `keys` says who vouches for the keys; `None` if none are known. `unchecked` copies have no
    signature and need none, or have one of an authority without known keys.
    """

    authority: str
    keys: str | None
    verified: int
    unsigned: int
    forged: int
    unchecked: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileSummary:
    """The outcome of one reconciliation.

    `samples` are the first differences of each finding. `unverifiable` origins, whose authority was
    not compared, are no differences; `uncompared` tells why. `signatures` is `None` if they were
    not verified. `vanished` differences were gone at the second reading, which took place if
    `is_confirmed`. `unread` are the catalogs that were left out, `shrunk` those with far fewer
    entities than before. `repair` is `None` if none was
    requested. `elapsed` is in seconds by stage. `paths` are the files that were written.
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
    signatures: tuple[AuthoritySignatures, ...] | None = None
    uncompared: tuple[Uncompared, ...] = ()
    unread: tuple[UnreadCatalog, ...] = ()
    shrunk: tuple[ShrunkCatalog, ...] = ()

    @property
    def is_equal(self) -> bool:
        """Whether no difference was found, repaired or not, and no catalog has shrunk."""
        return not self.counts and not self.shrunk

    @property
    def differences(self) -> int:
        return sum(self.total(finding) for finding in FINDINGS)

    def total(self, finding: FindingName) -> int:
        """The number of differences of this finding in all catalogs."""
        return sum(self.counts.get(finding, {}).values())

    def matrix(self) -> list[tuple[FindingName, list[int], int]]:
        """One row for each finding: its count at each catalog, in order, and their sum.

        Without those about signatures, unless these were verified.
        """
        return [
            (
                finding,
                [self.counts.get(finding, {}).get(one.name, 0) for one in self.catalogs],
                self.total(finding),
            )
            for finding in FINDINGS
            if self.signatures is not None or finding not in SIGNATURE_FINDINGS
        ]

    def verdict(self) -> str:
        """The outcome in one sentence."""
        names = " and ".join(
            [", ".join(one.name for one in self.catalogs[:-1]), self.catalogs[-1].name]
        )
        left = "".join(f" {each.name} was not compared." for each in self.unread)
        left += "".join(f" {each.text}" for each in self.shrunk)
        if not self.counts:
            return f"{names} agree.{left}"
        kinds = ", ".join(f"{self.total(f):,} {f}" for f in FINDINGS if f in self.counts)
        noun = "difference" if self.differences == 1 else "differences"
        return f"{names} do not agree: {self.differences:,} {noun} ({kinds}).{left}"

    def to_document(self) -> dict[str, Any]:
        """The summary as JSON values, as in `summary.json`."""
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
            "uncompared": [asdict(one) for one in self.uncompared],
            "unread": [asdict(one) for one in self.unread],
            "shrunk": [asdict(one) for one in self.shrunk],
            "signatures": self.signatures and [asdict(one) for one in self.signatures],
            "vanished": self.vanished,
            "counts": {finding: dict(counts) for finding, counts in self.counts.items()},
            "samples": {f: [asdict(one) for one in found] for f, found in self.samples.items()},
            "repair": None if self.repair is None else [asdict(one) for one in self.repair],
            "elapsed": dict(self.elapsed),
            "paths": [str(path) for path in self.paths],
        }


def paths_in(directory: Path) -> tuple[Path, ...]:
    """The files that a run writes into its directory, in order."""
    return tuple(directory / name for name in (FINDINGS_FILE, SUMMARY_FILE, REPORT_FILE))


def write_report(directory: Path, summary: ReconcileSummary, findings: Findings) -> None:
    """Write the files of a run over those of an earlier one, `_SUCCESS` last."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / SUCCESS_FILE).unlink(missing_ok=True)
    findings.write(directory / FINDINGS_FILE)
    document = orjson.dumps(summary.to_document(), option=orjson.OPT_INDENT_2)
    (directory / SUMMARY_FILE).write_bytes(document + b"\n")
    (directory / REPORT_FILE).write_text(render(summary), encoding="utf-8")
    (directory / SUCCESS_FILE).touch()


def render(summary: ReconcileSummary) -> str:
    """The HTML page of a run, in one file without references to others."""
    environment = Environment(
        loader=PackageLoader("replication.reconcile", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["short"] = lambda digest: f"{digest[:12]}…" if digest else ""
    template = environment.get_template("report.html.jinja")
    return template.render(
        summary=summary,
        meanings=MEANINGS,
        repairable=REPAIRABLE,
        about_signatures=SIGNATURE_FINDINGS,
    )
