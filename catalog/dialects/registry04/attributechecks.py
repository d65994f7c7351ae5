"""What edition 0.4 demands of what clients write, beyond what the model does."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from catalog.dialects.registry04.address import Types
from catalog.dialects.registry04.translate import SERVED, Json, Kind
from catalog.dialects.registry04.wellformed import (
    check_names,
    check_property_types,
    check_tags,
)
from catalog.model.errors import (
    CompatibilityViolation,
    InvalidAttribute,
    OneResource,
    RequiredAttributeMissing,
)
from catalog.model.ownerrors import IncompatibleVersion

_TYPES: Mapping[str, type] = {
    "usage": str,
    "format": str,
    "config": dict,
    "metadata": dict,
    "tags": dict,
    "definitionGroups": list,
    "schemaformat": str,
    "schemaurl": str,
    "uri": str,
    "origin": str,
}
_ONE_SCHEMA = ("schema", "schemaurl")
_TEXT_OF: Mapping[type, str] = {str: "a string", dict: "an object", list: "an array"}


def check_body(kind: Kind, subject: str, body: Mapping[str, Any]) -> None:
    """Refuse attributes that edition 0.4 does not allow.

    Raises:
        InvalidAttribute, OneResource, RequiredAttributeMissing
    """
    for name, wanted in _TYPES.items():
        if body.get(name) is not None and not isinstance(body[name], wanted):
            detail = f"it needs to be {_TEXT_OF[wanted]}"
            raise InvalidAttribute(subject, name=name, error_detail=detail)
    if body.get("format") == "":
        raise InvalidAttribute(subject, name="format", error_detail="it must not be empty")
    check_names(kind, subject, body)
    check_tags(subject, body.get("tags"))
    check_property_types(subject, body.get("metadata"))
    config = body.get("config")
    if kind == "endpoint" and config is not None:
        protocol = config.get("protocol")
        if not isinstance(protocol, str) or not protocol:
            raise RequiredAttributeMissing(subject, list="config.protocol")
    if kind == "definition":
        _check_definition(subject, body)


def _check_definition(subject: str, body: Mapping[str, Any]) -> None:
    given = [name for name in _ONE_SCHEMA if body.get(name) is not None]
    if len(given) > 1:
        raise OneResource(subject, list=",".join(given))
    if given and not body.get("schemaformat"):
        raise RequiredAttributeMissing(subject, list="schemaformat")


def group_attributes(types: Types, body: Mapping[str, Any]) -> Json:
    """A group's own attributes: those that edition 0.4 serves or ignores are left out."""
    plural = types.resource.plural
    ignored = SERVED | {plural, f"{plural}URL", f"{plural}Count"}
    return {name: value for name, value in body.items() if name not in ignored}


def resource_attributes(types: Types, body: Mapping[str, Any]) -> Json:
    """A resource's or version's own attributes, without its document."""
    ignored = SERVED | {"versions", "versionsURL", "versionsCount"}
    if types.has_document:
        ignored |= {*document_names(types)}
    return {name: value for name, value in body.items() if name not in ignored}


def without_implied_name(own: Json, id: str, before: Mapping[str, Any] | None) -> Json:
    """Attributes without a name that only repeats the id, as is shown where there is none.

    Args:
        before: what the entity has natively; `None` of a new one, which is named on purpose.
    """
    is_implied = before is not None and "name" not in before and own.get("name") == id
    return {name: value for name, value in own.items() if not (is_implied and name == "name")}


def without_rivals(types: Types, held: Json, said: Mapping[str, Any]) -> Json:
    """Attributes without those that have no meaning beside what is said.

    A schema is at one place, and metadata is that of a format.
    """
    gone: set[str] = set()
    if types.resource_kind == "definition":
        gone |= {*_ONE_SCHEMA} if any(said.get(name) for name in _ONE_SCHEMA) else set()
        gone |= (
            {"metadata"} if said.get("format", held.get("format")) != held.get("format") else set()
        )
    return {name: value for name, value in held.items() if name not in gone}


def document_names(types: Types) -> tuple[str, str, str, str]:
    """What a document, its base64 form and its URI are called; the last is another name of it."""
    singular = types.resource.singular
    return singular, f"{singular}Base64", f"{singular}URI", f"{singular}url"


@contextlib.contextmanager
def incompatibility_is_conflict() -> Iterator[None]:
    """A new version that breaks the rule of its resource is a conflict with the others.

    Raises:
        IncompatibleVersion
    """
    try:
        yield
    except CompatibilityViolation as violation:
        raise IncompatibleVersion(
            violation.subject,
            detail=violation.detail,
            compat=violation.arguments.get("compat", ""),
        ) from violation
