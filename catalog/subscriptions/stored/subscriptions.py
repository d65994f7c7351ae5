"""Stores subscriptions: their definitions and the progress of their delivery."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any

import orjson

from catalog.audit.auditlog import AUDIT_SOURCE, AUDIT_TYPES
from catalog.model.credentials import SinkCredential
from catalog.model.roles import Creator
from catalog.model.sinkterms import SigningKey, SinkConsent
from catalog.operations.subscriptions import State, SubscriptionConfig
from catalog.store.accesstokens import suspend_subscriptions
from catalog.store.changes import LogName, Position, find_position, read_head
from catalog.store.database import Connection
from catalog.store.queries import Queries
from catalog.store.signingkeys import StoredKey, load_keys
from catalog.subscriptions.stored.sinkcredentials import StoredCredential, load_credentials
from catalog.subscriptions.stored.webhookconsents import load_consents

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
        source: the required source of events.
        types: the allowed types of events; every type if empty.
        filters: filter expressions; an event has to match every expression.
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
    """A durable cursor and a filter, with the state of the delivery.

    Args:
        log: the name of the log to read.
        course: the number of commands that moved the cursor.
        cursor: the position up to which events were delivered, kept as dead letters or filtered
            out.
        initial: the xid up to which entities were delivered as initial events; `None` if no initial
            events are left to deliver.
        reason: a sentence on the cause of the state.
        pausereason: why the subscription is paused, rather than activated, when its sink consents.
        delivered: the number of events that the sink accepted, the last at `deliveredat`.
        failed: the number of events kept as dead letters.
        failedattempts: the number of failed attempts, the last at `failedat` because of
            `failedcause`.
        failures: the number of failed attempts in a row, since `failingsince`; `error` is the cause
            of the last failure.
        nextattemptat: the time of the next attempt after a failure.
        tried: the number of failed attempts to deliver the next event, since `triedsince`.
        lostat: the time at which undelivered changes were found to have left the log.
        lag: the number of changes after the cursor; 1000 stands for 1000 or more.
        oldestat: the time of the first change after the cursor.
        storedkeys: the encrypted keys that sign deliveries, newest first.
        signingkeys: the same keys, decrypted; set only to open the sink.
        newkeys: the keys that the current request made: the answer shows the secrets, once.
        stored: the encrypted credential; `credential` is the decrypted form, to open the sink.
        consent: the consent of the sink, if the sink had to give a consent.
        creator: the owner of the subscription, with the principal `createdby`; `None` if the node
            was open.
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

    @property
    def path(self) -> str:
        """The path of the subscription, which is the subject of events and errors about it."""
        return f"{SUBSCRIPTION_SOURCE}/{self.id}"


async def create(
    connection: Connection,
    id: str,
    definition: SubscriptionDefinition,
    *,
    state: State = "active",
    reason: str | None = None,
    creator: Creator | None = None,
) -> Subscription:
    """Add a subscription, without a credential, that begins at `config.from` or the end of its log.

    Raises:
        InvalidAttribute: `config.from` is not a place in the log.
    """
    log, config = log_of(definition), definition.config
    cursor = await find_position(connection, config.start or "now", log)
    columns = _columns(definition)
    initial = "" if config.initialevents and log == "changes" else None
    place = (cursor.txid, cursor.seq, initial)
    values = *columns, state, reason, *place, *_owner(creator)
    found = await _write(connection, _queries.create, id, *values)
    assert found is not None
    return found


@dataclass(frozen=True, slots=True)
class Heir:
    """The new owner of a subscription; `creator` is `None` if the node is open."""

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
    """Replace the definition of a subscription; `None` if the subscription does not exist.

    The cursor and the credential stay. An ended subscription becomes active again; a paused
    subscription stays paused, if need be after the consent of its sink.

    Args:
        heir: the new owner; `None` keeps the owner.
    """
    columns = _columns(definition)
    owner = (False, None, None) if heir is None else (True, *_owner(heir.creator))
    return await _write(connection, _queries.replace, id, *columns, state, reason, *owner)


async def change_state(
    connection: Connection,
    id: str,
    state: State,
    reason: str | None = None,
    *,
    of: Collection[State],
) -> Subscription | None:
    """Change the state of a subscription; `None` if the current state is not in `of`."""
    return await _write(connection, _queries.change_state, id, state, reason, list(of))


async def pause_later(connection: Connection, id: str, reason: str | None) -> Subscription | None:
    """Have a pending subscription paused after the sink's consent, or activated without a reason.

    Returns `None` if the subscription is not pending, or the same outcome is already stored.
    """
    return await _write(connection, _queries.pause_later, id, reason)


