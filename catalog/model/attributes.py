"""Validation and normalisation of an entity's attributes against the registry model.

Source: core/spec.md, "Attributes and Extensions", and core/model.md. Values that RFC 7493 (I-JSON)
forbids are refused as well: a digest needs numbers and texts that every reader understands alike.

Attributes from clients are held to all rules of the model, attributes of copies to the types alone.
Copies come from catalogs with slightly different models: an attribute may be optional, have more
values or point to further types. Copies with these differences are complete, and are kept. A value
of a wrong type is a fault, because filters, dialects and rendering rely on types.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from catalog.model import errors
from catalog.model.dotpath import step
from catalog.model.scalars import (
    MAX_DEPTH,
    SCALAR_CHECKS,
    TOO_DEEP,
    check_reference,
    fault_in_json,
)
from catalog.model.schema import (
    CASELESS,
    EXTENDED_NAME,
    SCALARS,
    STRICT_NAME,
    TARGETED,
    Attribute,
    Definitions,
    Model,
    value_text,
)
from catalog.model.timestamps import parse_time

MAX_SCALAR_BYTES = 4096
MAX_ENTITY_BYTES = 256 * 1024
# Replicas show these attributes and clients never set them, so they are no extensions.
PROVENANCE = frozenset({"authority", "origin"})

_LONGEST_NAME = 63
_LONGEST_PLAIN = (MAX_SCALAR_BYTES - _LONGEST_NAME) // 4
_LONGEST_SHOWN = 256
_MOST_LISTED = 50
_NON_EMPTY = ("name", "documentation", "icon", "format", "compatibility")
_REFERENCES = TARGETED | {"xidtype"}
_INVALID: Any = object()
# Stands for a condition that is not met; never a key of `siblings`.
_NO_CONDITION = "\0"
_LONGEST_PATH = 200
_NAME = re.compile(rf"{STRICT_NAME.pattern}|{EXTENDED_NAME.pattern}")
_ANYTHING = Attribute(name="*", type="any")


def check_attributes(
    values: Mapping[str, Any], definitions: Mapping[str, Attribute], *, subject: str, model: Model
) -> tuple[dict[str, Any], list[errors.XRegistryError]]:
    """Validate one entity's own attributes and bring them into their stored form.

    Absent attributes get default values, and null counts as absent. Read-only attributes and
    provenance are ignored, timestamps are turned to UTC and whole numbers lose their fraction.

    Args:
        values: the attributes from a client, without ids, documents, collections and the like.
        definitions: the definitions of the client-settable attributes of the entity's type.
        subject: xid of the entity, for the errors.

    Returns:
        the stored form, and every violation found. With a violation the stored form is
        incomplete. Values of type `any` are shared with `values`, not copied.
    """
    check = _Check(subject, model)
    if not isinstance(definitions, Definitions):
        definitions = Definitions(definitions)
    stored = check.members(values, definitions, STRICT_NAME, "", 1)
    check.standard_rules(stored, definitions)
    if check.missing:
        check.errors.append(errors.RequiredAttributeMissing(subject, list=",".join(check.missing)))
    return stored, check.errors


class _Check:
    """The check of an entity, and the errors found.

    Without a model, the check is of a copy: only the types of values are checked.
    """

    __slots__ = ("errors", "missing", "model", "subject")

    def __init__(self, subject: str, model: Model | None) -> None:
        self.subject = subject
        self.model = model
        self.errors = errors.FirstViolations()
        self.missing: list[str] = []

    def reject(self, path: str, detail: str) -> Any:
        self.errors.append(errors.InvalidAttribute(self.subject, name=path, error_detail=detail))
        return _INVALID

    def reject_xid(self, path: str, value: str, detail: str) -> Any:
        """Reject an xid with the error that core/spec.md, "xid Attribute" names."""
        shown = _shown(value)[:_LONGEST_SHOWN]
        detail = f'of "{path}": {detail}'
        self.errors.append(
            errors.MalformedXid(self.subject, xid=shown, name=path, error_detail=detail)
        )
        return _INVALID

    def members(
        self,
        values: Mapping[str, Any],
        definitions: Definitions,
        charset: re.Pattern[str],
        path: str,
        depth: int,
    ) -> dict[str, Any]:
        """The stored form of the attributes of an entity, or of an object inside an entity."""
        active = definitions
        if definitions.conditional:
            active, clashes = active_definitions(values, definitions)
            for name in clashes:
                self.reject(step(path, name), "more than one condition defines it")
        stored = {}
        for name, value in values.items():
            if value is None and self.model is not None:
                continue
            # `*` is the wildcard among definitions, and no valid name of an attribute.
            definition = active.get(name) if name != "*" else None
            if definition is None:
                if name in PROVENANCE and not path and self.subject != "/":
                    continue
                definition = self.extension(name, active, charset, path)
                if definition is None:
                    continue
            if definition.readonly and self.model is not None:
                continue
            if definition.is_free and _is_plain(value):
                stored[name] = value
                continue
            checked = self.value(value, definition, step(path, name), depth)
            if checked is not _INVALID and self.is_short(name, checked, definition, path):
                stored[name] = checked
        for name, definition in active.required if self.model is not None else ():
            if definition.readonly or values.get(name) is None:
                if definition.default is not None:
                    stored[name] = definition.default
                elif not definition.readonly:
                    self.missing.append(step(path, name))
        return stored

    def extension(
        self, name: Any, definitions: Definitions, charset: re.Pattern[str], path: str
    ) -> Attribute | None:
        """The definition `*` for an undefined attribute; `None` if the attribute is refused."""
        wildcard = definitions.get("*")
        if self.model is None and (not path or _NAME.fullmatch(name)):
            return wildcard or _ANYTHING
        if self.model is None:
            self.reject(step(path, name), f"its name must match {_NAME.pattern}")
        elif wildcard is None:
            self.errors.append(errors.UnknownAttribute(self.subject, name=step(path, _shown(name))))
        elif not isinstance(name, str) or not charset.fullmatch(name):
            self.reject(step(path, _shown(name)), f"its name must match {charset.pattern}")
        else:
            return wildcard
        return None

    def is_short(self, name: str, value: Any, definition: Attribute, path: str) -> bool:
        """Whether a scalar, with its name, fits into an HTTP header."""
        # UTF-8 has at most 4 bytes for a character, so that few values have to be encoded.
        if type(value) is not str or len(value) * 4 + _LONGEST_NAME <= MAX_SCALAR_BYTES:
            return True
        if definition.type not in SCALARS or self.model is None:
            return True
        if len(name) + len(value.encode()) <= MAX_SCALAR_BYTES:
            return True
        self.reject(step(path, name), f"it is longer than {MAX_SCALAR_BYTES} bytes")
        return False

    def value(self, value: Any, definition: Attribute, path: str, depth: int) -> Any:
        scalar = SCALAR_CHECKS.get(definition.type)
        if scalar is None:
            return _CONTAINERS[definition.type](self, value, definition, path, depth)
        try:
            checked = scalar(value)
            if definition.type in _REFERENCES and self.model is not None:
                check_reference(checked, definition, self.model)
        except (ValueError, OverflowError) as fault:
            if definition.type == "xid" and isinstance(value, str) and self.model is not None:
                return self.reject_xid(path, value, str(fault))
            return self.reject(path, str(fault))
        if self.model is None:
            return checked
        if definition.closed and checked not in definition.enum:
            for listed in definition.enum if path in CASELESS else ():
                if value_text(listed) == value_text(checked):
                    return listed
            return self.reject(path, f"it must be one of {_listed(definition)}")
        return checked

    def object(self, value: Any, definition: Attribute, path: str, depth: int) -> Any:
        if type(value) is not dict and not isinstance(value, Mapping):
            return self.reject(path, "it must be an object")
        if depth >= MAX_DEPTH:
            return self.reject(path, TOO_DEEP)
        charset = EXTENDED_NAME if definition.namecharset == "extended" else STRICT_NAME
        definitions = definition.attributes
        assert isinstance(definitions, Definitions), "an attribute has prepared its own"
        return self.members(value, definitions, charset, path, depth + 1)

    def map(self, value: Any, definition: Attribute, path: str, depth: int) -> Any:
        if not isinstance(value, Mapping):
            return self.reject(path, "it must be a map")
        if depth >= MAX_DEPTH:
            return self.reject(path, TOO_DEEP)
        stored = {}
        for key, item in value.items():
            if not isinstance(key, str) or not EXTENDED_NAME.fullmatch(key):
                detail = f"its name must match {EXTENDED_NAME.pattern}"
                self.reject(step(path, _shown(key)), detail)
            elif item is not None:
                checked = self.value(item, _item(definition), step(path, key), depth + 1)
                if checked is not _INVALID:
                    stored[key] = checked
        return stored

    def array(self, value: Any, definition: Attribute, path: str, depth: int) -> Any:
        if not isinstance(value, list | tuple):
            return self.reject(path, "it must be an array")
        if depth >= MAX_DEPTH:
            return self.reject(path, TOO_DEEP)
        stored = []
        closed = definition.closed if self.model is not None else ()
        for index, item in enumerate(value):
            checked = self.value(item, _item(definition), f"{path}[{index}]", depth + 1)
            if checked is _INVALID:
                continue
            if closed and checked not in closed:
                self.reject(f"{path}[{index}]", f"it must be one of {_listed(definition)}")
            stored.append(checked)
        return stored

    def any(self, value: Any, definition: Attribute, path: str, depth: int) -> Any:
        fault = "it must not be null" if value is None else fault_in_json(value, depth)
        return self.reject(path, fault) if fault else value

    def standard_rules(
        self, stored: Mapping[str, Any], definitions: Mapping[str, Attribute]
    ) -> None:
        """Check the rules of core/spec.md, "Common Attributes" beyond types."""
        for name in _NON_EMPTY:
            if stored.get(name) == "" and name in definitions:
                self.reject(name, "it must not be empty")
        deprecated = stored.get("deprecated")
        if not isinstance(deprecated, dict) or "deprecated" not in definitions:
            return
        effective, removal = deprecated.get("effective"), deprecated.get("removal")
        if effective and removal and parse_time(removal) < parse_time(effective):
            self.reject("deprecated.removal", "it must not be before the effective time")


def _shown(name: Any) -> str:
    """A refused name in a form that an error can show."""
    return str(name).encode(errors="backslashreplace").decode()


def _is_plain(value: Any) -> bool:
    """Whether a value is a printable text, without faults, that fits into an HTTP header."""
    return type(value) is str and len(value) <= _LONGEST_PLAIN and value.isprintable()


def _condition_met(definition: Attribute, values: Mapping[str, Any]) -> str:
    """The key in `siblings` of an attribute's value, or `_NO_CONDITION`.

    `ifvalues` compares the stored form of a value, or an invalid value unchanged.
    """
    value = values.get(definition.name)
    if value is None or definition.readonly:
        value = definition.default
    if value is None:
        return _NO_CONDITION
    try:
        text = value_text(SCALAR_CHECKS[definition.type](value))
    except (ValueError, OverflowError):
        text = value_text(value)
    return text if text in definition.siblings else _NO_CONDITION


def active_definitions(
    values: Mapping[str, Any], definitions: Definitions
) -> tuple[Definitions, list[str]]:
    """The definitions with those that conditional attributes add, and the names defined twice."""
    active, conditional, clashing = definitions, definitions.conditional, list[str]()
    while conditional:
        # Added definitions can be conditional in turn.
        keys = tuple(_condition_met(each, values) for each in conditional)
        extended, clashes = active.extended(conditional, keys)
        clashing += clashes
        conditional = tuple(each for each in extended.conditional if each.name not in active)
        active = extended
    return active, clashing


def _listed(definition: Attribute) -> str:
    shown = definition.enum[:_MOST_LISTED]
    listed = ", ".join(value_text(v) if isinstance(v, bool) else str(v) for v in shown)
    return listed if len(shown) == len(definition.enum) else f"{listed}, …"


def _item(definition: Attribute) -> Attribute:
    assert definition.item is not None  # load_model refuses a map or array without an item
    return definition.item


_CONTAINERS: dict[str, Callable[[_Check, Any, Attribute, str, int], Any]] = {
    "any": _Check.any,
    "array": _Check.array,
    "map": _Check.map,
    "object": _Check.object,
}


def find_type_fault(
    values: Mapping[str, Any], definitions: Mapping[str, Attribute], besides: Collection[str] = ()
) -> str:
    """The first value that a client could not have written because of its type; "" without one.

    Attributes that the model does not define may have any JSON value. `besides` names stored
    attributes whose types are checked elsewhere.
    """
    check = _Check("", None)
    if not isinstance(definitions, Definitions):
        definitions = Definitions(definitions)
    for name in besides:
        if fault := fault_in_json(values.get(name), 1):
            check.reject(name, fault)
    own = {name: value for name, value in values.items() if name not in besides}
    check.members(own, definitions, STRICT_NAME, "", 1)
    for error in check.errors[:1]:
        return f'"{error.arguments["name"][:_LONGEST_PATH]}": {error.arguments["error_detail"]}'
    return ""
