"""The registry model: the groups, resources and attributes that a catalog accepts.

Source: core/model.md. `Model.expanded` writes a model with every attribute that the standard adds;
`catalog.model.modelsource` reads a model.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from catalog.model import standardattributes as standard
from catalog.model.dotpath import dotted
from catalog.model.timestamps import normal_time
from catalog.model.xid import Xid

STRICT_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
EXTENDED_NAME = re.compile(r"[a-z0-9][a-z0-9_.:\-]{0,62}")

NUMBERS = frozenset({"decimal", "integer", "uinteger"})
TARGETED = frozenset({"uri", "url", "xid"})
_RESTRICTED_URIS = frozenset(
    {"uriabsolute", "urirelative", "uritemplate", "urlabsolute", "urlrelative"}
)
SCALARS = NUMBERS | TARGETED | _RESTRICTED_URIS | {"boolean", "string", "timestamp", "xidtype"}
TYPES = SCALARS | {"any", "array", "map", "object"}

# First segments of paths that are no collections, of core/http.md and of this server.
RESERVED_GROUP_NAMES = frozenset(
    {"capabilities", "capabilitiesoffered", "export", "model", "modelsource"}
    | {"access", "apply", "audit", "health", "mcp", "metrics", "notifications", "replication"}
    | {"subscriptions", "validate"}
    | {"confluent", "console", "messagecatalog", "messagedefinition", "registry", "services"}
)

# Paths below every resource, and the names of ids in the paths.
RESERVED_RESOURCE_NAMES = frozenset({"meta", "version", "versions"})

# A model of many conditions has more combinations of attributes than memory should hold.
_MOST_EXTENDED = 200_000

# Standard attributes whose values are compared without regard to case (core/spec.md, "`format`
# Attribute", "`compatibility` Attribute").
CASELESS = frozenset({"compatibility", "format"})

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
    """An attribute of an entity or object; an `item` is an attribute without a name.

    `siblings` is `ifvalues` with keys in the form of `value_text`: values match without regard to
    case (core/model.md, "attributes.<STRING>.ifvalues") or notation. `closed` holds the only valid
    values, and is empty if the type alone restricts values. With `is_free`, every text is valid.
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
    closed: tuple[Any, ...] = field(init=False, compare=False, repr=False)
    is_free: bool = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        siblings = {_condition(key, self.type): kinds for key, kinds in self.ifvalues.items()}
        object.__setattr__(self, "siblings", siblings)
        object.__setattr__(self, "attributes", Definitions(self.attributes))
        object.__setattr__(self, "closed", self.enum if self.strict else ())
        object.__setattr__(self, "is_free", self.type == "string" and not self.closed)

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