async def move_cursor(connection: Connection, id: str, position: Position) -> Subscription | None:
    """Move the cursor of a subscription, forward or back; `None` for a missing subscription."""
    return await _write(connection, _queries.move_cursor, id, position.txid, position.seq)


async def expire(connection: Connection, now: datetime) -> None:
    """Expire the subscriptions whose time has come, and announce each.

    Subscriptions of a creator whose access token has expired are suspended.
    """
    await connection.execute(_queries.expire, now)
    for row in await connection.fetch(_queries.outlived, now):
        await suspend_subscriptions(connection, row["createdby"], "its creator's token has expired")


async def delete(connection: Connection, id: str) -> Subscription | None:
    """Delete a subscription, and return its last state."""
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
    """Read up to `limit` subscriptions, all or those of an owner, after an id."""
    if createdby is None:
        rows = await connection.fetch(_queries.page, after, limit)
    else:
        rows = await connection.fetch(_queries.page_of, after, limit, createdby)
    return await _subscriptions_from(connection, rows)


async def count(connection: Connection, createdby: str | None) -> tuple[int, int]:
    """Count the subscriptions of the node, and the subscriptions of a principal."""
    row = await connection.fetchrow(_queries.count, createdby)
    return int(row["kept"]), int(row["own"])


async def load(connection: Connection, ids: Iterable[str]) -> list[Subscription]:
    """Read subscriptions by id, without their lag; missing subscriptions are left out."""
    rows = await connection.fetch(_queries.load, list(ids))
    return await _subscriptions_from(connection, rows)


async def read_revisions(connection: Connection) -> dict[str, int]:
    """Read the revision of every active subscription, by id."""
    return {row["id"]: row["revision"] for row in await connection.fetch(_queries.revisions)}


async def pull_back(connection: Connection) -> None:
    """Move cursors beyond the end of the log, which come from a different server, to the end."""
    head = await read_head(connection)
    await connection.execute(_queries.pull_back, head.now.txid, head.now.seq)


def log_of(definition: SubscriptionDefinition) -> LogName:
    """The log that a subscription reads, derived from the source or the types of its definition."""
    source, types = definition.source, definition.types
    for name, ending, prefix in _OTHER_LOGS:
        is_about = bool(types) and all(one.startswith(prefix) for one in types)
        if is_about if source is None else source.endswith(ending):
            return name
    return "changes"


async def _write(
    connection: Connection, query: str, id: str, *values: object
) -> Subscription | None:
    """Write a subscription, announce it, and read the new row; `None` if no row was written."""
    if await connection.execute(query, id, *values) == "UPDATE 0":
        return None
    # PostgreSQL sends notifications at the commit, so that listeners read the new row.
    await connection.execute(_queries.announce, id)
    return await get(connection, id)


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


@dataclass(slots=True, kw_only=True)
class Progress:
    """The progress of one revision of a subscription since the last `save_progress`.

    The members are members of `Subscription`; `delivered`, `failed` and `failedattempts` are the
    increments since the last save, and a time that is `None` keeps the stored time.
    """

    id: str
    revision: int
    course: int
    cursor: Position
    initial: str | None = None
    delivered: int = 0
    deliveredat: datetime | None = None
    failed: int = 0
    failedattempts: int = 0
    failedat: datetime | None = None
    failedcause: str | None = None
    state: State = "active"
    reason: str | None = None
    failures: int = 0
    failingsince: datetime | None = None
    error: str | None = None
    nextattemptat: datetime | None = None
    tried: int = 0
    triedsince: datetime | None = None
    lostat: datetime | None = None


# The statement takes the cursor as two columns, after the course.
_AFTER_CURSOR = [each.name for each in fields(Progress)][4:]


async def save_progress(connection: Connection, progress: Sequence[Progress]) -> None:
    """Store the progress of subscriptions in one statement. A cursor never moves back."""
    await connection.execute(
        _queries.save_progress,
        [p.id for p in progress],
        [p.revision for p in progress],
        [p.course for p in progress],
        [p.cursor.txid for p in progress],
        [p.cursor.seq for p in progress],
        *([getattr(p, name) for p in progress] for name in _AFTER_CURSOR),
    )


async def lock_subscription(connection: Connection, id: str) -> bool:
    """Lock a subscription until the end of the transaction; return whether it exists."""
    return await connection.fetchval(_queries.lock, id) is not None


async def wake(connection: Connection, id: str) -> None:
    """Have the delivery of a subscription begin anew from its row."""
    await connection.execute(_queries.wake, id)
    await connection.execute(_queries.announce, id)


async def try_now(connection: Connection, id: str) -> None:
    """Have a subscription that waits after a failure try again at once."""
    await connection.execute(_queries.try_now, id)
    await connection.execute(_queries.announce, id)
