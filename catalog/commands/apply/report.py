"""Shows the changes of an apply as a tree, its result, the deletions, and errors of documents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

import orjson

from catalog.commands.console import cell, confirm, err, fail, out, print_json, sentence, show_error

if TYPE_CHECKING:
    from catalog.commands.apply.requests import ApplyResult, Contradiction
    from catalog.commands.documentfile import DocumentFile

MOST_LINES = 200
_SIGNS = {"created": "[green]+[/]", "updated": "[yellow]~[/]", "deleted": "[red]-[/]"}
_WIDEST = 60
_MOST_LISTED = 20
_LISTS = {
    "leftalone": "Left alone, since it belongs to another catalog",
    "kept": "Kept, since it contains entities that these documents do not own",
}


@dataclass(slots=True)
class _Node:
    """A segment of xids, and the change of the entity at the segment, if the entity changes."""

    change: Mapping[str, Any] | None = None
    below: dict[str, _Node] = field(default_factory=dict)


def change_tree(changes: Sequence[Mapping[str, Any]], *, most: int | None = MOST_LINES) -> str:
    """Return the changes as lines of Rich markup, a line for each entity.

    A version that is created or deleted with its resource has no line of its own.

    Args:
        changes: the changes as the answer of `POST /apply` has them, parents before children.
        most: the largest number of entities to show, after which a line counts the rest;
            unlimited if `None`.
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


def show_result(result: ApplyResult, *, quiet: bool, verbose: bool, as_json: bool) -> None:
    """Print the changes that were or would be made, and the failure of the apply, if it failed."""
    if as_json:
        print_json(result.as_json())
        return
    if not quiet:
        if result.changes:
            out.print(change_tree(result.changes, most=None if verbose else MOST_LINES))
        if result.changes or result.failure is None:
            out.print(summary(result.changes, is_dry_run=result.is_dry_run))
        most = None if verbose else _MOST_LISTED
        for name, title in _LISTS.items():
            if xids := result.listed(name):
                more = f" and {len(xids) - most:,} more" if most and len(xids) > most else ""
                out.print(f"{title}: {cell(', '.join(xids[:most]))}{more}.")
        for note in result.notes[:most]:
            xid_and_pointer = note["subject"] + note["pointer"]
            out.print(f"[yellow]Note:[/] {cell(xid_and_pointer)}: {cell(note['detail'])}")
        if most and (more_notes := len(result.notes) - most) > 0:
            out.print(f"… and {more_notes:,} more notes; `concord lint` lists them with lines.")
    if result.failure is not None:
        _show_failure(result)


def _show_failure(result: ApplyResult) -> None:
    from catalog.client import Refused
    from catalog.commands.apply.requests import MOST_NAMED

    failure, failed = result.failure, result.failed
    assert failure is not None, "only failures are shown"
    assert failed is not None, "a request failed"
    if isinstance(failure, Refused):
        show_error(failure.message)
        for violation in failure.problem.violations:
            err.print(f"  [bold]{cell(violation.subject)}[/]: {cell(sentence(violation))}")
        if any(v.name == "mismatched_epoch" for v in failure.problem.violations):
            err.print("Look at the changes with `concord diff`, or leave --check-epochs out.")
    else:
        show_error(failure.message, failure.hint)
    if result.is_dry_run:
        return
    if result.answers:
        last = result.answers[-1]["interaction"]
        err.print(f"Done: {len(result.answers):,} of the interactions; the last was {last}.")
    if result.is_in_doubt:
        err.print(f"It is in doubt whether this one was done: {cell(failed.summary)}.")
    elif result.answers:
        err.print(f"Refused, and not done: {cell(failed.summary)}.")
    if result.not_sent:
        shown = "; ".join(each.summary for each in result.not_sent[:MOST_NAMED])
        more = len(result.not_sent) - MOST_NAMED
        err.print(f"Not sent: {cell(shown)}{f'; and {more:,} more' if more > 0 else ''}.")
    if result.answers or result.is_in_doubt:
        err.print("It is safe to run this again: entities that were written are not written twice.")


def agree_on_deletions(preview: ApplyResult, *, verbose: bool) -> None:
    """Show the deletions, and end the command unless the user confirms them."""
    deletions = preview.deletions
    if not deletions:
        return
    err.print(change_tree(deletions, most=None if verbose else MOST_LINES))
    err.print(summary(deletions, is_dry_run=True))
    confirm("Delete these?", yes=False)


def refuse_contradictions(contradictions: Sequence[Contradiction]) -> NoReturn:
    """End the command, since documents give an attribute of an entity different values."""
    _show_first(
        f"[bold]{cell(each.xid)}[/]: {cell(each.attribute)} differs in "
        f"{cell(each.files[0])} and {cell(each.files[1])}"
        for each in contradictions
    )
    fail(
        "The documents contradict each other.",
        "Give each attribute in one document only, or the same value in both.",
    )


def refuse_losses(documents: Iterable[DocumentFile]) -> None:
    """End the command if a catalog would overlook or misread a part of the documents."""
    lossy = [document for document in documents if document.losses]
    for document in lossy:
        _show_first(
            f"{cell(str(document.path))} {cell(loss.pointer)}: {cell(loss.reason)}"
            for loss in document.losses
        )
    if lossy:
        names = ", ".join(str(document.path) for document in lossy)
        is_asyncapi = any(document.is_asyncapi for document in lossy)
        hint = "Correct it, or import the rest: concord import --keep-going."
        hint = hint if is_asyncapi else "Use --migrate, which moves it to its place."
        fail(f"A part of {names} would be lost.", hint)


def _show_first(lines: Iterable[str]) -> None:
    listed = list(lines)
    for line in listed[:_MOST_LISTED]:
        err.print(f"  {line}")
    if (more := len(listed) - _MOST_LISTED) > 0:
        err.print(f"  … and {more:,} more")
