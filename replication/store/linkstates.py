"""Stores what links are and were: pauses, confirmations, credentials, and figures over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from catalog.keys.keyring import KeyRing
from catalog.model.credentials import PeerCredential
from catalog.model.linkterms import State
from catalog.operations.linkfigures import LinkFigure
from catalog.store import links
from catalog.store.database import Connection
from catalog.store.links import Link
from catalog.store.queries import Queries, to_json
from catalog.store.secrets import open_credential, seal_credential, seal_unsaved

_queries = Queries("linkstates", package=__package__)


@dataclass(frozen=True, slots=True)
class Confirmation:
    """The time at which a current revision of a link found nothing new."""

    id: str
    revision: int
    at: datetime


async def pause(connection: Connection, link: Link, reason: str) -> Link | None:
    """Pause a link until it is resumed; a paused link keeps its former reason."""
    await connection.execute(_queries.pause, link.id, reason)
    return await _changed(connection, link)


async def resume(connection: Connection, link: Link) -> Link | None:
    """Let a paused link continue from its cursor."""
    return await _run(connection, link, "paused")


async def run_now(connection: Connection, link: Link) -> Link | None:
    """Let a link read its source now, even if the link waits after a failure or has stopped."""
    await links.wake(connection, link.id)
    return await _run(connection, link, "waiting", "unauthenticated", "forbidden", "refused")


async def confirm(connection: Connection, confirmations: Sequence[Confirmation]) -> None:
    """Store that links are still current, in one statement for many links."""
    await connection.execute(
        _queries.confirm,
        [each.id for each in confirmations],
        [each.revision for each in confirmations],
        [each.at for each in confirmations],
    )


async def _run(connection: Connection, link: Link, *states: State) -> Link | None:
    await connection.execute(_queries.run, link.id, states)
    return await _changed(connection, link)


async def _changed(connection: Connection, link: Link) -> Link | None:
    # The empty id makes the scheduler compare every link.
    await links.wake(connection, "")
    return await links.get(connection, link.id)


_TABLE = "links"


async def save_credential(
    connection: Connection, keys: KeyRing, link: Link, credential: PeerCredential
) -> Link:
    """Replace the stored credential of a link.

    Call this in the transaction that adds or replaces the link.
    """
    sealed = await seal_credential(connection, keys, credential, _TABLE, link.id)
    shown = None if credential.is_empty else credential.shown
    await connection.execute(_queries.save, link.id, sealed, to_json(shown))
    return replace(link, sealed=sealed, credential=shown)


async def renew_credential(
    connection: Connection, keys: KeyRing, link: Link, credential: PeerCredential
) -> Link | None:
    """Store a new credential, and let the link continue at once from its cursor.

    `None` if the link does not exist.
    """
    if await connection.fetchval(_queries.go_on, link.id) is None:
        return None
    await save_credential(connection, keys, link, credential)
    # The empty id makes the scheduler compare every link, so a runner with the new revision starts.
    await links.wake(connection, "")
    return await links.get(connection, link.id)


def with_credential(link: Link, keys: KeyRing, credential: PeerCredential) -> Link:
    """An unsaved link with its credential."""
    return replace(link, sealed=seal_unsaved(keys, credential, _TABLE, link.id))


def credential_of(link: Link, keys: KeyRing) -> PeerCredential:
    """The credential of a link.

    Raises:
        SecretUnreadable: the credential cannot be decrypted.
    """
    return open_credential(keys, link.sealed, _TABLE, link.id)


async def find_leading_to(connection: Connection, url: str) -> Link | None:
    """Read the first link that shows a credential to the catalog at a URL."""
    id = await connection.fetchval(_queries.leading_to, url)
    return None if id is None else await links.get(connection, id)


MINUTE, HOUR = 60, 3600
"""The seconds between two points of a step."""
KEPT = {MINUTE: timedelta(days=1), HOUR: timedelta(days=30)}


async def note_figures(connection: Connection) -> None:
    """Store a point of each link in one statement, and drop the points that are too old."""
    await connection.execute(_queries.note_figures, KEPT[MINUTE], KEPT[HOUR])


async def read_figures(
    connection: Connection, link: str, step: int, since: datetime
) -> list[LinkFigure]:
    """Read the points of a link after a time, oldest first.

    Args:
        step: `MINUTE` or `HOUR`.
    """
    rows = await connection.fetch(_queries.figures, link, step, since)
    return [LinkFigure.model_construct(**row) for row in rows]
