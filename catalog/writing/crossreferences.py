"""Cross references: resources that show another one in their own place.

Source: core/spec.md, "Cross Referencing Resources". Such a resource has no versions of its
own; its row keeps when it was created and its epoch.
"""

from __future__ import annotations

from typing import Any

from catalog.model.errors import (
    BadDefaultVersionId,
    ExtraXrefAttribute,
    MalformedXref,
)
from catalog.model.interaction import NEWEST, Body, ResourceUpsert, read_epoch
from catalog.model.schema import Model, ResourceType
from catalog.model.xid import Xid
from catalog.writing.draft import Draft
from catalog.writing.plan import Plan

_READONLY = frozenset({"self", "shortself", "xid"})
READONLY_OF_RESOURCE = _READONLY | {"metaurl", "versionsurl", "versionscount", "isdefault"}
READONLY_OF_META = _READONLY | {"xref", "readonly", "defaultversionurl"}


def xref_after(draft: Draft | None, upsert: ResourceUpsert) -> Any:
    """What a resource will refer to; `None` if it will be an ordinary one."""
    before = draft.xref if draft is not None else None
    if upsert.meta is None:
        return before
    return upsert.meta.get("xref", before if upsert.patch else None)


def target_in(meta: Body | None) -> Xid | None:
    """The resource that a request's meta refers to, if it does so in the right form."""
    value = meta.get("xref") if meta is not None else None
    try:
        xid = Xid.parse(value) if isinstance(value, str) else Xid()
    except ValueError:
        return None
    return xid if xid.kind == "resource" else None


def check_xref(model: Model, xid: Xid, value: Any) -> None:
    """Refuse what can't be referred to; whether it exists is not asked.

    Raises:
        MalformedXref
    """
    target = target_in({"xref": value})
    if target is None:
        fault = "it needs to be the xid of a resource"
    elif (kind := model.resource_type(target.groups, target.resources)) is None:
        fault = "its types are not in the model"
    elif kind is not model.resource_type(xid.groups, xid.resources):
        fault = "its resource type is another one"
    elif target == xid:
        fault = "a resource cannot refer to itself"
    else:
        return
    raise MalformedXref(str(xid), xref=str(value), error_detail=fault)


def refer(plan: Plan, draft: Draft, upsert: ResourceUpsert, xref: Any, default: str | None) -> None:
    """Make a resource a cross reference, or leave it one; its own versions go.

    Args:
        default: the `setdefaultversionid` flag.

    Raises:
        ExtraXrefAttribute: the request says more than whom it refers to.
        BadDefaultVersionId, MalformedXref, MismatchedEpoch, MismatchedId
    """
    kind = plan.model.groups[draft.xid.groups].resources[draft.xid.resources]
    meta = upsert.meta or {}
    if xref != draft.xref:
        # What a reference is to already stays, however its type is defined by now.
        check_xref(plan.model, draft.xid, xref)
    _check_extras(draft, upsert, kind)
    if default not in (None, NEWEST):
        raise BadDefaultVersionId(
            str(draft.xid), value=str(default), error_detail="a cross reference has no versions"
        )
    for subject, body in ((draft.xid, upsert.default or {}), (draft.shown_as, meta)):
        plan.check_id(subject, kind.singular, draft.xid.rid, body)
    epoch = read_epoch(draft.shown_as, meta)
    if plan.writes_only_changes and draft.before is not None and xref == draft.xref:
        return
    plan.check_epoch(draft, epoch, draft.shown_as)
    plan.touch(draft.xid)
    plan.delete_below(draft.xid)
    draft.attributes = {"xref": xref}


def _check_extras(draft: Draft, upsert: ResourceUpsert, kind: ResourceType) -> None:
    id = f"{kind.singular}id"
    was_normal = draft.before is not None and draft.xref is None
    known_of_meta = READONLY_OF_META | ({id, "epoch"} if was_normal else {id})
    extras = [
        *_names_beyond(upsert.default or {}, READONLY_OF_RESOURCE | {id}),
        *_names_beyond(upsert.meta or {}, known_of_meta),
        *(["versions"] if upsert.versions or upsert.has_versions else []),
        *([kind.singular] if upsert.document is not None else []),
    ]
    if extras:
        raise ExtraXrefAttribute(str(draft.xid), singular=kind.singular, name=extras[0])


def _names_beyond(body: Body, known: frozenset[str]) -> list[str]:
    return [name for name, value in body.items() if value is not None and name not in known]


def stop_referring(draft: Draft, target_epoch: int) -> None:
    """Make an ordinary resource of a cross reference, with nothing of what it had before.

    Args:
        target_epoch: what the resource that was referred to is at; 0 if it is gone.
    """
    draft.attributes = {}
    draft.least_epoch = target_epoch
