"""What this server can do, for clients that ask before they try."""

from __future__ import annotations

from typing import Any

SPECVERSION = "1.0-rc4"


def capabilities() -> dict[str, Any]:
    """What this server can do (core/spec.md, "Registry Capabilities")."""
    return {
        "available": {
            "capabilities": {"mutable": False},
            "entities": {"mutable": True},
            "export": {"mutable": False},
            "model": {"mutable": False},
            "modelsource": {"mutable": False},
        },
        "compatibilities": {},
        "flags": ["epoch", "inline"],
        "formats": [],
        "ignores": [],
        "pagination": True,
        "shortself": False,
        "specversions": [SPECVERSION],
        "versionmodes": ["manual"],
    }
