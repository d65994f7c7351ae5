"""The events by which the Message Catalog API announces changes (message catalog, section 5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from cloudevents.core.v1.event import CloudEvent

from catalog.context import EventDialect
from catalog.dialects.messagecatalog.uris import CATALOG_ROOT, MESSAGE_GROUPS, path_of
from catalog.model.entity import Entity
from catalog.model.xid import Xid
from catalog.store import entities as store
from catalog.store.changes import LoggedChange, trace_attributes
from catalog.store.database import Connection

_TYPE = "io.cloudevents.messagecatalog"
_GROUPS = f"/{MESSAGE_GROUPS}/"


def events_of(logged: LoggedChange, *, source: str, time: datetime) -> list[CloudEvent]:
    """The event of a change, if the Message Catalog API shows the entity.

    The event has no data. An event that is rendered again has the same id.

    Args:
        source: the URL by which the subscriber calls the catalog.
        time: the time of the change that the entity has on record.
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
        **trace_attributes(logged),
    }
    return [CloudEvent(attributes, None)]


async def read_renderer(
    connection: Connection, changes: Sequence[LoggedChange], source: str
) -> Callable[[LoggedChange], list[CloudEvent]]:
    """Read the entities of changes; return a function that renders the events of a change."""
    xids = {one.change.xid for one in changes if one.change.xid.startswith(_GROUPS)}
    held = await store.load(connection, xids) if xids else {}
    defaults = {xid: vid for xid, one in held.items() if (vid := _default_version(one))}
    if missing := {*defaults.values()} - held.keys():
        held |= await store.load(connection, missing)

    def render(logged: LoggedChange) -> list[CloudEvent]:
        xid = logged.change.xid
        time = _time(logged, held.get(xid), held.get(defaults.get(xid, "")))
        return events_of(logged, source=source, time=time)

    return render


def _default_version(entity: Entity) -> str:
    """The xid of a definition's default version; empty for an entity that is no definition."""
    vid = entity.attributes.get("defaultversionid") if entity.kind == "resource" else None
    return f"{entity.xid}/versions/{vid}" if vid else ""


def _time(logged: LoggedChange, entity: Entity | None, default: Entity | None) -> datetime:
    """The time that the changed entity has on record; for a replica, the time at the authority.

    For an entity that is gone, or was changed again, the result is the time of the log entry.

    Args:
        default: the default version of a definition, whose changes also change the definition.
    """
    if entity is None or entity.digest != logged.change.digest:
        return logged.at
    if default is not None:
        return max(entity.modifiedat, min(default.modifiedat, logged.at))
    is_new_version = entity.kind == "version" and logged.change.action == "created"
    return entity.createdat if is_new_version else entity.modifiedat


EVENTS = EventDialect(root=CATALOG_ROOT, type_prefix=_TYPE, renderer=read_renderer)
