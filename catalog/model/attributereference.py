"""Resolves a path in dot notation to the collections on the way and the attribute at the end.

Sources: core/spec.md, "Filter Flag" and "Dot-Notation in Filters".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from catalog.model.dotpath import Every, Index, Key, Step
from catalog.model.schema import (
    EXTENDED_NAME,
    STRICT_NAME,
    Attribute,
    GroupType,
    Model,
    ResourceType,
)
from catalog.model.xid import Kind

ANY = "any"
ABSENT = "absent"  # The type of an attribute that no entity has.

_ANYTHING = Attribute(name="*", type=ANY)
_AUTHORITY = Attribute(name="authority", type="string")  # Shown by replicas.


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityKind:
    """A kind of entity of a model: the registry, unless names are given."""

    model: Model
    groups: str = ""
    resources: str = ""
    versions: bool = False

    @property
    def kind(self) -> Kind:
        if self.versions:
            return "version"
        if self.resources:
            return "resource"
        return "group" if self.groups else "registry"

    @property
    def singular(self) -> str:
        type = self.resource_type or self.group_type
        return type.singular if type else "registry"

    @property
    def group_type(self) -> GroupType | None:
        return self.model.groups.get(self.groups)

    @property
    def resource_type(self) -> ResourceType | None:
        return self.model.resource_type(self.groups, self.resources)

    @property
    def collections(self) -> Iterable[str]:
        match self.kind:
            case "registry":
                return self.model.groups
            case "group":
                return self.group_type.resources if self.group_type else ()
            case "resource":
                return ("versions",)
            case "version":
                return ()

    def below(self, collection: str) -> EntityKind:
        match self.kind:
            case "registry":
                return replace(self, groups=collection)
            case "group":
                return replace(self, resources=collection)
            case _:
                return replace(self, versions=True)

    def attributes(self, *, meta: bool) -> Mapping[str, Attribute]:
        defined = self.group_type.attributes if self.group_type else self.model.attributes
        if (type := self.resource_type) is not None:
            defined = type.metaattributes if meta else type.attributes
        return {"authority": _AUTHORITY, **defined}

    def computed(self, *, meta: bool) -> frozenset[str]:
        """Attributes computed for each answer, which filters cannot use."""
        names = {"self", "shortself", "origin"}
        for collection in () if meta else self.collections:
            names |= {f"{collection}url", f"{collection}count"}
        if self.kind == "registry":
            names |= {"specversion", "capabilities", "model", "modelsource"}
        elif meta:
            names.add("defaultversionurl")
        elif (type := self.resource_type) is not None:
            names |= {"metaurl"} if self.kind == "resource" else set()
            names |= {type.singular, f"{type.singular}base64"} if type.hasdocument else set()
        return frozenset(names)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeReference:
    """An attribute of the entities of a kind, or a part of an attribute.

    `chain` names the collections that lead to the entities. `steps` start at the entity, or with
    `is_meta` at the meta entity of the resource. `type` is a type of the model, `ANY` or `ABSENT`.
    """

    chain: tuple[str, ...]
    place: EntityKind
    is_meta: bool
    steps: tuple[Step, ...]
    type: str


def resolve(place: EntityKind, steps: Sequence[Step]) -> AttributeReference:
    """Follow a path from the entities of a kind.

    Raises:
        ValueError: an expression cannot use the path; the message is for the user.
    """
    chain: list[str] = []
    rest = list(steps)
    while rest and isinstance(step := rest[0], Key) and step.name in place.collections:
        chain.append(step.name)
        place = place.below(step.name)
        del rest[0]
    is_meta = place.kind == "resource" and rest[:1] == [Key("meta")]
    if is_meta:
        del rest[0]
    if not rest:
        raise ValueError("it names no attribute")
    first = rest[0]
    if not isinstance(first, Key):
        raise ValueError("an entity's attribute has to be named")
    if first.name in place.computed(meta=is_meta):
        raise ValueError(f'"{first.name}" is made for each answer')
    types = _types(place.attributes(meta=is_meta), rest)
    return AttributeReference(
        chain=tuple(chain),
        place=place,
        is_meta=is_meta,
        steps=tuple(rest),
        # Definitions may differ, if conditional attributes add several.
        type=types.pop() if len(types) == 1 else ANY if types else ABSENT,
    )


def _types(attributes: Mapping[str, Attribute], steps: Sequence[Step]) -> set[str]:
    """The types at the end of a path, by the definitions of the name or else by the wildcard."""
    step, rest = steps[0], steps[1:]
    if not isinstance(step, Key) or not _is_name(step.name):
        return set()
    found = _types_inside(_called(step.name, attributes), rest)
    return found or _types_inside(_called("*", attributes), rest)


def _called(name: str, attributes: Mapping[str, Attribute]) -> Iterable[Attribute]:
    """The definitions of a name, including definitions that conditional attributes add."""
    if name in attributes:
        yield attributes[name]
        return
    for attribute in attributes.values():
        for siblings in attribute.ifvalues.values():
            yield from _called(name, siblings)


def _types_inside(definitions: Iterable[Attribute], steps: Sequence[Step]) -> set[str]:
    found: set[str] = set()
    for definition in definitions:
        if not steps or definition.type == ANY:
            found.add(definition.type)
        elif definition.type == "object" and isinstance(steps[0], Key):
            found |= _types(definition.attributes, steps)
        elif (item := _item(definition, steps[0])) is not None:
            found |= _types_inside([item], steps[1:])
    return found


def _item(attribute: Attribute, step: Step) -> Attribute | None:
    item = attribute.item or _ANYTHING
    match attribute.type, step:
        case "object", Every.KEY:
            return _ANYTHING
        case "map", Key(name):
            return item if _is_name(name) else None
        case ("map", Every.KEY) | ("array", Every.ITEM) | ("array", Index()):
            return item
        case _:
            return None


def _is_name(text: str) -> bool:
    return bool(STRICT_NAME.fullmatch(text) or EXTENDED_NAME.fullmatch(text))
