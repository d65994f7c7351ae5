"""Constraints of groups on attributes of the versions in a group.

Source: core/model.md, "groups.<STRING>.constraints"; core/spec.md, "`constraints` Attribute".
A group type has constraints in the model, and a group has constraints that can only narrow the
constraints of the model. Constraints apply to attributes that clients set, ids included, and not to
attributes that the server decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from catalog.model.dotpath import dotted, parse_path, value_at
from catalog.model.errors import InvalidAttribute
from catalog.model.record import record
from catalog.model.scalars import SCALAR_CHECKS
from catalog.model.schema import CASELESS, SCALARS, Attribute, Constraint, GroupType, ResourceType
from catalog.model.xid import Xid

_ASPECTS = {"default", "enum", "equals"}


def check_constraints_defined(kind: GroupType, defined: Any) -> dict[str, Constraint]:
    """Read the constraints that the model gives to a group type, by key.

    Raises:
        ValueError: a constraint is malformed, or allows a value that the resource type forbids.
    """
    constraints = _read(kind, defined)
    for constraint in constraints.values():
        _verify(kind, constraint)
    return constraints


def merge_constraints(kind: GroupType, own: Any) -> Mapping[str, Constraint]:
    """The constraints in force in a group; `own` is the attribute `constraints` of the group.

    Raises a ValueError if `own` is malformed, or allows a value that the model forbids.
    """
    merged = dict(kind.constraints)
    for key, constraint in _read(kind, own).items():
        wider = merged.get(key)
        merged[key] = constraint if wider is None else _narrowed(wider, constraint)
        _verify(kind, merged[key])
    return merged


@record
class GroupRules:
    """The constraints in force in a group, with the attributes of the group and its id."""

    constraints: Mapping[str, Constraint]
    attributes: Mapping[str, Any]

    @classmethod
    def of(cls, kind: GroupType, xid: Xid, attributes: Mapping[str, Any]) -> GroupRules:
        """The rules of a group with the given attributes, which may not widen those of the type.

        Raises:
            InvalidAttribute: the constraints are malformed, or widen those of the type.
        """
        try:
            merged = merge_constraints(kind, attributes.get("constraints"))
        except ValueError as error:
            raise InvalidAttribute(str(xid), name="constraints", error_detail=str(error)) from error
        return cls(constraints=merged, attributes={**attributes, f"{kind.singular}id": xid.gid})

    def _about(self, plural: str) -> list[Constraint]:
        return [each for each in self.constraints.values() if each.resources == plural]

    def concern(self, plural: str) -> bool:
        """Whether a constraint applies to resources of the given type."""
        return bool(self._about(plural))

    def complete(self, attributes: Mapping[str, Any], plural: str) -> dict[str, Any]:
        """Add the group's default values for absent attributes of a version.

        The values override default values of the model, so call this before `check_attributes`. An
        absent object stays absent.
        """
        filled = dict(attributes)
        for constraint in self._about(plural):
            if constraint.default is not None:
                _fill(filled, constraint.path, constraint.default)
        return filled

    def broken_by(self, version: Mapping[str, Any], plural: str) -> list[tuple[str, str]]:
        """The constraints that a version breaks: the path of the attribute, and the aspect.

        Args:
            version: the attributes of the version, with ids.
        """
        broken = []
        for each in self._about(plural):
            value = value_at(version, each.path)
            if each.enum and value is not None and not _has(each, each.enum, value):
                broken.append((dotted(each.path), "enum"))
            wanted = value_at(self.attributes, each.equals) if each.equals else None
            if wanted is not None and not _has(each, (wanted,), value):
                broken.append((dotted(each.path), "equals"))
        return broken

    def differ_from(self, other: GroupRules) -> bool:
        """Whether a version that complies with one set of rules can break the other."""
        return self.constraints != other.constraints or self._values() != other._values()

    def _values(self) -> list[Any]:
        named = (each.equals for each in self.constraints.values() if each.equals)
        return [value_at(self.attributes, path) for path in named]


def _read(kind: GroupType, defined: Any) -> dict[str, Constraint]:
    constraints: dict[str, Constraint] = {}
    for key, aspects in _mapping(defined, "constraints").items():
        constraint = _constraint(kind, key, _mapping(aspects, key))
        if constraint.key in constraints:
            raise ValueError(f'"{key}" is constrained twice')
        constraints[constraint.key] = constraint
    return constraints


def _constraint(kind: GroupType, key: str, aspects: Mapping[str, Any]) -> Constraint:
    if unknown := sorted(aspects.keys() - _ASPECTS):
        raise ValueError(f'"{key}" has an unknown aspect: {", ".join(unknown)}')
    plural, *path = parse_path(key)
    if plural not in kind.resources:
        raise ValueError(f'"{key}" is about no resource type of the group')
    resource = kind.resources[plural]
    attribute = _static(_constrainable(resource), path, key)
    default, enum, equals = (aspects.get(one) for one in ("default", "enum", "equals"))
    if not isinstance(enum or [], list) or not isinstance(equals or "", str):
        raise ValueError(f'"enum" of "{key}" must be an array, and "equals" a string')
    if default is not None and path[0] not in resource.version_attributes:
        raise ValueError(f'"{key}" is an id, which has no default value')
    check = SCALAR_CHECKS[attribute.type]
    constraint = Constraint(
        resources=plural,
        path=tuple(path),
        default=None if default is None else check(default),
        enum=tuple(check(value) for value in enum or ()),
        equals=parse_path(equals) if equals else (),
    )
    if constraint.equals:
        id = f"{kind.singular}id"
        comparable = {**kind.own_attributes, id: kind.attributes[id]}
        twin = _static(comparable, constraint.equals, dotted(constraint.equals))
        if twin.type != attribute.type:
            raise ValueError(f'"{key}" is a {attribute.type}, and "{equals}" a {twin.type}')
    return constraint


def _constrainable(resource: ResourceType) -> dict[str, Attribute]:
    ids = ("versionid", f"{resource.singular}id")
    return {**resource.version_attributes, **{id: resource.attributes[id] for id in ids}}


def _static(attributes: Mapping[str, Attribute], path: Sequence[str], text: str) -> Attribute:
    """The scalar at a path that leads through defined attributes of objects only."""
    attribute = None
    for name in path:
        attribute = attributes.get(name) if name != "*" else None
        attributes = attribute.attributes if attribute else {}
    if attribute is None or attribute.type not in SCALARS or attribute.readonly:
        raise ValueError(f'"{text}" leads to no scalar attribute that the model defines')
    return attribute


def _narrowed(wider: Constraint, narrower: Constraint) -> Constraint:
    if wider.enum and not all(_has(wider, wider.enum, value) for value in narrower.enum):
        raise ValueError(f'"{wider.key}" allows values that the model does not')
    if wider.equals and narrower.equals and wider.equals != narrower.equals:
        raise ValueError(f'"{wider.key}" equals "{dotted(wider.equals)}" by the model')
    return replace(
        wider,
        default=wider.default if narrower.default is None else narrower.default,
        enum=narrower.enum or wider.enum,
        equals=narrower.equals or wider.equals,
    )


def _verify(kind: GroupType, constraint: Constraint) -> None:
    """Reject a constraint that contradicts itself or its attribute."""
    resource = kind.resources[constraint.resources]
    attribute = _static(_constrainable(resource), constraint.path, constraint.key)
    allowed = attribute.closed
    if allowed and not all(_has(constraint, allowed, value) for value in constraint.enum):
        raise ValueError(f'"{constraint.key}" allows values that the attribute does not')
    default = attribute.default if constraint.default is None else constraint.default
    allowed = constraint.enum or allowed
    if allowed and default is not None and not _has(constraint, allowed, default):
        raise ValueError(f'"{constraint.key}" excludes its default value')


def _has(constraint: Constraint, values: Sequence[Any], value: Any) -> bool:
    if constraint.path[0] in CASELESS and isinstance(value, str):
        return value.lower() in [str(one).lower() for one in values]
    return value in values


def _fill(attributes: dict[str, Any], path: Sequence[str], default: Any) -> None:
    *objects, name = path
    for one in objects:
        if not isinstance(inner := attributes.get(one), Mapping):
            return
        # Copied on the way, since the objects belong to the request.
        attributes[one] = attributes = dict(inner)
    if attributes.get(name) is None:
        attributes[name] = default


def _mapping(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance({} if value is None else value, Mapping):
        raise ValueError(f'"{what}" must be an object')
    return value or {}
