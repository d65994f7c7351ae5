"""The capabilities that a server offers, and the capabilities in force in the registry.

Source: core/spec.md, "Registry Capabilities" and "Offered Capabilities".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

SPECVERSION = "1.0-rc4"


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
    first, *rest = pattern.lower().split("*")
    text = text.lower()
    if not rest:
        return text == first
    if not text.startswith(first):
        return False
    text = text[len(first) :]
    for part in rest[:-1]:
        found = text.find(part)
        if found < 0:
            return False
        text = text[found + len(part) :]
    return text.endswith(rest[-1])


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
    available = {
        # A client that made the capabilities immutable could not undo the change.
        name: _object({"mutable": _boolean(can, always=name == "capabilities")})
        for name, can in offered.available.items()
    }
    rules = {format: _array(rules) for format, rules in offered.compatibilities.items()}
    return {
        "available": _object(available),
        "compatibilities": _object(rules),
        "flags": _array(offered.flags),
        "formats": _array(offered.formats),
        "ignores": _array(offered.ignores),
        "pagination": _boolean(offered.pagination),
        "shortself": _boolean(offered.shortself),
        "specversions": _array(offered.specversions),
        "versionmodes": _array(offered.versionmodes),
    }


def _boolean(can: bool, *, always: bool = False) -> dict[str, Any]:
    allowed = [True] if always else [False, True] if can else [False]
    return {"type": "boolean", "enum": allowed}


def _object(attributes: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "attributes": attributes}


def _array(allowed: tuple[str, ...]) -> dict[str, Any]:
    return {"type": "array", "item": {"type": "string"}, "enum": list(allowed)}
