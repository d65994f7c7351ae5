"""Builds and verifies the model that a modelsource document defines.

Source: core/model.md, "Creating or Updating the Registry Model".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any

import orjson

from catalog.model.attributes import fault_in_json
from catalog.model.attributesource import (
    AttributeLevel,
    as_mapping,
    breaks,
    broken,
    check_aspects,
    quoted,
)
from catalog.model.constraints import check_constraints_defined
from catalog.model.modelreferences import check_references
from catalog.model.refinement import read_level
from catalog.model.schema import RESERVED_GROUP_NAMES, GroupType, Model, ResourceType
from catalog.model.standardattributes import (
    KEPT_TIMES,
    REGISTRY,
    REGISTRY_KEPT,
    collection,
    group_attributes,
    joined,
)
from catalog.model.typesource import ABOUT, check_names, read_about, read_resource_type

_OF_GROUPS = ("plural", "singular", "attributes", "resources", "ximportresources", "constraints")
_ABOUT_THE_MODEL = ("description", "documentation", "labels")


def load_model(source: Mapping[str, Any], resolved: Mapping[str, Any] | None = None) -> Model:
    """Build the model that a modelsource document defines.

    Attributes of the standard are added; a definition in the source may narrow an attribute of the
    standard (core/model.md, "Creating or Updating the Registry Model").

    Args:
        source: the document as given, kept as `Model.source`.
        resolved: the document with resolved includes (`catalog.model.includes`), or `None` without
            includes; the model is built from `resolved` if given.

    Raises:
        ModelError, ModelRequiredTrue, ModelScalarDefault: at the first broken rule.
    """
    given = as_mapping(source, "the model")
    document = given if resolved is None else as_mapping(resolved, "the model")
    if fault := fault_in_json(given) or fault_in_json(document):
        raise broken("the model", fault)
    check_aspects(document, "the model", {"$schema", "attributes", "groups"}, _ABOUT_THE_MODEL)
    if not isinstance(document.get("$schema", ""), str):
        raise broken("$schema", "must be a string")
    groups = _groups(document.get("groups"))
    model = Model(
        attributes=read_level(
            document.get("attributes"),
            REGISTRY,
            AttributeLevel("attributes"),
            collections=_collections(REGISTRY, groups, "groups"),
            kept=(*KEPT_TIMES, *REGISTRY_KEPT),
        ),
        groups=groups,
        source=dict(given),
        about=read_about(document, "the model", _ABOUT_THE_MODEL),
    )
    check_references(model)
    return model


@cache
def default_model() -> Model:
    """The model of a fresh catalog: endpoints, message definitions and schemas."""
    groups: dict[str, Any] = {}
    for domain in ("endpoints", "messages", "schemas"):
        document = files("catalog.domains").joinpath(f"{domain}.json").read_bytes()
        groups |= orjson.loads(document)["groups"]
    return load_model({"groups": groups})


def _collections(spec: Mapping[str, Any], plurals: Iterable[str], where: str) -> dict[str, Any]:
    """The attributes about the collection of each type: the URL, size and members."""
    with breaks(where):
        attributes = joined(spec, *(collection(plural) for plural in plurals))
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
        spec = group_attributes(definition["singular"])
    kind = GroupType(
        plural=plural,
        singular=definition["singular"],
        attributes=read_level(
            definition.get("attributes"),
            spec,
            AttributeLevel(f"{where}.attributes"),
            collections=_collections(spec, resources, where),
            kept={f"{definition['singular']}id", *KEPT_TIMES},
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
