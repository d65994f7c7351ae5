"""Writes the audit: rows about interactions, further requests, and refused attempts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from catalog.model.caller import Author
from catalog.model.change import Change
from catalog.model.refusals import RefusedAttempts
from catalog.store.connections import Connection
from catalog.store.queries import Queries

_queries = Queries("auditnotes")
# The columns about an author, in the order of the statements' parameters.
_COLUMNS = ("kind", "name", "issuer", "address", "agent", "method", "path")


def _values(author: Author) -> list[str]:
    return [getattr(author, name) for name in _COLUMNS]


def interaction_row(
    author: Author, interaction: str, at: datetime, changes: Sequence[Change]
) -> dict[str, Any]:
    """The row about an interaction, for the statement that writes the changes.

    Marks the author as noted: unless the author's transaction fails, no other row is needed.
    """
    author.is_noted = True
    targets = [change.xid for change in changes]
    return {
        "at": at,
        **dict(zip(_COLUMNS, _values(author), strict=True)),
        "interaction": interaction,
        "actions": [change.action for change in changes],
        "targets": targets,
        "places": places_of(author.path, targets),
        "changed": len(changes),
    }


def places_of(path: str, targets: Iterable[str]) -> list[str]:
    """The groups and resources that a request to a path and with targets is about."""
    places = {place for target in (path, *targets) for place in _places_above(target.split("/"))}
    return list(places)


def place_above(path: str) -> str | None:
    """The group or resource at a path, or above it, by which entries are found."""
    return next(iter(_places_above(path.split("/"))), None)


def _places_above(parts: Sequence[str]) -> list[str]:
    return ["/".join(parts[: depth + 1]) for depth in (4, 2) if len(parts) > depth]


async def note_author(connection: Connection, author: Author, *, has_written: bool = False) -> None:
    """Write the row about a request or command other than an interaction, in its transaction.

    No row is written if the transaction has written nothing so far, unless the caller knows of an
    earlier write (`has_written`).
    """
    tag = await connection.execute(
        _queries.note,
        *_values(author),
        author.targets,
        has_written,
        places_of(author.path, author.targets),
    )
    author.is_noted = tag != "INSERT 0 0"


async def note_refusals(connection: Connection, refusals: Sequence[RefusedAttempts]) -> None:
    """Write the rows about refused attempts."""
    columns = zip(*(_values(each.author) for each in refusals), strict=True)
    await connection.execute(
        _queries.note_refusals,
        [each.at for each in refusals],
        *map(list, columns),
        [each.status for each in refusals],
        [each.reason for each in refusals],
        [each.attempts for each in refusals],
    )
