"""Selects entities by path, type and labels, and the groups to which a restricted role may push.

A selection contains the ancestors of selected entities, since no entity is replicated without its
ancestors.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from catalog.model.caller import WriteScope
from catalog.model.concorderrors import Forbidden
from catalog.model.entity import Entity, Origin
from catalog.model.xid import group_path, resource_of
from catalog.store.database import Connection
from catalog.store.links import LinkDefinition
from catalog.writing.writescope import check_writes
from replication.deciding.copychecks import Incoming
from replication.deciding.placement import GroupMapping, NoPlace, mapping_of

_ADVICE = (
    "What is accepted of this catalog could come to groups that its token has no role for: have "
    "it accepted with --scope or --prefix, or give the token another role."
)


async def check_acceptance(
    connection: Connection, scope: WriteScope, definition: LinkDefinition
) -> None:
    """Refuse pushes to an acceptance that reaches beyond the groups to which the pusher may write.

    A complete copy ends with the deletion of accepted entities that the copy lacks, so a check of
    the pushed copies would not be enough.

    Raises:
        Forbidden, Unauthenticated
    """
    mapping = mapping_of(definition)
    selected = definition.scope or [f"/{type.partition('/')[0]}" for type in definition.types]
    places = {place for path in selected or ["/*"] for place in _places_at(path, mapping)}
    # A path with wildcards is checked as a text, which only a rule with the same reach covers.
    try:
        await check_writes(connection, scope, sorted(places))
    except Forbidden as error:
        error.detail = _ADVICE
        raise


def _places_at(path: str, mapping: GroupMapping) -> Iterator[str]:
    """The local paths of groups, some with wildcards, to which copies at a path may come."""
    _, plural, id, *_ = [*path.split("/", 3), ""]
    if not id:
        yield f"/{plural}/{mapping.prefix}*"
        named = (there for there in mapping.names if plural in ("*", there.partition("/")[0]))
        yield from (f"/{mapping.names[there]}" for there in named)
        return
    try:
        yield mapping.place(f"/{plural}/{id}")
    except NoPlace:
        return  # Without a local name, no copy of the group is taken either.


def is_selected(origin: str, scope: Collection[str], types: Collection[str]) -> bool:
    """Whether a selection contains an entity.

    Args:
        origin: the xid of the entity at the authority.
        scope: xids that are selected with every entity below; an empty scope selects every xid.
        types: `endpoints` selects the groups of a type with every entity below,
            `messagegroups/messages` the resources of a type and their groups; empty types select
            every type.
    """
    is_in_scope = not scope or any(
        origin == path or origin.startswith(path + "/") or path.startswith(origin + "/")
        for path in scope
    )
    return is_in_scope and is_of_types(origin, types)


def paths_to(path: str) -> list[str]:
    """A path and the paths of every ancestor."""
    steps = path.split("/")
    return ["/".join(steps[:end]) for end in range(2, len(steps) + 1)]


def is_of_types(origin: str, types: Collection[str]) -> bool:
    """Whether an xid is of, below or above one of the types, or there are no types."""
    if not types:
        return True
    _, groups, _, resources, *_ = [*origin.split("/"), "", ""]
    wanted = (type.partition("/") for type in types)
    return any(
        group == groups and resource in ("", resources or resource) for group, _, resource in wanted
    )


def has_labels(attributes: Mapping[str, Any], labels: Collection[str]) -> bool:
    """Whether attributes have every given label, written as `name=value` or `name`."""
    held = attributes.get("labels")
    if not isinstance(held, Mapping):
        return False
    pairs = (label.partition("=") for label in labels)
    return all(name in held and (not sign or held[name] == value) for name, sign, value in pairs)


def is_default(resource: Entity, version: Entity) -> bool:
    """Whether a version is the default version of a resource."""
    id = resource.attributes.get("defaultversionid")
    return version.origin == f"{resource.origin}/versions/{id}"


@dataclass(slots=True)
class LabelSieve:
    """Lets the copies of a complete listing pass that labels select.

    A group with the labels is selected together with every entity below. A resource is selected
    with every version if the default version has the labels, since a resource shows the default
    version. The group of a selected resource is selected as well.

    Copies arrive in the order of origins, so the versions of a resource are adjacent. Groups and
    resources wait until a later copy shows whether they are selected.
    """

    labels: Collection[str]
    _whole: set[Origin] = field(default_factory=set)
    _waiting: dict[Origin, Entity] = field(default_factory=dict)
    _versions: list[Entity] = field(default_factory=list)
    _left_out: list[Entity] = field(default_factory=list)

    def take(self, copy: Incoming) -> Iterator[Incoming]:
        """The copies that pass after the arrival of one more copy."""
        if not isinstance(copy, Entity):
            yield copy
            return
        resource = _resource(copy)
        if self._versions and resource != _resource(self._versions[0]):
            yield from self.end()
        if Origin(copy.authority, group_path(copy.origin)) in self._whole:
            yield copy
        elif copy.kind == "version":
            self._versions.append(copy)
        elif copy.kind == "group" and has_labels(copy.attributes, self.labels):
            self._whole.add(resource)
            yield copy
        else:
            self._waiting[resource] = copy

    def end(self) -> Iterator[Incoming]:
        """The copies that pass after the last version of a resource."""
        versions, self._versions = self._versions, []
        if not versions:
            return
        resource = self._waiting.pop(_resource(versions[0]), None)
        if resource is None or not any(
            is_default(resource, each) and has_labels(each.attributes, self.labels)
            for each in versions
        ):
            self._left_out += versions if resource is None else [resource, *versions]
            return
        group = Origin(resource.authority, group_path(resource.origin))
        if group in self._waiting:
            yield self._waiting.pop(group)
        yield resource
        yield from versions

    def left_out(self, *, is_complete: bool) -> list[Entity]:
        """The copies that did not pass since the last call.

        Args:
            is_complete: no further copies arrive, so waiting copies do not pass either.
        """
        left, self._left_out = self._left_out, []
        return left + [*self._waiting.values()] * is_complete


def _resource(copy: Entity) -> Origin:
    return Origin(copy.authority, resource_of(copy.origin))