class Definitions(dict[str, Attribute]):
    """The attributes of an entity or an object, prepared for checks and never changed.

    `conditional` holds the attributes with siblings, `required` the mandatory attributes.
    """

    __slots__ = ("_extended", "conditional", "required")

    def __init__(self, definitions: Mapping[str, Attribute]) -> None:
        super().__init__(definitions)
        self.conditional = tuple(each for each in self.values() if each.siblings)
        self.required = tuple((name, each) for name, each in self.items() if each.required)
        self._extended: dict[tuple[str, ...], tuple[Definitions, list[str]]] = {}

    def extended(
        self, conditional: Iterable[Attribute], values: tuple[str, ...]
    ) -> tuple[Definitions, list[str]]:
        """The definitions, with the siblings that values of conditional attributes add.

        `values` has a key of `siblings` for each conditional attribute, or a text that is no key.
        Returns also the names with several definitions, of which the first counts.
        """
        found = self._extended.get(values)
        if found is None:
            extended, clashes = dict(self), list[str]()
            for definition, value in zip(conditional, values, strict=True):
                for name, sibling in definition.siblings.get(value, {}).items():
                    if name in extended:
                        clashes.append(name)
                    else:
                        extended[name] = sibling
            # Emptied as a whole: the combinations in use come back with the next entities.
            if len(self._extended) * len(self) > _MOST_EXTENDED:
                self._extended.clear()
            found = self._extended[values] = Definitions(extended), clashes
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """A constraint of a group on an attribute of every version of `resources`.

    An aspect that is `None` or empty has no effect. `equals` is the path of an attribute of the
    group. Source: core/model.md, "groups.<STRING>.constraints".
    """

    resources: str
    path: tuple[str, ...]
    default: Any = None
    enum: tuple[Any, ...] = ()
    equals: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        return dotted((self.resources, *self.path))

    def expanded(self) -> dict[str, Any]:
        aspects: dict[str, Any] = {}
        if self.default is not None:
            aspects["default"] = self.default
        if self.enum:
            aspects["enum"] = list(self.enum)
        if self.equals:
            aspects["equals"] = dotted(self.equals)
        return aspects


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceType:
    """A type of resources, including versions and meta entities.

    The client-settable definitions, for `check_attributes`, are `version_attributes` and
    `meta_attributes`. `managed` and `meta_managed` name further attributes that a client may send:
    the caller examines ids, epoch, documents, times, ancestor and default version, and ignores
    read-only attributes. `narrowed` and `meta_narrowed` define the managed attributes with values
    that the model restricts: a value that the caller decides on has to pass `check_attributes`,
    too. `matching` holds the paths of values that must be equal in every version of a resource.
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
    meta_attributes: Mapping[str, Attribute] = field(init=False, compare=False, repr=False)
    managed: frozenset[str] = field(init=False, compare=False, repr=False)
    meta_managed: frozenset[str] = field(init=False, compare=False, repr=False)
    narrowed: Mapping[str, Attribute] = field(init=False, compare=False, repr=False)
    meta_narrowed: Mapping[str, Attribute] = field(init=False, compare=False, repr=False)
    matching: tuple[tuple[str, ...], ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        documents = (self.singular, f"{self.singular}base64") if self.hasdocument else ()
        version = _settable(self.attributes, (*standard.VERSION_KEPT, *documents))
        meta = _settable(self.metaattributes, standard.META_KEPT)
        resource = _settable(self.resourceattributes, standard.RESOURCE_KEPT)
        managed = {*self.attributes, *self.resourceattributes} - {*version, *resource}
        object.__setattr__(self, "version_attributes", version)
        object.__setattr__(self, "meta_attributes", meta)
        object.__setattr__(self, "managed", frozenset(managed))
        object.__setattr__(self, "meta_managed", frozenset({*self.metaattributes} - {*meta}))
        object.__setattr__(self, "narrowed", _narrowed(self.attributes, version))
        object.__setattr__(self, "meta_narrowed", _narrowed(self.metaattributes, meta))
        object.__setattr__(self, "matching", tuple(_matching(self.attributes)))

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
    """A type of groups; clients set `own_attributes`, `managed` names the remaining attributes.

    `narrowed` is as in `ResourceType`; `constraints` maps `Constraint.key` to the constraint.
    """

    plural: str
    singular: str
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    resources: Mapping[str, ResourceType] = field(default_factory=dict)
    constraints: Mapping[str, Constraint] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)
    own_attributes: Mapping[str, Attribute] = field(init=False, compare=False, repr=False)
    managed: frozenset[str] = field(init=False, compare=False, repr=False)
    narrowed: Mapping[str, Attribute] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        own = _settable(self.attributes, self.resources)
        object.__setattr__(self, "own_attributes", own)
        object.__setattr__(self, "managed", frozenset({*self.attributes} - {*own}))
        object.__setattr__(self, "narrowed", _narrowed(self.attributes, own))

    def expanded(self) -> dict[str, Any]:
        constraints = {key: constraint.expanded() for key, constraint in self.constraints.items()}
        resources = {plural: kind.expanded() for plural, kind in self.resources.items()}
        return {
            "plural": self.plural,
            "singular": self.singular,
            **self.about,
            "attributes": _expanded(self.attributes),
            **({"constraints": constraints} if constraints else {}),
            **({"resources": resources} if resources else {}),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A registry's model; `source` is the defining document, as given."""

    attributes: Mapping[str, Attribute]
    groups: Mapping[str, GroupType]
    source: dict[str, Any]
    about: Mapping[str, Any] = field(default_factory=dict)
    own_attributes: Mapping[str, Attribute] = field(init=False, compare=False, repr=False)
    managed: frozenset[str] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        own = _settable(self.attributes, (*self.groups, *standard.REGISTRY_KEPT))
        object.__setattr__(self, "own_attributes", own)
        object.__setattr__(self, "managed", frozenset({*self.attributes} - {*own}))

    def group_type(self, groups: str) -> GroupType | None:
        return self.groups.get(groups)

    def resource_type(self, groups: str, resources: str) -> ResourceType | None:
        group = self.groups.get(groups)
        return group.resources.get(resources) if group else None

    def singular_of(self, xid: Xid) -> str:
        """The singular name of the type at `xid`, for a version of the resource; "" if unknown."""
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


def _settable(attributes: Mapping[str, Attribute], withheld: Iterable[str]) -> Definitions:
    """The attributes that clients set, and read-only attributes with a default value."""
    kept_back = {*standard.KEPT_TIMES, *withheld}
    return Definitions(
        {
            name: attribute
            for name, attribute in attributes.items()
            if not (attribute.immutable or name in kept_back)
            and (not attribute.readonly or attribute.default is not None)
        }
    )


def _narrowed(
    attributes: Mapping[str, Attribute], settable: Mapping[str, Attribute]
) -> dict[str, Attribute]:
    return {
        name: attribute
        for name, attribute in attributes.items()
        if name not in settable
        and not attribute.readonly
        and (attribute.closed or attribute.target)
    }


def _matching(attributes: Mapping[str, Attribute]) -> Iterator[tuple[str, ...]]:
    for name, attribute in attributes.items():
        if attribute.matchversions:
            yield (name,)
        yield from ((name, *path) for path in _matching(attribute.attributes))


def _condition(key: str, kind: str) -> str:
    """A key of `ifvalues` in the notation of stored values of a type."""
    try:
        if kind in NUMBERS:
            return value_text(float(key))
        return (normal_time(key) if kind == "timestamp" else key).lower()
    except (ValueError, OverflowError):
        return key.lower()


def value_text(value: Any) -> str:
    """The text of a scalar that `ifvalues` compares: the JSON text in lower case."""
    is_whole = isinstance(value, float) and value.is_integer()
    return str(int(value) if is_whole else value).lower()
