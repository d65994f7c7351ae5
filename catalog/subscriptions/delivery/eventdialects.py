"""Renders the entries of a log as CloudEvents, in the dialect of each subscription.

A log is the change log (core/events.md, or an older dialect), the existing entities, or the audit.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC
from functools import partial
from typing import Any, Literal

from cloudevents.core.v1.event import CloudEvent

from catalog.audit.auditlog import AUDIT_SOURCE, AUDIT_TYPES, AuditRow, read_audit_log
from catalog.context import EventDialect
from catalog.model.change import REMOVED, UNTOLD, Change
from catalog.store.changes import LoggedChange, Position, read_changes, trace_attributes
from catalog.store.database import Connection, Database
from catalog.store.initialentities import read_entities_after
from catalog.subscriptions.delivery.logtail import LogEntry, Tail
from catalog.subscriptions.delivery.subscriptionevents import SubscriptionLogReader
from catalog.subscriptions.stored.subscriptions import (
    SUBSCRIPTION_SOURCE,
    SubscriptionDefinition,
    log_of,
)

_TYPE = "io.xregistry"
# Parts of the registry whose updates have separate events.
_REGISTRY_PARTS = ("model", "modelsource", "capabilities")

# The edition of the types of events: 1.0-rc4, or its successor.
EventNames = Literal["rc4", "next"]


def events_of(logged: LoggedChange, *, source: str, names: EventNames = "rc4") -> list[CloudEvent]:
    """The events of one change, in the order of delivery.

    `data` is always an object, since a web hook request must carry a payload (http-webhook.md 2.1);
    `data` has `changed` only where core/events.md permits. An event that is rendered again has the
    same id.

    Args:
        logged: the change with its place in the log.
        source: absolute URL of the registry's root.
        names: with `next`, the removal of a deprecation has a separate event type.
    """
    return [
        CloudEvent(
            {
                "id": f"{logged.interaction}.{logged.position.seq}.{entity}.{action}",
                "source": source,
                "type": f"{_TYPE}.{entity}.{action}",
                "subject": subject,
                "time": logged.at.astimezone(UTC),
                "datacontenttype": "application/json",
                "xregcorrelationid": logged.interaction,
                "sequence": str(logged.position),
                "epoch": str(logged.change.epoch),
                "authority": logged.change.authority,
                "digest": logged.change.digest.hex(),
                **trace_attributes(logged),
            },
            data,
        )
        for entity, action, subject, data in _event_parts(logged, names)
    ]


def native_dialect(names: EventNames = "rc4") -> EventDialect:
    """The events of the registry itself."""

    async def read_renderer(
        _: Connection, __: Sequence[LoggedChange], source: str
    ) -> Callable[[LoggedChange], list[CloudEvent]]:
        return partial(events_of, source=source, names=names)

    return EventDialect(root="", type_prefix=_TYPE, renderer=read_renderer)


def _event_parts(
    logged: LoggedChange, names: EventNames
) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """Entity, action, subject and data of each event."""
    change = logged.change
    changed, inside = _split_changed(change)
    updated = {"changed": changed} if change.action == "updated" else {}
    yield change.kind, change.action, change.xid, updated
    if change.deprecation is not None:
        members = [name for name in change.deprecation if name != REMOVED]
        yield change.kind, _deprecation(change, names), change.xid, {"changed": members}
    if change.kind == "registry":
        for part in _REGISTRY_PARTS:
            if part in change.changed:
                data = {"changed": inside} if part == "capabilities" else {}
                yield part, "updated", f"/{part}", data


def _deprecation(change: Change, names: EventNames) -> str:
    if names == "rc4":
        return "deprecation"
    return "undeprecated" if REMOVED in (change.deprecation or ()) else "deprecated"


def _split_changed(change: Change) -> tuple[list[str], list[str]]:
    """The names of changed attributes, and the names of changed capabilities."""
    prefix = "capabilities."
    if change.kind != "registry":
        return list(change.changed), []
    inside = [name.removeprefix(prefix) for name in change.changed if name.startswith(prefix)]
    return [name for name in change.changed if not name.startswith(prefix)], inside


_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "urn:concord:initial-event")


class ChangeLogReader:
    """Reads the change log.

    Args:
        dialect: renders the events.
        source: the source of the events.
    """

    def __init__(self, dialect: EventDialect, source: str) -> None:
        self._dialect = dialect
        self._source = source

    async def read(self, connection: Connection, after: Position, limit: int) -> list[LogEntry]:
        """Up to `limit` changes after a position; see `LogReader`."""
        changes = await read_changes(connection, after, limit)
        render = await self._dialect.renderer(connection, changes, self._source)
        return [
            LogEntry(
                each.position,
                each.at,
                partial(_no_events if each.change.action in UNTOLD else render, each),
                xid=each.change.xid,
            )
            for each in changes
        ]

    async def read_initial(
        self, connection: Connection, subscription: str, cursor: Position, after: str, limit: int
    ) -> list[LogEntry]:
        """Up to `limit` entities after an xid, each as a change that creates its present state."""
        changes = [
            LoggedChange(
                position=cursor,
                interaction=f"initial-{subscription}",
                at=entity.modifiedat,
                change=entity.change,
            )
            for entity in await read_entities_after(connection, after, limit)
        ]
        render = await self._dialect.renderer(connection, changes, self._source)
        return [
            LogEntry(
                cursor,
                each.at,
                partial(_rendered, render, each),
                xid=each.change.xid,
                initial=each.change.xid,
            )
            for each in changes
        ]


def _no_events(_: LoggedChange) -> list[CloudEvent]:
    return []


def _rendered(
    render: Callable[[LoggedChange], list[CloudEvent]], logged: LoggedChange
) -> list[CloudEvent]:
    """The events of an existing entity, with separate ids, since no change has the ids."""
    return [
        CloudEvent({**event.get_attributes(), "id": _id(logged, event.get_id())}, event.get_data())
        for event in render(logged)
    ]


def _id(logged: LoggedChange, id: str) -> str:
    """The same id whenever the same state of an entity is sent to the same subscriber."""
    change = logged.change
    return str(uuid.uuid5(_NAMESPACE, f"{id} {change.xid} {change.epoch}"))


class AuditLogReader:
    """Reads the audit; `source` is the source of the events."""

    def __init__(self, source: str) -> None:
        self._source = source

    async def read(self, connection: Connection, after: Position, limit: int) -> list[LogEntry]:
        """Up to `limit` rows after a position; see `LogReader`."""
        found = await read_audit_log(connection, after, limit)
        return [LogEntry(each.position, each.at, partial(self._render, each)) for each in found]

    async def read_initial(
        self, _: Connection, __: str, ___: Position, ____: str, _____: int
    ) -> list[LogEntry]:
        """No entries: the audit does not contain the entities of the catalog."""
        return []

    def _render(self, entry: AuditRow) -> list[CloudEvent]:
        attributes = {
            "id": str(entry.position),
            "source": self._source,
            "type": f"{AUDIT_TYPES}{entry.outcome}",
            "subject": entry.path or "/",
            "time": entry.at.astimezone(UTC),
            "datacontenttype": "application/json",
            "sequence": str(entry.position),
        }
        return [CloudEvent(attributes, dict(entry.shown))]


class Tails:
    """A tail for each source and dialect of events; only tails with subscribers read the log.

    Args:
        base: the URL by which subscribers know the node.
        dialects: the dialects besides the native API.
    """

    def __init__(
        self,
        database: Database,
        *,
        base: str,
        start: Position,
        size: int,
        names: EventNames,
        dialects: Sequence[EventDialect],
    ) -> None:
        self._base = base
        self._dialects = dialects

        def tail(dialect: EventDialect, source: str) -> Tail:
            return Tail(database, log=ChangeLogReader(dialect, source), start=start, size=size)

        about = SubscriptionLogReader(base + SUBSCRIPTION_SOURCE)
        self._subscriptions = Tail(database, log=about, start=start, size=size)
        audit = AuditLogReader(base + AUDIT_SOURCE)
        self._audit = Tail(database, log=audit, start=start, size=size)
        self._native = tail(native_dialect(names), base)
        self._others = {
            (dialect.root, source): tail(dialect, source)
            for dialect in dialects
            for source in (base, base + dialect.root)
        }

    def __iter__(self) -> Iterator[Tail]:
        return iter((self._native, self._subscriptions, self._audit, *self._others.values()))

    def of(self, definition: SubscriptionDefinition) -> Tail:
        """The tail of a subscription, by its log and its `source`."""
        log = log_of(definition)
        if log != "changes":
            return self._subscriptions if log == "subscriptions" else self._audit
        for dialect in self._dialects:
            if wants_dialect(definition, dialect, self._base):
                is_root = definition.source == self._base
                source = self._base if is_root else self._base + dialect.root
                return self._others[dialect.root, source]
        return self._native


def wants_dialect(definition: SubscriptionDefinition, dialect: EventDialect, base: str) -> bool:
    """Whether a subscription is to receive the events of a dialect rather than native events.

    The source may be the node's root, as in the request in section 5.5 of the message catalog. Then
    the types, or the subjects in filters, decide: only events of the dialect could match.
    """
    if definition.source == base + dialect.root:
        return True
    types = definition.types
    if types and all(one.startswith(dialect.type_prefix) for one in types):
        return True
    subjects = (subject for one in definition.filters for subject in _subjects(one))
    return any(subject.startswith(dialect.root) for subject in subjects)


def _subjects(expression: Mapping[str, Any]) -> Iterator[str]:
    """The subjects that a filter expression demands of an event."""
    for operator, value in expression.items():
        if operator in ("exact", "prefix") and "subject" in value:
            yield value["subject"]
        elif operator in ("all", "any"):
            for one in value:
                yield from _subjects(one)
