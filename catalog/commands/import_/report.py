"""Tells what became of documents: one after the other as they are done, and all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import orjson

from catalog.commands.console import cell, err, out
from catalog.documents.editions import NEWEST_EDITION

if TYPE_CHECKING:
    from catalog.client import ClientError, Violation
    from catalog.commands.import_.importing import ImportResult
    from catalog.documents.rewriter import Rewrite

_WIDEST = 100
_MOST_NAMED = 10


class ImportReport:
    """The printed report of an import.

    Args:
        verbose: list each rewrite, not how many there are of each kind.
        quiet: only tell of documents with something wrong.
    """

    def __init__(self, *, verbose: bool = False, quiet: bool = False) -> None:
        self.verbose = verbose
        self.quiet = quiet

    def show(self, result: ImportResult, owners: Mapping[str, str]) -> None:
        """One document, once it is done.

        Args:
            owners: authority → what the user knows it by.
        """
        if self.quiet and not result.is_wrong:
            return
        if result.is_imported:
            counted = ", ".join(f"{plural} {count}" for plural, count in result.counts.items())
            unchanged = "" if result.written else " All of it was there."
            out.print(f"[green]Imported[/] {cell(result.file)}: {counted}.{unchanged}")
        else:
            out.print(f"[red]Not imported[/] {cell(result.file)}: nothing of it was written.")
        if not self.quiet:
            self._show_reading(result)
            self._show_list("Left alone, read-only there and here", result.left_alone)
            notes = [(note["detail"], note["subject"] + note["pointer"]) for note in result.notes]
            self._show_reasons("Imported, but to be looked at", notes)
        self._show_losses(result)
        _show_violations(result, owners)
        _show_all("Left out", result.left_out)

    def summarise(self, results: Sequence[ImportResult]) -> None:
        """All of several documents."""
        if self.quiet or len(results) < 2:
            return
        counted: Counter[str] = Counter()
        for result in results:
            counted.update(result.counts)
        written = ", ".join(f"{plural} {count}" for plural, count in counted.items())
        imported = sum(result.is_imported for result in results)
        out.print(
            f"[bold]Imported {imported} of {len(results)} documents[/]"
            + (f": {written}." if written else ".")
        )

    def explain(self, results: Sequence[ImportResult], error: ClientError) -> None:
        """Why not everything was sent, and how far it came."""
        done = next(at for at, result in enumerate(results) if result.is_interrupted)
        stopped, *unsent = [cell(result.file) for result in results[done:]]
        err.print(f"[bold red]Error:[/] {cell(error.message)}")
        if error.hint:
            err.print(cell(error.hint))
        if results[done].state == "in doubt":
            err.print(f"In doubt: {stopped} was sent, and nobody said what became of it.")
        else:
            err.print(f"Not imported: {stopped}.")
        if unsent:
            after = f" and the {len(unsent) - 1} after it" if len(unsent) > 1 else ""
            err.print(f"Not sent: {unsent[0]}{after}.")

    def advise(self, results: Sequence[ImportResult]) -> None:
        """What to do next, as far as the command offers it."""
        stayed = sorted({name for result in results for name in result.document.not_sent})
        if stayed and not self.quiet:
            err.print(f"Not sent, since they describe the document itself: {', '.join(stayed)}.")
        wrong = [result for result in results if result.is_wrong]
        if any(r.document.is_strict and r.document.migrated.rewrites for r in wrong):
            err.print("Rewrite what is older, or at the wrong place, with --migrate.")
        elif any(_is_about_attributes(r) and not r.document.keeps_unknown for r in wrong):
            err.print("Keep what the catalog's model refuses as an extension with --keep-unknown.")
        if any(r.subjects and not (r.is_imported or r.document.losses) for r in wrong):
            err.print("Correct the document, or import the rest of it with --keep-going.")
        if any(v.type.endswith("#mismatched_epoch") for each in wrong for v in each.violations):
            err.print("What has another epoch is replaced with --overwrite.")

    def _show_reading(self, result: ImportResult) -> None:
        document = result.document
        edition = document.migrated.found.edition
        if document.is_strict:
            self._show_rewrites(f"Of edition {edition}, with older names", document.older)
            return
        origin = "" if edition == NEWEST_EDITION else f" from edition {edition}"
        self._show_rewrites(f"Rewritten{origin}", document.migrated.rewrites)
        left_out = document.migrated.left_out
        for kept, title in ((True, "Kept in `older`"), (False, "Not rewritten, and left out")):
            chosen = [(one.reason, one.pointer) for one in left_out if one.is_kept is kept]
            self._show_reasons(title, chosen)
        set_aside = [(one.reason, one.pointer) for one in result.set_aside]
        self._show_list("Refused by the catalog, and kept in `older`", [p for _, p in set_aside])
        if self.verbose:
            for reason, pointer in set_aside:
                out.print(f"    {cell(pointer)}: {cell(reason)}")

    def _show_rewrites(self, title: str, rewrites: Sequence[Rewrite]) -> None:
        if not rewrites:
            return
        if not self.verbose:
            self._show_reasons(title, [(one.rule.text, one.pointer) for one in rewrites])
            return
        out.print(f"  {title} ({len(rewrites)}):")
        by_rule: dict[str, list[Rewrite]] = {}
        for rewrite in rewrites:
            by_rule.setdefault(rewrite.rule.text, []).append(rewrite)
        for rule, found in by_rule.items():
            out.print(f"    [bold]{cell(rule)}[/]")
            for one in found:
                out.print(f"      {cell(one.pointer)}: {_short(one.old)} → {_short(one.new)}")

    def _show_reasons(self, title: str, found: Sequence[tuple[str, str]]) -> None:
        """How often there is each reason; with `verbose`, where."""
        if not found:
            return
        if self.verbose:
            out.print(f"  {title} ({len(found)}):")
            for reason, pointer in found:
                out.print(f"    {cell(pointer)}: {cell(reason)}.")
            return
        counts = Counter(reason for reason, _ in found)
        told = "; ".join(f"{cell(reason)} ({count})" for reason, count in counts.items())
        out.print(f"  {title} ({len(found)}): {told}.")

    def _show_list(self, title: str, names: Sequence[str]) -> None:
        if names:
            shown = names if self.verbose else names[:_MOST_NAMED]
            more = len(names) - len(shown)
            rest = f" and {more} more" if more else ""
            out.print(f"  {title} ({len(names)}): {cell(', '.join(shown))}{rest}.")

    def _show_losses(self, result: ImportResult) -> None:
        losses = result.document.losses
        if losses:
            out.print(f"  What the catalog would lose or misread ({len(losses)}):")
        by_reason: dict[str, list[str]] = {}
        for loss in losses:
            by_reason.setdefault(loss.reason, []).append(loss.pointer)
        for reason, pointers in by_reason.items():
            out.print(f"    [bold]{cell(reason)}[/]")
            for pointer in pointers:
                out.print(f"      {cell(pointer)}")


def _show_violations(result: ImportResult, owners: Mapping[str, str]) -> None:
    replicas = [each for each in result.violations if "authority" in each.args]
    others = [each for each in result.violations if "authority" not in each.args]
    _show_replicas(replicas, owners)
    if not others:
        return
    what = "broke" if result.is_imported else "breaks"
    out.print(f"  What {what} a rule ({len(others)}):")
    for subject, found in groupby(others, key=lambda violation: violation.subject):
        out.print(f"    [bold]{cell(subject)}[/]")
        for violation in found:
            out.print(f"      {cell(f'{violation.title} {violation.detail}'.strip())}")


def _show_replicas(violations: Iterable[Violation], owners: Mapping[str, str]) -> None:
    """What only somebody else may change, once for each of them."""
    by_authority: dict[str, list[str]] = {}
    for violation in violations:
        by_authority.setdefault(str(violation.args["authority"]), []).append(violation.subject)
    for authority, subjects in by_authority.items():
        owner = owners.get(authority, authority)
        out.print(f"  Replicas, which only {cell(owner)} may change ({len(subjects)}):")
        for subject in subjects:
            out.print(f"    {cell(subject)}")


def _show_all(title: str, names: Sequence[str]) -> None:
    if names:
        out.print(f"  {title} ({len(names)}):")
        for name in names:
            out.print(f"    {cell(name)}")


def _is_about_attributes(result: ImportResult) -> bool:
    return any("name" in violation.args for violation in result.violations)


def _short(value: Any) -> str:
    if value is None:
        return "nothing"
    text = cell(value if isinstance(value, str) else orjson.dumps(value).decode())
    return text if len(text) <= _WIDEST else f"{text[:_WIDEST]}…"
