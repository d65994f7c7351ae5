"""Renders the rows of the audit as CloudEvents for administrators."""

from __future__ import annotations

from datetime import UTC
from functools import partial

from cloudevents.core.v1.event import CloudEvent

from catalog.audit.auditlog import AUDIT_TYPES, AuditRow, read_audit_log
from catalog.store.changes import Position
from catalog.store.database import Connection
from catalog.subscriptions.delivery.logtail import LogEntry


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
