"""Compatibility policies of groups, which compare the embedded schemas of versions.

The policy is the group's attribute `compatibility`, an extension that the message catalog
permits (2.2 and 2.2.4).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from catalog.dialects.bodypath import BodyPath
from catalog.dialects.messagecatalog.dataschemas import document_of
from catalog.formats.checker import CheckedDocument, Direction, comparison
from catalog.model.capabilities import Capabilities
from catalog.model.concorderrors import UnresolvedConflict
from catalog.model.entity import Entity
from catalog.writing.validation import DocumentChecker

POLICIES = (
    *("none", "backward", "backward_transitive", "forward", "forward_transitive"),
    *("full", "full_transitive"),
)
_DIRECTIONS: Mapping[str, tuple[Direction, ...]] = {
    "backward": ("backward",),
    "forward": ("forward",),
    "full": ("backward", "forward"),
}


def check_policy_name(value: Any, place: BodyPath) -> None:
    """Raise `InvalidAttribute` for a value that names no policy."""
    if value is not None and value not in POLICIES:
        raise place.fault(f"it needs to be one of {', '.join(POLICIES)}")


async def check_policy(
    policy: Any,
    earlier: Sequence[Entity],
    attributes: Mapping[str, Any],
    *,
    subject: str,
    capabilities: Capabilities,
    checker: DocumentChecker,
) -> None:
    """Refuse a new version that breaks the policy of its group.

    A version in a format that cannot be compared passes.

    Args:
        earlier: the existing versions, newest first.
        attributes: the attributes of the new version.

    Raises:
        UnresolvedConflict
    """
    if policy not in POLICIES or policy == "none" or "dataschema" not in attributes:
        return
    format = _format_of(attributes)
    if policy not in capabilities.rules_for(format):
        return
    document = CheckedDocument.of(document_of(attributes["dataschema"]))
    compared = [one for one in earlier if "dataschema" in one.attributes]
    if not policy.endswith("_transitive"):
        compared = compared[:1]
    for older in compared:
        vid = older.path.vid
        if _family(_format_of(older.attributes)) != _family(format):
            raise _conflict(subject, f"of another format than that of version {vid}")
        before = CheckedDocument.of(document_of(older.attributes["dataschema"]))
        for direction in _DIRECTIONS[policy.removesuffix("_transitive")]:
            [fault] = await checker.answers([comparison(format, before, document, direction)])
            if fault:
                fault = f"not {direction} compatible with version {vid}: {fault}"
                raise _conflict(subject, fault)


def _conflict(subject: str, fault: str) -> UnresolvedConflict:
    detail = "Its group has a compatibility policy."
    return UnresolvedConflict(subject, error_detail=f"its schema is {fault}", detail=detail)


def _format_of(attributes: Mapping[str, Any]) -> str:
    return str(attributes.get("dataschemaformat", ""))


def _family(format: str) -> str:
    return format.partition("/")[0].lower()
