"""Findings as text, as JSON, as SARIF, and on a pull request."""

from __future__ import annotations

import html
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import orjson

from catalog import DISTRIBUTION
from catalog.commands.console import CommandError, cell, err, fail, out, print_json
from catalog.model.masking import printable

if TYPE_CHECKING:
    from catalog.lint.linter import Finding

_COLOURS = {"error": "bold red", "warning": "yellow", "note": "dim"}
# Workflow commands of GitHub Actions.
_LEVELS = {"error": "error", "warning": "warning", "note": "notice"}
# A comment of GitHub has 65,536 characters at most.
_MOST_ROWS = 100
_LONGEST_TEXT = 300
_MARKUP = re.compile(r"[\\`*_{}\[\]()#+!|~@:]")


def show_findings(findings: Sequence[Finding], format: str) -> None:
    """Print findings, in their order.

    Args:
        format: `text`, `json` or `github` (workflow commands).
    """
    if format == "json":
        print_json(_as_json(findings))
        return
    if format == "github":
        sys.stdout.writelines(f"{printable(_as_command(finding))}\n" for finding in findings)
    else:
        _show_all(findings)
    summary = _counted(findings)
    err.print(f"{summary}." if summary else "[green]Nothing is wrong.[/]")


def _as_json(findings: Sequence[Finding]) -> dict[str, Any]:
    counts = Counter[str](finding.severity for finding in findings)
    shown = [finding.as_json() for finding in findings]
    return {"findings": shown, **{f"{name}s": counts[name] for name in _LEVELS}}


def _counted(findings: Sequence[Finding]) -> str:
    counts = Counter[str](finding.severity for finding in findings)
    return ", ".join(
        f"{counts[name]} {name}{'' if counts[name] == 1 else 's'}"
        for name in _LEVELS
        if counts[name]
    )


def _show_all(findings: Sequence[Finding]) -> None:
    """Print the errors and warnings, and the first of equal notes about a document."""
    alike = Counter((f.file, f.rule, f.message) for f in findings if f.severity == "note")
    for finding in findings:
        if finding.severity != "note":
            _show(finding)
        elif count := alike.pop((finding.file, finding.rule, finding.message), 0):
            more = f" ({count} times; --json lists all)" if count > 1 else ""
            _show(replace(finding, message=finding.message + more))


def _show(finding: Finding) -> None:
    """Print a finding in the format of compilers, which editors and terminals link to the line."""
    location = f"{finding.file}:{finding.line}" if finding.line else finding.file
    subject = cell(finding.subject or finding.pointer)
    label = f" {subject}" if subject != "-" else ""
    colour = _COLOURS[finding.severity]
    out.print(
        f"[bold]{cell(location or 'documents')}[/]: [{colour}]{finding.severity}[/] "
        f"[cyan]{finding.rule}[/]{label}: {cell(finding.message)}"
    )


def _as_command(finding: Finding) -> str:
    """Return a workflow command of GitHub Actions, which annotates a file."""
    properties = {
        "file": finding.file,
        "line": str(finding.line or ""),
        "title": f"{finding.rule} {finding.subject}".strip(),
    }
    listed = ",".join(f"{k}={_escaped(v, ':,')}" for k, v in properties.items() if v)
    return f"::{_LEVELS[finding.severity]} {listed}::{_escaped(finding.message)}"


# A text from a document must not begin a workflow command or a property of its own.
def _escaped(text: str, more: str = "") -> str:
    return "".join(f"%{ord(c):02X}" if c in f"%\r\n{more}" else c for c in text)


def check_report(path: Path) -> None:
    """End the command if the name of a report does not tell the format."""
    if path.suffix not in _WRITERS:
        fail(f"The name of the report {path} has to end with {' or '.join(_WRITERS)}.")


def write_report(path: Path, findings: Sequence[Finding]) -> None:
    """Write findings to a file, in the format of its name.

    Raises:
        CommandError: the file cannot be written.
    """
    try:
        path.write_bytes(_WRITERS[path.suffix](findings))
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}.") from error


def _json(findings: Sequence[Finding]) -> bytes:
    return orjson.dumps(_as_json(findings), option=orjson.OPT_INDENT_2)


def _sarif(findings: Sequence[Finding]) -> bytes:
    """A log of the Static Analysis Results Interchange Format, 2.1.0 (OASIS)."""
    sources = {finding.rule: finding.source for finding in findings}
    driver = {
        "name": "concord lint",
        "semanticVersion": version(DISTRIBUTION),
        "rules": [
            {"id": rule, "shortDescription": {"text": source or rule.replace("_", " ")}}
            for rule, source in sources.items()
        ],
    }
    results = [
        {
            "ruleId": finding.rule,
            "level": finding.severity,
            "message": {"text": f"{finding.subject}: {finding.message}".removeprefix(": ")},
            "locations": [*_sarif_locations(finding)],
        }
        for finding in findings
    ]
    log = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }
    return orjson.dumps(log, option=orjson.OPT_INDENT_2)


def _sarif_locations(finding: Finding) -> Iterator[dict[str, Any]]:
    if finding.file:
        artifact = {"uri": quote(finding.file)}
        region = {"region": {"startLine": finding.line}} if finding.line else {}
        yield {"physicalLocation": {"artifactLocation": artifact, **region}}


def _markdown(findings: Sequence[Finding]) -> bytes:
    """A comment on a pull request. The first line lets a pipeline find its former comment."""
    summary = _counted(findings) or "nothing is wrong"
    lines = ["<!-- concord lint -->", f"**concord lint**: {summary}"]
    if findings:
        lines += ["", "| | where | what |", "|---|---|---|"]
        lines += [_markdown_row(finding) for finding in findings[:_MOST_ROWS]]
    if len(findings) > _MOST_ROWS:
        lines += ["", f"and {len(findings) - _MOST_ROWS:,} more"]
    return ("\n".join(lines) + "\n").encode()


def _markdown_row(finding: Finding) -> str:
    place = f"{finding.file}:{finding.line}" if finding.line else finding.file
    what = f"{_plain(finding.rule)} {_plain(finding.subject)}: {_plain(finding.message)}"
    return f"| {finding.severity} | {_plain(place)} | {what} |"


def _plain(text: str) -> str:
    """A text from a document, which must be no mark-up, link or mention in the comment."""
    escaped = html.escape(printable(text[:_LONGEST_TEXT]), quote=False)
    return _MARKUP.sub(lambda found: f"&#{ord(found[0])};", escaped)


_WRITERS = {".sarif": _sarif, ".md": _markdown, ".json": _json}
