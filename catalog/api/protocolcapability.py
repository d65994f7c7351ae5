"""The capability that names the delivery protocols of this node, an addition to the standard's.

It says what is installed, so clients see it and cannot change it (core/spec.md, "Registry
Capabilities": extensions stand beside the others, and all that a server supports is listed).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from catalog.model.capabilities import Capabilities, describe
from catalog.model.errors import CapabilityValue
from catalog.sinks.protocols import PROTOCOLS, why_missing

_NAME = "subscriptionprotocols"
_LONGEST_VALUE = 100


def shown_capabilities(capabilities: Capabilities) -> dict[str, Any]:
    """The capabilities in force as answers show them."""
    return capabilities.as_json() | {_NAME: _installed()}


def offered_capabilities(offered: Capabilities) -> dict[str, Any]:
    """The offered capabilities as answers describe them."""
    listed = {"type": "array", "item": {"type": "string"}, "enum": _installed()}
    return describe(offered) | {_NAME: listed}


def without_protocols(given: Mapping[str, Any]) -> dict[str, Any]:
    """An update of capabilities without this one.

    It may be sent back as it is shown, and may come with the export of a node that has other
    protocols installed: it changes nothing.

    Raises:
        CapabilityValue: it has a protocol that no node has.
    """
    others = dict(given)
    value = others.pop(_NAME, None)
    if value is None or value == ["*"]:
        return others
    if not isinstance(value, list) or not {str(each).upper() for each in value} <= {*PROTOCOLS}:
        shown, allowed = str(value)[:_LONGEST_VALUE], ",".join(PROTOCOLS)
        raise CapabilityValue("/capabilities", value=shown, field=_NAME, list=allowed)
    return others


def _installed() -> list[str]:
    return sorted(name for name, protocol in PROTOCOLS.items() if why_missing(protocol) is None)
