"""Finds members of a document that a registry would overlook or misread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from catalog.documents.rewriter import escaped

# Attributes that the server assigns, or that follow from the place of a resource.
_ASSIGNED = frozenset(
    {"epoch", "isdefault", "meta", "metaurl", "self", "shortself", "versionid", "xid"}
    | {"defaultversionid", "defaultversionsticky", "defaultversionurl"}
    | {"versions", "versionscount", "versionsurl"}
)
_BESIDE = "beside versions it is overlooked, and the default version says something else"
_LACKING = "beside versions it is overlooked, and the default version does not say it"
_NOT_DEFAULT = "beside versions it is overlooked, and another version would be the default one"
_NOT_CHOSEN = "it does not stick, and another version would be the default one"
_NOT_STICKY = "beside versions it is overlooked, and the default version would not stick"
_ATTRIBUTE = "the registry would keep it as an attribute: messages are in a collection `messages`"
_REFERENCE = "the registry would keep it as an attribute: a cross reference is in `meta.xref`"
_MESSAGES = frozenset({"endpoints", "messagegroups"})
Members = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A member that a registry would overlook or misread, its JSON pointer, and the reason."""

    pointer: str
    value: Any
    reason: str


def find_losses(groups: Members) -> tuple[Loss, ...]:
    """Find the members that a registry accepts, and loses or misreads.

    A member that has another name in the newest edition is no loss: the registry keeps the member
    as an extension.

    Args:
        groups: the collections of groups of a document, by plural.
    """
    return tuple(
        Loss(pointer=pointer, value=value, reason=reason)
        for plural, members in _objects(groups)
        for id, group in _objects(members)
        for pointer, value, reason in _in_group(plural, f"/{escaped(plural)}/{escaped(id)}", group)
    )


def default_version(versions: Members, stated: Any) -> str:
    """The id of the default version in a registry that has only the given versions.

    Source: core/model.md, "versionmode": the default version is the newest version. Without
    ancestors, the newest version is the last version in the order of the ids. With ancestors, the
    newest version is the version with a true `isdefault`, or else the last created version that
    is no ancestor.

    Args:
        versions: the versions of a resource by id; at least one version.
        stated: the id of the sticky default version, if the resource has one.
    """
    if isinstance(stated, str) and stated in versions:
        return stated
    ancestors = {vid: version.get("ancestorid") for vid, version in _objects(versions)}
    if not any(ancestors.values()):
        return max(versions, key=_by_id)
    if marked := [vid for vid, v in _objects(versions) if v.get("isdefault") is True]:
        return marked[0]
    named = {str(ancestor) for vid, ancestor in ancestors.items() if ancestor != vid}
    leaves = [vid for vid in versions if vid not in named] or [*versions]
    times = {vid: str(version.get("createdat", "~")) for vid, version in _objects(versions)}
    return max(leaves, key=lambda vid: (times.get(vid, "~"), *_by_id(vid)))


def _by_id(vid: str) -> tuple[str, str]:
    return vid.lower(), vid


def _in_group(plural: str, pointer: str, group: Members) -> Iterator[tuple[str, Any, str]]:
    has_messages = plural in _MESSAGES
    if has_messages and isinstance(found := group.get("definitions"), dict) and found:
        yield f"{pointer}/definitions", found, _ATTRIBUTE
    for name, collection in _objects(group):
        for id, resource in _objects(collection):
            at = f"{pointer}/{escaped(name)}/{escaped(id)}"
            if has_messages and name == "messages":
                yield from _references(at, resource)
            versions = resource.get("versions")
            if isinstance(versions, dict) and 0 < len(versions) == len([*_objects(versions)]):
                yield from _beside(at, id, resource, versions)


def _references(pointer: str, message: Members) -> Iterator[tuple[str, Any, str]]:
    for name in ("uri", "xref"):
        if isinstance(target := message.get(name), str) and target.startswith(("#/", "/")):
            yield f"{pointer}/{name}", target, _REFERENCE


def _beside(
    pointer: str, id: str, resource: Members, versions: Members
) -> Iterator[tuple[str, Any, str]]:
    meta = resource.get("meta")
    meta = meta if isinstance(meta, dict) else {}
    chosen = meta.get("defaultversionid")
    stated = chosen if meta.get("defaultversionsticky") is True else None
    if any(named not in (None, *versions) for named in (resource.get("versionid"), chosen)):
        return  # The resource shows a version that the list lacks.
    default = default_version(versions, stated)
    if chosen not in (None, default):
        yield f"{pointer}/meta/defaultversionid", chosen, _NOT_CHOSEN
    if resource.get("defaultversionid") not in (None, default):
        yield f"{pointer}/defaultversionid", resource["defaultversionid"], _NOT_DEFAULT
    if resource.get("defaultversionsticky") is True and "defaultversionsticky" not in meta:
        yield f"{pointer}/defaultversionsticky", True, _NOT_STICKY
    for name, value in resource.items():
        is_id = name.endswith("id") and value == id
        if name in _ASSIGNED or is_id or value is None:
            continue
        if value != versions[default].get(name):
            reason = _BESIDE if name in versions[default] else _LACKING
            yield f"{pointer}/{escaped(name)}", value, reason


def _objects(members: Any) -> Iterator[tuple[str, Members]]:
    if isinstance(members, dict):
        for name, value in members.items():
            if isinstance(value, dict):
                yield name, value
