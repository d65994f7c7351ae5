"""Checks that stored attributes have the types of a model, without the model's further rules.

Copies come from catalogs with slightly different models: an attribute may be optional, have more
values or point to further types. Copies with these differences are complete, and are kept. A value
of a wrong type is a fault, because filters, dialects and rendering rely on types.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from catalog.model.attributes import MAX_DEPTH, active_definitions, fault_in_json
from catalog.model.dotpath import step
from catalog.model.scalars import SCALAR_CHECKS
from catalog.model.schema import EXTENDED_NAME, STRICT_NAME, Attribute, Definitions

_LONGEST_SHOWN = 200
_TOO_DEEP = f"it is nested deeper than {MAX_DEPTH} levels"


class TypeFault(NamedTuple):
    """A value of the wrong type: the path of the value, and the reason."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f'"{self.path[:_LONGEST_SHOWN]}": {self.reason}'

    def below(self, name: str) -> TypeFault:
        """The fault with a path that starts one level up, at the member `name`."""
        joint = "" if self.path.startswith("[") or not self.path else "."
        return TypeFault(f"{step('', name)}{joint}{self.path}", self.reason)


def find_type_fault(
    values: Mapping[str, Any], definitions: Mapping[str, Attribute], besides: Collection[str] = ()
) -> TypeFault | None:
    """Find the first value that a client could not have written because of its type.

    Attributes that the model does not define may have any JSON value.

    Args:
        values: an entity's own attributes, as they are stored.
        definitions: the definitions of the client-settable attributes of the entity's type.
        besides: the names of stored attributes that are checked elsewhere.
    """
    if not isinstance(definitions, Definitions):
        definitions = Definitions(definitions)
    return _in_members(values, definitions, 1, besides)


def _in_members(
    values: Mapping[str, Any],
    definitions: Definitions,
    depth: int,
    besides: Collection[str] = (),
) -> TypeFault | None:
    active = definitions
    if definitions.conditional:
        active, _ = active_definitions(values, definitions)
    wildcard = active.get("*")
    for name, value in values.items():
        definition = active.get(name, wildcard)
        if definition is None or name == "*":
            if fault := fault_in_json(value, depth):
                return TypeFault(step("", name), fault)
        # A shortcut, as most values are texts. Parsed JSON has no lone surrogates and no NUL.
        elif definition.type == "string" and type(value) is str:
            continue
        elif name not in besides and (found := _in_value(value, definition, depth)):
            return found.below(name)
    return None


def _in_value(value: Any, definition: Attribute, depth: int) -> TypeFault | None:
    scalar = SCALAR_CHECKS.get(definition.type)
    if scalar is None:
        return _CONTAINERS[definition.type](value, definition, depth)
    try:
        scalar(value)
    except (ValueError, OverflowError) as fault:
        return TypeFault("", str(fault))
    return None


def _in_object(value: Any, definition: Attribute, depth: int) -> TypeFault | None:
    if type(value) is not dict:
        return TypeFault("", "it must be an object")
    if depth >= MAX_DEPTH:
        return TypeFault("", _TOO_DEEP)
    for name in value:
        if not (STRICT_NAME.fullmatch(name) or EXTENDED_NAME.fullmatch(name)):
            return TypeFault("", f"a name in it must match {EXTENDED_NAME.pattern}")
    definitions = definition.attributes
    assert isinstance(definitions, Definitions), "an attribute has prepared its own"
    return _in_members(value, definitions, depth + 1)


def _in_map(value: Any, definition: Attribute, depth: int) -> TypeFault | None:
    if type(value) is not dict:
        return TypeFault("", "it must be a map")
    if depth >= MAX_DEPTH:
        return TypeFault("", _TOO_DEEP)
    for key, item in value.items():
        if not EXTENDED_NAME.fullmatch(key):
            return TypeFault("", f"a name in it must match {EXTENDED_NAME.pattern}")
        if found := _in_item(item, definition, depth):
            return found.below(key)
    return None


def _in_array(value: Any, definition: Attribute, depth: int) -> TypeFault | None:
    if type(value) is not list:
        return TypeFault("", "it must be an array")
    if depth >= MAX_DEPTH:
        return TypeFault("", _TOO_DEEP)
    for index, item in enumerate(value):
        if found := _in_item(item, definition, depth):
            joint = "" if found.path.startswith("[") or not found.path else "."
            return TypeFault(f"[{index}]{joint}{found.path}", found.reason)
    return None


def _in_item(item: Any, definition: Attribute, depth: int) -> TypeFault | None:
    assert definition.item is not None  # load_model refuses a map or array without an item
    return _in_value(item, definition.item, depth + 1)


def _in_any(value: Any, definition: Attribute, depth: int) -> TypeFault | None:
    fault = "it must not be null" if value is None else fault_in_json(value, depth)
    return TypeFault("", fault) if fault else None


_CONTAINERS: Mapping[str, Callable[[Any, Attribute, int], TypeFault | None]] = {
    "any": _in_any,
    "array": _in_array,
    "map": _in_map,
    "object": _in_object,
}
