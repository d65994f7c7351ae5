"""Derives the changes and the differences of an interaction from the states before and after it.

The log keeps the changes. The client of the interaction gets the differences, with old and new
values.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from catalog.model.digest import canonical
from catalog.model.entity import Entity, Tombstone
from catalog.model.record import record
from catalog.model.schema import Model
from catalog.model.timestamps import format_time
from catalog.model.xid import Kind, Xid, depth

# `signed`: an entity got a signature and is otherwise unchanged. `handed`: an entity was handed
# over to a different authority, and only catalogs that follow this catalog learn of the end here.
# Neither action is an event.
Action = Literal["created", "updated", "deleted", "signed", "handed"]
UNTOLD = frozenset({"signed", "handed"})
"""Actions that are not delivered to subscribers."""

# Marks in `deprecation`, beside the names, that `deprecated` was removed as a whole.
REMOVED = "-"
# Longer values, and values beyond the maximum number, are only named.
_LONGEST_VALUE = 160
_MOST_VALUES = 20


@record
class Change:
    """One row of the change log: the change of one entity by one interaction.

    `changed` names attributes as core/events.md, "data" does: attributes of a resource have the
    prefix `meta.`, attributes of the default version have no prefix. `deprecation` names the
    changed members of `deprecated`, with the mark REMOVED after a removal, and is `None` if
    `deprecated` did not change. A reconfiguration is named as a whole and in parts: `capabilities`
    and `capabilities.flags`.
    """

    xid: str
    kind: Kind
    action: Action
    authority: str
    origin: str
    epoch: int
    digest: bytes
    changed: tuple[str, ...] = ()
    deprecation: tuple[str, ...] | None = None


@dataclass(slots=True)
class _Touched:
    """The names collected for one entity while its interaction is examined."""

    names: set[str]
    deprecation: set[str] | None = None


def changes_between(
    before: Mapping[str, Entity], after: Mapping[str, Entity | Tombstone], model: Model
) -> list[Change]:
    """The changes that lead from `before` to `after`, parents before children.

    Args:
        before: the entities before the interaction: touched entities, their ancestors, the versions
            that were or will be default, and the targets of new cross references.
        after: the new state of each written entity and the tombstone of each deleted entity. A
            tombstone of an entity that did not exist is no change.
        model: the model, which names the document of a version.

    Returns:
        at most one change per xid; `deleted` takes precedence over `created`, and `created` over
        `updated` (core/events.md, "Event Definition"). An ancestor in `before` or `after` is
        `updated` when a child was created or deleted.
    """
    touched: dict[str, _Touched] = defaultdict(lambda: _Touched(set()))
    for xid, state in after.items():
        old = before.get(xid)
        match state:
            case Tombstone() if old is not None:
                _note_child(touched, state)
            case Entity() if old is None:
                _note_child(touched, state)
                _note_deprecation(touched[xid], {}, state.attributes)
            case Entity() if old is not None and old.digest != state.digest:
                prefix = "meta." if state.kind == "resource" else ""
                touched[xid].names |= {prefix + name for name in _differences(old, state, model)}
                _note_deprecation(touched[xid], old.attributes, state.attributes)
    _note_default_versions(touched, before, after, model)
    changes = (_change(xid, before, after, touched[xid]) for xid in {*after, *touched})
    return sorted(filter(None, changes), key=lambda change: (depth(change.xid), change.xid))


def _note_child(touched: dict[str, _Touched], child: Entity | Tombstone) -> None:
    """Note the attributes of a parent that change with a new or deleted child."""
    if child.kind == "registry":
        return
    parent, plural, _ = child.xid.rsplit("/", 2)
    prefix = "meta." if child.kind == "version" else ""
    touched[parent or "/"].names |= {
        plural,
        f"{plural}count",
        f"{prefix}epoch",
        f"{prefix}modifiedat",
    }


def _note_deprecation(note: _Touched, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    if old.get("deprecated") == new.get("deprecated"):
        return
    before, after = _deprecation(old), _deprecation(new)
    note.deprecation = _different_keys(before, after)
    if "deprecated" not in new:
        note.deprecation.add(REMOVED)


def _deprecation(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """The value of `deprecated` if an object; a version may have an extension of any type there."""
    value = attributes.get("deprecated")
    return value if isinstance(value, Mapping) else {}


def _note_default_versions(
    touched: dict[str, _Touched],
    before: Mapping[str, Entity],
    after: Mapping[str, Entity | Tombstone],
    model: Model,
) -> None:
    """Note the changes of default versions at the resources that show them."""
    resources = {
        xid if state.kind == "resource" else xid.rsplit("/", 2)[0]
        for xid, state in after.items()
        if state.kind in ("resource", "version")
    }
    now = {**before, **after}
    for xid in resources:
        old, new = before.get(xid), now.get(xid)
        if old is None or not isinstance(new, Entity):
            continue
        old_default, new_default = _default_version(old, before), _default_version(new, now)
        if (old_default and old_default.xid) != (new_default and new_default.xid):
            touched[xid].names |= _shown(old_default, model) | _shown(new_default, model)
        elif old_default and new_default and old_default.digest != new_default.digest:
            # The default version was written, so the differences are noted already.
            touched[xid].names |= touched[new_default.xid].names


def _default_version(resource: Entity, entities: Mapping[str, Entity | Tombstone]) -> Entity | None:
    """The default version of a resource, or of the target of a cross reference."""
    shown = entities.get(resource.attributes.get("xref", resource.xid))
    if not isinstance(shown, Entity):
        return None
    default = entities.get(f"{shown.xid}/versions/{shown.attributes.get('defaultversionid')}")
    return default if isinstance(default, Entity) else None


def _shown(version: Entity | None, model: Model) -> set[str]:
    if version is None:
        return set()
    names = {"versionid", "epoch", "isdefault", "createdat", "modifiedat", *version.attributes}
    if version.document_sha256 is not None:
        names.add(model.singular_of(version.path))
    return names


def _differences(old: Entity, new: Entity, model: Model) -> set[str]:
    names = _different_keys(old.attributes, new.attributes)
    for name in ("epoch", "modifiedat", "createdat"):
        if getattr(old, name) != getattr(new, name):
            names.add(name)
    if old.authority != new.authority:
        names |= {"authority", "origin"}
    if old.document_sha256 != new.document_sha256:
        names.add(model.singular_of(new.path))
    return names


def _different_keys(old: Mapping[str, Any], new: Mapping[str, Any]) -> set[str]:
    names = {name for name, value in new.items() if old.get(name) != value}
    names.update([name for name in old.keys() - new.keys() if old[name] is not None])
    return names


def _change(
    xid: str, before: Mapping[str, Entity], after: Mapping[str, Entity | Tombstone], note: _Touched
) -> Change | None:
    old = before.get(xid)
    state = after.get(xid, old)
    if state is None or (old is None and isinstance(state, Tombstone)):
        return None
    action: Action
    # Names are told of updates only: of what is new or gone, everything has changed.
    if isinstance(state, Tombstone):
        action, note = "deleted", _Touched(set())
    elif old is None:
        action, note = "created", _Touched(set(), note.deprecation)
    elif note.names:
        action = "updated"
    else:
        return None
    return Change(
        xid=xid,
        kind=state.kind,
        action=action,
        authority=state.authority,
        origin=state.origin,
        epoch=state.epoch,
        digest=state.digest,
        changed=tuple(sorted(note.names)),
        deprecation=None if note.deprecation is None else tuple(sorted(note.deprecation)),
    )


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
    """The differences that `changes_between` derives changes from, parents before children.

    An entity that is updated only because of new or deleted children is left out.
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
    before = {**old.attributes, "createdat": format_time(old.createdat)}
    after = {**new.attributes, "createdat": format_time(new.createdat)}
    changed = _different(before, after)
    if old.document_sha256 != new.document_sha256:
        changed.append(model.singular_of(new.path))
    if not changed and not is_parent:
        before = {"modifiedat": format_time(old.modifiedat)}
        after = {"modifiedat": format_time(new.modifiedat)}
        changed = _different(before, after)
    if not changed:
        return None
    prefix = ("meta",) if new.kind == "resource" else ()
    values = [each for each in _leaves(prefix, before, after) if _is_short(each)]
    return EntityDifference(
        xid=new.xid,
        action="updated",
        changed=tuple(".".join((*prefix, name)) for name in changed),
        values=tuple(values[:_MOST_VALUES]),
    )


def _different(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """The names of members that differ; unlike in Python, true is not 1."""
    return [
        name
        for name in sorted({*old, *new})
        if canonical(old.get(name)) != canonical(new.get(name))
    ]


def _leaves(
    path: tuple[str, ...], old: Mapping[str, Any], new: Mapping[str, Any]
) -> Iterator[ValueChange]:
    """The changed values inside two objects at a path."""
    for name in _different(old, new):
        was, becomes = old.get(name), new.get(name)
        if isinstance(was, dict) and isinstance(becomes, dict):
            yield from _leaves((*path, name), was, becomes)
        else:
            yield ValueChange(path=(*path, name), old=was, new=becomes)


def _is_short(value: ValueChange) -> bool:
    return max(len(orjson.dumps(each)) for each in (value.old, value.new)) <= _LONGEST_VALUE
