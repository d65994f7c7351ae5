"""Builds and verifies the model that a modelsource document defines.

Source: core/model.md, "Creating or Updating the Registry Model", "groups.<STRING>",
"groups.<STRING>.resources.<STRING>" and "attributes.<STRING>.target"; core/spec.md, "Data Types".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any

import orjson

from catalog.model import standardattributes as standard
from catalog.model.attributesource import (
    AttributeLevel,
    as_mapping,
    breaks,
    broken,
    check_aspects,
    quoted,
    read_level,
)
from catalog.model.constraints import check_constraints_defined
from catalog.model.scalars import MAX_INTEGER, SCALAR_CHECKS, check_reference, fault_in_json
from catalog.model.schema import (
    EXTENDED_NAME,
    RESERVED_GROUP_NAMES,
    RESERVED_RESOURCE_NAMES,
    RESOURCE_SETTINGS,
    STRICT_NAME,
    Attribute,
    GroupType,
    Model,
    ResourceType,
)

# The descriptive members of a type, in the order of core/model.md, with types.
ABOUT: Mapping[str, str] = {
    "description": "string",
    "documentation": "url",
    "icon": "url",
    "labels": "map",
    "modelversion": "string",
    "modelcompatiblewith": "uri",
}
_VERSION_MODES = ("manual", "createdat", "modifiedat", "semver")
_LEVELS = ("attributes", "resourceattributes", "metaattributes")
_SHARED = {"self", "shortself", "xid"}


def read_resource_type(plural: str, definition: Any, where: str) -> ResourceType:
    """Build the resource type that a source defines."""
    definition, names = as_mapping(definition, where), {"plural", "singular", "typemap"}
    check_aspects(definition, where, names, ABOUT, RESOURCE_SETTINGS, _LEVELS)
    check_names({plural: definition}, where, longest_singular=57, reserved=RESERVED_RESOURCE_NAMES)
    settings = _settings(definition, where)
    is_format = definition["singular"] == standard.YIELDING and settings["hasdocument"]
    if is_format and settings["validateformat"]:
        raise broken(
            where, f'"validateformat" needs the attribute "{standard.YIELDING}", a document here'
        )
    kind = ResourceType(
        plural=plural,
        singular=definition["singular"],
        **settings,
        typemap=_typemap(definition.get("typemap"), where),
        **_levels(definition, settings["hasdocument"], where),
        about=read_about(definition, where),
    )
    sticky = kind.metaattributes["defaultversionsticky"]
    if kind.maxversions == 1 and (sticky.default or sticky.closed == (True,)):
        raise broken(where, 'a single version is never sticky: "maxversions" is 1')
    return kind


def _levels(definition: Mapping[str, Any], hasdocument: bool, where: str) -> dict[str, Any]:
    singular = definition["singular"]
    with breaks(where):
        version_spec = standard.version_attributes(singular, hasdocument)
        resource_spec = standard.resource_attributes(singular)
        meta_spec = standard.meta_attributes(singular)
    documents = (singular, f"{singular}base64") if hasdocument else ()
    if clashes := {*documents, f"{singular}url"} & resource_spec.keys():
        raise broken(where, f"{quoted(clashes)} is the name of a resource's attribute")
    if extra := as_mapping(definition.get(_LEVELS[1]), where).keys() - resource_spec.keys():
        raise broken(where, f'"resourceattributes" may not gain {quoted(extra)}')
    version, resource, meta = (definition.get(level) for level in _LEVELS)
    id = f"{singular}id"
    at = AttributeLevel(where)
    return {
        "attributes": read_level(
            version,
            version_spec,
            AttributeLevel(f"{where}.attributes", versioned=True),
            kept={id, "versionid", *documents, *standard.KEPT_TIMES, *standard.VERSION_KEPT},
            reserved=resource_spec.keys() - {id, *_SHARED},
        ),
        "resourceattributes": read_level(
            resource,
            resource_spec,
            at.below("resourceattributes"),
            kept={id, *standard.RESOURCE_KEPT},
        ),
        "metaattributes": read_level(
            meta,
            meta_spec,
            at.below("metaattributes"),
            kept={id, *standard.KEPT_TIMES, *standard.META_KEPT},
        ),
    }


def _settings(definition: Mapping[str, Any], where: str) -> dict[str, Any]:
    settings = dict(RESOURCE_SETTINGS)
    for aspect, default in RESOURCE_SETTINGS.items():
        value = definition.get(aspect)
        if value is None:
            continue
        if type(value) is not type(default):
            raise broken(where, f'"{aspect}" must be of the type of {default!r}')
        settings[aspect] = value
    settings["versionmode"] = settings["versionmode"].lower()
    if definition.get("singleversionroot") is None:
        # core/resource.md omits `singleversionroot` if the versionmode allows a single value.
        settings["singleversionroot"] = settings["versionmode"] != "manual"
    if not 0 <= settings["maxversions"] <= MAX_INTEGER:
        raise broken(where, '"maxversions" must not be negative or beyond 2^53')
    if settings["versionmode"] not in _VERSION_MODES:
        raise broken(where, f'"versionmode" must be one of {quoted(_VERSION_MODES)}')
    if settings["versionmode"] != "manual" and not settings["singleversionroot"]:
        raise broken(where, f'"{settings["versionmode"]}" needs "singleversionroot"')
    if settings["validatecompatibility"] and not settings["validateformat"]:
        raise broken(where, '"validatecompatibility" needs "validateformat"')
    return settings


def _typemap(typemap: Any, where: str) -> Mapping[str, str]:
    checked = as_mapping(typemap, f"{where}.typemap")
    for pattern, value in checked.items():
        if not pattern or pattern.count("*") > 1:
            raise broken(where, f'"{pattern}" is no key of a typemap')
        if not isinstance(value, str) or value.lower() not in ("binary", "json", "string"):
            raise broken(where, f'the typemap of "{pattern}" must be binary, json or string')
    return checked


def check_names(
    types: Mapping[str, Mapping[str, Any]],
    where: str,
    *,
    longest_singular: int,
    reserved: Collection[str] = (),
) -> None:
    """Reject names of types that are invalid, reserved, or used twice among siblings.

    An empty plural counts as absent, since clients write absent values as empty.
    """
    names: set[str] = set()
    for plural, definition in types.items():
        singular = definition.get("singular")
        if definition.get("plural") not in (None, "", plural):
            raise broken(where, f'"plural" of "{plural}" must repeat it')
        for name, longest in ((plural, 57), (singular, longest_singular)):
            if not isinstance(name, str) or not STRICT_NAME.fullmatch(name) or len(name) > longest:
                raise broken(where, f'"{plural}" needs a valid plural and singular name')
            if name in names:
                raise broken(where, f'the name "{name}" is used twice')
            if name in reserved:
                raise broken(where, f'the name "{name}" is reserved')
            names.add(name)


def read_about(
    definition: Mapping[str, Any], where: str, aspects: Collection[str] = tuple(ABOUT)
) -> dict[str, Any]:
    """Read the descriptive members of a type or of the model."""
    about = {name: definition[name] for name in aspects if definition.get(name) is not None}
    for name, value in about.items():
        if name == "labels":
            for key, label in as_mapping(value, f"{where}.labels").items():
                if not EXTENDED_NAME.fullmatch(key) or not isinstance(label, str):
                    rule = f'"{key}" must be a valid key, and its value a string'
                    raise broken(f"{where}.labels", rule)
            continue
        with breaks(f"{where}.{name}"):
            SCALAR_CHECKS[ABOUT[name]](value)
        if not value and name != "description":
            raise broken(f"{where}.{name}", "it must not be empty")
    return about


_OF_GROUPS = ("plural", "singular", "attributes", "resources", "ximportresources", "constraints")
_ABOUT_THE_MODEL = ("description", "documentation", "labels")


def load_model(source: Mapping[str, Any]) -> Model:
    """Build the model that a modelsource document without includes defines.

    Attributes of the standard are added; a definition in the source may narrow an attribute of the
    standard (core/model.md, "Creating or Updating the Registry Model").

    Raises:
        ModelError, ModelRequiredTrue, ModelScalarDefault: at the first broken rule.
    """
    document = as_mapping(source, "the model")
    if fault := fault_in_json(document):
        raise broken("the model", fault)
    check_aspects(document, "the model", {"$schema", "attributes", "groups"}, _ABOUT_THE_MODEL)
    if not isinstance(document.get("$schema", ""), str):
        raise broken("$schema", "must be a string")
    groups = _groups(document.get("groups"))
    model = Model(
        attributes=read_level(
            document.get("attributes"),
            standard.REGISTRY,
            AttributeLevel("attributes"),
            collections=_collections(standard.REGISTRY, groups, "groups"),
            kept=(*standard.KEPT_TIMES, *standard.REGISTRY_KEPT),
        ),
        groups=groups,
        source=dict(document),
        about=read_about(document, "the model", _ABOUT_THE_MODEL),
    )
    check_references(model)
    return model


@cache
def default_model() -> Model:
    """The model of a fresh catalog: endpoints, message definitions and schemas."""
    # Merged into one source: endpoints import the messages of another domain.
    groups: dict[str, Any] = {}
    for domain in ("endpoints", "messages", "schemas"):
        document = files("catalog.domains").joinpath(f"{domain}.json").read_bytes()
        groups |= orjson.loads(document)["groups"]
    return load_model({"groups": groups})


def _collections(spec: Mapping[str, Any], plurals: Iterable[str], where: str) -> dict[str, Any]:
    """The attributes about the collection of each type: the URL, size and members."""
    with breaks(where):
        attributes = standard.joined(spec, *(standard.collection(plural) for plural in plurals))
    return {name: kind for name, kind in attributes.items() if name not in spec}


def _groups(defined: Any) -> dict[str, GroupType]:
    groups = {
        plural: as_mapping(group, f"groups.{plural}")
        for plural, group in as_mapping(defined, "groups").items()
    }
    check_names(groups, "groups", longest_singular=63)
    if reserved := groups.keys() & RESERVED_GROUP_NAMES:
        raise broken("groups", f"{quoted(reserved)} is a path of its own")
    known = {
        f"/{plural}/{name}": read_resource_type(name, kind, f"groups.{plural}.resources.{name}")
        for plural, group in groups.items()
        for name, kind in as_mapping(group.get("resources"), f"groups.{plural}").items()
    }
    return {plural: _group(plural, groups, known) for plural in groups}


def _group(
    plural: str, groups: Mapping[str, Mapping[str, Any]], known: dict[str, ResourceType]
) -> GroupType:
    definition, where = groups[plural], f"groups.{plural}"
    check_aspects(definition, where, _OF_GROUPS, ABOUT)
    resources = _resources(plural, groups, known)
    with breaks(where):
        spec = standard.group_attributes(definition["singular"])
    kind = GroupType(
        plural=plural,
        singular=definition["singular"],
        attributes=read_level(
            definition.get("attributes"),
            spec,
            AttributeLevel(f"{where}.attributes"),
            collections=_collections(spec, resources, where),
            kept={f"{definition['singular']}id", *standard.KEPT_TIMES},
        ),
        resources=resources,
        about=read_about(definition, where),
    )
    with breaks(f"{where}.constraints"):
        constraints = check_constraints_defined(kind, definition.get("constraints"))
    return replace(kind, constraints=constraints)


def _resources(
    plural: str, groups: Mapping[str, Mapping[str, Any]], known: dict[str, ResourceType]
) -> dict[str, ResourceType]:
    """The resource types that a group defines or imports."""
    definition, where = groups[plural], f"groups.{plural}"
    resources = {
        name: known[f"/{plural}/{name}"] for name in as_mapping(definition.get("resources"), where)
    }
    for reference in _imports(definition, where):
        if reference.startswith(f"/{plural}/"):
            raise broken(where, f'"{reference}" is of the group that imports it')
        imported = _imported(reference, groups, known, where)
        if imported.plural in resources:
            raise broken(where, f'"{imported.plural}" is both defined and imported')
        resources[imported.plural] = imported
    names = {name: {"singular": kind.singular} for name, kind in resources.items()}
    check_names(names, f"{where}.resources", longest_singular=57)
    return resources


def _imports(definition: Mapping[str, Any], where: str) -> list[str]:
    references = definition.get("ximportresources") or []
    if not isinstance(references, list) or not all(
        isinstance(one, str) and one.startswith("/") for one in references
    ):
        raise broken(where, '"ximportresources" must be an array of resource types')
    return references


def _imported(
    reference: str,
    groups: Mapping[str, Mapping[str, Any]],
    known: dict[str, ResourceType],
    importer: str,
) -> ResourceType:
    """The type that a group imports, perhaps through further groups; added to `known`."""
    visited: list[str] = []
    at = reference
    while at not in known:
        group, _, plural = at.removeprefix("/").partition("/")
        others = _imports(groups.get(group, {}), f"groups.{group}")
        further = [one for one in others if plural and one.endswith(f"/{plural}")]
        if not further:
            raise broken(importer, f'"{reference}" is not a resource type of this model')
        if at in visited:
            raise broken(importer, f'the import of "{reference}" leads back to itself')
        visited.append(at)
        at = further[0]
    # Remembered for each step, so that shared parts of chains are followed only once.
    known.update(dict.fromkeys(visited, known[at]))
    return known[at]


def check_references(model: Model) -> None:
    """Raise a ModelError about the first reference of a model to a missing type."""
    for where, attributes in _levels_of(model):
        for path, attribute in _all(attributes, where):
            _check(attribute, path, model)


def points_to_types(attributes: Mapping[str, Attribute]) -> bool:
    """Whether values of attributes, at any depth, refer to types of the model."""
    return any(
        attribute.type in ("xid", "xidtype") or attribute.target
        for _, attribute in _all(attributes, "")
    )


def _check(attribute: Attribute, path: str, model: Model) -> None:
    _, groups, resources, *_ = f"{attribute.target}//".split("/")
    resources = resources.removesuffix("[")
    is_known = model.resource_type(groups, resources) if resources else model.group_type(groups)
    if attribute.target and not is_known:
        raise broken(path, f'"{attribute.target}" is no type of this model')
    values = [*attribute.enum, *([attribute.default] if attribute.default is not None else [])]
    kind = attribute.item if attribute.type == "array" and attribute.item else attribute
    for value in values:
        with breaks(path):
            check_reference(value, kind, model)


def _levels_of(model: Model) -> Iterator[tuple[str, Mapping[str, Attribute]]]:
    yield "attributes", model.attributes
    for plural, group in model.groups.items():
        yield f"groups.{plural}.attributes", group.attributes
        for name, kind in group.resources.items():
            where = f"groups.{plural}.resources.{name}"
            yield f"{where}.attributes", kind.attributes
            yield f"{where}.metaattributes", kind.metaattributes


def _all(attributes: Mapping[str, Attribute], where: str) -> Iterator[tuple[str, Attribute]]:
    """Every attribute of a level and of nested objects, with the path."""
    for name, attribute in attributes.items():
        path = f"{where}.{name}"
        yield path, attribute
        yield from _all(attribute.attributes, path)
        if attribute.item:
            yield from _all({"item": attribute.item}, path)
        for value, siblings in attribute.ifvalues.items():
            yield from _all(siblings, f"{path}.ifvalues.{value}")
