"""Finds the types whose entities can break a new model, though they complied with the old."""

from __future__ import annotations

from dataclasses import dataclass, replace

from catalog.model.modelreferences import points_to_types
from catalog.model.schema import GroupType, Model, ResourceType


@dataclass(frozen=True, slots=True)
class ModelImpact:
    """The impact of a new model on the entities of types that stay."""

    old: Model
    new: Model

    @property
    def lost(self) -> bool:
        """Whether a type is removed: then every type whose attributes point to types is checked."""
        return not _types(self.old) <= _types(self.new)

    @property
    def registry(self) -> bool:
        old, new = self.old, self.new
        differs = (old.own_attributes, old.managed) != (new.own_attributes, new.managed)
        return differs or self.lost

    @property
    def references(self) -> bool:
        """Whether targets of cross references may have another type now, or none."""
        return self.old.groups != self.new.groups

    def group(self, name: str) -> bool:
        old, new = self.old.groups[name], self.new.groups[name]
        differs = (
            (old.own_attributes, old.managed) != (new.own_attributes, new.managed)
            or old.narrowed != new.narrowed
            or old.constraints != new.constraints
            or any(_differ(old, new, plural) for plural in old.resources.keys() & new.resources)
        )
        return differs or (self.lost and points_to_types(new.own_attributes))

    def resource(self, group: GroupType, kind: ResourceType) -> bool:
        """Whether resources of this type of the new model have to be checked."""
        old = self.old.groups[group.plural]
        before = replace(old.resources[kind.plural], about={})
        differs = before != replace(kind, about={}) or old.constraints != group.constraints
        return differs or (self.lost and _points(kind))


def _differ(old: GroupType, new: GroupType, plural: str) -> bool:
    """Whether attributes that groups' own constraints may name are defined otherwise."""
    before, after = old.resources[plural], new.resources[plural]
    return before.version_attributes != after.version_attributes


def _types(model: Model) -> set[tuple[str, str]]:
    return {
        (name, plural) for name, group in model.groups.items() for plural in ("", *group.resources)
    }


def _points(kind: ResourceType) -> bool:
    return points_to_types(kind.version_attributes) or points_to_types(kind.meta_attributes)
