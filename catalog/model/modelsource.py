"""Builds a model from the document that defines it, and verifies it.

Source: core/model.md, "Creating or Updating the Registry Model".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import orjson

from catalog.model.attributesource import (
    Place,
    as_mapping,
    broken,
    check_aspects,
    quoted,
    read_level,
)
from catalog.model.schema import (
    RESOURCE_SETTINGS,
    STRICT_NAME,
    GroupType,
    Model,
    ResourceType,
)
from catalog.model.standard import (
    REGISTRY,
    collection,
    group_attributes,
    meta_attributes,
    resource_attributes,
    version_attributes,
)

_GROUP_TEXTS = {"description", "documentation", "icon", "modelversion", "modelcompatiblewith"}
_VERSION_MODES = ("manual", "createdat", "modifiedat", "semver")
_CONSTRAINT_ASPECTS = {"default", "enum", "equals"}


def load_model(source: Mapping[str, Any]) -> Model:
    """Build the model that a modelsource document defines.

    Attributes of the standard are added; where the source defines one of them too, it may
    narrow it (core/model.md, "Creating or Updating the Registry Model"). `$include` is
    not resolved here.

    Raises:
        ModelError, ModelRequiredTrue, ModelScalarDefault: at the first rule that is broken.
    """
    source = as_mapping(source, "the model")
    check_aspects(
        source,
        "the model",
        {"$schema", "description", "documentation", "labels"},
        {"attributes", "groups"},
    )
    groups = {
        plural: as_mapping(group, f"groups.{plural}")
        for plural, group in as_mapping(source.get("groups"), "groups").items()
    }
    _distinct_names(groups, "groups", longest_singular=63)
    own = {
        f"/{plural}/{name}": _resource(name, definition, f"groups.{plural}.resources.{name}")
        for plural, group in groups.items()
        for name, definition in as_mapping(group.get("resources"), f"groups.{plural}").items()
    }
    collections = {name: kind for plural in groups for name, kind in collection(plural).items()}
    attributes = read_level(source.get("attributes"), REGISTRY, collections, Place("attributes"))
    return Model(
        attributes=attributes,
        groups={plural: _group(plural, groups, own) for plural in groups},
        source=dict(source),
        about=_about(source, {"description", "documentation"}, "the model"),
    )


@cache
def default_model() -> Model:
    """The model of a fresh catalog: endpoints, message definitions and schemas."""
    groups: dict[str, Any] = {}
    for domain in ("endpoints", "messages", "schemas"):
        document = files("catalog.domains").joinpath(f"{domain}.json").read_bytes()
        groups |= orjson.loads(document)["groups"]
    return load_model({"groups": groups})


def _group(
    plural: str, groups: Mapping[str, Mapping[str, Any]], own: Mapping[str, ResourceType]
) -> GroupType:
    definition, where = groups[plural], f"groups.{plural}"
    check_aspects(
        definition,
        where,
        {"plural", "singular", "labels", *_GROUP_TEXTS},
        {"attributes", "resources", "ximportresources", "constraints"},
    )
    resources = {
        name: own[f"/{plural}/{name}"] for name in as_mapping(definition.get("resources"), where)
    }
    for reference in _imports(definition, where):
        imported = _imported(reference, groups, own, (f"/{plural}",))
        if imported.plural in resources:
            raise broken(where, f'"{imported.plural}" is both defined and imported')
        resources[imported.plural] = imported
    _distinct_names(
        {name: {"singular": kind.singular} for name, kind in resources.items()},
        f"{where}.resources",
    )
    collections = {name: kind for name in resources for name, kind in collection(name).items()}
    return GroupType(
        plural=plural,
        singular=definition["singular"],
        attributes=read_level(
            definition.get("attributes"),
            group_attributes(definition["singular"]),
            collections,
            Place(f"{where}.attributes"),
        ),
        resources=resources,
        constraints=_constraints(definition.get("constraints"), resources, where),
        about=_about(definition, _GROUP_TEXTS, where),
    )


def _imports(definition: Mapping[str, Any], where: str) -> list[str]:
    references = definition.get("ximportresources") or []
    if not isinstance(references, list) or not all(isinstance(one, str) for one in references):
        raise broken(where, '"ximportresources" must be an array of resource types')
    return references


def _imported(
    reference: str,
    groups: Mapping[str, Mapping[str, Any]],
    own: Mapping[str, ResourceType],
    trail: tuple[str, ...],
) -> ResourceType:
    group, _, plural = reference.removeprefix("/").partition("/")
    if reference in trail or f"/{group}" == trail[0]:
        raise broken(trail[0], f'the import of "{reference}" leads back to itself')
    if reference in own:
        return own[reference]
    for further in _imports(groups.get(group, {}), f"groups.{group}"):
        if further.endswith(f"/{plural}"):
            return _imported(further, groups, own, (*trail, reference))
    raise broken(trail[0], f'"{reference}" is not a resource type of this model')


def _constraints(
    constraints: Any, resources: Collection[str], where: str
) -> Mapping[str, Mapping[str, Any]]:
    checked = as_mapping(constraints, f"{where}.constraints")
    for path, constraint in checked.items():
        if path.partition(".")[0] not in resources:
            raise broken(where, f'the constraint "{path}" is on no resource type of the group')
        check_aspects(as_mapping(constraint, f"{where}.constraints"), where, _CONSTRAINT_ASPECTS)
    return checked


def _resource(plural: str, definition: Any, where: str) -> ResourceType:
    definition = as_mapping(definition, where)
    levels = ("attributes", "resourceattributes", "metaattributes")
    check_aspects(
        definition,
        where,
        {"plural", "singular", "labels", "typemap", *_GROUP_TEXTS},
        {*RESOURCE_SETTINGS, *levels},
    )
    _distinct_names({plural: definition}, where.rpartition(".")[0])
    singular = definition["singular"]
    settings = _resource_settings(definition, where)
    version, resource, meta = (definition.get(level) for level in levels)
    resource_spec = resource_attributes(singular)
    version_spec = version_attributes(singular, settings["hasdocument"])
    if extra := {*as_mapping(resource, where)} - {*resource_spec}:
        raise broken(where, f'"resourceattributes" may not gain {quoted(extra)}')
    if clash := {*as_mapping(version, where)} & {*resource_spec} - {*version_spec}:
        raise broken(where, f"{quoted(clash)} is the name of a resource's attribute")
    return ResourceType(
        plural=plural,
        singular=singular,
        **settings,
        typemap=_typemap(definition.get("typemap"), where),
        attributes=read_level(
            version, version_spec, {}, Place(f"{where}.attributes", versioned=True)
        ),
        resourceattributes=read_level(
            resource, resource_spec, {}, Place(f"{where}.resourceattributes")
        ),
        metaattributes=read_level(
            meta, meta_attributes(singular), {}, Place(f"{where}.metaattributes")
        ),
        about=_about(definition, _GROUP_TEXTS, where),
    )


def _resource_settings(definition: Mapping[str, Any], where: str) -> dict[str, Any]:
    settings = dict(RESOURCE_SETTINGS)
    for aspect, default in RESOURCE_SETTINGS.items():
        value = definition.get(aspect)
        if value is None:
            continue
        if type(value) is not type(default):
            raise broken(where, f'"{aspect}" must be of the type of {default!r}')
        settings[aspect] = value
    settings["versionmode"] = settings["versionmode"].lower()
    if settings["maxversions"] < 0:
        raise broken(where, '"maxversions" must not be negative')
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


def _distinct_names(
    types: Mapping[str, Mapping[str, Any]], where: str, *, longest_singular: int = 57
) -> None:
    names: set[str] = set()
    for plural, definition in types.items():
        singular = definition.get("singular")
        if definition.get("plural", plural) != plural:
            raise broken(where, f'"plural" of "{plural}" must repeat it')
        for name, longest in ((plural, 57), (singular, longest_singular)):
            if not isinstance(name, str) or not STRICT_NAME.fullmatch(name) or len(name) > longest:
                raise broken(where, f'"{plural}" needs a valid plural and singular name')
            if name in names:
                raise broken(where, f'the name "{name}" is used twice')
            names.add(name)


def _about(definition: Mapping[str, Any], texts: Collection[str], where: str) -> dict[str, Any]:
    """What a type says of itself, in the order of core/model.md."""
    order = ("description", "documentation", "icon", "labels", "modelversion")
    about = {
        aspect: definition[aspect]
        for aspect in (*order, "modelcompatiblewith")
        if definition.get(aspect) is not None
    }
    labels = as_mapping(about.get("labels"), f"{where}.labels")
    values = [*labels.values(), *(about[text] for text in texts if text in about)]
    if not all(isinstance(value, str) for value in values):
        raise broken(where, "its description, links and labels must be strings")
    return about
