"""The files of a run: findings in Parquet, the summary in JSON, and a page for people."""

from __future__ import annotations

from pathlib import Path

import orjson
from jinja2 import Environment, PackageLoader, StrictUndefined

from replication.reconcile.findings import Findings
from replication.reconcile.rule import REPAIRABLE
from replication.reconcile.summary import MEANINGS, Summary

FINDINGS_FILE = "findings.parquet"
SUMMARY_FILE = "summary.json"
REPORT_FILE = "report.html"
SUCCESS_FILE = "_SUCCESS"
_SHORT = 12


def paths_in(directory: Path) -> tuple[Path, ...]:
    """What a run writes into its directory, in this order."""
    return tuple(directory / name for name in (FINDINGS_FILE, SUMMARY_FILE, REPORT_FILE))


def write_report(directory: Path, summary: Summary, findings: Findings) -> None:
    """Write the files of a run over those of an earlier one, `_SUCCESS` last."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / SUCCESS_FILE).unlink(missing_ok=True)
    findings.write(directory / FINDINGS_FILE)
    document = orjson.dumps(summary.to_document(), option=orjson.OPT_INDENT_2)
    (directory / SUMMARY_FILE).write_bytes(document + b"\n")
    (directory / REPORT_FILE).write_text(render(summary), encoding="utf-8")
    (directory / SUCCESS_FILE).touch()


def render(summary: Summary) -> str:
    """The HTML page of a run, in one file that needs nothing else."""
    environment = Environment(
        loader=PackageLoader("replication.reconcile", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["short"] = _short
    template = environment.get_template("report.html.jinja")
    return template.render(summary=summary, meanings=MEANINGS, repairable=REPAIRABLE)


def _short(digest: str | None) -> str:
    return f"{digest[:_SHORT]}…" if digest else ""
