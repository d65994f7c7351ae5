"""Stores subscriptions: their definitions and the progress of their delivery."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any

import orjson

from catalog.audit.auditlog import AUDIT_SOURCE, AUDIT_TYPES
from catalog.model.creator import Creator
from catalog.model.signingkey import SigningKey
from catalog.model.sinkconsent import SinkConsent
from catalog.model.sinkcredential import SinkCredential
from catalog.operations.subscriptions import State, SubscriptionConfig
from catalog.store.accesstokens import suspend_subscriptions
from catalog.store.changes import Position, read_head
from catalog.store.database import Connection
from catalog.store.logpositions import LogName, find_position
from catalog.store.queries import Queries
from catalog.store.signingkeys import StoredKey, load_keys
from catalog.subscriptions.stored.sinkconsents import load_consents
from catalog.subscriptions.stored.sinkcredentials import StoredCredential, load_credentials

SUBSCRIPTION_CHANNEL = "subscriptions"
"""Announces the id of a subscription that was created, changed or deleted."""
SUBSCRIPTION_TYPES = "concord.subscription."
"""Begins the types of events about subscriptions."""
SUBSCRIPTION_SOURCE = "/subscriptions"
"""Ends the source of events about subscriptions, after the URL of the node."""
_OTHER_LOGS: tuple[tuple[LogName, str, str], ...] = (
    ("subscriptions", SUBSCRIPTION_SOURCE, SUBSCRIPTION_TYPES),
    ("audit", AUDIT_SOURCE, AUDIT_TYPES),
)
_queries = Queries("subscriptions")


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
    config: SubscriptionConfig = field(default_factory=SubscriptionConfig)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """A durable cursor and a filter, with the state of its delivery.

    Args:
        log: the log that it reads.
        course: the number of commands that moved its cursor.
        cursor: everything up to there was delivered, kept as a dead letter, or did not match.
        initial: the xid up to which what was there has been delivered; `None` if no such events
            are left to deliver.
        reason: a sentence that says why it is in its state.
        pausereason: why it will be paused, not active, once its sink has consented.
        delivered: the number of events that the sink accepted, the last one at `deliveredat`.
        failed: the number of events that became dead letters.
        failedattempts: the number of attempts that failed, the last one at `failedat` because of
            `failedcause`.
        failures: the number of attempts that failed in a row, since `failingsince`; `error` is
            the cause of the last.
        nextattemptat: the time of the next attempt after a failure.
        tried: the number of failed attempts, since `triedsince`, with the event that is next.
        lostat: when it was noticed that changes had left the log before they were delivered.
        lag: the number of changes after the cursor: 1000 stands for that many or more.
        oldestat: the time of the first change after the cursor.
        storedkeys: the keys that sign its deliveries, the newest first.
        signingkeys: the same keys, decrypted; only what opens its sink has them.
        newkeys: those that were made just now: an answer shows their secrets, once.
        stored: the encrypted credential; what opens the sink decrypts it as `credential`.
        consent: what its sink has consented to, if it had to.
        creator: whom it belongs to, and `createdby` its principal; `None` if the node was open.
    """

    id: str
    revision: int
    definition: SubscriptionDefinition
    cursor: Position
    state: State
    failures: int
    delivered: int
    deliveredat: datetime | None
    error: str | None
    lostat: datetime | None
    lag: int
    log: LogName = "changes"
    course: int = 0
    initial: str | None = None
    reason: str | None = None
    pausereason: str | None = None
    createdat: datetime = datetime(1970, 1, 1, tzinfo=UTC)
    failed: int = 0
    failedattempts: int = 0
    failingsince: datetime | None = None
    failedat: datetime | None = None
    failedcause: str | None = None
    nextattemptat: datetime | None = None
    tried: int = 0
    triedsince: datetime | None = None
    oldestat: datetime | None = None
    storedkeys: tuple[StoredKey, ...] = ()
    signingkeys: tuple[SigningKey, ...] = ()
    newkeys: tuple[SigningKey, ...] = ()
    stored: StoredCredential | None = None
    credential: SinkCredential | None = None
    consent: SinkConsent | None = None
    createdby: str | None = None
    creator: Creator | None = None


async def create(
    connection: Connection,
    id: str,
    definition: SubscriptionDefinition,
    *,
    state: State = "active",
    reason: str | None = None,
    creator: Creator | None = None,
) -> Subscription:
    """Add a subscription that begins where its definition says, else at the end of its log.

    It has no credential yet.

    Raises:
        InvalidAttribute: the log has no such place.
    """
    log, config = log_of(definition), definition.config
    cursor = await find_position(connection, config.start or "now", log)
    columns = _columns(definition)
    initial = "" if config.initialevents and log == "changes" else None
    place = (cursor.txid, cursor.seq, initial)
    await connection.execute(_queries.create, id, *columns, state, reason, *place, *_owner(creator))
    return await _changed(connection, id)


@dataclass(frozen=True, slots=True)
class Heir:
    """A caller that a subscription belongs to from now on; none if the node is open."""

    creator: Creator | None


async def replace(
    connection: Connection,
    id: str,
    definition: SubscriptionDefinition,
    *,
    state: State = "active",
    reason: str | None = None,
    heir: Heir | None = None,
) -> Subscription | None:
    """Replace the definition of a subscription; `None` if there is none.

    It keeps its cursor and its credential. It is active again if it had ended, but stays paused,
    if need be after the consent of its sink.

    Args:
        heir: whom it belongs to from now on; the same as before if there is none.
    """
    columns = _columns(definition)
    owner = (False, None, None) if heir is None else (True, *_owner(heir.creator))
    done = await connection.execute(_queries.replace, id, *columns, state, reason, *owner)
    return await _changed(connection, id) if _has_changed(done) else None


async def change_state(
    connection: Connection,
    id: str,
    state: State,
    reason: str | None = None,
    *,
    of: Collection[State],
) -> Subscription | None:
    """Give a subscription another state; `None` if it is in none of the states `of`."""
    done = await connection.execute(_queries.change_state, id, state, reason, list(of))
    return await _changed(connection, id) if _has_changed(done) else None


async def pause_later(connection: Connection, id: str, reason: str | None) -> Subscription | None:
    """Have a pending subscription paused once its sink has consented, or active without a reason.

    Returns:
        `None` if it is not pending, or this is what will become of it anyway.
    """
    done = await connection.execute(_queries.pause_later, id, reason)
    return await _changed(connection, id) if _has_changed(done) else None


async def move_cursor(connection: Connection, id: str, position: Position) -> Subscription | None:
    """Let a subscription go on from a position, back or forth; `None` if there is none."""
    done = await connection.execute(_queries.move_cursor, id, position.txid, position.seq)
    return await _changed(connection, id) if _has_changed(done) else None


async def expire(connection: Connection, now: datetime) -> None:
    """Expire the subscriptions whose time has come, and announce them.

    Those are suspended whose creators' tokens have expired.
    """
    await connection.execute(_queries.expire, now)
    for row in await connection.fetch(_queries.outlived, now):
        await suspend_subscriptions(connection, row["createdby"], "its creator's token has expired")


async def delete(connection: Connection, id: str) -> Subscription | None:
    """Delete a subscription, and return it as it was."""
    found = await get(connection, id)
    await connection.execute(_queries.delete, id)
    await connection.execute(_queries.announce, id)
    return found


async def get(connection: Connection, id: str) -> Subscription | None:
    found = await _subscriptions_from(connection, await connection.fetch(_queries.get, id))
    return found[0] if found else None


async def page(
    connection: Connection, after: str, limit: int, *, createdby: str | None = None
) -> list[Subscription]:
    """Read up to `limit` subscriptions whose ids come after `after`, in the order of ids.

    Args:
        createdby: the principal of the caller that they belong to, unless all are meant.
    """
    if createdby is None:
        rows = await connection.fetch(_queries.page, after, limit)
    else:
        rows = await connection.fetch(_queries.page_of, after, limit, createdby)
    return await _subscriptions_from(connection, rows)


async def count(connection: Connection, createdby: str | None) -> tuple[int, int]:
    """Count all subscriptions, and those that belong to a principal."""
    row = await connection.fetchrow(_queries.count, createdby)
    return int(row["kept"]), int(row["own"])


async def load(connection: Connection, ids: Iterable[str]) -> list[Subscription]:
    """Read subscriptions by id, without their lag; missing ones are left out."""
    rows = await connection.fetch(_queries.load, list(ids))
    return await _subscriptions_from(connection, rows)


async def read_revisions(connection: Connection) -> dict[str, int]:
    """Read the revision of every active subscription, by id."""
    return {row["id"]: row["revision"] for row in await connection.fetch(_queries.revisions)}


async def pull_back(connection: Connection) -> None:
    """Move cursors beyond the end of this log, which are from another server, to its end."""
    head = await read_head(connection)
    await connection.execute(_queries.pull_back, head.now.txid, head.now.seq)


def log_of(definition: SubscriptionDefinition) -> LogName:
    """The log that a subscription reads, by the source or the types that it asks for."""
    source, types = definition.source, definition.types
    for name, ending, prefix in _OTHER_LOGS:
        is_about = bool(types) and all(one.startswith(prefix) for one in types)
        if is_about if source is None else source.endswith(ending):
            return name
    return "changes"


async def _changed(connection: Connection, id: str) -> Subscription:
    """Announce a subscription that was written in this transaction, and read it."""
    await connection.execute(_queries.announce, id)
    found = await get(connection, id)
    assert found is not None
    return found


def _has_changed(tag: str) -> bool:
    return tag != "UPDATE 0"


def _columns(definition: SubscriptionDefinition) -> tuple[str, LogName, datetime | None]:
    text = orjson.dumps(definition, default=SubscriptionConfig.model_dump).decode()
    return text, log_of(definition), definition.config.expiresat


def _owner(creator: Creator | None) -> tuple[str | None, str | None]:
    return (None, None) if creator is None else (creator.principal, str(creator))


_NOT_AS_STORED = {
    *("definition", "cursor", "credential", "stored", "creator"),
    *("storedkeys", "signingkeys", "newkeys", "consent"),
}
_AS_STORED = [each.name for each in fields(Subscription) if each.name not in _NOT_AS_STORED]


async def _subscriptions_from(
    connection: Connection, rows: Sequence[Mapping[str, Any]]
) -> list[Subscription]:
    if not rows:
        return []
    ids = [row["id"] for row in rows]
    stored = await load_credentials(connection, ids)
    keys = await load_keys(connection, ids, datetime.now(UTC))
    consents = await load_consents(connection, ids)
    return [
        Subscription(
            definition=_definition_from(orjson.loads(row["definition"])),
            cursor=Position(row["txid"], row["seq"]),
            stored=stored.get(row["id"]),
            storedkeys=keys.get(row["id"], ()),
            consent=consents.get(row["id"]),
            creator=row["creator"] and Creator.parse(row["creator"]),
            **{name: row[name] for name in _AS_STORED},
        )
        for row in rows
    ]


def _definition_from(given: dict[str, Any]) -> SubscriptionDefinition:
    sequences = {name: tuple(given[name]) for name in ("types", "filters")}
    config = SubscriptionConfig.model_validate(given["config"])
    return SubscriptionDefinition(**given | sequences | {"config": config})
