"""Adapts stored entities to a new model.

Source: core/model.md, "Creating or Updating the Registry Model". Entities of the node get the
default values of attributes that became required, as in an update by a client; every further
mismatch is a violation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import Any

from catalog.model.attributes import check_attributes
from catalog.model.errors import (
    HasDocumentViolation,
    ModelComplianceError,
    RequiredAttributeMissing,
    SetDefaultVersionStickyFalse,
    UnknownAttribute,
    XRegistryError,
)
from catalog.model.schema import Attribute, GroupType
from catalog.model.standardattributes import collection
from catalog.model.xid import Xid
from catalog.writing import versionorder
from catalog.writing.drafts import Draft, Drafts
from catalog.writing.resourceplan import ResourcePlan

_EMPTY = sha256(b"").digest()
_OF_DEFAULT = {versionorder.ID, versionorder.STICKY}


def displaced(
    xid: str, attributes: Mapping[str, Any], plurals: Iterable[str]
) -> list[XRegistryError]:
    """The errors of extensions of an entity whose names a model needs for collections."""
    return _taken(xid, attributes, (name for plural in plurals for name in collection(plural)))


def _taken(xid: str, attributes: Mapping[str, Any], names: Iterable[str]) -> list[XRegistryError]:
    return [UnknownAttribute(xid, name=name) for name in names if name in attributes]


def review_group(drafts: Drafts, draft: Draft, kind: GroupType) -> None:
    """Add the violations of a group to the violations of the drafts."""
    _complete(drafts, draft, kind.own_attributes, kind.managed)
    drafts.check_decided(draft, kind.narrowed)
    drafts.violations += displaced(str(draft.xid), draft.attributes, kind.resources)
    with drafts.collecting():
        drafts.rules_of(draft.xid)


def has_rules(drafts: Drafts, group: Xid) -> bool:
    """Whether the constraints of a group fit the model; `review_group` has reported a misfit."""
    try:
        drafts.rules_of(group)
    except XRegistryError:
        return False
    return True


def review_resource(resource: ResourcePlan) -> None:
    """Add the violations of a resource and its versions to the violations of the drafts."""
    drafts, kind = resource.drafts, resource.kind
    if resource.draft.xref is not None:
        resource.review_reference()
        return
    _complete(drafts, resource.draft, kind.meta_attributes, kind.meta_managed | _OF_DEFAULT)
    for draft in resource.versions:
        _review_version(resource, draft)
    with drafts.collecting():
        _check_number(resource)
        resource.review()


def _review_version(resource: ResourcePlan, draft: Draft) -> None:
    drafts, kind = resource.drafts, resource.kind
    is_empty = not kind.hasdocument and draft.document_sha256 == _EMPTY
    if is_empty and not drafts.is_replica(draft.xid):
        draft.set_document(None)
        drafts.touch(draft)
    if kind.hasdocument:
        documents = (kind.singular, f"{kind.singular}base64")
        drafts.violations += _taken(str(draft.xid), draft.attributes, documents)
    has_document = draft.document_sha256 is not None or f"{kind.singular}url" in draft.attributes
    if has_document and not kind.hasdocument:
        drafts.violations.append(HasDocumentViolation(str(draft.xid), plural=kind.plural))
        return
    rules = drafts.rules_of(resource.xid.group)
    _complete(
        drafts,
        draft,
        kind.version_attributes,
        kind.managed | {"ancestorid"},
        lambda attributes: rules.complete(attributes, kind.plural),
    )
    with drafts.collecting():
        versionorder.check_new_id(draft.xid, kind)


def _check_number(resource: ResourcePlan) -> None:
    """Refuse a limit below the number of versions: a change of the model deletes no versions."""
    limit, number = resource.kind.maxversions, len(resource.versions)
    if limit == 1 and resource.draft.attributes.get(versionorder.STICKY):
        raise SetDefaultVersionStickyFalse(str(resource.xid))
    if limit and number > limit:
        raise ModelComplianceError(
            str(resource.xid),
            detail=f"It has {number} versions, and {resource.kind.plural} can have {limit}.",
        )


def _complete(
    drafts: Drafts,
    draft: Draft,
    definitions: Mapping[str, Attribute],
    managed: frozenset[str],
    fill: Callable[[dict[str, Any]], dict[str, Any]] = dict,
) -> None:
    """Check the unmanaged attributes of an entity, and add missing default values."""
    own = {k: v for k, v in draft.attributes.items() if k in managed}
    given = {k: v for k, v in draft.attributes.items() if k not in managed}
    checked, violations = check_attributes(
        fill(given), definitions, subject=str(draft.xid), model=drafts.model
    )
    drafts.violations += violations
    if violations or checked == given:
        return
    if drafts.is_replica(draft.xid):
        names = sorted(name for name in checked if checked[name] != given.get(name))
        detail = "It is a replica, so it cannot get a default value here."
        error = RequiredAttributeMissing(str(draft.xid), list=",".join(names), detail=detail)
        drafts.violations.append(error)
        return
    drafts.touch(draft)
    draft.attributes = checked | own
