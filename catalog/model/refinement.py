"""Refines the attributes of the standard by the definitions of a modelsource.

Source: core/model.md, "Creating or Updating the Registry Model": a model may narrow the definitions
of the standard, but not contradict the standard.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from catalog.model.attributesource import (
    AttributeLevel,
    as_mapping,
    broken,
    quoted,
    read_attributes,
)
from catalog.model.schema import Attribute

# Aspects about values from clients have no use where only the server decides on the value.
_UNTOUCHED_IF_READONLY = ("default", "enum", "matchversions", "ifvalues")
_UNTOUCHED_IF_KEPT = ("required", "readonly", "matchversions", "ifvalues")


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
        level: the level in the model, for errors.
        collections: the attributes about the entity's collections.
        kept: the attributes of the standard that the server decides, although clients send values.
        reserved: names of the entity's attributes at other levels.

    Raises:
        ModelError, ModelRequiredTrue, ModelScalarDefault: at the first broken rule.
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
