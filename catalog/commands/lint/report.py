"""Prints the findings of lint with their lines: as text, as JSON, or on a pull request."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from catalog.commands.console import cell, err, out, print_json
from catalog.documents.rewriter import unescaped
from catalog.documents.serialization import STDIN
from catalog.model.masking import printable

if TYPE_CHECKING:
    from catalog.lint.finding import Finding

# The line numbers of larger files are not looked up.
_LARGEST_BYTES = 8 * 1024 * 1024
_COLOURS = {"error": "bold red", "warning": "yellow", "note": "dim"}
# Workflow commands of GitHub Actions.
_LEVELS = {"error": "error", "warning": "warning", "note": "notice"}


def show_findings(findings: Sequence[Finding], format: str) -> None:
    """Print findings, in their order.

    Args:
        format: `text`, `json` or `github` (workflow commands).
    """
    counts = Counter[str](finding.severity for finding in findings)
    if format == "json":
        print_json(
            {
                "findings": [finding.as_json() for finding in findings],
                "errors": counts["error"],
                "warnings": counts["warning"],
                "notes": counts["note"],
            }
        )
        return
    if format == "github":
        sys.stdout.writelines(f"{printable(_as_command(finding))}\n" for finding in findings)
    else:
        _show_all(findings)
    summary = ", ".join(
        f"{counts[name]} {name}{'' if counts[name] == 1 else 's'}"
        for name in _LEVELS
        if counts[name]
    )
    err.print(f"{summary}." if summary else "[green]Nothing is wrong.[/]")


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


def with_lines(findings: Sequence[Finding], paths: Sequence[Path]) -> list[Finding]:
    """Add line numbers to findings, and sort the findings by the order of files, and by line."""
    files = {str(path): (place, FileLines(path)) for place, path in enumerate(paths)}
    located = [
        replace(each, line=files[each.file][1].line_of(each.pointer))
        if each.file in files and each.pointer
        else each
        for each in findings
    ]
    last = (len(files), None)
    return sorted(located, key=lambda each: (files.get(each.file, last)[0], each.line))


class FileLines:
    """The lines of a JSON or YAML file, which is read at the first lookup.

    The YAML parser reads both, and keeps the line of each node.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def line_of(self, pointer: str) -> int:
        """The line, counted from 1, of a member, or of the nearest existing ancestor.

        The line is 0 if the file cannot be read again, is no YAML, or is larger than 8 MiB.
        """
        if self._root is None:
            return 0
        node, mark = self._root, self._root.start_mark
        for step in pointer.split("/")[1:]:
            found = _inside(node, unescaped(step))
            if found is None:
                break
            mark, node = found
        return int(mark.line) + 1

    @cached_property
    def _root(self) -> Any:
        import yaml

        try:
            if self._path == STDIN or self._path.stat().st_size > _LARGEST_BYTES:
                return None
            return yaml.compose(self._path.read_bytes(), yaml.CSafeLoader)
        except (OSError, yaml.YAMLError, ValueError, RecursionError):
            return None


def _inside(node: Any, name: str) -> tuple[Any, Any] | None:
    """The start and the node of a member."""
    if node.id == "mapping":
        for key, value in node.value:
            if key.value == name:
                return key.start_mark, value
    elif node.id == "sequence" and name.isdecimal() and int(name) < len(node.value):
        item = node.value[int(name)]
        return item.start_mark, item
    return None
