"""Shows what became of an apply, what it would delete, and what is wrong with its documents."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NoReturn

import typer

from catalog.commands.console import cell, err, fail, out, print_json

if TYPE_CHECKING:
    from catalog.commands.apply.desiredstate import Contradiction
    from catalog.commands.apply.sending import ApplyResult

MOST_LISTED = 20


def show_applied(done: ApplyResult, *, quiet: bool, verbose: bool, as_json: bool) -> None:
    """Print the changes that were or would be made, and the failure if there is one."""
    from catalog.commands.apply.changetree import MOST_LINES, change_tree, summary

    if as_json:
        print_json(done.as_json())
    elif not quiet:
        if done.changes:
            out.print(change_tree(done.changes, most=None if verbose else MOST_LINES))
        if done.changes or done.failure is None:
            out.print(summary(done.changes, is_dry=done.is_dry))
        _show_left_alone(done, verbose=verbose)
        _show_notes(done, verbose=verbose)
    if done.failure is not None and not as_json:
        _show_failure(done)


def _show_left_alone(done: ApplyResult, *, verbose: bool) -> None:
    lists = {
        "leftalone": "Left alone, since it belongs to another catalog",
        "kept": "Kept, since it holds what these documents do not own",
    }
    for name, what in lists.items():
        found = done.listed(name)
        shown = found if verbose else found[:MOST_LISTED]
        more = f" and {len(found) - len(shown):,} more" if len(found) > len(shown) else ""
        if found:
            out.print(f"{what}: {cell(', '.join(shown))}{more}.")


def _show_notes(done: ApplyResult, *, verbose: bool) -> None:
    shown = done.notes if verbose else done.notes[:MOST_LISTED]
    for note in shown:
        where = note["subject"] + note["pointer"]
        out.print(f"[yellow]Note:[/] {cell(where)}: {cell(note['detail'])}")
    if (more := len(done.notes) - len(shown)) > 0:
        out.print(f"… and {more:,} more notes; `concord lint` lists them with their lines.")


def _show_failure(done: ApplyResult) -> None:
    from catalog.client import Refused
    from catalog.commands.apply.sending import MOST_NAMED

    failure, failed = done.failure, done.failed
    assert failure is not None, "there is something to show"
    assert failed is not None, "a request brought the failure"
    err.print(f"[bold red]Error:[/] {cell(failure.message)}")
    if isinstance(failure, Refused):
        for violation in failure.problem.violations:
            text = f"{violation.title} {violation.detail}".strip()
            err.print(f"  [bold]{cell(violation.subject)}[/]: {cell(text)}")
        if any(v.type.endswith("#mismatched_epoch") for v in failure.problem.violations):
            err.print("Look at what changed with `concord diff`, or leave --check-epochs out.")
    elif failure.hint:
        err.print(cell(failure.hint))
    if done.is_dry:
        return
    if done.answers:
        last = done.answers[-1]["interaction"]
        err.print(f"Done: {len(done.answers):,} of the interactions; the last was {last}.")
    if done.is_in_doubt:
        err.print(f"It is in doubt whether this one was done: {cell(failed.holds)}.")
    elif done.answers:
        err.print(f"Refused, and not done: {cell(failed.holds)}.")
    if done.not_sent:
        shown = "; ".join(each.holds for each in done.not_sent[:MOST_NAMED])
        more = len(done.not_sent) - MOST_NAMED
        err.print(f"Not sent: {cell(shown)}{f'; and {more:,} more' if more > 0 else ''}.")
    if done.answers or done.is_in_doubt:
        err.print("It is safe to run this again: what was done is not written twice.")


def agree_on_deletions(foretold: ApplyResult, *, verbose: bool) -> None:
    """Show the deletions, and end the command unless whoever runs it wants them."""
    from catalog.commands.apply.changetree import MOST_LINES, change_tree, summary

    deletions = foretold.deletions
    if not deletions:
        return
    most = None if verbose else MOST_LINES
    err.print(change_tree(deletions, most=most))
    err.print(summary(deletions, is_dry=True))
    if not sys.stdin.isatty():
        fail("Nothing was done: deletions need --yes where nobody can be asked.")
    if not typer.confirm("Delete these?", err=True):
        fail("Nothing was done.")


def refuse_contradictions(contradictions: list[Contradiction]) -> NoReturn:
    """End the command, since documents say different things of one entity."""
    for each in contradictions[:MOST_LISTED]:
        err.print(
            f"  [bold]{cell(each.xid)}[/]: {cell(each.attribute)} differs in "
            f"{cell(each.files[0])} and {cell(each.files[1])}"
        )
    if (more := len(contradictions) - MOST_LISTED) > 0:
        err.print(f"  … and {more:,} more")
    fail("The documents contradict each other.", "Say each thing once, or the same twice.")
