"""The differences that an interaction makes, with old and new values, for its client."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from catalog.model.change import Action
from catalog.model.digest import canonical
from catalog.model.entity import Entity, Tombstone
from catalog.model.schema import Model
from catalog.model.timestamps import format_time
from catalog.model.xid import Xid, depth

# Longer values, and values beyond the maximum number, are only named.
_LONGEST_VALUE = 160
_MOST_VALUES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueChange:
    """A changed value inside an entity; `path` holds the names that lead to the value.

    `None` stands for an absent value: no attribute has the value null.
    """

    path: tuple[str, ...]
    old: Any
    new: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityDifference:
    """The difference of one entity.

    `changed` names the attributes of an updated entity, with the prefix `meta.` for the meta of a
    resource. `values` holds the short values inside the changed attributes.
    """

    xid: str
    action: Action
    changed: tuple[str, ...] = ()
    values: tuple[ValueChange, ...] = ()


def differences_between(
    before: Mapping[str, Entity], after: Mapping[str, Entity | Tombstone], model: Model
) -> list[EntityDifference]:
    """The differences from `before` to `after`, parents before children.

    An entity that is updated only because of new or deleted children is left out.

    Args:
        after: the new state of each written entity and the tombstone of each deleted entity.
        model: the model, which names the document of a version.
    """
    parents = {
        str(Xid.parse(xid).parent)
        for xid, state in after.items()
        if (xid in before) == isinstance(state, Tombstone)
    }
    found: list[EntityDifference] = []
    for xid, state in after.items():
        old = before.get(xid)
        if isinstance(state, Tombstone):
            found += [EntityDifference(xid=xid, action="deleted")] if old is not None else []
        elif old is None:
            found.append(EntityDifference(xid=xid, action="created"))
        elif (update := _update(old, state, model, is_parent=xid in parents)) is not None:
            found.append(update)
    return sorted(found, key=lambda difference: (depth(difference.xid), difference.xid))


def _update(old: Entity, new: Entity, model: Model, *, is_parent: bool) -> EntityDifference | None:
    values = [
        ValueChange(path=(name,), old=old.attributes.get(name), new=new.attributes.get(name))
        for name in _different(old.attributes, new.attributes)
    ]
    values += _different_times(old, new, "createdat")
    changed = [value.path[0] for value in values]
    if old.document_sha256 != new.document_sha256:
        changed.append(model.singular_of(new.path))
    if not changed and not is_parent:
        values = _different_times(old, new, "modifiedat")
        changed = [value.path[0] for value in values]
    if not changed:
        return None
    prefix = ("meta",) if new.kind == "resource" else ()
    return EntityDifference(
        xid=new.xid,
        action="updated",
        changed=tuple(".".join((*prefix, name)) for name in changed),
        values=_short(prefix, values),
    )


def _different(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """The names of members that differ; unlike in Python, true is not 1."""
    return [
        name
        for name in sorted({*old, *new})
        if canonical(old.get(name)) != canonical(new.get(name))
    ]


def _different_times(old: Entity, new: Entity, name: str) -> list[ValueChange]:
    was, becomes = getattr(old, name), getattr(new, name)
    if was == becomes:
        return []
    return [ValueChange(path=(name,), old=format_time(was), new=format_time(becomes))]


def _short(prefix: tuple[str, ...], values: list[ValueChange]) -> tuple[ValueChange, ...]:
    leaves = [
        ValueChange(path=(*prefix, *leaf.path), old=leaf.old, new=leaf.new)
        for value in values
        for leaf in _leaves(value)
        if _is_short(leaf.old) and _is_short(leaf.new)
    ]
    return tuple(leaves[:_MOST_VALUES])


def _leaves(value: ValueChange) -> Iterator[ValueChange]:
    """The changes inside an object."""
    old, new = value.old, value.new
    if not (isinstance(old, dict) and isinstance(new, dict)):
        yield value
        return
    for name in _different(old, new):
        inner = ValueChange(path=(*value.path, name), old=old.get(name), new=new.get(name))
        yield from _leaves(inner)


def _is_short(value: Any) -> bool:
    return len(orjson.dumps(value)) <= _LONGEST_VALUE
