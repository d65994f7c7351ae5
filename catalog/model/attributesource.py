"""Reads the attribute definitions of a modelsource document and verifies them.

Source: core/model.md, "Registry Model Attributes".
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from catalog.model.errors import ModelError, ModelRequiredTrue, ModelScalarDefault
from catalog.model.schema import (
    EXTENDED_NAME,
    NUMBERS,
    SCALARS,
    STRICT_NAME,
    TARGETED,
    TYPES,
    Attribute,
    value_text,
)

_NOTHING: Mapping[str, Any] = MappingProxyType({})
_ATTRIBUTE_TEXTS = {"type", "target", "namecharset", "description"}
_ATTRIBUTE_FLAGS = {"strict", "matchversions", "readonly", "immutable", "required"}
_ATTRIBUTE_REST = {"name", "enum", "default", "attributes", "item", "ifvalues"}
_TARGET = re.compile(r"/\w+(/\w+(\[/versions\]|/versions)?)?", re.ASCII)


class Place(NamedTuple):
    """Where in a model an attribute stands: what its name may be and what it may say."""

    path: str
    charset: re.Pattern[str] = STRICT_NAME
    versioned: bool = False

    def below(self, name: str, *, versioned: bool = False, extended: bool = False) -> Place:
        charset = EXTENDED_NAME if extended else STRICT_NAME
        return Place(f"{self.path}.{name}", charset, self.versioned and versioned)


def read_level(
    defined: Any, spec: Mapping[str, Any], collections: Mapping[str, Any], place: Place
) -> dict[str, Attribute]:
    """All attributes of one entity: the standard's, refined, the source's, the collections'."""
    source = as_mapping(defined, place.path)
    standard = {**spec, **collections}
    extensions = {name: kind for name, kind in source.items() if name not in standard}
    for name, kind in extensions.items():
        if isinstance(kind, Mapping) and kind.get("immutable"):
            raise broken(place.path, f'"{name}" may not be immutable: it is an extension')
    merged = {**spec, **extensions, **collections}
    for name in source.keys() & standard.keys():
        merged[name] = _refined(name, standard[name], source[name], place)
    return _attributes(merged, place)


def _refined(name: str, spec: Mapping[str, Any], source: Any, place: Place) -> dict[str, Any]:
    source = as_mapping(source, f"{place.path}.{name}")
    merged = {**spec, **source}
    if merged["type"] != spec["type"]:
        raise broken(place.path, f'"{name}" must stay of type {spec["type"]}')
    for flag in ("required", "readonly"):
        if spec.get(flag) and not merged[flag]:
            raise broken(place.path, f'"{name}" must stay {flag}')
    if "default" in spec and merged["default"] is None:
        raise broken(place.path, f'"{name}" must keep a default value')
    if "attributes" in spec:
        merged["attributes"] = {
            **spec["attributes"],
            **as_mapping(source.get("attributes"), f"{place.path}.{name}"),
        }
    return merged


def _attributes(
    source: Any, place: Place, taken: frozenset[str] = frozenset()
) -> dict[str, Attribute]:
    definitions = as_mapping(source, place.path)
    if twice := taken & definitions.keys():
        raise broken(place.path, f"{quoted(twice)} is already defined beside its condition")
    taken |= definitions.keys()
    return {name: _attribute(name, raw, place, taken) for name, raw in definitions.items()}


def _attribute(name: str, source: Any, place: Place, taken: frozenset[str]) -> Attribute:
    raw = as_mapping(source, f"{place.path}.{name}")
    check_aspects(raw, f"{place.path}.{name}", _ATTRIBUTE_TEXTS, _ATTRIBUTE_FLAGS, _ATTRIBUTE_REST)
    if name and name != "*" and not place.charset.fullmatch(name):
        raise broken(place.path, f'"{name}" is no valid attribute name')
    if raw.get("name", name) != name:
        raise broken(place.path, f'"name" of "{name}" must repeat it')
    texts: dict[str, Any] = {aspect: raw.get(aspect) or "" for aspect in _ATTRIBUTE_TEXTS}
    texts["namecharset"] = str(texts["namecharset"]).lower() or "strict"
    flags = {aspect: raw[aspect] for aspect in _ATTRIBUTE_FLAGS if raw.get(aspect) is not None}
    is_typed = all(isinstance(text, str) for text in texts.values()) and all(
        isinstance(flag, bool) for flag in flags.values()
    )
    if not is_typed or not isinstance(raw.get("enum") or [], list):
        raise broken(f"{place.path}.{name}", "an aspect is not of its type")
    inner = place.below(name, versioned=True, extended=texts["namecharset"] == "extended")
    item = raw.get("item")
    attribute = Attribute(
        name=name,
        **texts,
        **flags,
        enum=tuple(raw.get("enum") or ()),
        default=raw.get("default"),
        attributes=_attributes(raw.get("attributes"), inner),
        item=None if item is None else _attribute("", item, place.below(name), frozenset()),
        ifvalues=_ifvalues(raw.get("ifvalues"), place._replace(versioned=False), taken),
    )
    _verify(attribute, place, has_attributes=bool(raw.get("attributes")))
    return attribute


