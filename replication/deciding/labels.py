"""Selects entities by labels. Pure.

A group with the labels is selected together with every entity below. A resource is selected with
every version if the default version has the labels, since a resource shows the default version. The
group of a selected resource is selected as well.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from catalog.model.entity import Entity, Origin
from catalog.model.xid import group_path
from replication.deciding.copychecks import Incoming


def has_labels(attributes: Mapping[str, Any], labels: Collection[str]) -> bool:
    """Whether attributes have every given label, written as `name=value` or `name`."""
    held = attributes.get("labels")
    if not isinstance(held, Mapping):
        return False
    pairs = (label.partition("=") for label in labels)
    return all(name in held and (not sign or held[name] == value) for name, sign, value in pairs)


def resource_path(xid: str) -> str:
    """The path of a resource, given the path of the resource or of a version."""
    return "/".join(xid.split("/", 5)[:5])


def is_default(resource: Entity, version: Entity) -> bool:
    """Whether a version is the default version of a resource."""
    id = resource.attributes.get("defaultversionid")
    return version.origin == f"{resource.origin}/versions/{id}"


@dataclass(slots=True)
class LabelSieve:
    """Lets the selected copies of a complete listing pass.

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
        resource = Origin(copy.authority, resource_path(copy.origin))
        if self._versions and resource != self._resource_of(self._versions[0]):
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
        resource = self._waiting.pop(self._resource_of(versions[0]), None)
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

    @staticmethod
    def _resource_of(version: Entity) -> Origin:
        return Origin(version.authority, resource_path(version.origin))
