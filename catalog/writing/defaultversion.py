"""Chooses the default version of a resource, and whether it is sticky.

Source: core/spec.md, "defaultversionid Attribute", "defaultversionsticky Attribute" and
"SetDefaultVersionID Flag".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from catalog.model.errors import (
    DefaultVersionIdRequest,
    InvalidAttribute,
    MissingVersions,
    SetDefaultVersionStickyFalse,
    UnknownId,
)
from catalog.model.interaction import NEWEST, THE_NEW_ONE, Body
from catalog.model.schema import ResourceType
from catalog.writing.drafts import Draft
from catalog.writing.versionorder import newest_of

ID = "defaultversionid"
STICKY = "defaultversionsticky"


def initial_stickiness(kind: ResourceType) -> bool:
    """The stickiness by default: the model's, which is false unless it was changed."""
    definition = kind.metaattributes.get(STICKY)
    return bool(definition.default) if definition is not None else False


def choose_default(draft: Draft, meta: Body, kind: ResourceType, *, patch: bool) -> None:
    """Apply the default version that a write of a resource's meta chooses.

    Raises:
        InvalidAttribute
    """
    attributes = draft.attributes
    chosen, sticky = meta.get(ID), meta.get(STICKY)
    if chosen is not None and not isinstance(chosen, str):
        raise InvalidAttribute(f"{draft.xid}/meta", name=ID, error_detail="it needs to be a string")
    was_sticky = attributes[STICKY]
    if not patch or STICKY in meta:
        _stick(draft, kind, sticky)
    elif ID in meta:
        _stick(draft, kind, chosen is not None)
    if chosen is not None and attributes[STICKY]:
        attributes[ID] = chosen
    elif sticky is True and not (patch and was_sticky and ID not in meta):
        attributes.pop(ID, None)


def _stick(draft: Draft, kind: ResourceType, sticky: Any) -> None:
    if sticky is None:
        sticky = initial_stickiness(kind)
    elif not isinstance(sticky, bool):
        raise InvalidAttribute(
            f"{draft.xid}/meta", name=STICKY, error_detail="it needs to be a boolean"
        )
    draft.attributes[STICKY] = sticky


def force_default(draft: Draft, wanted: str, written: Sequence[Draft], kind: ResourceType) -> None:
    """Apply the `setdefaultversionid` flag, which overrides the meta of the request.

    Args:
        written: the drafts of the versions in the request.

    Raises:
        DefaultVersionIdRequest: no version was created.
        InvalidAttribute
    """
    if wanted == NEWEST:
        _stick(draft, kind, False)
        return
    if wanted == THE_NEW_ONE:
        new = [version.xid.vid for version in written if version.is_new]
        if not new:
            raise DefaultVersionIdRequest(str(draft.xid))
        wanted = new[0]
    _stick(draft, kind, True)
    draft.attributes[ID] = wanted


def forget_default(draft: Draft, kind: ResourceType) -> None:
    """Undo the choice of a version that is gone, so that the newest one is default again."""
    draft.attributes[STICKY] = initial_stickiness(kind)
    draft.attributes.pop(ID, None)


def settle_default(draft: Draft, versions: Sequence[Draft], kind: ResourceType) -> None:
    """Find the default version, once all versions have their final state.

    Raises:
        SetDefaultVersionStickyFalse: a single version cannot be chosen.
        MissingVersions: there is none at all.
        UnknownId: the chosen one does not exist.
    """
    attributes = draft.attributes
    if attributes[STICKY] and kind.maxversions == 1:
        raise SetDefaultVersionStickyFalse(str(draft.xid))
    if not attributes[STICKY] or ID not in attributes:
        vid = newest_of(versions, kind)
        if vid is None:
            raise MissingVersions(str(draft.xid))
        attributes[ID] = vid
    if not any(version.xid.vid == attributes[ID] for version in versions):
        raise UnknownId(str(draft.xid), singular="version", id=attributes[ID])


def has_moved(draft: Draft) -> bool:
    """Whether the default version or its stickiness differs from before."""
    before: Mapping[str, Any] = draft.before.attributes if draft.before else {}
    return any(before.get(name) != draft.attributes.get(name) for name in (ID, STICKY))
