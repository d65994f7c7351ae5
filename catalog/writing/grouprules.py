"""The rules of one group for the versions of its resources.

Source: core/model.md, "groups.<STRING>.constraints" and core/spec.md, "constraints Attribute".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from catalog.model.constraints import apply_defaults, merge_constraints, violations
from catalog.model.dotpath import value_at
from catalog.model.errors import InvalidAttribute
from catalog.model.record import record
from catalog.model.schema import Constraint, GroupType
from catalog.model.xid import Xid


@record
class GroupRules:
    """The constraints of a group and of its type, with the group's attributes that they name."""

    constraints: Mapping[str, Constraint]
    attributes: Mapping[str, Any]

    @classmethod
    def of(cls, kind: GroupType, xid: Xid, attributes: Mapping[str, Any]) -> GroupRules:
        """The rules of a group with these attributes.

        Raises:
            InvalidAttribute: its own constraints allow more than those of its type.
        """
        try:
            merged = merge_constraints(kind, attributes.get("constraints"))
        except ValueError as error:
            raise InvalidAttribute(str(xid), name="constraints", error_detail=str(error)) from error
        return cls(constraints=merged, attributes={**attributes, f"{kind.singular}id": xid.gid})

    def concern(self, plural: str) -> bool:
        """Whether any constraint is for resources of this type."""
        return any(constraint.resources == plural for constraint in self.constraints.values())

    def complete(self, attributes: dict[str, Any], plural: str) -> dict[str, Any]:
        """A version's attributes with the default values of this group."""
        return apply_defaults(attributes, self.constraints, plural)

    def broken_by(self, attributes: Mapping[str, Any], plural: str) -> list[tuple[str, str]]:
        """The path and the kind of each constraint that a version breaks.

        Args:
            attributes: the version's, with its ids.
        """
        return violations(attributes, self.constraints, plural, self.attributes)

    def differ_from(self, other: GroupRules) -> bool:
        """Whether a version that complies with one can break the other."""
        return self.constraints != other.constraints or self._values() != other._values()

    def _values(self) -> list[Any]:
        return [
            value_at(self.attributes, constraint.equals)
            for constraint in self.constraints.values()
            if constraint.equals
        ]
