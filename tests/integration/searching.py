"""Small catalogs to search in, and what filters and sorts mean, spelled out naively."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from catalog.model.caller import Author
from catalog.model.entity import Entity
from catalog.model.modelsource import load_model
from catalog.model.timestamps import format_time, normal_time
from catalog.model.xid import Xid
from catalog.store.database import Connection, Database
from catalog.store.writes import Write, write

START = datetime(2024, 1, 1, tzinfo=UTC)
ELSEWHERE = "https://elsewhere.example.com"

_ATTRIBUTES: dict[str, Any] = {
    "size": {"type": "integer"},
    "ratio": {"type": "decimal"},
    "flag": {"type": "boolean"},
    "when": {"type": "timestamp"},
    "tags": {"type": "array", "item": {"type": "string"}},
    "info": {
        "type": "object",
        "attributes": {
            "owner": {"type": "string"},
            "places": {
                "type": "map",
                "item": {"type": "object", "attributes": {"state": {"type": "string"}}},
            },
        },
    },
    "*": {"type": "any"},
}
MODEL = load_model(
    {
        "groups": {
            plural: {
                "singular": plural.removesuffix("s"),
                "attributes": _ATTRIBUTES,
                "resources": {
                    "files": {
                        "singular": "file",
                        "hasdocument": False,
                        "attributes": _ATTRIBUTES,
                    },
                    "notes": {"singular": "note", "attributes": _ATTRIBUTES},
                },
            }
            for plural in ("dirs", "boxs")
        }
    }
)


def entity(
    xid: str,
    attributes: Mapping[str, Any] | None = None,
    *,
    epoch: int = 1,
    day: float = 0,
    authority: str = "",
) -> Entity:
    """An entity that was changed so many days after the start of time."""
    return Entity(
        xid=xid,
        kind=Xid.parse(xid).kind,
        authority=authority,
        origin=xid,
        epoch=epoch,
        attributes=attributes or {},
        createdat=START,
        modifiedat=START + timedelta(days=day),
    ).sealed()


def resource(xid: str, default: str = "1", **attributes: Any) -> Entity:
    return entity(xid, {"defaultversionid": default, "defaultversionsticky": False, **attributes})


async def plant(database: Database, entities: Iterable[Entity]) -> None:
    """Write entities as they are; those without an authority are the node's own."""
    async with database.transaction() as connection:
        await plant_by(connection, database, entities)


async def plant_by(connection: Connection, database: Database, entities: Iterable[Entity]) -> None:
    own = database.node.authority
    sealed = [
        Entity(
            **{
                name: getattr(e, name)
                for name in ("xid", "kind", "origin", "epoch", "attributes", "createdat")
            },
            modifiedat=e.modifiedat,
            authority=e.authority or own,
        ).sealed()
        for e in entities
    ]
    await write(
        connection,
        Write(
            author=Author(kind="node"),
            interaction=uuid.uuid4().hex,
            at=datetime.now(UTC),
            entities=sealed,
        ),
    )


async def clear(database: Database) -> None:
    """Leave the registry alone."""
    async with database.transaction() as connection:
        await connection.execute("DELETE FROM entities WHERE kind <> 'registry'")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """Entities as clients see them, by xid: for each a JSON object."""

    views: Mapping[str, dict[str, Any]]

    @classmethod
    def of(cls, entities: Iterable[Entity]) -> Tree:
        rows = {e.xid: e for e in entities}
        return cls(views={xid: _view(e, rows) for xid, e in rows.items()})

    def leaves(self, xid: str) -> set[str]:
        """What has nothing below it, of an entity and all that is below it."""
        below = {other for other in self.views if _is_below(other, xid)} | {xid}
        return {
            leaf
            for leaf in below
            if not any(other != leaf and _is_below(other, leaf) for other in below)
        }

    def at(self, place: str, chain: Iterable[str]) -> list[str]:
        """The entities down a chain of collections."""
        found = [place]
        for plural in chain:
            found = [
                xid
                for owner in found
                for xid in self.views
                if re.fullmatch(re.escape(f"{owner.rstrip('/')}/{plural}/") + "[^/]+", xid)
            ]
        return found


