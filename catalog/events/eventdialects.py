"""Which terms a subscriber hears of changes in, and a window on the log in each of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from cloudevents.core.v1.event import CloudEvent

from catalog.events import messagecatalog, nativeevents
from catalog.events.logtail import LogEntry, Tail
from catalog.events.nativeevents import EventNames
from catalog.store.changes import LoggedChange, Position
from catalog.store.database import Connection, Database
from catalog.store.subscriptions import SubscriptionDefinition


@dataclass(frozen=True, slots=True, kw_only=True)
class Native:
    """xRegistry events."""

    source: str
    names: EventNames = "rc4"

    async def entries(self, _: Connection, changes: Sequence[LoggedChange]) -> list[LogEntry]:
        return [LogEntry(one.position, self._renderer(one)) for one in changes]

    def _renderer(self, logged: LoggedChange) -> partial[list[CloudEvent]]:
        return partial(nativeevents.events_of, logged, source=self.source, names=self.names)


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageCatalog:
    """The events of the Message Catalog API."""

    source: str

    async def entries(
        self, connection: Connection, changes: Sequence[LoggedChange]
    ) -> list[LogEntry]:
        times = await messagecatalog.read_times(connection, changes)
        return [
            LogEntry(
                one.position,
                partial(
                    messagecatalog.events_of,
                    one,
                    source=self.source,
                    time=times[one.position.seq],
                ),
            )
            for one in changes
        ]


class Tails:
    """A tail for each of the terms that there are; only those that are wanted read the log.

    Args:
        base: the URL that subscribers know the node by.
    """

    def __init__(
        self, database: Database, *, base: str, start: Position, size: int, names: EventNames
    ) -> None:
        self._base = base
        native = Native(source=base, names=names)
        root = MessageCatalog(source=f"{base}{messagecatalog.ROOT}")
        self._native = Tail(database, terms=native, start=start, size=size)
        self._catalog = Tail(database, terms=root, start=start, size=size)
        by_base = MessageCatalog(source=base)
        self._catalog_by_base = Tail(database, terms=by_base, start=start, size=size)

    def __iter__(self) -> Iterator[Tail]:
        return iter((self._native, self._catalog, self._catalog_by_base))

    def of(self, definition: SubscriptionDefinition) -> Tail:
        """The one for a subscription, by the `source` that it names."""
        if not messagecatalog.is_about_catalog(definition, self._base):
            return self._native
        return self._catalog_by_base if definition.source == self._base else self._catalog
