"""Stores the cards and the links that other catalogs tell this node."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from catalog.store.database import Connection
from catalog.store.queries import Queries, from_json, to_json

MOST_AUTHORITIES = 1000
"""The most authorities whose cards and links this node keeps."""
_queries = Queries("peerauthorities", package=__package__)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerAuthority:
    """What another catalog has told of itself.

    Args:
        card: the card, with the time `cardat` at which it was told.
        links: the links that the catalog shares, with the time `linksat`; `None` if it shares none.
        triedat: the time of the last attempt to ask.
        error: why the last attempt failed.
    """

    authority: str
    card: Mapping[str, Any] | None = None
    cardat: datetime | None = None
    links: Sequence[Mapping[str, Any]] | None = None
    linksat: datetime | None = None
    triedat: datetime | None = None
    error: str | None = None


async def read(
    connection: Connection, authorities: Collection[str] | None = None
) -> list[PeerAuthority]:
    """Read what authorities have told; `None` reads all."""
    wanted = None if authorities is None else list(authorities)
    return [
        PeerAuthority(
            **dict(row) | {"card": from_json(row["card"]), "links": from_json(row["links"])}
        )
        for row in await connection.fetch(_queries.read, wanted)
    ]


async def save(connection: Connection, told: Collection[PeerAuthority]) -> None:
    """Store what catalogs have told now, up to a number of catalogs.

    What a catalog told earlier stays if the catalog did not answer: `triedat` and `error` alone
    are set.
    """
    await connection.execute(
        _queries.save,
        [each.authority for each in told],
        [to_json(each.card) for each in told],
        [each.cardat for each in told],
        [to_json(each.links) for each in told],
        [each.linksat for each in told],
        [each.triedat for each in told],
        [each.error for each in told],
        MOST_AUTHORITIES,
    )