def _ifvalues(source: Any, place: Place, taken: frozenset[str]) -> dict[str, dict[str, Attribute]]:
    conditions = as_mapping(source, place.path)
    if len({value.lower() for value in conditions}) < len(conditions):
        raise broken(place.path, '"ifvalues" has two keys that differ by case only')
    siblings = {}
    for value, condition in conditions.items():
        if not value or value.startswith("^"):
            raise broken(place.path, f'"{value}" is no key of "ifvalues"')
        check_aspects(as_mapping(condition, place.path), place.path, {"siblingattributes"})
        siblings[value] = _attributes(condition.get("siblingattributes"), place, taken)
    return siblings


def _verify(attribute: Attribute, place: Place, *, has_attributes: bool) -> None:
    kind, scalar = attribute.type, attribute.type in SCALARS
    wild, nested = attribute.name == "*", kind in ("map", "array")
    charsets = ("strict", "extended") if kind == "object" else ("strict",)
    # endpoint/model.json restricts the items of an array with the array's own enum.
    of = attribute.item.type if kind == "array" and attribute.item else kind
    closed = attribute.strict and attribute.enum
    rules = {
        f'"{kind}" is no type': kind in TYPES,
        '"target" must name a type, of a url, uri or xid': not attribute.target
        or (kind in TARGETED and _TARGET.fullmatch(attribute.target)),
        '"namecharset" must be strict, or extended for an object': attribute.namecharset
        in charsets,
        '"attributes" are an object\'s': kind == "object" or not has_attributes,
        '"item" is what a map or an array needs, and nothing else': nested
        == (attribute.item is not None),
        '"enum" must hold scalars of the attribute\'s type': not attribute.enum
        or (of in SCALARS and all(_is_of(of, value) for value in attribute.enum)),
        '"ifvalues" are a named scalar\'s': not attribute.ifvalues or (scalar and not wild),
        '"ifvalues" must be among the values of "enum"': not closed
        or {*attribute.siblings} <= {value_text(value) for value in attribute.enum},
        '"matchversions" is for scalars of a version': not attribute.matchversions
        or (scalar and place.versioned and not wild),
        '"*" is neither readonly nor required': not wild
        or not (attribute.readonly or attribute.required),
    }
    for rule, holds in rules.items():
        if not holds:
            raise broken(f"{place.path}.{attribute.name}".rstrip("."), rule)
    if attribute.default is not None:
        _verify_default(attribute, place)


def _verify_default(attribute: Attribute, place: Place) -> None:
    if attribute.type not in SCALARS:
        raise ModelScalarDefault("/model", name=attribute.name)
    if not attribute.required:
        raise ModelRequiredTrue("/model", name=attribute.name)
    allowed = not (attribute.strict and attribute.enum) or attribute.default in attribute.enum
    if not allowed or not _is_of(attribute.type, attribute.default):
        raise broken(f"{place.path}.{attribute.name}", '"default" is no value of the attribute')


def _is_of(kind: str, value: Any) -> bool:
    if kind == "boolean":
        return isinstance(value, bool)
    if kind == "decimal":
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind in NUMBERS:
        return type(value) is int and (kind == "integer" or value >= 0)
    return isinstance(value, str)


def as_mapping(value: Any, where: str) -> Mapping[str, Any]:
    """`value` as an object of the model; `None` is an empty one."""
    if value is None:
        return _NOTHING
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise broken(where, "must be an object")
    return value


def check_aspects(definition: Mapping[str, Any], where: str, *aspects: Collection[str]) -> None:
    """Refuse a definition that has anything but these aspects."""
    if unknown := {*definition}.difference(*aspects):
        raise broken(where, f"unknown: {quoted(unknown)}")


def quoted(names: Iterable[str]) -> str:
    """Names as errors list them."""
    return ", ".join(f'"{name}"' for name in sorted(names))


def broken(where: str, rule: str) -> ModelError:
    """The error of a rule that the model breaks at `where`."""
    return ModelError("/model", error_detail=f"{where}: {rule}")
