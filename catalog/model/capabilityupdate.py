"""Reads a client's update of the capabilities, and checks the values against the offer.

Source: core/spec.md, "Updating the Capabilities of a Server".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import orjson

from catalog.model.capabilities import OFFERED, SPECVERSION, Capabilities, matches, overlap
from catalog.model.errors import (
    CapabilityError,
    CapabilityMissingValue,
    CapabilityUnknown,
    CapabilityValue,
    CapabilityWildcard,
    XRegistryError,
    with_violations,
)

_SUBJECT = "/capabilities"
_LONGEST_VALUE = 100
_MANDATORY = {"specversions": SPECVERSION, "versionmodes": "manual"}
_MANDATORY_AVAILABLE = ("capabilities", "entities", "model")

# The values of capabilities that a complete replacement does not mention. By the standard,
# `capabilities` would become immutable; this server keeps `capabilities` mutable, because no client
# could undo the change.
DEFAULTS = replace(
    OFFERED,
    available={"capabilities": True, "entities": True, "model": False},
    flags=(),
    ignores=(),
    pagination=False,
    shortself=False,
    versionmodes=("manual",),
)


def update_capabilities(
    given: Mapping[str, Any], *, current: Capabilities, offered: Capabilities, patch: bool
) -> Capabilities:
    """The capabilities after an update.

    Args:
        given: complete capabilities by name; `null` stands for the default value.
        current: the capabilities in force; a patch keeps the capabilities missing in `given`.
        offered: the capabilities that the server offers.

    Raises:
        CapabilityError, CapabilityMissingValue, CapabilityUnknown, CapabilityValue,
            CapabilityWildcard: with all violations found.
    """
    values: dict[str, Any] = {}
    violations: list[XRegistryError] = []
    for name, value in given.items():
        if name == "$schema":
            continue
        try:
            values[name] = _read(name, value, offered)
        except XRegistryError as violation:
            violations.append(violation)
    if violations:
        raise with_violations(violations)
    updated = replace(current if patch else DEFAULTS, **values)
    _check_compatibilities(updated, offered)
    return updated


def stored_capabilities(stored: Mapping[str, Any], offered: Capabilities) -> Capabilities:
    """The accepted capabilities, limited to the current offer of the server."""
    kept: dict[str, Any] = {
        name: tuple(value for value in getattr(offered, name) if value in stored.get(name, ()))
        for name in ("flags", "formats", "ignores", "specversions", "versionmodes")
    }
    available = stored["available"]
    return Capabilities(
        available={
            name: can and available[name]["mutable"]
            for name, can in offered.available.items()
            if name in available
        },
        compatibilities={
            key: rules
            for key, listed in stored["compatibilities"].items()
            if (rules := tuple(r for r in _rules_offered(key, offered) if r in listed))
            and _is_listed(key, kept["formats"])
        },
        pagination=stored["pagination"] and offered.pagination,
        shortself=stored["shortself"] and offered.shortself,
        **kept,
    )


def _read(name: str, value: Any, offered: Capabilities) -> Any:
    if name not in _READERS:
        raise CapabilityUnknown(_SUBJECT, field=name)
    return getattr(DEFAULTS, name) if value is None else _READERS[name](name, value, offered)


def _listed(name: str, value: Any, offered: Capabilities) -> tuple[str, ...]:
    chosen = _chosen(name, value, getattr(offered, name))
    mandatory = _MANDATORY.get(name)
    if mandatory is not None and mandatory not in chosen:
        raise CapabilityMissingValue(_SUBJECT, name=name, value=mandatory)
    return chosen


def _chosen(field: str, value: Any, allowed: tuple[str, ...]) -> tuple[str, ...]:
    """The listed values that are allowed, in the order of the offer."""
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise _refused(field, value, "arrays of strings")
    wanted = {item.lower() for item in value}
    if "*" in wanted:
        if len(wanted) > 1:
            raise CapabilityWildcard(_SUBJECT, field=field)
        return allowed
    if unknown := wanted - {item.lower() for item in allowed}:
        raise _refused(field, min(unknown), ",".join(allowed))
    return tuple(item for item in allowed if item.lower() in wanted)


def _formats(name: str, value: Any, offered: Capabilities) -> tuple[str, ...]:
    try:
        return _chosen(name, value, offered.formats)
    except CapabilityValue as refusal:
        raise _as_capability_error(refusal) from refusal


def _compatibilities(name: str, value: Any, offered: Capabilities) -> Mapping[str, tuple[str, ...]]:
    if not isinstance(value, dict):
        raise _refused(name, value, "maps of formats to arrays of rules")
    try:
        return {
            key.lower(): _chosen(f"{name}.{key}", rules, _rules_offered(key, offered))
            for key, rules in value.items()
        }
    except CapabilityValue as refusal:
        raise _as_capability_error(refusal) from refusal


def _rules_offered(key: str, offered: Capabilities) -> tuple[str, ...]:
    """The rules that can be checked for every format that a key matches."""
    formats = [format for format in offered.formats if overlap(key, format)]
    checked = [{*offered.rules_for(format)} for format in formats]
    shared = set.intersection(*checked) if checked else set()
    listed = (rule for rules in offered.compatibilities.values() for rule in rules)
    return tuple(rule for rule in dict.fromkeys(listed) if rule in shared)


def _as_capability_error(refusal: CapabilityValue) -> CapabilityError:
    return CapabilityError(_SUBJECT, error_detail=refusal.title.rstrip("."))


def _boolean(name: str, value: Any, offered: Capabilities) -> bool:
    allowed = ("false", "true") if getattr(offered, name) else ("false",)
    if not isinstance(value, bool) or _text(value) not in allowed:
        raise _refused(name, value, ",".join(allowed))
    return value


def _available(name: str, value: Any, offered: Capabilities) -> Mapping[str, bool]:
    if not isinstance(value, dict):
        raise _refused(name, value, "maps of objects")
    given = {kind.lower(): _mutable(kind, item, offered) for kind, item in value.items()}
    for mandatory in _MANDATORY_AVAILABLE:
        if mandatory not in given:
            raise CapabilityMissingValue(_SUBJECT, name=name, value=mandatory)
    if not given["capabilities"]:
        raise CapabilityError(
            _SUBJECT,
            error_detail='"available.capabilities.mutable" must stay true',
            detail="Nobody could change the capabilities back.",
        )
    return {kind: given[kind] for kind in offered.available if kind in given}


def _mutable(kind: str, item: Any, offered: Capabilities) -> bool:
    can = offered.available.get(kind.lower())
    if can is None:
        raise _refused("available", kind, ",".join(offered.available))
    field = f"available.{kind}"
    if not isinstance(item, dict) or {*item} - {"mutable"}:
        raise _refused(field, item, 'objects with "mutable"')
    mutable = item.get("mutable", False)
    if not isinstance(mutable, bool) or (mutable and not can):
        raise _refused(f"{field}.mutable", mutable, "false,true" if can else "false")
    return mutable


def _check_compatibilities(updated: Capabilities, offered: Capabilities) -> None:
    """Reject compatibility checks of formats that are not checked themselves."""
    for key in updated.compatibilities:
        if not _is_listed(key, updated.formats):
            detail = f'"compatibilities" has "{key}", but "formats" does not'
            raise CapabilityError(_SUBJECT, error_detail=detail)


def _is_listed(key: str, formats: tuple[str, ...]) -> bool:
    return any(matches(key, format) or matches(format, key) for format in formats)


def _refused(field: str, value: Any, allowed: str) -> CapabilityValue:
    return CapabilityValue(_SUBJECT, value=_text(value), field=field, list=allowed)


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return text[:_LONGEST_VALUE]


_READERS: Mapping[str, Callable[[str, Any, Capabilities], Any]] = {
    "available": _available,
    "compatibilities": _compatibilities,
    "flags": _listed,
    "formats": _formats,
    "ignores": _listed,
    "pagination": _boolean,
    "shortself": _boolean,
    "specversions": _listed,
    "versionmodes": _listed,
}
assert {*_READERS} == {*OFFERED.as_json()}
