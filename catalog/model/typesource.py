"""Reads the definition of a type in a modelsource document: names, settings and attributes.

Source: core/model.md, "groups.<STRING>" and "groups.<STRING>.resources.<STRING>".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from catalog.model.attributesource import (
    AttributeLevel,
    as_mapping,
    breaks,
    broken,
    check_aspects,
    quoted,
)
from catalog.model.refinement import read_level
from catalog.model.scalars import MAX_INTEGER, SCALAR_CHECKS
from catalog.model.schema import (
    EXTENDED_NAME,
    RESERVED_RESOURCE_NAMES,
    RESOURCE_SETTINGS,
    STRICT_NAME,
    ResourceType,
)
from catalog.model.standardattributes import (
    KEPT_TIMES,
    META_KEPT,
    RESOURCE_KEPT,
    VERSION_KEPT,
    YIELDING,
    meta_attributes,
    resource_attributes,
    version_attributes,
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
    """Build the resource type that a source defines.

    Raises:
        ModelError, ModelRequiredTrue, ModelScalarDefault: at the first broken rule.
    """
    definition, names = as_mapping(definition, where), {"plural", "singular", "typemap"}
    check_aspects(definition, where, names, ABOUT, RESOURCE_SETTINGS, _LEVELS)
    check_names({plural: definition}, where, longest_singular=57, reserved=RESERVED_RESOURCE_NAMES)
    settings = _settings(definition, where)
    is_format = definition["singular"] == YIELDING and settings["hasdocument"]
    if is_format and settings["validateformat"]:
        raise broken(where, f'"validateformat" needs the attribute "{YIELDING}", a document here')
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
        version_spec = version_attributes(singular, hasdocument)
        resource_spec = resource_attributes(singular)
        meta_spec = meta_attributes(singular)
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
            kept={id, "versionid", *documents, *KEPT_TIMES, *VERSION_KEPT},
            reserved=resource_spec.keys() - {id, *_SHARED},
        ),
        "resourceattributes": read_level(
            resource, resource_spec, at.below("resourceattributes"), kept={id, *RESOURCE_KEPT}
        ),
        "metaattributes": read_level(
            meta, meta_spec, at.below("metaattributes"), kept={id, *KEPT_TIMES, *META_KEPT}
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

    An empty plural counts as absent: the key has the name, and clients write absent values as
    empty.
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
            _check_labels(value, where)
            continue
        with breaks(f"{where}.{name}"):
            SCALAR_CHECKS[ABOUT[name]](value)
        if not value and name != "description":
            raise broken(f"{where}.{name}", "it must not be empty")
    return about


def _check_labels(labels: Any, where: str) -> None:
    for key, value in as_mapping(labels, f"{where}.labels").items():
        if not EXTENDED_NAME.fullmatch(key) or not isinstance(value, str):
            raise broken(f"{where}.labels", f'"{key}" must be a valid key, and its value a string')
