"""Findings and changes as text, as JSON, as SARIF, and on a pull request."""

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
from catalog.model.masking import counted, printable

if TYPE_CHECKING:
    from catalog.lint.documentchanges import DocumentChange
    from catalog.lint.fieldchanges import FieldChange
    from catalog.lint.linter import Finding

_COLOURS = {"error": "bold red", "warning": "yellow", "note": "dim"}
# Workflow commands of GitHub Actions.
_LEVELS = {"error": "error", "warning": "warning", "note": "notice"}
# A comment of GitHub has 65,536 characters at most.
_LONGEST_ROWS = 30_000
_MOST_FIELDS = 10
_MOST_USERS = 5
_LONGEST_TEXT = 300
_MARKUP = re.compile(r"[\\`*_{}\[\]()#+!|~@:]")


def show_findings(
    findings: Sequence[Finding], changes: Sequence[DocumentChange], format: str
) -> None:
    """Print findings and changes, in their order.

    Args:
        format: `text`, `json` or `github` (workflow commands).
    """
    if format == "json":
        print_json(_as_json(findings, changes))
        return
    if format == "github":
        told = [*findings, *map(_noted, changes)]
        sys.stdout.writelines(f"{printable(_as_command(each))}\n" for each in told)
    else:
        _show_all(findings)
        for change in changes:
            _show_change(change)
    summary = _counted(findings)
    err.print(f"{summary}." if summary else "[green]Nothing is wrong.[/]")


def _as_json(findings: Sequence[Finding], changes: Sequence[DocumentChange]) -> dict[str, Any]:
    counts = Counter[str](finding.severity for finding in findings)
    shown = [finding.as_json() for finding in findings]
    return {
        "findings": shown,
        **{f"{name}s": counts[name] for name in _LEVELS},
        "changes": [change.as_json() for change in changes],
    }


def _counted(findings: Sequence[Finding]) -> str:
    counts = Counter[str](finding.severity for finding in findings)
    return ", ".join(counted(counts[name], f"{name}s") for name in _LEVELS if counts[name])


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


def _show_change(change: DocumentChange) -> None:
    """Print a change with a line for each field, and a line for each catalog with users."""
    location = f"{change.file}:{change.line}" if change.line else change.file
    former = f" after {change.former}" if change.kind == "added" else ""
    out.print(
        f"[bold]{cell(location or 'documents')}[/]: {change.kind} {cell(change.subject)}"
        f"{cell(former) if former else ''}: {cell(change.verdict)}"
    )
    for field in change.fields:
        out.print(f"  {cell(_field(field))}")
    for catalog, xids in _users_by_catalog(change).items():
        out.print(f"  used in {cell(catalog)} by {cell(_listed(xids))}")


def _field(field: FieldChange) -> str:
    """A field with the former and the new type, as one text."""
    verdicts = {True: "breaking: ", False: "compatible: ", None: ""}
    if field.old is None:
        what = f"{field.path} is new, {field.new}"
    elif field.new is None:
        what = f"{field.path} is gone, was {field.old}"
    else:
        what = f"{field.path} was {field.old}, is {field.new}"
    return verdicts[field.is_breaking] + what


def _users_by_catalog(change: DocumentChange) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for user in change.users:
        found.setdefault(user.catalog, []).append(user.xid)
    return found


def _listed(xids: Sequence[str]) -> str:
    more = f" and {len(xids) - _MOST_USERS:,} more" if len(xids) > _MOST_USERS else ""
    return ", ".join(xids[:_MOST_USERS]) + more


def _noted(change: DocumentChange) -> Finding:
    """A change as a note, for formats that have findings only."""
    from catalog.lint.linter import Finding

    told = [f"{change.kind}, {change.verdict}"]
    told += [_field(field) for field in change.fields[:_MOST_FIELDS]]
    users = _users_by_catalog(change)
    told += [f"used in {catalog} by {_listed(xids)}" for catalog, xids in users.items()]
    return Finding(
        "note",
        "change",
        "; ".join(told),
        file=change.file,
        subject=change.subject,
        pointer=change.pointer,
        line=change.line,
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


def write_report(
    path: Path, findings: Sequence[Finding], changes: Sequence[DocumentChange]
) -> None:
    """Write findings and changes to a file, in the format of its name.

    Raises:
        CommandError: the file cannot be written.
    """
    try:
        path.write_bytes(_WRITERS[path.suffix](findings, changes))
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}.") from error


def _json(findings: Sequence[Finding], changes: Sequence[DocumentChange]) -> bytes:
    return orjson.dumps(_as_json(findings, changes), option=orjson.OPT_INDENT_2)


def _sarif(findings: Sequence[Finding], changes: Sequence[DocumentChange]) -> bytes:
    """A log of the Static Analysis Results Interchange Format, 2.1.0 (OASIS)."""
    findings = [*findings, *map(_noted, changes)]
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


def _markdown(findings: Sequence[Finding], changes: Sequence[DocumentChange]) -> bytes:
    """A comment on a pull request. The first line lets a pipeline find its former comment."""
    summary = _counted(findings) or "nothing is wrong"
    lines = ["<!-- concord lint -->", f"**concord lint**: {summary}"]
    if findings:
        lines += ["", "| | where | what |", "|---|---|---|"]
        lines += _fitting(map(_markdown_row, findings), len(findings))
    if changes:
        lines += ["", "| change | for readers | fields | used by |", "|---|---|---|---|"]
        lines += _fitting(map(_markdown_change, changes), len(changes))
    return ("\n".join(lines) + "\n").encode()


def _fitting(rows: Iterator[str], count: int) -> Iterator[str]:
    """The rows of a table that fit into a comment, and the number of the others."""
    room = _LONGEST_ROWS
    for place, row in enumerate(rows):
        room -= len(row) + 1
        if room < 0:
            yield from ("", f"and {count - place:,} more")
            return
        yield row


def _markdown_change(change: DocumentChange) -> str:
    fields = [_plain(_field(field)) for field in change.fields[:_MOST_FIELDS]]
    if len(change.fields) > _MOST_FIELDS:
        fields.append(f"and {len(change.fields) - _MOST_FIELDS:,} more")
    users = [
        f"{_plain(_listed(xids))} in {_plain(catalog)}"
        for catalog, xids in _users_by_catalog(change).items()
    ]
    subject = f"{change.kind} {_plain(change.subject)}"
    shown = "<br>".join(fields), "<br>".join(users) or "nobody"
    return f"| {subject} | {_plain(change.verdict)} | {' | '.join(shown)} |"


def _markdown_row(finding: Finding) -> str:
    place = f"{finding.file}:{finding.line}" if finding.line else finding.file
    what = f"{_plain(finding.rule)} {_plain(finding.subject)}: {_plain(finding.message)}"
    return f"| {finding.severity} | {_plain(place)} | {what} |"


def _plain(text: str) -> str:
    """A text from a document, which must be no mark-up, link or mention in the comment."""
    escaped = html.escape(printable(text[:_LONGEST_TEXT]), quote=False)
    return _MARKUP.sub(lambda found: f"&#{ord(found[0])};", escaped)


_WRITERS = {".sarif": _sarif, ".md": _markdown, ".json": _json}
