"""Reads the log of subscriptions, written by triggers, and drops the oldest entries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from catalog.store.changes import ChangesDropped, Position
from catalog.store.database import Connection
from catalog.store.queries import Queries

_queries = Queries("subscriptionlog")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedSubscription:
    """An entry of the log of subscriptions.

    `action` is `started`, `updated`, `ended`, `failing`, `recovered` or `credentialexpiring`.
    `createdby` is the principal of the subscription's owner at the time.
    """

    position: Position
    at: datetime
    subscription: str
    action: str
    data: Mapping[str, Any]
    createdby: str | None


async def read_subscription_log(
    connection: Connection, after: Position, limit: int
) -> list[LoggedSubscription]:
    """Up to `limit` entries after a position, in log order; see `read_changes`.

    Raises:
        ChangesDropped: entries after the position are no longer in the log.
    """
    # One statement reads the entries and the begin of the log, so that both are of the same state;
    # without entries, a row still tells the begin.
    rows = await connection.fetch(_queries.read, after.txid, after.seq, limit)
    begin = Position(rows[0]["dropped_txid"], rows[0]["dropped_seq"])
    if after < begin:
        raise ChangesDropped(begin)
    return [
        LoggedSubscription(
            position=Position(row["txid"], row["seq"]),
            at=row["at"],
            subscription=row["subscription"],
            action=row["action"],
            data=orjson.loads(row["data"]),
            createdby=row["createdby"],
        )
        for row in rows
        if row["txid"] is not None
    ]


async def drop_oldest_of_subscriptions(
    connection: Connection, before: int, most: int, *, limit: int
) -> int:
    """Delete up to `limit` of the oldest entries, and move the start of the log; return how many.

    Args:
        before: a transaction; entries of earlier transactions are deleted.
        most: the number of newest entries to keep of the rest.
    """
    dropped: int | None = await connection.fetchval(_queries.drop_oldest, before, most, limit)
    return dropped or 0
