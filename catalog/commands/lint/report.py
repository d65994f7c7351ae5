"""Shows what was found in documents: for people, for programs, or on a pull request."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from catalog.commands.console import cell, err, out, print_json
from catalog.documents.serialization import STDIN

if TYPE_CHECKING:
    from catalog.lint.finding import Finding

_COLOURS = {"error": "bold red", "warning": "yellow", "note": "dim"}
_LEVELS = {"error": "error", "warning": "warning", "note": "notice"}


def show_linted(findings: Sequence[Finding], format: str) -> None:
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
        sys.stdout.writelines(f"{_as_command(finding)}\n" for finding in findings)
    else:
        _show_all(findings)
    summary = ", ".join(
        f"{counts[name]} {name}{'' if counts[name] == 1 else 's'}"
        for name in _LEVELS
        if counts[name]
    )
    err.print(f"{summary}." if summary else "[green]Nothing is wrong.[/]")


def _show_all(findings: Sequence[Finding]) -> None:
    """Every error and warning; of notes that say the same of one document, the first."""
    alike = Counter((f.file, f.rule, f.message) for f in findings if f.severity == "note")
    for finding in findings:
        if finding.severity != "note":
            _show(finding)
        elif count := alike.pop((finding.file, finding.rule, finding.message), 0):
            more = f" ({count} times; --json lists all)" if count > 1 else ""
            _show(replace(finding, message=finding.message + more))


def _show(finding: Finding) -> None:
    """A line that editors and terminals find the place by, in the form of compilers."""
    place = f"{finding.file}:{finding.line}" if finding.line else finding.file
    about = finding.subject or finding.pointer
    colour = _COLOURS[finding.severity]
    out.print(
        f"[bold]{cell(place or 'documents')}[/]: [{colour}]{finding.severity}[/] "
        f"[cyan]{finding.rule}[/]{f' {cell(about)}' if about else ''}: {cell(finding.message)}"
    )


def _as_command(finding: Finding) -> str:
    """A workflow command of GitHub Actions, which annotates a file in a pull request."""
    properties = {
        "file": finding.file,
        "line": str(finding.line or ""),
        "title": f"{finding.rule} {finding.subject}".strip(),
    }
    listed = ",".join(f"{k}={_escaped(v, ':,')}" for k, v in properties.items() if v)
    return f"::{_LEVELS[finding.severity]} {listed}::{_escaped(finding.message)}"


def _escaped(text: str, more: str = "") -> str:
    return "".join(f"%{ord(c):02X}" if c in f"%\r\n{more}" else c for c in text)


_LARGEST_BYTES = 8 * 1024 * 1024


class FileLines:
    """The lines of one file, which is read when the first one is asked for.

    JSON is YAML, and the reader of YAML knows where everything is.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def line_of(self, pointer: str) -> int:
        """The line, counted from 1, of what is at a pointer, or of the nearest thing above it.

        It is 0 where the file cannot be read again, is no YAML, or is larger than 8 MiB.
        """
        if self._root is None:
            return 0
        node, mark = self._root, self._root.start_mark
        for step in pointer.split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            found = _inside(node, name)
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
    """Where a member begins, and what it is."""
    if node.id == "mapping":
        for key, value in node.value:
            if key.value == name:
                return key.start_mark, value
    elif node.id == "sequence" and name.isdecimal() and int(name) < len(node.value):
        item = node.value[int(name)]
        return item.start_mark, item
    return None
