"""Reads the change log, and the existing entities, as entries in one dialect of events."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import partial

from cloudevents.core.v1.event import CloudEvent

from catalog.context import EventDialect
from catalog.model.change import UNTOLD
from catalog.store.changes import LoggedChange, Position, read_changes
from catalog.store.database import Connection
from catalog.store.initialentities import read_entities_after
from catalog.subscriptions.delivery.logtail import LogEntry

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
