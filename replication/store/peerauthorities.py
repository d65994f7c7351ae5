"""Stores the cards and the links that other catalogs tell this node."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any

from catalog.operations.authoritycards import Card
from catalog.operations.federation import FederatedCatalog, SharedLink
from catalog.store.database import Connection
from catalog.store.queries import Queries, from_json, to_json

MOST_AUTHORITIES = 1000
"""The most authorities whose cards and links this node keeps."""
_queries = Queries("peerauthorities", package=__package__)


class PeerAuthority(FederatedCatalog):
    """What another catalog has told of itself, with the time `cardat` at which it told its card."""

    cardat: datetime | None = None


async def read(
    connection: Connection, authorities: Collection[str] | None = None
) -> list[PeerAuthority]:
    """Read what authorities have told; `None` reads all."""
    wanted = None if authorities is None else list(authorities)
    return [
        PeerAuthority.model_validate(
            dict(row) | {"card": from_json(row["card"]), "links": from_json(row["links"])}
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
        [each.cardat and to_json(_members(each.card or Card())) for each in told],
        [each.cardat for each in told],
        [_listed(each.links) for each in told],
        [each.readat for each in told],
        [each.triedat for each in told],
        [each.error for each in told],
        MOST_AUTHORITIES,
    )


def _listed(links: Iterable[SharedLink] | None) -> str | None:
    return None if links is None else to_json([*map(_members, links)])


def _members(told: Card | SharedLink) -> dict[str, Any]:
    # The id of a link has no meaning at another node.
    return told.model_dump(mode="json", exclude_defaults=True, exclude={"id"})
