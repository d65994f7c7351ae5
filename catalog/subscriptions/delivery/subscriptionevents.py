"""Renders the log of subscriptions as CloudEvents for its subscribers."""

from __future__ import annotations

from datetime import UTC
from functools import partial

from cloudevents.core.v1.event import CloudEvent

from catalog.store.changes import Position
from catalog.store.database import Connection
from catalog.subscriptions.delivery.logtail import LogEntry
from catalog.subscriptions.stored.subscriptionlog import LoggedSubscription, read_subscription_log
from catalog.subscriptions.stored.subscriptions import SUBSCRIPTION_TYPES


class SubscriptionLogReader:
    """Reads the log of subscriptions; `source` is the source of the events."""

    def __init__(self, source: str) -> None:
        self._source = source

    async def read(self, connection: Connection, after: Position, limit: int) -> list[LogEntry]:
        """Up to `limit` entries after a position; see `LogReader`."""
        logged = await read_subscription_log(connection, after, limit)
        return [
            LogEntry(each.position, each.at, partial(self._render, each), createdby=each.createdby)
            for each in logged
        ]

    async def read_initial(
        self, _: Connection, __: str, ___: Position, ____: str, _____: int
    ) -> list[LogEntry]:
        """No entries: the log does not contain the entities of the catalog."""
        return []

    def _render(self, logged: LoggedSubscription) -> list[CloudEvent]:
        attributes = {
            "id": f"{logged.position}.{logged.action}",
            "source": self._source,
            "type": f"{SUBSCRIPTION_TYPES}{logged.action}",
            "subject": subscription_subject(logged.subscription),
            "time": logged.at.astimezone(UTC),
            "datacontenttype": "application/json",
            "sequence": str(logged.position),
        }
        return [CloudEvent(attributes, {"id": logged.subscription, **logged.data})]


def subscription_subject(id: str) -> str:
    """The subject of events about a subscription: the path of the subscription."""
    return f"/subscriptions/{id}"
