"""Shows a logged change as xRegistry CloudEvents (core/events.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from cloudevents.core.v1.event import CloudEvent

from catalog.model.moment import format_time
from catalog.store.changes import LoggedChange

# Parts of the registry whose updates have events of their own.
_REGISTRY_PARTS = ("model", "modelsource", "capabilities")


def events_of(logged: LoggedChange, *, source: str) -> list[CloudEvent]:
    """The events of one change, in the order in which they are to be delivered.

    `data` is always an object, since a web hook request must carry a payload
    (http-webhook.md 2.1); it names what `changed` only where core/events.md permits that.
    An event that is rendered again has the same id.

    Args:
        logged: the change with its place in the log.
        source: absolute URL of the registry's root.
    """
    return [
        CloudEvent(
            {
                "id": f"{logged.interaction}.{logged.position.seq}.{entity}.{action}",
                "source": source,
                "type": f"io.xregistry.{entity}.{action}",
                "subject": subject,
                "time": logged.at.astimezone(UTC),
                "datacontenttype": "application/json",
                "xregcorrelationid": logged.interaction,
                "sequence": str(logged.position),
                "epoch": str(logged.change.epoch),
                "authority": logged.change.authority,
                "digest": logged.change.digest.hex(),
            },
            data,
        )
        for entity, action, subject, data in _facts(logged)
    ]


def texts_of(event: CloudEvent) -> Mapping[str, str]:
    """The context attributes of an event as the text that filters compare with."""
    return {
        name: format_time(value) if isinstance(value, datetime) else str(value)
        for name, value in event.get_attributes().items()
    }


def _facts(logged: LoggedChange) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """Entity, action, subject and data of each event."""
    change = logged.change
    updated = {"changed": list(change.changed)} if change.action == "updated" else {}
    yield change.kind, change.action, change.xid, updated
    if change.deprecation is not None:
        yield change.kind, "deprecation", change.xid, {"changed": list(change.deprecation)}
    if change.kind == "registry":
        for part in _REGISTRY_PARTS:
            if part in change.changed:
                yield part, "updated", f"/{part}", {}
