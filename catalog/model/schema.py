"""The registry model: which groups, resources and attributes a catalog accepts.

Source: core/model.md. `Model.expanded` writes a model out with every attribute that the
standard adds; `catalog.model.modelsource` reads one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from catalog.model.xid import Xid

STRICT_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
EXTENDED_NAME = re.compile(r"[a-z0-9][a-z0-9_.:\-]{0,62}")

NUMBERS = frozenset({"decimal", "integer", "uinteger"})
TARGETED = frozenset(
    {"uri", "uriabsolute", "urirelative", "url", "urlabsolute", "urlrelative", "xid"}
)
SCALARS = NUMBERS | TARGETED | {"boolean", "string", "timestamp", "uritemplate", "xidtype"}
TYPES = SCALARS | {"any", "array", "map", "object"}

# The aspects of a resource type that are settings, with their default values.
RESOURCE_SETTINGS: Mapping[str, Any] = {
    "maxversions": 0,
    "setversionid": True,
    "hasdocument": True,
    "versionmode": "manual",
    "singleversionroot": False,
    "validateformat": False,
    "validatecompatibility": False,
    "strictvalidation": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribute:
    """One attribute of an entity or object; an `item` is one without a name.

    `siblings` is `ifvalues` with its keys in lower case: values match without regard
    to case (core/model.md, "attributes.<STRING>.ifvalues").
    """

    name: str
    type: str
    target: str = ""
    namecharset: str = "strict"
    description: str = ""
    enum: tuple[Any, ...] = ()
    strict: bool = True
    matchversions: bool = False
    readonly: bool = False
    immutable: bool = False
    required: bool = False
    default: Any = None
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    item: Attribute | None = None
    ifvalues: Mapping[str, Mapping[str, Attribute]] = field(default_factory=dict)
    siblings: Mapping[str, Mapping[str, Attribute]] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        siblings = {value.lower(): attributes for value, attributes in self.ifvalues.items()}
        object.__setattr__(self, "siblings", siblings)

    def expanded(self) -> dict[str, Any]:
        aspects: dict[str, Any] = {"name": self.name, "type": self.type, "target": self.target}
        if self.namecharset != "strict":
            aspects["namecharset"] = self.namecharset
        aspects["description"] = self.description
        if self.enum:
            aspects |= {"enum": list(self.enum), "strict": self.strict}
        for flag in ("matchversions", "readonly", "immutable", "required"):
            aspects[flag] = getattr(self, flag) or None
        aspects["default"] = self.default
        aspects["attributes"] = _expanded(self.attributes)
        aspects["item"] = self.item.expanded() if self.item else None
        aspects["ifvalues"] = {
            value: {"siblingattributes": _expanded(attributes)}
            for value, attributes in self.ifvalues.items()
        }
        return {
            key: aspect
            for key, aspect in aspects.items()
            if (key == "default" and aspect is not None) or aspect not in (None, "", {})
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceType:
    """A type of resources, and of their versions and meta entities.

    The client-settable definitions, for `check_attributes`, are `version_attributes`,
    `resource_attributes` and `meta_attributes`. `managed` and `meta_managed` name what a
    client may send beside them: the caller examines those (ids, epoch, documents, times,
    ancestor, default version) and drops the rest, as read-only ones are to be ignored.
    """

    plural: str
    singular: str
    maxversions: int = 0
    setversionid: bool = True
    hasdocument: bool = True
    versionmode: str = "manual"
    singleversionroot: bool = False
    validateformat: bool = False
    validatecompatibility: bool = False
    strictvalidation: bool = False
    typemap: Mapping[str, str] = field(default_factory=dict)
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    resourceattributes: Mapping[str, Attribute] = field(default_factory=dict)
    metaattributes: Mapping[str, Attribute] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)
    version_attributes: Mapping[str, Attribute] = field(init=False, compare=False, repr=False)
    resource_attributes: Mapping[str, Attribute] = field(init=False, compare=False, repr=False)
    meta_attributes: Mapping[str, Attribute] = field(init=False, compare=False, repr=False)
    managed: frozenset[str] = field(init=False, compare=False, repr=False)
    meta_managed: frozenset[str] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        documents = (self.singular, f"{self.singular}base64") if self.hasdocument else ()
        version = _settable(self.attributes, ("ancestorid", *documents))
        meta = _settable(
            self.metaattributes, ("xref", "readonly", "defaultversionid", "defaultversionsticky")
        )
        resource = _settable(self.resourceattributes, ("meta", "versions"))
        managed = {*self.attributes, *self.resourceattributes} - {*version, *resource}
        object.__setattr__(self, "version_attributes", version)
        object.__setattr__(self, "resource_attributes", resource)
        object.__setattr__(self, "meta_attributes", meta)
        object.__setattr__(self, "managed", frozenset(managed))
        object.__setattr__(self, "meta_managed", frozenset({*self.metaattributes} - {*meta}))

    def expanded(self) -> dict[str, Any]:
        return {
            "plural": self.plural,
            "singular": self.singular,
            **self.about,
            **{aspect: getattr(self, aspect) for aspect in RESOURCE_SETTINGS},
            **({"typemap": dict(self.typemap)} if self.typemap else {}),
            "attributes": _expanded(self.attributes),
            "resourceattributes": _expanded(self.resourceattributes),
            "metaattributes": _expanded(self.metaattributes),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupType:
    """A type of groups; `own_attributes` are those that a client sets, `managed` the others."""

    plural: str
    singular: str
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    resources: Mapping[str, ResourceType] = field(default_factory=dict)
    constraints: Mapping[str, Any] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)
    own_attributes: Mapping[str, Attribute] = field(init=False, compare=False, repr=False)
    managed: frozenset[str] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        own = _settable(self.attributes, self.resources)
        object.__setattr__(self, "own_attributes", own)
        object.__setattr__(self, "managed", frozenset({*self.attributes} - {*own}))

    def expanded(self) -> dict[str, Any]:
        resources = {plural: kind.expanded() for plural, kind in self.resources.items()}
        return {
            "plural": self.plural,
            "singular": self.singular,
            **self.about,
            "attributes": _expanded(self.attributes),
            **({"constraints": dict(self.constraints)} if self.constraints else {}),
            **({"resources": resources} if resources else {}),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A registry's model; `source` is the document that it was built from, as given."""

    attributes: Mapping[str, Attribute]
    groups: Mapping[str, GroupType]
    source: dict[str, Any]
    about: Mapping[str, Any] = field(default_factory=dict)
    own_attributes: Mapping[str, Attribute] = field(init=False, compare=False, repr=False)
    managed: frozenset[str] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        own = _settable(self.attributes, (*self.groups, "capabilities", "model", "modelsource"))
        object.__setattr__(self, "own_attributes", own)
        object.__setattr__(self, "managed", frozenset({*self.attributes} - {*own}))

    def group_type(self, groups: str) -> GroupType | None:
        return self.groups.get(groups)

    def resource_type(self, groups: str, resources: str) -> ResourceType | None:
        group = self.groups.get(groups)
        return group.resources.get(resources) if group else None

    def singular_of(self, xid: Xid) -> str:
        """The singular name of the type at `xid`; a version has its resource's; "" if unknown."""
        if not xid.groups:
            return "registry"
        found: GroupType | ResourceType | None = self.group_type(xid.groups)
        if xid.resources:
            found = self.resource_type(xid.groups, xid.resources)
        return found.singular if found else ""

    def expanded(self) -> dict[str, Any]:
        """The full model, as core/model.md, "Retrieving the Registry Model" asks for."""
        return {
            **self.about,
            "attributes": _expanded(self.attributes),
            "groups": {plural: group.expanded() for plural, group in self.groups.items()},
        }


def _expanded(attributes: Mapping[str, Attribute]) -> dict[str, Any]:
    return {name: attribute.expanded() for name, attribute in attributes.items()}


def _settable(attributes: Mapping[str, Attribute], withheld: Iterable[str]) -> dict[str, Attribute]:
    kept_back = {"createdat", "modifiedat", *withheld}
    return {
        name: attribute
        for name, attribute in attributes.items()
        if not (attribute.readonly or attribute.immutable or name in kept_back)
    }


def value_text(value: Any) -> str:
    """A scalar as the text that `ifvalues` compares: as JSON has it, in lower case."""
    is_whole = isinstance(value, float) and value.is_integer()
    return str(int(value) if is_whole else value).lower()
