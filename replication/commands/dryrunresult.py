"""The option `--dry-run` of links, and the table of its result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from catalog.commands.console import cell, out, print_json, table
from catalog.model.masking import counted

if TYPE_CHECKING:
    from catalog.operations.links import DryRunAnswer

DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Only tell what would come, go and collide.")
]
_SHOWN = 3


def print_dry_run(found: DryRunAnswer, *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    if not found.isdecided:
        out.print(cell(found.reason))
        return
    out.print(f"{found.differing:,} of {found.rows:,} entities and deletions differ.")
    shown = table("would be", "entities", "of these")
    for name, each in (found.outcomes or {}).items():
        paths = [one.xid for one in each.first[:_SHOWN]]
        more = ", …" if each.number > len(paths) else ""
        shown.add_row(cell(name), cell(f"{each.number:,}"), cell(", ".join(paths) + more))
    if found.outcomes:
        out.print(shown)
    if found.question is not None:
        out.print(
            "It would ask before it deletes "
            f"{counted(found.question.deletions, 'entities')}, and wait for "
            "`concord link allow`."
        )