def _view(e: Entity, rows: Mapping[str, Entity]) -> dict[str, Any]:
    path = e.path
    if e.kind == "resource":
        vid = e.attributes["defaultversionid"]
        shown = _view(rows[f"{e.xid}/versions/{vid}"], rows)
        meta = {**_own(e), "xid": f"{e.xid}/meta", "readonly": e.authority != ""}
        return {**shown, "xid": e.xid, "isdefault": True, "meta": meta}
    if e.kind == "version":
        owner = rows[str(path.resource)]
        is_default = owner.attributes["defaultversionid"] == path.vid
        ids = {f"{path.resources.removesuffix('s')}id": path.rid, "versionid": path.vid}
        return {**_own(e), **ids, "isdefault": is_default}
    if e.kind == "group":
        return {**_own(e), f"{path.groups.removesuffix('s')}id": path.gid}
    return _own(e)


def _own(e: Entity) -> dict[str, Any]:
    return {
        **e.attributes,
        "xid": e.xid,
        "epoch": e.epoch,
        "createdat": format_time(e.createdat),
        "modifiedat": format_time(e.modifiedat),
        **({"authority": e.authority} if e.authority else {}),
    }


def _is_below(xid: str, owner: str) -> bool:
    return xid != owner and xid.startswith(f"{owner.rstrip('/')}/")


def values_at(view: Any, steps: Iterable[str | int]) -> list[Any]:
    """Everything that a path leads to: `.*` and `[*]` are steps, too."""
    found = [view]
    for step in steps:
        found = [value for inner in found for value in _inside(inner, step)]
    return [value for value in found if value is not None]


def _inside(value: Any, step: str | int) -> list[Any]:
    match value, step:
        case dict(), ".*":
            return list(value.values())
        case list(), "[*]":
            return value
        case list(), int() if step < len(value):
            return [value[step]]
        case dict(), str() if step in value:
            return [value[step]]
    return []


def meets(view: Any, steps: Iterable[str | int], operator: str, value: str, type: str) -> bool:
    """core/spec.md, "Filter Flag", rule by rule."""
    found = values_at(view, steps)
    match operator, value:
        case ("", _) | (("!=" | "<>"), "null"):
            return bool(found)
        case "=", "null":
            return not found
        case "=", _:
            return any(_equals(one, value, type) for one in found)
        case (("!=" | "<>"), _):
            return not any(_equals(one, value, type) for one in found)
    return any(_compares(one, operator, value, type) for one in found)


def _equals(found: Any, value: str, type: str) -> bool:
    if set(value) == {"*"}:
        return True
    wanted = _readings(value, type)
    if isinstance(found, bool) or not isinstance(found, str):
        return any(found == w and isinstance(found, bool) == isinstance(w, bool) for w in wanted)
    pieces = [re.escape(piece) for piece in value.lower().split("*")]
    if len(pieces) > 1:
        return re.fullmatch(".*".join(pieces), found.lower(), re.DOTALL) is not None
    return any(isinstance(w, str) and found.lower() == w.lower() for w in wanted)


def _compares(found: Any, operator: str, value: str, type: str) -> bool:
    compare: Callable[[Any, Any], bool] = {
        "<": lambda a, b: a < b,
        "<=": lambda a, b: a <= b,
        ">": lambda a, b: a > b,
        ">=": lambda a, b: a >= b,
    }[operator]
    return any(
        compare(*pair)
        for wanted in _readings(value, type)
        if (pair := _comparable(found, wanted, type)) is not None
    )


def _comparable(found: Any, wanted: Any, type: str) -> tuple[Any, Any] | None:
    if isinstance(found, str) and isinstance(wanted, str):
        low, high = found.lower(), wanted.lower()
        if type == "timestamp":
            return low.removesuffix("z"), high.removesuffix("z")
        return low, high
    are_numbers = isinstance(found, int | float) and isinstance(wanted, int | float)
    are_alike = isinstance(found, bool) == isinstance(wanted, bool)
    return (found, wanted) if are_numbers and are_alike else None


def _readings(value: str, type: str) -> list[Any]:
    """What a value can mean: for attributes of any type, whatever it looks like."""
    is_number = re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", value) is not None
    readings: list[Any] = []
    if type in ("number", "any") and is_number:
        readings.append(float(value))
    if type in ("boolean", "any") and value in ("true", "false"):
        readings.append(value == "true")
    if type == "timestamp" and "*" not in value:
        readings.append(normal_time(value))
    if type in ("string", "any") or (type == "timestamp" and "*" in value):
        readings.append(value)
    return readings
