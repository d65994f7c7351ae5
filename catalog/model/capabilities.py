"""The capabilities that a server offers, the capabilities in force, and their update by a client.

Source: core/spec.md, "Registry Capabilities", "Offered Capabilities" and "Updating the Capabilities
of a Server".
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson

from catalog.model import errors

SPECVERSION = "1.0-rc4"
_SUBJECT = "/capabilities"
_LONGEST_VALUE = 100
_MANDATORY = {"specversions": SPECVERSION, "versionmodes": "manual"}
_MANDATORY_AVAILABLE = ("capabilities", "entities", "model")


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """The capabilities in force.

    `available` maps each kind of metadata to whether clients may change it;
    `compatibilities` maps each format to the compatibility rules checked for it. Flags,
    formats and the like are in lower case, save `specversions`.
    """

    available: Mapping[str, bool]
    compatibilities: Mapping[str, tuple[str, ...]]
    flags: tuple[str, ...]
    formats: tuple[str, ...]
    ignores: tuple[str, ...]
    pagination: bool
    shortself: bool
    specversions: tuple[str, ...]
    versionmodes: tuple[str, ...]

    @property
    def initially(self) -> Capabilities:
        """The offered capabilities that are in force until a client chooses."""
        return replace(self, shortself=False)

    def is_mutable(self, name: str) -> bool:
        """Whether a kind of metadata is available and clients may change the metadata."""
        return self.available.get(name, False)

    def validates(self, format: str) -> bool:
        """Whether documents of a format are checked."""
        return any(matches(pattern, format) for pattern in self.formats)

    def rules_for(self, format: str) -> tuple[str, ...]:
        """The compatibility rules that are checked for documents of a format."""
        found = (
            rule
            for pattern, rules in self.compatibilities.items()
            if matches(pattern, format)
            for rule in rules
        )
        return tuple(dict.fromkeys(found))

    def checks_more_than(self, other: Capabilities) -> bool:
        """Whether a check is in force that `other` lacks."""
        return not {*self.formats} <= {*other.formats} or any(
            not {*rules} <= {*other.compatibilities.get(format, ())}
            for format, rules in self.compatibilities.items()
        )

    def as_json(self) -> dict[str, Any]:
        """The capabilities as `GET /capabilities` shows them."""
        return {
            "available": {name: {"mutable": can} for name, can in self.available.items()},
            "compatibilities": {name: list(rules) for name, rules in self.compatibilities.items()},
            "flags": list(self.flags),
            "formats": list(self.formats),
            "ignores": list(self.ignores),
            "pagination": self.pagination,
            "shortself": self.shortself,
            "specversions": list(self.specversions),
            "versionmodes": list(self.versionmodes),
        }


# The offer of a server that cannot check documents.
OFFERED = Capabilities(
    available={
        "capabilities": True,
        "capabilitiesoffered": False,
        "entities": True,
        "export": False,
        "model": False,
        "modelsource": True,
    },
    compatibilities={},
    flags=(
        "binary",
        "collections",
        "doc",
        "epoch",
        "filter",
        "ignore",
        "inline",
        "setdefaultversionid",
        "sort",
        "specversion",
    ),
    formats=(),
    ignores=(
        "capabilities",
        "defaultversionid",
        "defaultversionsticky",
        "epoch",
        "id",
        "modelsource",
        "readonly",
    ),
    pagination=True,
    shortself=True,
    specversions=(SPECVERSION,),
    versionmodes=("manual", "createdat", "modifiedat", "semver"),
)

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


def offered_with(
    formats: Iterable[str], compatibilities: Mapping[str, tuple[str, ...]]
) -> Capabilities:
    """The offer of a server that checks the given formats and compatibility rules."""
    return replace(
        OFFERED,
        formats=tuple(sorted(formats)),
        compatibilities={name: compatibilities[name] for name in sorted(compatibilities)},
    )


def matches(pattern: str, text: str) -> bool:
    """Whether a pattern, with `*` for any text, matches a text, ignoring case.

    Source: core/spec.md, "compatibilities Capability".
    """
    # The other signs of a pattern of fnmatch stand for themselves in a set of one character.
    return fnmatch.fnmatchcase(text.lower(), re.sub(r"[?[]", r"[\g<0>]", pattern.lower()))


def overlap(one: str, other: str) -> bool:
    """Whether a text can match both patterns; a pattern without a star matches only itself."""
    if "*" not in one:
        return matches(other, one)
    if "*" not in other:
        return matches(one, other)
    mine, others = one.lower().split("*"), other.lower().split("*")
    return _agree(mine[0], others[0]) and _agree(mine[-1][::-1], others[-1][::-1])


def _agree(one: str, other: str) -> bool:
    return one.startswith(other) or other.startswith(one)


def describe(offered: Capabilities) -> dict[str, Any]:
    """Describe the offered capabilities, as `GET /capabilitiesoffered` shows them."""
    described = {name: _described(value) for name, value in offered.as_json().items()}
    # A client that made the capabilities immutable could not undo the change.
    own = described["available"]["attributes"]["capabilities"]
    own["attributes"]["mutable"]["enum"] = [True]
    return described


def _described(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        attributes = {name: _described(each) for name, each in value.items()}
        return {"type": "object", "attributes": attributes}
    if isinstance(value, bool):
        return {"type": "boolean", "enum": [False, True] if value else [False]}
    return {"type": "array", "item": {"type": "string"}, "enum": value}


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
    violations: list[errors.XRegistryError] = []
    for name, value in given.items():
        if name == "$schema":
            continue
        try:
            if name not in _READERS:
                raise errors.CapabilityUnknown(_SUBJECT, field=name)
            values[name] = (
                getattr(DEFAULTS, name) if value is None else _READERS[name](name, value, offered)
            )
        except errors.XRegistryError as violation:
            violations.append(violation)
    if violations:
        raise errors.with_violations(violations)
    updated = replace(current if patch else DEFAULTS, **values)
    for key in updated.compatibilities:
        # Versions of a format are compared only where documents of the format are checked.
        if not _is_listed(key, updated.formats):
            detail = f'"compatibilities" has "{key}", but "formats" does not'
            raise errors.CapabilityError(_SUBJECT, error_detail=detail)
    return updated


def stored_capabilities(stored: Mapping[str, Any], offered: Capabilities) -> Capabilities:
    """The accepted capabilities, limited to the current offer of the server."""
    kept: dict[str, Any] = {
        name: tuple(value for value in getattr(offered, name) if value in stored.get(name, ()))
        for name in ("flags", "formats", "ignores", "specversions", "versionmodes")
    }
    available = stored["available"]
    return Capabilities(
        # An upgrade may offer less than what clients once chose.
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


def _listed(name: str, value: Any, offered: Capabilities) -> tuple[str, ...]:
    chosen = _chosen(name, value, getattr(offered, name))
    mandatory = _MANDATORY.get(name)
    if mandatory is not None and mandatory not in chosen:
        raise errors.CapabilityMissingValue(_SUBJECT, name=name, value=mandatory)
    return chosen


def _chosen(field: str, value: Any, allowed: tuple[str, ...]) -> tuple[str, ...]:
    """The listed values that are allowed, in the order of the offer."""
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise _not_chosen(field, value, "arrays of strings")
    wanted = {item.lower() for item in value}
    if "*" in wanted:
        if len(wanted) > 1:
            raise errors.CapabilityWildcard(_SUBJECT, field=field)
        return allowed
    if unknown := wanted - {item.lower() for item in allowed}:
        raise _not_chosen(field, min(unknown), ",".join(allowed))
    return tuple(item for item in allowed if item.lower() in wanted)


def _compatibilities(name: str, value: Any, offered: Capabilities) -> Mapping[str, tuple[str, ...]]:
    if not isinstance(value, dict):
        raise _refused(name, value, "maps of formats to arrays of rules")
    return {
        key.lower(): _chosen(f"{name}.{key}", rules, _rules_offered(key, offered))
        for key, rules in value.items()
    }


def _rules_offered(key: str, offered: Capabilities) -> tuple[str, ...]:
    """The rules that can be checked for every format that a key matches."""
    formats = [format for format in offered.formats if overlap(key, format)]
    checked = [{*offered.rules_for(format)} for format in formats]
    shared = set.intersection(*checked) if checked else set()
    listed = (rule for rules in offered.compatibilities.values() for rule in rules)
    return tuple(rule for rule in dict.fromkeys(listed) if rule in shared)


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
            raise errors.CapabilityMissingValue(_SUBJECT, name=name, value=mandatory)
    if not given["capabilities"]:
        raise errors.CapabilityError(
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


def _is_listed(key: str, formats: tuple[str, ...]) -> bool:
    return any(matches(key, format) or matches(format, key) for format in formats)


def _refused(field: str, value: Any, allowed: str) -> errors.CapabilityValue:
    return errors.CapabilityValue(_SUBJECT, value=_text(value), field=field, list=allowed)


def _not_chosen(field: str, value: Any, allowed: str) -> errors.XRegistryError:
    """The error of a list, which the standard names by the kind of its values."""
    refusal = _refused(field, value, allowed)
    if field.partition(".")[0] not in ("compatibilities", "formats"):
        return refusal
    return errors.CapabilityError(_SUBJECT, error_detail=refusal.title.rstrip("."))


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return text[:_LONGEST_VALUE]


_READERS: Mapping[str, Callable[[str, Any, Capabilities], Any]] = {
    "available": _available,
    "compatibilities": _compatibilities,
    "flags": _listed,
    "formats": _listed,
    "ignores": _listed,
    "pagination": _boolean,
    "shortself": _boolean,
    "specversions": _listed,
    "versionmodes": _listed,
}
assert {*_READERS} == {*OFFERED.as_json()}
