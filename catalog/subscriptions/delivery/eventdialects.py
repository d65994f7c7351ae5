"""Assigns each subscription to the tail of its log in its dialect of events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from catalog.audit.auditlog import AUDIT_SOURCE
from catalog.context import EventDialect
from catalog.store.changes import Position
from catalog.store.database import Database
from catalog.subscriptions.delivery.auditevents import AuditLogReader
from catalog.subscriptions.delivery.changeentries import ChangeLogReader
from catalog.subscriptions.delivery.logtail import Tail
from catalog.subscriptions.delivery.nativeevents import EventNames, native_dialect
from catalog.subscriptions.delivery.subscriptionevents import SubscriptionLogReader
from catalog.subscriptions.stored.subscriptions import (
    SUBSCRIPTION_SOURCE,
    SubscriptionDefinition,
    log_of,
)


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
