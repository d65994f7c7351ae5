"""Cross references: resources that show another resource at their own path.

Source: core/spec.md, "Cross Referencing Resources". A cross reference has no stored versions; the
row keeps the epoch and the time of creation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from catalog.model.attributes import PROVENANCE
from catalog.model.errors import BadDefaultVersionId, ExtraXrefAttribute, MalformedXref
from catalog.model.interaction import NEWEST, Body, ResourceUpsert, read_epoch
from catalog.model.schema import Model, ResourceType
from catalog.model.xid import Xid
from catalog.writing.drafts import Draft, Drafts

_READONLY = frozenset({"self", "shortself", "xid"})
_READONLY_OF_RESOURCE = _READONLY | {"metaurl", "versionsurl", "versionscount", "isdefault"}
_READONLY_OF_META = _READONLY | {"xref", "readonly", "defaultversionurl"}
# Attributes whose values depend on the path of a resource, or on the node that shows the resource.
_LOCAL = _READONLY_OF_RESOURCE | _READONLY_OF_META | PROVENANCE


def xref_after(draft: Draft | None, upsert: ResourceUpsert) -> Any:
    """The target that a resource will refer to; `None` if it will be an ordinary resource."""
    before = draft.xref if draft is not None else None
    if upsert.meta is None:
        return before
    return upsert.meta.get("xref", before if upsert.patch else None)


def target_in(meta: Body | None) -> Xid | None:
    """The resource that a request's meta refers to; `None` without a well-formed `xref`."""
    value = meta.get("xref") if meta is not None else None
    if not isinstance(value, str):
        return None
    try:
        xid = Xid.parse(value)
    except ValueError:
        return None
    return xid if xid.kind == "resource" else None


def check_xref(model: Model, xid: Xid, value: Any) -> None:
    """Raise `MalformedXref` for an impossible target of a cross reference; it need not exist."""
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


def refer(
    drafts: Drafts, draft: Draft, upsert: ResourceUpsert, xref: Any, default: str | None
) -> None:
    """Make a resource a cross reference, or keep a cross reference; stored versions are deleted.

    Args:
        default: the `setdefaultversionid` flag.
    """
    kind = drafts.model.groups[draft.xid.groups].resources[draft.xid.resources]
    meta = upsert.meta or {}
    if xref != draft.xref:
        # A cross reference keeps the target, even if the type was redefined since.
        check_xref(drafts.model, draft.xid, xref)
    _check_extras(draft, upsert, kind)
    if default not in (None, NEWEST):
        raise BadDefaultVersionId(
            str(draft.xid), value=str(default), error_detail="a cross reference has no versions"
        )
    for subject, body in ((draft.xid, upsert.default or {}), (draft.shown_as, meta)):
        drafts.check_id(subject, kind.singular, draft.xid.rid, body)
    epoch = read_epoch(draft.shown_as, meta)
    if drafts.writes_only_changes and draft.before is not None and xref == draft.xref:
        return
    drafts.check_epoch(draft, epoch, draft.shown_as)
    drafts.touch(draft)
    drafts.delete_below(draft.xid)
    draft.attributes = {"xref": xref}


def _check_extras(draft: Draft, upsert: ResourceUpsert, kind: ResourceType) -> None:
    id = f"{kind.singular}id"
    was_normal = draft.before is not None and draft.xref is None
    allowed = _READONLY_OF_META | ({id, "epoch"} if was_normal else {id})
    extras = [
        *_names_beyond(upsert.default or {}, _READONLY_OF_RESOURCE | {id}),
        *_names_beyond(upsert.meta or {}, allowed),
        *(["versions"] if upsert.versions or upsert.has_versions else []),
        *([kind.singular] if upsert.document is not None else []),
    ]
    if extras:
        raise ExtraXrefAttribute(str(draft.xid), singular=kind.singular, name=extras[0])


def _names_beyond(body: Body, allowed: frozenset[str]) -> list[str]:
    return [name for name, value in body.items() if value is not None and name not in allowed]


def stop_referring(drafts: Drafts, draft: Draft) -> None:
    """Make a cross reference an ordinary resource without attributes.

    The new epoch will be above the epoch of the target, which clients were shown.
    """
    target = drafts.referred.get(draft.attributes["xref"])
    draft.attributes = {}
    draft.least_epoch = target.epoch if target is not None else 0


def without_repeated(upserts: Sequence[ResourceUpsert], model: Model) -> Iterator[ResourceUpsert]:
    """Strip cross references of content that repeats the content of the target in the request.

    Source: core/spec.md, "Collections Flag": a response with the flag can be sent to a second
    registry as a request. The response shows each cross reference with the content of the target,
    but "Cross Referencing Resources" forbids content in the write of a cross reference. A cross
    reference with different content is left in place, to be refused.
    """
    by_xid = {upsert.xid: upsert for upsert in upserts}
    for upsert in upserts:
        xid = target_in(upsert.meta)
        target = None if xid is None else by_xid.get(xid)
        if target is not None:
            id = f"{model.singular_of(upsert.xid)}id"
            if _content(upsert, id) == _content(target, id):
                parts = (upsert.default or {}, upsert.meta or {})
                kept = [{k: v for k, v in part.items() if k in (id, "xref")} for part in parts]
                upsert = replace(
                    upsert, default=kept[0], meta=kept[1], versions=(), has_versions=False
                )
        yield upsert


def _content(upsert: ResourceUpsert, id: str) -> tuple[Any, ...]:
    """The parts of an upsert that do not depend on the path of the resource."""
    versions = {each.vid: _without_local(each.body, id) for each in upsert.versions}
    parts = (upsert.default or {}, upsert.meta or {})
    return *(_without_local(part, id) for part in parts), versions, upsert.document


def _without_local(body: Body, id: str) -> Mapping[str, Any]:
    return {name: value for name, value in body.items() if name not in _LOCAL | {id}}
