"""Renders a logged change as xRegistry CloudEvents (core/events.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC
from functools import partial
from typing import Any, Literal

from cloudevents.core.v1.event import CloudEvent

from catalog.context import EventDialect
from catalog.model.change import REMOVED, Change
from catalog.store.changes import LoggedChange, trace_attributes
from catalog.store.database import Connection

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
