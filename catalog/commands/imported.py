"""Shows what became of imported documents: rewrites, older names, violations, what is missing."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

import orjson

from catalog.commands.console import cell, err, out

if TYPE_CHECKING:
    from catalog.commands.document import Imported
    from catalog.documents.trail import Rewrite

_WIDEST = 100


def show_imported(result: Imported) -> None:
    """One document, and everything that had to be said of it."""
    if result.is_imported:
        out.print(f"[green]Imported[/] {cell(result.file)}: {result.counted}.")
    else:
        out.print(f"[red]Not imported[/] {cell(result.file)}: nothing of it was written.")
    if result.document.refusals:
        _show_refusals(result)
    if not result.document.is_strict:
        _show_migration(result)
    if result.left_alone:
        out.print(f"Left alone, read-only there and here: {cell(', '.join(result.left_alone))}.")
    _show_violations(result)


def show_hints(results: list[Imported]) -> None:
    """What to do next."""
    stayed = sorted({name for result in results for name in result.not_sent})
    if stayed:
        err.print(f"Not sent, since they describe the document itself: {', '.join(stayed)}.")
    if any(result.document.refusals for result in results):
        err.print("Have what is of an older edition rewritten with --migrate.")
    if any(not result.is_imported and result.subjects for result in results):
        err.print("Correct the document, or import the rest of it with --keep-going.")
    if any(v.type.endswith("#mismatched_epoch") for each in results for v in each.violations):
        err.print("What has another epoch is replaced with --overwrite.")


def _show_refusals(result: Imported) -> None:
    found = result.document.migrated.found
    out.print(f"It is of edition {found.edition}. What the newest has in another way:")
    _show_rewrites(result.document.refusals)


def _show_migration(result: Imported) -> None:
    migrated = result.document.migrated
    if migrated.rewrites:
        out.print(f"Rewritten from edition {migrated.found.edition} ({len(migrated.rewrites)}):")
        _show_rewrites(migrated.rewrites)
    if migrated.left_out:
        out.print(f"Not rewritten ({len(migrated.left_out)}):")
    for left in migrated.left_out:
        became = "kept in `older`" if left.is_kept else "left out"
        out.print(f"  {cell(left.pointer)}: {cell(left.reason)}; {became}.")


def _show_rewrites(rewrites: tuple[Rewrite, ...]) -> None:
    by_rule: dict[str, list[Rewrite]] = {}
    for rewrite in rewrites:
        by_rule.setdefault(rewrite.rule.text, []).append(rewrite)
    for rule, found in by_rule.items():
        out.print(f"  [bold]{cell(rule)}[/]")
        for rewrite in found:
            out.print(f"    {cell(rewrite.pointer)}: {_short(rewrite.old)} → {_short(rewrite.new)}")


def _short(value: Any) -> str:
    if value is None:
        return "nothing"
    text = cell(value if isinstance(value, str) else orjson.dumps(value).decode())
    return text if len(text) <= _WIDEST else f"{text[:_WIDEST]}…"


def _show_violations(result: Imported) -> None:
    if not result.violations:
        return
    what = "broke" if result.is_imported else "breaks"
    out.print(f"What {what} a rule ({len(result.violations)}):")
    for subject, found in groupby(result.violations, key=lambda violation: violation.subject):
        out.print(f"  [bold]{cell(subject)}[/]")
        for violation in found:
            out.print(f"    {cell(f'{violation.title} {violation.detail}'.strip())}")
    if result.left_out:
        out.print(f"Left out ({len(result.left_out)}):")
        for xid in result.left_out:
            out.print(f"  {cell(xid)}")
