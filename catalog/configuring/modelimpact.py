"""Which types have entities that can break a new model, though they complied with the old one."""

from __future__ import annotations

from dataclasses import dataclass, replace

from catalog.model.modelreferences import points_to_types
from catalog.model.schema import GroupType, Model, ResourceType


@dataclass(frozen=True, slots=True)
class ModelImpact:
    """What a change from one model to another means for the types that stay.

    `lost` says whether a type goes: whatever could point to one has to be looked at then.
    """

    old: Model
    new: Model
    lost: bool

    @classmethod
    def by(cls, old: Model, new: Model) -> ModelImpact:
        return cls(old, new, bool(_types(old) - _types(new)))

    @property
    def registry(self) -> bool:
        old, new = self.old, self.new
        differs = (old.own_attributes, old.managed) != (new.own_attributes, new.managed)
        return differs or self.lost

    @property
    def references(self) -> bool:
        """Whether cross references may be to resources of another type now, or of none."""
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
        """Whether resources of this type, which is in the new model, are to be looked at."""
        old = self.old.groups[group.plural]
        before = replace(old.resources[kind.plural], about={})
        differs = before != replace(kind, about={}) or old.constraints != group.constraints
        return differs or (self.lost and _points(kind))


def _differ(old: GroupType, new: GroupType, plural: str) -> bool:
    """Whether what the groups' own constraints may be about is defined otherwise."""
    before, after = old.resources[plural], new.resources[plural]
    return before.version_attributes != after.version_attributes


def _types(model: Model) -> set[tuple[str, str]]:
    return {
        (name, plural) for name, group in model.groups.items() for plural in ("", *group.resources)
    }


def _points(kind: ResourceType) -> bool:
    return points_to_types(kind.version_attributes) or points_to_types(kind.meta_attributes)
