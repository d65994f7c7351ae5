"""The result of a run: a summary, and files with the findings, the summary and an HTML page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson
from jinja2 import Environment, PackageLoader, StrictUndefined

from catalog.model.confluentattribute import CONFLICTS_ADVICE, SchemaIdConflict
from catalog.model.masking import counted
from catalog.model.timestamps import time_of
from catalog.operations.reconciliations import MEANINGS, REPAIRABLE, FindingName
from replication.deciding.copycontent import DifferingAttribute
from replication.reconcile.catalogs import Moment, ShrunkCatalog
from replication.reconcile.explanations import Cause, Uncompared
from replication.reconcile.findings import (
    COPY_FINDINGS,
    FINDINGS,
    SIGNATURE_FINDINGS,
    Counts,
    Difference,
    Findings,
    Key,
)
from replication.reconcile.repairplan import (
    JOURNAL_FILE,
    PLAN_FILE,
    RepairAction,
    RepairOutcome,
    write_plan,
)

FINDINGS_FILE = "findings.parquet"
SUMMARY_FILE = "summary.json"
REPORT_FILE = "report.html"
SUCCESS_FILE = "_SUCCESS"


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierRun:
    """The numbers of differences and of live entities at a catalog in an earlier comparison."""

    endedat: datetime
    differences: int
    entities: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogSummary:
    """A catalog, the numbers of live entities and of rows read, and the catalog's cursor.

    `moment` is the time of the rows, if they were read before the comparison. `earlier` are the
    comparisons that the catalog was told about, the oldest first.
    """

    name: str
    url: str
    authority: str
    entities: int
    rows: int
    as_of: str | None
    moment: Moment | None = None
    earlier: tuple[EarlierRun, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadCatalog:
    """A catalog that could not be read, and was left out of the comparison."""

    name: str
    url: str
    reason: str
    advice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthoritySignatures:
    """The numbers of copies of an authority by the result of the check of the signatures.

    The numbers are from the first reading. `keys` describes the source of the keys; `None` if no
    keys of the authority are known. `unchecked` copies need no signature and have none, or belong
    to an authority without known keys.
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

    `samples` are the first differences of each finding, and `attributes` their differing
    attributes. `unverifiable` origins belong to authorities that were not compared, and are no
    differences; `uncompared` gives the reasons. `signatures` is `None` if signatures were not
    verified. `vanished` differences were gone at the second reading, and `in_flight` ones are by
    changes that a catalog's rows are too old to show; `is_confirmed` is false if the differences
    were too many for a second reading. `unread` catalogs were left out, and `shrunk` catalogs have
    far fewer entities than before. `causes` are links that explain differences, and `commands` may
    settle findings that no repair settles. `ranked` are the differences of which nodes are told.
    `schemaids` are the schema ids for Kafka that name several schemas, by catalog; they are no
    differences. `repair` is `None` if no repair was requested. `elapsed` is in seconds by stage.
    `paths` are the written files.
    """

    startedat: datetime
    verify: bool
    catalogs: tuple[CatalogSummary, ...]
    buckets_read: int
    origins: int
    unverifiable: int
    vanished: int
    in_flight: int
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
    causes: tuple[Cause, ...] = ()
    schemaids: Mapping[str, Sequence[SchemaIdConflict]] = field(default_factory=dict)
    commands: Mapping[FindingName, tuple[str, ...]] = field(default_factory=dict)
    attributes: Mapping[Key, tuple[DifferingAttribute, ...]] = field(default_factory=dict)
    ranked: tuple[Difference, ...] = ()

    @property
    def is_equal(self) -> bool:
        """Whether no difference was found, repaired or not, and no catalog has shrunk."""
        return not self.counts and not self.shrunk

    @property
    def differences(self) -> int:
        return sum(self.total(finding) for finding in FINDINGS)

    def total(self, finding: FindingName) -> int:
        """The number of differences of a finding, summed over the catalogs."""
        return sum(self.counts.get(finding, {}).values())

    def matrix(self) -> list[tuple[FindingName, list[int], int]]:
        """A row for each finding: the finding, the count at each catalog, in order, and the sum.

        Findings about signatures or damage are left out if the run did not look for them.
        """
        return [
            (
                finding,
                [self.counts.get(finding, {}).get(one.name, 0) for one in self.catalogs],
                self.total(finding),
            )
            for finding in FINDINGS
            if (self.signatures is not None or finding not in SIGNATURE_FINDINGS)
            and (self.verify or finding != "damaged")
        ]

    def verdict(self) -> str:
        """The outcome in one sentence."""
        names = " and ".join(
            [", ".join(one.name for one in self.catalogs[:-1]), self.catalogs[-1].name]
        )
        left = "".join(f" {each.name} was not compared." for each in self.unread)
        left += "".join(f" {each.text}" for each in self.shrunk)
        if ids := {one.id for found in self.schemaids.values() for one in found}:
            verb = "names" if len(ids) == 1 else "name"
            left += f" {counted(len(ids), 'schema ids')} {verb} several schemas."
        if not self.counts:
            return f"{names} agree.{left}"
        kinds = ", ".join(f"{self.total(f):,} {f}" for f in FINDINGS if f in self.counts)
        noun = "difference" if self.differences == 1 else "differences"
        return f"{names} do not agree: {self.differences:,} {noun} ({kinds}).{left}"

    def to_document(self) -> dict[str, Any]:
        """The summary as JSON values, as in `summary.json`."""
        samples = {
            finding: [self._sample(one) for one in found] for finding, found in self.samples.items()
        }
        members = {
            "equal": self.is_equal,
            "differences": self.differences,
            "startedat": self.startedat.isoformat().replace("+00:00", "Z"),
            "verified": self.verify,
            "confirmed": self.is_confirmed,
            "catalogs": self.catalogs,
            "bucketsread": self.buckets_read,
            "origins": self.origins,
            "unverifiable": self.unverifiable,
            "uncompared": self.uncompared,
            "unread": self.unread,
            "shrunk": self.shrunk,
            "causes": self.causes,
            "schemaids": self.schemaids,
            "commands": self.commands,
            "signatures": self.signatures,
            "vanished": self.vanished,
            "inflight": self.in_flight,
            "counts": self.counts,
            "samples": samples,
            "repair": self.repair,
            "elapsed": self.elapsed,
            "paths": [str(path) for path in self.paths],
        }
        document: dict[str, Any] = orjson.loads(orjson.dumps(members))
        return document

    def _sample(self, one: Difference) -> dict[str, Any]:
        attributes = self.attributes.get(one.key)
        return asdict(one) | ({} if attributes is None else {"attributes": attributes})


def paths_in(directory: Path) -> tuple[Path, ...]:
    """The files that a run writes into a directory, in order, without `_SUCCESS`."""
    return tuple(directory / name for name in (FINDINGS_FILE, PLAN_FILE, SUMMARY_FILE, REPORT_FILE))


def write_report(
    directory: Path, summary: ReconcileSummary, findings: Findings, actions: Iterable[RepairAction]
) -> None:
    """Write the files of a run over the files of an earlier run, `_SUCCESS` last."""
    directory.mkdir(parents=True, exist_ok=True)
    # A reader relies on `_SUCCESS`: without it, the files may be of two runs, or incomplete.
    (directory / SUCCESS_FILE).unlink(missing_ok=True)
    findings.write(directory / FINDINGS_FILE)
    write_plan(directory / PLAN_FILE, actions)
    (directory / JOURNAL_FILE).unlink(missing_ok=True)
    document = orjson.dumps(summary.to_document(), option=orjson.OPT_INDENT_2)
    (directory / SUMMARY_FILE).write_bytes(document + b"\n")
    (directory / REPORT_FILE).write_text(render(summary), encoding="utf-8")
    (directory / SUCCESS_FILE).touch()


def render(summary: ReconcileSummary) -> str:
    """The HTML page of a run, in one file without references to other files."""
    # The texts come from the compared catalogs, which may be hostile, so HTML is always escaped.
    environment = Environment(
        loader=PackageLoader("replication.reconcile", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["short"] = lambda digest: f"{digest[:12]}…" if digest else ""
    environment.filters["time"] = _shown_time
    environment.filters["magnitude"] = _magnitude
    template = environment.get_template("report.html.jinja")
    return template.render(
        summary=summary,
        urls={
            one.name: one.url
            for one in summary.catalogs
            if one.url.startswith(("http://", "https://"))
        },
        meanings=MEANINGS,
        schema_ids_advice=CONFLICTS_ADVICE,
        repairable=REPAIRABLE,
        about_copies=COPY_FINDINGS,
    )


def _shown_time(microseconds: int | None) -> str:
    if microseconds is None:
        return ""
    return time_of(microseconds).strftime("%Y-%m-%d %H:%M:%S")


def _magnitude(count: int) -> int:
    """The number of digits of a count, at most 5; 0 for nothing."""
    return min(5, len(str(count))) if count else 0
