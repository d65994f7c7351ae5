"""Stores subscriptions: their definitions and the progress of their delivery."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Literal

import orjson

from catalog.model.sinkcredential import PlainCredential, SinkCredential, TokenCredential
from catalog.store.changes import Position, read_head
from catalog.store.database import Connection
from catalog.store.queries import Queries

State = Literal["active", "ended"]

SUBSCRIPTION_CHANNEL = "subscriptions"
"""Announces the id of a subscription that was created, replaced or deleted."""
_queries = Queries("subscriptions")


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionConfig:
    """The `config` of a subscription (subscriptions-spec.md 3.2.1).

    With an `interval`, the sink gets at most one event in so many seconds: the latest. Without
    one it gets every event.
    """

    interval: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionDefinition:
    """A subscriber's definition with the defaults applied.

    Args:
        sink: the URL of the sink.
        protocol: an identifier of the delivery protocol.
        source: the source that events have to have.
        types: the types that events may have; without any, all types.
        filters: filter expressions, all of which have to match.
        settings: the `protocolsettings`, checked by the protocol.
        config: the `config`.
    """

    sink: str
    protocol: str = "HTTP"
    source: str | None = None
    types: tuple[str, ...] = ()
    filters: tuple[Mapping[str, Any], ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    config: SubscriptionConfig = SubscriptionConfig()


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """A durable cursor and a filter, with the state of its delivery.

    Everything up to `cursor` was delivered or did not match. `failures` counts failures in a
    row. `lostat` is when it was noticed that changes had left the log before they were delivered.
    `lag` is how many changes come after the cursor: 1000 stands for that many or more.
    """

    id: str
    revision: int
    definition: SubscriptionDefinition
    credential: SinkCredential | None
    cursor: Position
    state: State
    failures: int
    delivered: int
    deliveredat: datetime | None
    error: str | None
    lostat: datetime | None
    lag: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of one revision of a subscription since the last `save_progress`."""

    id: str
    revision: int
    cursor: Position
    delivered: int = 0
    deliveredat: datetime | None = None
    state: State = "active"
    failures: int = 0
    error: str | None = None
    lostat: datetime | None = None


async def create(
    connection: Connection,
    id: str,
    definition: SubscriptionDefinition,
    credential: SinkCredential | None,
) -> Subscription:
    """Add a subscription that begins at the end of the log."""
    head = await read_head(connection)
    row = await connection.fetchrow(
        _queries.create, id, *_columns(definition, credential), head.now.txid, head.now.seq
    )
    await connection.execute(_queries.announce, id)
    return _subscription_from(row)


async def replace(
    connection: Connection,
    id: str,
    definition: SubscriptionDefinition,
    credential: SinkCredential | None,
) -> Subscription | None:
    """Replace the definition and credential of a subscription; `None` if there is none.

    It keeps its cursor, and is active again if it had ended.
    """
    row = await connection.fetchrow(_queries.replace, id, *_columns(definition, credential))
    await connection.execute(_queries.announce, id)
    return None if row is None else _subscription_from(row)


async def delete(connection: Connection, id: str) -> Subscription | None:
    """Delete a subscription, and return it as it was."""
    row = await connection.fetchrow(_queries.delete, id)
    await connection.execute(_queries.announce, id)
    return None if row is None else _subscription_from(row)


async def get(connection: Connection, id: str) -> Subscription | None:
    row = await connection.fetchrow(_queries.get, id)
    return None if row is None else _subscription_from(row)


async def page(connection: Connection, after: str, limit: int) -> list[Subscription]:
    """Read up to `limit` subscriptions whose ids come after `after`, in the order of ids."""
    rows = await connection.fetch(_queries.page, after, limit)
    return [_subscription_from(row) for row in rows]


async def count(connection: Connection) -> int:
    """Count all subscriptions."""
    return int(await connection.fetchval(_queries.count))


async def load(connection: Connection, ids: Iterable[str]) -> list[Subscription]:
    """Read subscriptions by id, without their lag; missing ones are left out."""
    rows = await connection.fetch(_queries.load, list(ids))
    return [_subscription_from(row) for row in rows]


async def read_revisions(connection: Connection) -> dict[str, int]:
    """Read the revision of every active subscription, by id."""
    return {row["id"]: row["revision"] for row in await connection.fetch(_queries.revisions)}


async def save_progress(connection: Connection, progress: Sequence[Progress]) -> None:
    """Store the progress of subscriptions in one statement. A cursor never moves back."""
    await connection.execute(
        _queries.save_progress,
        [p.id for p in progress],
        [p.revision for p in progress],
        [p.cursor.txid for p in progress],
        [p.cursor.seq for p in progress],
        [p.delivered for p in progress],
        [p.deliveredat for p in progress],
        [p.state for p in progress],
        [p.failures for p in progress],
        [p.error for p in progress],
        [p.lostat for p in progress],
    )


async def pull_back(connection: Connection) -> None:
    """Move cursors beyond the end of this log, which are from another server, to its end."""
    head = await read_head(connection)
    await connection.execute(_queries.pull_back, head.now.txid, head.now.seq)


def _columns(
    definition: SubscriptionDefinition, credential: SinkCredential | None
) -> tuple[str, str | None]:
    return (
        orjson.dumps(asdict(definition)).decode(),
        None if credential is None else orjson.dumps(asdict(credential)).decode(),
    )


def _subscription_from(row: Mapping[str, Any]) -> Subscription:
    given = orjson.loads(row["definition"])
    sequences = {name: tuple(given[name]) for name in ("types", "filters")}
    config = {"config": SubscriptionConfig(**given["config"])}
    return Subscription(
        id=row["id"],
        revision=row["revision"],
        definition=SubscriptionDefinition(**given | sequences | config),
        credential=_credential_from(row["sinkcredential"]),
        cursor=Position(row["txid"], row["seq"]),
        state=row["state"],
        failures=row["failures"],
        delivered=row["delivered"],
        deliveredat=row["deliveredat"],
        error=row["error"],
        lostat=row["lostat"],
        lag=row["lag"],
    )


def _credential_from(text: str | None) -> SinkCredential | None:
    if text is None:
        return None
    data = orjson.loads(text)
    if "identifier" in data:
        return PlainCredential(**data)
    expiresat = data["expiresat"] and datetime.fromisoformat(data["expiresat"])
    return TokenCredential(**data | {"expiresat": expiresat})
