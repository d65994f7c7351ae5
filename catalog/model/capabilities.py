"""What a registry can do: what it offers, and what of that is turned on.

Source: core/spec.md, "Registry Capabilities".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SPECVERSION = "1.0-rc4"


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """The capabilities in force.

    `available` maps each kind of metadata to whether clients may change it;
    `compatibilities` maps each format to the compatibility rules checked for it.
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


OFFERED = Capabilities(
    available={
        "capabilities": False,
        "entities": True,
        "export": False,
        "model": False,
        "modelsource": False,
    },
    compatibilities={},
    flags=("epoch", "inline"),
    formats=(),
    ignores=(),
    pagination=True,
    shortself=False,
    specversions=(SPECVERSION,),
    versionmodes=("manual",),
)
