"""The command `signing verify`."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import typer

from catalog.commands.console import (
    DEFAULT_URL,
    NO,
    AsJson,
    Url,
    cell,
    on_node,
    out,
    print_json,
    table,
)

if TYPE_CHECKING:
    from catalog.client import Client
    from catalog.operations.signing import Finding, SignatureFault

_FINDINGS: tuple[Finding, ...] = ("verified", "unsigned", "unknown", "false", "damaged")
_MOST_FAULTS = 20

app = typer.Typer()


@app.command()
def verify(as_json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """Check the signatures and digests of the entities and tombstones of a node.

    The result counts, by authority, entities that are verified, unsigned, signed by an unknown
    key, signed falsely, or damaged. The signatures of an authority without trusted keys are
    checked with the keys that the authority, or a relay, has told.

    Example: concord signing verify

    Exit codes: 0 no faults; 1 an entity is falsely signed or damaged, or is unsigned although keys
    of the authority are trusted; 2 the command could not do its work.
    """
    counts, pinned, faults = on_node(url, _verify)
    wrong = sum(count["false"] + count["damaged"] for count in counts.values())
    wrong += sum(counts[authority]["unsigned"] for authority in pinned if authority in counts)
    if as_json:
        shown = {authority: dict(count) for authority, count in counts.items()}
        print_json({"counts": shown, "pinned": sorted(pinned), "faults": faults})
    else:
        _show(counts, pinned, faults)
    if wrong:
        raise typer.Exit(NO)


async def _verify(
    client: Client,
) -> tuple[dict[str, Counter[Finding]], set[str], list[SignatureFault]]:
    counts: defaultdict[str, Counter[Finding]] = defaultdict(Counter)
    pinned: set[str] = set()
    faults: list[SignatureFault] = []
    after: str | None = ""
    while after is not None:
        part = await client.check_signatures(after)
        for authority, count in part.counts.items():
            counts[authority].update(count)
        pinned |= set(part.pinned)
        faults += part.faults[: _MOST_FAULTS - len(faults)]
        after = part.after
    return dict(counts), pinned, faults


def _show(
    counts: dict[str, Counter[Finding]], pinned: set[str], faults: list[SignatureFault]
) -> None:
    shown = table("authority", "keys", *_FINDINGS)
    for authority, count in sorted(counts.items()):
        keys = "trusted" if authority in pinned else "as told"
        shown.add_row(cell(authority), keys, *(cell(count[name]) for name in _FINDINGS))
    out.print(shown if counts else "This node has nothing to verify.")
    for fault in faults:
        out.print(f"  {cell(fault.xid)} of {cell(fault.authority)}: {cell(fault.detail)}")
