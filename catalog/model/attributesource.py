"""Reads the attribute definitions of a modelsource, which refine and extend those of the standard.

Source: core/model.md, "attributes" and the sections below, and "Creating or Updating the Registry
Model": a model may narrow the definitions of the standard, but not contradict the standard. The
first broken rule is raised as ModelError, ModelRequiredTrue or ModelScalarDefault.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, NamedTuple

from catalog.model.errors import ModelError, ModelRequiredTrue, ModelScalarDefault
from catalog.model.scalars import SCALAR_CHECKS
from catalog.model.schema import (
    EXTENDED_NAME,
    SCALARS,
    STRICT_NAME,
    TARGETED,
    TYPES,
    Attribute,
    value_text,
)

MAX_ENUM = 1000
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_ITEM_ASPECTS = {"type", "target", "namecharset", "attributes", "item"}
_TEXTS = {"type", "target", "namecharset", "description"}
_FLAGS = {"strict", "matchversions", "readonly", "immutable", "required"}
_REST = {"name", "enum", "default", "attributes", "item", "ifvalues"}
_TARGET = re.compile(r"/\w+(/\w+(\[/versions\]|/versions)?)?", re.ASCII)
# Aspects about values from clients have no use where only the server decides on the value.
_UNTOUCHED_IF_READONLY = ("default", "enum", "matchversions", "ifvalues")
_UNTOUCHED_IF_KEPT = ("required", "readonly", "matchversions", "ifvalues")


class AttributeLevel(NamedTuple):
    """A level of attributes in a model, with the rules for names and aspects.

    `fixed` holds the names of attributes that may be immutable: the attributes of the standard.
    """

    path: str
    charset: re.Pattern[str] = STRICT_NAME
    versioned: bool = False
    fixed: Collection[str] = ()

    def below(
        self, name: str, *, versioned: bool = False, extended: bool = False
    ) -> AttributeLevel:
        charset = EXTENDED_NAME if extended else STRICT_NAME
        return AttributeLevel(f"{self.path}.{name}", charset, self.versioned and versioned)


def read_attributes(
    source: Any, level: AttributeLevel, taken: Collection[str] = frozenset()
) -> dict[str, Attribute]:
    """Read the attributes of an entity or object; `taken` holds the names already in use."""
    definitions = as_mapping(source, level.path)
    if twice := definitions.keys() & taken:
        raise broken(level.path, f"{quoted(twice)} is the name of another attribute already")
    taken = {*taken, *definitions}
    return {name: _attribute(name, raw, level, taken) for name, raw in definitions.items()}


def _attribute(name: str, source: Any, level: AttributeLevel, taken: Collection[str]) -> Attribute:
    where = f"{level.path}.{name}"
    raw = as_mapping(source, where)
    check_aspects(raw, where, _TEXTS, _FLAGS, _REST)
    if name != "*" and not level.charset.fullmatch(name):
        raise broken(level.path, f'"{name}" is no valid attribute name')
    if raw.get("name", name) != name:
        raise broken(level.path, f'"name" of "{name}" must repeat it')
    flags = {aspect: raw[aspect] for aspect in _FLAGS if raw.get(aspect) is not None}
    if not all(isinstance(flag, bool) for flag in flags.values()):
        raise broken(where, f"{quoted(flags)} must be true or false")
    attribute = Attribute(
        name=name,
        **_shape(raw, name, level),
        **flags,
        enum=_enum(raw, where),
        default=_default(raw, name, where),
        ifvalues=_ifvalues(raw.get("ifvalues"), level._replace(versioned=False), taken),
    )
    _verify(attribute, level)
    return attribute


def _item(source: Any, level: AttributeLevel) -> Attribute:
    raw = as_mapping(source, level.path)
    check_aspects(raw, level.path, _ITEM_ASPECTS)
    return Attribute(name="", **_shape(raw, "", level))


def _shape(raw: Mapping[str, Any], name: str, level: AttributeLevel) -> dict[str, Any]:
    """The aspects that describe values, the only aspects of an item."""
    where = f"{level.path}.{name}".rstrip(".")
    texts = {aspect: "" if raw.get(aspect) is None else raw[aspect] for aspect in _TEXTS}
    if not all(isinstance(text, str) for text in texts.values()):
        raise broken(where, f"{quoted(_TEXTS & raw.keys())} must be strings")
    kind, charset = texts["type"], texts["namecharset"].lower() or "strict"
    item, attributes = raw.get("item"), raw.get("attributes")
    rules = {
        f'"{kind}" is no type': kind in TYPES,
        '"target" must name a type, of a url, uri or xid': not texts["target"]
        or (kind in TARGETED and _TARGET.fullmatch(texts["target"])),
        '"namecharset" is an object\'s, and strict or extended': not texts["namecharset"]
        or (kind == "object" and charset in ("strict", "extended")),
        '"attributes" are an object\'s': attributes is None or kind == "object",
        '"item" is what a map or an array needs, and nothing else': (kind in ("map", "array"))
        == (item is not None),
    }
    _require(rules, where)
    inner = level.below(name, versioned=name not in ("", "*"), extended=charset == "extended")
    return {
        **texts,
        "namecharset": charset,
        "attributes": read_attributes(attributes, inner),
        "item": None if item is None else _item(item, level.below(f"{name}.item")),
    }


def _enum(raw: Mapping[str, Any], where: str) -> tuple[Any, ...]:
    enum = raw.get("enum") or []
    if not isinstance(enum, list):
        raise broken(where, '"enum" must be an array')
    if len(enum) > MAX_ENUM:
        raise broken(where, f'"enum" has more than {MAX_ENUM} values')
    # endpoint/model.json restricts the items of an array with the array's own enum.
    kind = raw["item"]["type"] if raw["type"] == "array" else raw["type"]
    if enum and kind not in SCALARS:
        raise broken(where, '"enum" is for scalars')
    return tuple(_value(kind, value, f"{where}.enum") for value in enum)


def _default(raw: Mapping[str, Any], name: str, where: str) -> Any:
    if raw.get("default") is None:
        return None
    if raw["type"] not in SCALARS:
        raise ModelScalarDefault("/model", name=name)
    if not raw.get("required"):
        raise ModelRequiredTrue("/model", name=name)
    return _value(raw["type"], raw["default"], f"{where}.default")


def _value(kind: str, value: Any, where: str) -> Any:
    with breaks(where):
        return SCALAR_CHECKS[kind](value)


def _ifvalues(
    source: Any, level: AttributeLevel, taken: Collection[str]
) -> dict[str, dict[str, Attribute]]:
    conditions = as_mapping(source, level.path)
    if len({value.lower() for value in conditions}) < len(conditions):
        raise broken(level.path, '"ifvalues" has two keys that differ by case only')
    siblings = {}
    for value, condition in conditions.items():
        if not value or value.startswith("^"):
            raise broken(level.path, f'"{value}" is no key of "ifvalues"')
        added = as_mapping(condition, level.path)
        check_aspects(added, level.path, {"siblingattributes"})
        siblings[value] = read_attributes(added.get("siblingattributes"), level, taken)
    return siblings


def _verify(attribute: Attribute, level: AttributeLevel) -> None:
    scalar, wild = attribute.type in SCALARS, attribute.name == "*"
    closed = {value_text(value) for value in attribute.closed}
    rules = {
        '"ifvalues" are a named scalar\'s': not attribute.ifvalues or (scalar and not wild),
        '"ifvalues" has the same value twice': len(attribute.siblings) == len(attribute.ifvalues),
        '"ifvalues" must be among the values of "enum"': not closed
        or {*attribute.siblings} <= closed,
        '"default" must be among the values of "enum"': not closed
        or attribute.default is None
        or attribute.default in attribute.enum,
        '"matchversions" is for scalars of a version': not attribute.matchversions
        or (scalar and level.versioned and not wild),
        '"*" is neither readonly nor required': not wild
        or not (attribute.readonly or attribute.required),
        '"immutable" is for what the server controls': not attribute.immutable
        or attribute.name in level.fixed,
    }
    _require(rules, f"{level.path}.{attribute.name}")


def _require(rules: Mapping[str, Any], where: str) -> None:
    for rule, holds in rules.items():
        if not holds:
            raise broken(where, rule)


def as_mapping(value: Any, where: str) -> Mapping[str, Any]:
    """`value` as an object of the model; `None` becomes an empty object."""
    if value is None:
        return _NOTHING
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise broken(where, "must be an object")
    return value


def check_aspects(definition: Mapping[str, Any], where: str, *aspects: Collection[str]) -> None:
    """Reject a definition that has an aspect outside of `aspects`."""
    if unknown := {*definition}.difference(*aspects):
        raise broken(where, f"unknown: {quoted(unknown)}")


def quoted(names: Iterable[str]) -> str:
    """Names in the form that errors list."""
    return ", ".join(f'"{name}"' for name in sorted(names))


@contextmanager
def breaks(where: str) -> Iterator[None]:
    """Turn the error of a value into an error of the model at `where`."""
    try:
        yield
    except (ValueError, OverflowError) as fault:
        raise broken(where, str(fault)) from fault


def broken(where: str, rule: str) -> ModelError:
    """The error of a rule that the model breaks at `where`."""
    return ModelError("/model", error_detail=f"{where}: {rule}")


def read_level(
    defined: Any,
    spec: Mapping[str, Any],
    level: AttributeLevel,
    *,
    collections: Mapping[str, Any] | None = None,
    kept: Collection[str] = (),
    reserved: Collection[str] = (),
) -> dict[str, Attribute]:
    """Read the attributes of an entity: refined standard attributes, extensions, collections.

    Args:
        defined: the attributes of the source.
        spec: the standard's attributes, as a source would define them.
        collections: the attributes about the entity's collections.
        kept: the attributes of the standard that the server decides, although clients send values.
        reserved: names of the entity's attributes at other levels.
    """
    source = as_mapping(defined, level.path)
    standard = {**spec, **(collections or {})}
    refined = refine_members(standard, source, level.path)
    for name in source.keys() & kept:
        aspects = (*_UNTOUCHED_IF_KEPT, *(() if "default" in standard[name] else ("default",)))
        _check_untouched(standard[name], refined[name], aspects, level.path, name)
    extensions = {name: kind for name, kind in refined.items() if name not in standard}
    own = {name: refined[name] for name in spec}
    gathered = {name: refined[name] for name in collections or {}}
    level = level._replace(fixed=frozenset(standard))
    return read_attributes({**own, **extensions, **gathered}, level, reserved)


def refine_members(
    spec: Mapping[str, Any], source: Mapping[str, Any], where: str
) -> dict[str, Any]:
    """Merge the definitions of the standard and of `source`, which refines the standard's."""
    return {
        **spec,
        **source,
        **{name: _refined(spec[name], source[name], where, name) for name in spec.keys() & source},
    }


