"""Shows the changes of an apply as a tree of entities."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from catalog.commands.console import cell

MOST_LINES = 200
_SIGNS = {"created": "[green]+[/]", "updated": "[yellow]~[/]", "deleted": "[red]-[/]"}
_WIDEST = 60


@dataclass(slots=True)
class _Node:
    """A segment of xids, and the change of the entity at the segment, if the entity changes."""

    change: Mapping[str, Any] | None = None
    below: dict[str, _Node] = field(default_factory=dict)


def change_tree(changes: Sequence[Mapping[str, Any]], *, most: int | None = MOST_LINES) -> str:
    """Return a line of markup for each entity.

    A version that is created or deleted with its resource is in the line of the resource.

    Args:
        changes: the changes in the answer of `POST /apply`, parents before children.
        most: the most changes to show; unlimited if `None`.
    """
    folded = list(_folded(changes))
    root = _Node()
    for change in folded[:most]:
        node = root
        for segment in change["xid"].strip("/").split("/"):
            node = node.below.setdefault(segment, _Node())
        node.change = change
    lines = [line for segment, child in root.below.items() for line in _lines(segment, child)]
    if most is not None and len(folded) > most:
        lines.append(f"… and {len(folded) - most:,} more; --verbose lists them.")
    return "\n".join(lines)


def _folded(changes: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """The changes; a created or deleted resource lists the versions with the same action."""
    whole: dict[str, dict[str, Any]] = {}
    for change in changes:
        resource, _, vid = change["xid"].partition("/versions/")
        owner = whole.get(resource)
        if vid and owner is not None and owner["action"] == change["action"]:
            owner["versions"].append(vid)
        elif not vid and change["action"] != "updated":
            whole[resource] = {**change, "versions": []}
    for change in changes:
        resource, _, vid = change["xid"].partition("/versions/")
        owner = whole.get(resource)
        if owner is None or (vid and vid not in owner["versions"]):
            yield dict(change)
        elif not vid:
            yield owner


def _lines(segment: str, node: _Node) -> Iterator[str]:
    """The lines of a node and the nodes below; a node without a change joins an only child."""
    name = segment
    while node.change is None and len(node.below) == 1:
        [(segment, node)] = node.below.items()
        name = f"{name}/{segment}"
    yield _line(name, node.change)
    for number, (inner, child) in enumerate(node.below.items(), 1):
        is_last = number == len(node.below)
        first, *others = _lines(inner, child)
        yield f"{'└── ' if is_last else '├── '}{first}"
        yield from (f"{'    ' if is_last else '│   '}{line}" for line in others)


def _line(name: str, change: Mapping[str, Any] | None) -> str:
    if change is None:
        return cell(name)
    details = "".join(f"  {part}" for part in _details(change))
    return f"{_SIGNS[change['action']]} {cell(name)}{details}"


def _details(change: Mapping[str, Any]) -> Iterator[str]:
    """The changed attributes of an entity, with short old and new values."""
    versions = change.get("versions", [])
    if len(versions) > 1:
        yield f"[dim]versions {cell(', '.join(versions))}[/]"
    values = [(".".join(value["path"]), value) for value in change.get("values", [])]
    for name in change.get("changed", []):
        inside = [(path, value) for path, value in values if f"{path}.".startswith(f"{name}.")]
        if not inside:
            yield cell(name)
        for path, value in inside:
            yield f"{cell(path)}: {_short(value, 'old')} → {_short(value, 'new')}"


def _short(value: Mapping[str, Any], side: str) -> str:
    if side not in value:
        return "nothing"
    text = orjson.dumps(value[side]).decode()
    return cell(text if len(text) <= _WIDEST else f"{text[:_WIDEST]}…")


def summary(changes: Sequence[Mapping[str, Any]], *, is_dry_run: bool) -> str:
    """Count the changes in a sentence; the counts match the lines of the tree."""
    actions = [change["action"] for change in _folded(changes)]
    if not actions:
        return "Nothing to do."
    words = {"created": "created", "updated": "changed", "deleted": "deleted"}
    counts = [f"{actions.count(a):,} {word}" for a, word in words.items() if a in actions]
    return f"{'Would be: ' if is_dry_run else ''}{', '.join(counts)}."
