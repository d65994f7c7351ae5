"""Shows a logged change as the Message Catalog API announces it (message catalog, section 5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from cloudevents.core.v1.event import CloudEvent

from catalog.model.entity import Entity
from catalog.model.xid import Xid
from catalog.store import entities as store
from catalog.store.changes import LoggedChange
from catalog.store.database import Connection
from catalog.store.subscriptions import SubscriptionDefinition

ROOT = "/messagecatalog"
_TYPE = "io.cloudevents.messagecatalog"
_GROUPS = "/messagegroups/"
_MESSAGES = "messages"


def path_of(xid: Xid) -> str | None:
    """The path of a group, message or version in the Message Catalog API.

    `None` is for what that API does not show: versions whose ids are no integers, and
    whatever a replaced model keeps beside messages.
    """
    if xid.resources not in ("", _MESSAGES) or not (is_number(xid.vid) or not xid.vid):
        return None
    path = f"{ROOT}/{xid.gid}"
    if xid.rid:
        path += f"/messagedefinitions/{xid.rid}"
    return f"{path}/versions/{xid.vid}" if xid.vid else path


def is_number(vid: str) -> bool:
    """Whether a version's id is an integer, as all are in the Message Catalog API."""
    return vid.isascii() and vid.isdigit() and (vid == "0" or vid[0] != "0") and len(vid) < 16


def events_of(logged: LoggedChange, *, source: str, time: datetime) -> list[CloudEvent]:
    """The event of one change, if the Message Catalog API shows what changed.

    It has no data. An event that is rendered again has the same id.

    Args:
        source: the root of the message catalog as the subscriber calls it.
        time: when the change was made, as the entity has it on record.
    """
    change = logged.change
    path = path_of(Xid.parse(change.xid)) if change.xid.startswith(_GROUPS) else None
    if path is None:
        return []
    verb = "deleted" if change.action == "deleted" else "updated"
    attributes = {
        "id": f"{logged.interaction}.{logged.position.seq}",
        "source": source,
        "type": f"{_TYPE}.{verb}.v1",
        "subject": path,
        "time": time.astimezone(UTC),
        "sequence": str(logged.position),
        "epoch": str(change.epoch),
        "authority": change.authority,
        "digest": change.digest.hex(),
    }
    return [CloudEvent(attributes, None)]


async def read_times(
    connection: Connection, changes: Sequence[LoggedChange]
) -> Mapping[int, datetime]:
    """When each change was made, by its `seq`: the time that its entity has on record.

    A replica's is that of its authority. What is not there any more, or was changed again,
    has the time at which the change was logged.
    """
    xids = {one.change.xid for one in changes if one.change.xid.startswith(_GROUPS)}
    held = await store.load(connection, xids) if xids else {}
    return {one.position.seq: _time(one, held.get(one.change.xid)) for one in changes}


def _time(logged: LoggedChange, entity: Entity | None) -> datetime:
    if entity is None or entity.digest != logged.change.digest:
        return logged.at
    return entity.createdat if entity.kind == "version" else entity.modifiedat


def is_about_catalog(definition: SubscriptionDefinition, base: str) -> bool:
    """Whether a subscriber wants to hear of changes in the terms of the Message Catalog API.

    It may call the catalog by the node's root, as the request in section 5.5 does. Then its
    types or the subjects that it filters by tell: no other event could match them.
    """
    if definition.source == f"{base}{ROOT}":
        return True
    types = definition.types
    if types and all(one.startswith(_TYPE) for one in types):
        return True
    return any(subject.startswith(ROOT) for one in definition.filters for subject in _subjects(one))


def _subjects(expression: Any) -> Iterator[str]:
    """The subjects that a filter expression wants an event to have."""
    for dialect, value in expression.items():
        if dialect in ("exact", "prefix") and "subject" in value:
            yield value["subject"]
        elif dialect in ("all", "any"):
            for one in value:
                yield from _subjects(one)
