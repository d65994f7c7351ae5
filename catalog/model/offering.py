"""Describes the capabilities that a server offers, so that clients know what they may set.

Source: core/spec.md, "Offered Capabilities".
"""

from __future__ import annotations

from typing import Any

from catalog.model.capabilities import Capabilities

_STRING = {"type": "string"}


def describe(offered: Capabilities) -> dict[str, Any]:
    """The map of `GET /capabilitiesoffered`."""
    return {
        "available": {
            "type": "object",
            "attributes": {
                name: {
                    "type": "object",
                    "attributes": {"mutable": _boolean(*_mutable(name, can))},
                }
                for name, can in offered.available.items()
            },
        },
        "compatibilities": {
            "type": "object",
            "attributes": {
                format: _array(rules) for format, rules in offered.compatibilities.items()
            },
        },
        "flags": _array(offered.flags),
        "formats": _array(offered.formats),
        "ignores": _array(offered.ignores),
        "pagination": _boolean(*_choices(offered.pagination)),
        "shortself": _boolean(*_choices(offered.shortself)),
        "specversions": _array(offered.specversions),
        "versionmodes": _array(offered.versionmodes),
    }


def _mutable(name: str, can: bool) -> tuple[bool, ...]:
    # Whoever made the capabilities immutable could not undo it.
    return (True,) if name == "capabilities" else _choices(can)


def _choices(can: bool) -> tuple[bool, ...]:
    return (False, True) if can else (False,)


def _boolean(*allowed: bool) -> dict[str, Any]:
    return {"type": "boolean", "enum": list(allowed)}


def _array(allowed: tuple[str, ...]) -> dict[str, Any]:
    return {"type": "array", "item": _STRING, "enum": list(allowed)}
