"""What a registry can do: what it offers, and what of that is turned on.

Source: core/spec.md, "Registry Capabilities".
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
        """What of an offer is in force until a client says otherwise."""
        return replace(self, shortself=False)

    def is_mutable(self, name: str) -> bool:
        """Whether clients may change this kind of metadata, which may be unavailable."""
        return self.available.get(name, False)

    def validates(self, format: str) -> bool:
        """Whether documents of this format are to be checked."""
        return any(matches(pattern, format) for pattern in self.formats)

    def rules_for(self, format: str) -> tuple[str, ...]:
        """The compatibility rules that are to be checked for documents of this format."""
        found = (
            rule
            for pattern, rules in self.compatibilities.items()
            if matches(pattern, format)
            for rule in rules
        )
        return tuple(dict.fromkeys(found))

    def checks_more_than(self, other: Capabilities) -> bool:
        """Whether anything is to be checked that `other` may leave alone."""
        return not {*self.formats} <= {*other.formats} or any(
            not {*rules} <= {*other.compatibilities.get(format, ())}
            for format, rules in self.compatibilities.items()
        )

    def as_json(self) -> dict[str, Any]:
        """The map that clients see."""
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


# What a server without any checker of documents can do.
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
    """What a server can do that checks these formats and compatibility rules."""
    return replace(
        OFFERED,
        formats=tuple(sorted(formats)),
        compatibilities={name: compatibilities[name] for name in sorted(compatibilities)},
    )


def matches(pattern: str, text: str) -> bool:
    """Whether a pattern, in which `*` stands for anything, fits a text whatever its case.

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
    """Whether any text fits both patterns; without a star, a pattern is that text."""
    if "*" not in one:
        return matches(other, one)
    if "*" not in other:
        return matches(one, other)
    heads, tails = zip(*(_ends(pattern.lower()) for pattern in (one, other)), strict=True)
    return _agree(*heads) and _agree(*(tail[::-1] for tail in tails))


def _ends(pattern: str) -> tuple[str, str]:
    """What is before the first star, and what is after the last one."""
    parts = pattern.split("*")
    return parts[0], parts[-1]


def _agree(one: str, other: str) -> bool:
    return one.startswith(other) or other.startswith(one)
