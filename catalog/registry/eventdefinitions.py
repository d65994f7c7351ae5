"""The definitions of the message catalog's own events, which every catalog begins with.

They are the same entities everywhere: replicas of an authority that is no catalog, so that
catalogs which are linked or compared agree on them. Source: message catalog, section 5.5.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any

import orjson

from catalog.model.entity import Entity
from catalog.model.xid import Xid

AUTHORITY = "urn:concord:messagecatalog"
"""Nobody's own: what it controls is never changed, but any catalog may delete its copies."""

GROUP = Xid("messagegroups", "io.cloudevents.messagecatalog")
_AT = datetime(2026, 1, 1, tzinfo=UTC)
_META = {"defaultversionid": "1", "defaultversionsticky": False}


def event_definitions() -> list[Entity]:
    """The group, its two messages and their versions, parents first."""
    data = files("catalog.registry").joinpath("eventdefinitions.json").read_bytes()
    return list(_entities(orjson.loads(data)))


def _entities(document: Mapping[str, Any]) -> Iterator[Entity]:
    yield _entity(GROUP, document["group"])
    for id, attributes in document["messages"].items():
        message = GROUP.child("messages", id)
        yield _entity(message, _META)
        yield _entity(message.version("1"), {**attributes, "ancestorid": "1"})


def _entity(xid: Xid, attributes: Mapping[str, Any]) -> Entity:
    return Entity.sealed(
        xid=str(xid),
        kind=xid.kind,
        authority=AUTHORITY,
        origin=str(xid),
        epoch=1,
        attributes=attributes,
        createdat=_AT,
        modifiedat=_AT,
    )
