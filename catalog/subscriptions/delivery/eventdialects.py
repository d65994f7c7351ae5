"""Renders the entries of a log as CloudEvents, in the dialect of each subscription.

A log is the change log (core/events.md, or an older dialect), the existing entities, the log of
subscriptions, or the audit.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC
from functools import partial
from typing import Any, Literal

from cloudevents.core.v1.event import CloudEvent

from catalog.audit.auditlog import AUDIT_SOURCE, AUDIT_TYPES, read_audit_log
from catalog.context import EventDialect, SharedState
from catalog.model.change import REMOVED, UNTOLD
from catalog.operations.audit import AuditEntry
from catalog.store.changes import LoggedChange, Position, read_changes, trace_attributes
from catalog.store.database import Connection, Database
from catalog.store.entities import read_entities_after
from catalog.subscriptions.delivery.logtail import LogEntry, LogReader, Tail
from catalog.subscriptions.stored.subscriptionlog import LoggedSubscription, read_subscription_log
from catalog.subscriptions.stored.subscriptions import (
    SUBSCRIPTION_SOURCE,
    SUBSCRIPTION_TYPES,
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
    change, within = logged.change, "capabilities."
    is_registry = change.kind == "registry"
    # The capabilities that changed are told by the event of the capabilities.
    inside = [each for each in change.changed if is_registry and each.startswith(within)]
    changed = [each for each in change.changed if each not in inside]
    updated = {"changed": changed} if change.action == "updated" else {}
    yield change.kind, change.action, change.xid, updated
    if change.deprecation is not None:
        action = "deprecation"
        if names == "next":
            action = "undeprecated" if REMOVED in change.deprecation else "deprecated"
        members = [name for name in change.deprecation if name != REMOVED]
        yield change.kind, action, change.xid, {"changed": members}
    for part in _REGISTRY_PARTS if is_registry else ():
        if part in change.changed:
            names_inside = [each.removeprefix(within) for each in inside]
            data = {"changed": names_inside} if part == "capabilities" else {}
            yield part, "updated", f"/{part}", data


_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "urn:concord:initial-event")


class ChangeLogReader(LogReader):
    """Reads the change log; `dialect` renders the events."""

    def __init__(self, dialect: EventDialect, source: str) -> None:
        super().__init__(source)
        self._dialect = dialect

    async def read(self, connection: Connection, after: Position, limit: int) -> list[LogEntry]:
        return await self.entries(connection, await read_changes(connection, after, limit))

    async def entries(
        self, connection: Connection, changes: Sequence[LoggedChange]
    ) -> list[LogEntry]:
        """The entries of changes."""
        render = await self._dialect.renderer(connection, changes, self._source)
        return [
            LogEntry(
                each.position,
                each.at,
                tuple if each.change.action in UNTOLD else partial(render, each),
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
                at=modifiedat,
                change=change,
            )
            for change, modifiedat in await read_entities_after(connection, after, limit)
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


def _rendered(
    render: Callable[[LoggedChange], list[CloudEvent]], logged: LoggedChange
) -> list[CloudEvent]:
    """The events of an existing entity, with separate ids, since no change has the ids.

    An id is the same whenever the same state of an entity is sent to the same subscriber.
    """
    state = f"{logged.change.xid} {logged.change.epoch}"
    found = []
    for event in render(logged):
        id = str(uuid.uuid5(_NAMESPACE, f"{event.get_id()} {state}"))
        found.append(CloudEvent({**event.get_attributes(), "id": id}, event.get_data()))
    return found


class AuditLogReader(LogReader):
    """Reads the audit."""

    async def read(self, connection: Connection, after: Position, limit: int) -> list[LogEntry]:
        found = await read_audit_log(connection, after, limit)
        return [
            LogEntry(Position.parse(each.sequence), each.time, partial(self._render, each))
            for each in found
        ]

    def _render(self, entry: AuditEntry) -> list[CloudEvent]:
        attributes = {
            "id": entry.sequence,
            "source": self._source,
            "type": f"{AUDIT_TYPES}{entry.outcome}",
            "subject": entry.path or "/",
            "time": entry.time.astimezone(UTC),
            "datacontenttype": "application/json",
            "sequence": entry.sequence,
        }
        return [CloudEvent(attributes, entry.model_dump(mode="json", exclude_none=True))]


class Tails:
    """A tail for each source and dialect of events; only tails with subscribers read the log."""

    def __init__(
        self,
        database: Database,
        shared: SharedState,
        *,
        size: int,
        pace_seconds: float = 0.0,
    ) -> None:
        self._shared, base = shared, shared.public_base
        sources = [(dialect, base + dialect.root) for dialect in shared.event_dialects]
        sources += [(dialect, base) for dialect in (_native(shared), *shared.event_dialects)]
        logs: dict[tuple[str, str], LogReader] = {
            ("subscriptions", ""): SubscriptionLogReader(base + SUBSCRIPTION_SOURCE),
            ("audit", ""): AuditLogReader(base + AUDIT_SOURCE),
            **{(each.root, source): ChangeLogReader(each, source) for each, source in sources},
        }
        self._tails = {
            key: Tail(database, log=log, size=size, pace_seconds=pace_seconds)
            for key, log in logs.items()
        }

    def __iter__(self) -> Iterator[Tail]:
        return iter(self._tails.values())

    def of(self, definition: SubscriptionDefinition) -> Tail:
        """The tail of a subscription, by its log and its `source`."""
        log = log_of(definition)
        if log != "changes":
            return self._tails[log, ""]
        dialect, source = _dialect_of(definition, self._shared)
        return self._tails[dialect.root, source]


def change_log_for(definition: SubscriptionDefinition, shared: SharedState) -> ChangeLogReader:
    """The reader of the change log, with the events that a subscription receives."""
    return ChangeLogReader(*_dialect_of(definition, shared))


def _native(shared: SharedState) -> EventDialect:
    return native_dialect(shared.settings.event_names)


def _dialect_of(
    definition: SubscriptionDefinition, shared: SharedState
) -> tuple[EventDialect, str]:
    """The dialect of a subscription, and the source of its events."""
    base = shared.public_base
    for dialect in shared.event_dialects:
        if wants_dialect(definition, dialect, base):
            return dialect, base if definition.source == base else base + dialect.root
    return _native(shared), base


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


class SubscriptionLogReader(LogReader):
    """Reads the log of subscriptions."""

    async def read(self, connection: Connection, after: Position, limit: int) -> list[LogEntry]:
        logged = await read_subscription_log(connection, after, limit)
        return [
            LogEntry(each.position, each.at, partial(self._render, each), createdby=each.createdby)
            for each in logged
        ]

    def _render(self, logged: LoggedSubscription) -> list[CloudEvent]:
        attributes = {
            "id": f"{logged.position}.{logged.action}",
            "source": self._source,
            "type": f"{SUBSCRIPTION_TYPES}{logged.action}",
            "subject": f"{SUBSCRIPTION_SOURCE}/{logged.subscription}",
            "time": logged.at.astimezone(UTC),
            "datacontenttype": "application/json",
            "sequence": str(logged.position),
        }
        return [CloudEvent(attributes, {"id": logged.subscription, **logged.data})]
