"""Whether a new version of a definition complies with the compatibility policy of its group.

The policy is the group's attribute `compatibility`, an addition of ours that the message
catalog leaves room for (2.2 and 2.2.4). It is about payloads: the embedded schema of the new
version is compared with that of earlier ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from catalog.dialects.messagecatalog.bodypath import BodyPath
from catalog.model.capabilities import Capabilities
from catalog.model.entity import Entity
from catalog.model.ownerrors import UnresolvedConflict
from catalog.writing.formatcheck import Direction, DocumentChecker

POLICIES = (
    *("none", "backward", "backward_transitive", "forward", "forward_transitive"),
    *("full", "full_transitive"),
)
_DIRECTIONS: Mapping[str, tuple[Direction, ...]] = {
    "backward": ("backward",),
    "forward": ("forward",),
    "full": ("backward", "forward"),
}


def check_rule(value: Any, place: BodyPath) -> None:
    """Refuse a policy that there is not.

    Raises:
        InvalidAttribute
    """
    if value is not None and value not in POLICIES:
        raise place.fault(f"it needs to be one of {', '.join(POLICIES)}")


async def check_policy(
    rule: Any,
    earlier: Sequence[Entity],
    attributes: Mapping[str, Any],
    *,
    subject: str,
    capabilities: Capabilities,
    checker: DocumentChecker,
) -> None:
    """Refuse a new version that breaks the policy of its group; the arguments are `fault_in`'s.

    Raises:
        Conflict
    """
    fault = await fault_in(rule, earlier, attributes, capabilities=capabilities, checker=checker)
    if fault:
        raise UnresolvedConflict(
            subject, error_detail=fault, detail="Its group has a compatibility policy."
        )


async def fault_in(
    rule: Any,
    earlier: Sequence[Entity],
    attributes: Mapping[str, Any],
    *,
    capabilities: Capabilities,
    checker: DocumentChecker,
) -> str:
    """Why a new version breaks a policy; empty if it does not, or if that can't be told.

    Args:
        earlier: the versions that are there, the newest first.
        attributes: the new version's.
    """
    if rule not in POLICIES or rule == "none" or "dataschema" not in attributes:
        return ""
    format, document = _schema_in(attributes)
    if rule not in capabilities.rules_for(format):
        return ""
    compared = [one for one in earlier if "dataschema" in one.attributes]
    if not rule.endswith("_transitive"):
        compared = compared[:1]
    for older, direction in _pairs(compared, rule):
        older_format, older_document = _schema_in(older.attributes)
        if _family(older_format) != _family(format):
            return f"its schema is of another format than that of version {older.path.vid}"
        fault = await checker.compare(format, older_document, document, direction)
        if fault:
            return (
                f"its schema is not {direction} compatible with version {older.path.vid}: {fault}"
            )
    return ""


def _pairs(versions: Iterable[Entity], rule: str) -> Iterable[tuple[Entity, Direction]]:
    directions = _DIRECTIONS[rule.removesuffix("_transitive")]
    return ((version, direction) for version in versions for direction in directions)


def _schema_in(attributes: Mapping[str, Any]) -> tuple[str, bytes]:
    schema = attributes["dataschema"]
    document = schema.encode() if isinstance(schema, str) else orjson.dumps(schema)
    return str(attributes.get("dataschemaformat", "")), document


def _family(format: str) -> str:
    return format.partition("/")[0].lower()