def _refined(spec: Mapping[str, Any], source: Any, where: str, name: str) -> dict[str, Any]:
    given = as_mapping(source, f"{where}.{name}")
    merged = {**spec, **{aspect: said for aspect, said in given.items() if said is not None}}
    for aspect in ("type", "namecharset"):
        if str(merged.get(aspect, "strict")).lower() != spec.get(aspect, "strict"):
            raise broken(where, f'"{name}" must keep its {aspect}')
    for flag in ("required", "readonly", "immutable"):
        if spec.get(flag) and not merged[flag]:
            raise broken(where, f'"{name}" must stay {flag}')
    if merged.get("immutable") and not (spec.get("immutable") or spec.get("readonly")):
        raise broken(where, f'"{name}" is not the server\'s, so it cannot be immutable')
    if "default" in spec and given.get("default", merged["default"]) is None:
        raise broken(where, f'"{name}" must keep a default value')
    if spec.get("readonly"):
        _check_untouched(spec, merged, _UNTOUCHED_IF_READONLY, where, name)
    _check_enum(spec, merged, where, name)
    if "attributes" in spec:
        inner = as_mapping(given.get("attributes"), f"{where}.{name}")
        merged["attributes"] = refine_members(spec["attributes"], inner, f"{where}.{name}")
    if "item" in spec:
        merged["item"] = _refined(spec["item"], given.get("item"), f"{where}.{name}", "item")
    return merged


def _check_untouched(
    spec: Mapping[str, Any],
    merged: Mapping[str, Any],
    aspects: Collection[str],
    where: str,
    name: str,
) -> None:
    changed = [one for one in aspects if (merged.get(one) or None) != (spec.get(one) or None)]
    if changed:
        raise broken(where, f'the server sees to "{name}": {quoted(changed)} must stay')


def _check_enum(spec: Mapping[str, Any], merged: Mapping[str, Any], where: str, name: str) -> None:
    """An enumeration of the standard may lose values, but gain none."""
    allowed, enum = spec.get("enum"), merged.get("enum")
    if not allowed:
        return
    is_narrower = isinstance(enum, list) and enum and all(value in allowed for value in enum)
    if not is_narrower or merged.get("strict") is False:
        raise broken(where, f'"{name}" must have some of the values {quoted(allowed)}')
