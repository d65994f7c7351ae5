"""Removes from an export what a catalog assigns, so that a person can keep the rest in git."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

Members = dict[str, Any]

# `authority` and `origin` are shown with replicas; no client sets them.
_ASSIGNED = frozenset({"ancestorid", "authority", "createdat", "modifiedat", "origin"})
_FIRST_VERSION = "1"


def clean(document: Mapping[str, Any], model: Mapping[str, Any]) -> Members:
    """An export without the members that an import would assign again.

    These are paths, epochs, times, URLs and counts of collections, default values, ids that are
    keys, and the list of versions where there is one. Ancestors and times of versions stay where
    the order of the versions depends on them, and so does `meta.readonly`, which tells a replica.

    Args:
        document: of the newest edition, in document view, with all versions.
        model: the catalog's, as `GET /model` shows it.
    """
    groups = {
        plural: {id: _group(group, kind) for id, group in document[plural].items()}
        for plural, kind in model["groups"].items()
        if document.get(plural)
    }
    return {"specversion": document["specversion"], **groups}


def _group(group: Members, kind: Mapping[str, Any]) -> Members:
    resources = kind.get("resources") or {}
    cleaned = _own(group, kind["attributes"], {f"{kind['singular']}id", *resources})
    for plural, inner in resources.items():
        if found := group.get(plural):
            cleaned[plural] = {id: _resource(each, inner) for id, each in found.items()}
    return cleaned


def _resource(resource: Members, kind: Mapping[str, Any]) -> Members:
    meta, versions = resource.get("meta") or {}, resource.get("versions") or {}
    if meta.get("xref"):
        return {"meta": {"xref": meta["xref"]}}
    id, document = f"{kind['singular']}id", f"{kind['singular']}base64"
    own_meta = _own(meta, kind["metaattributes"], {id})
    if meta.get("readonly"):
        own_meta["readonly"] = True
    if not meta.get("defaultversionsticky"):
        own_meta.pop("defaultversionid", None)
    cleaned = {"meta": own_meta} if own_meta else {}
    ordering = _ordering(versions, str(kind["versionmode"]).lower())
    listed = {
        vid: _own(version, kind["attributes"], {id, "versionid"}, ordering)
        for vid, version in versions.items()
    }
    for version in listed.values():
        if version.get(document) == "":  # An export shows no document as an empty one.
            del version[document]
    if len(listed) != 1:
        return {**cleaned, "versions": listed}
    [(vid, version)] = listed.items()
    named = {} if vid == _FIRST_VERSION else {"versionid": vid}
    return {**named, **version, **cleaned}


def _ordering(versions: Mapping[str, Members], mode: str) -> Collection[str]:
    """The attributes by which a catalog would order versions otherwise than by their ids."""
    if len(versions) == 1:
        return ()
    if mode != "manual":
        return (mode,)
    ids = sorted(versions, key=str.lower)
    ancestors = [versions[vid].get("ancestorid") for vid in ids]
    return () if ancestors == [*ids[:1], *ids[:-1]] else ("ancestorid", "createdat")


def _own(
    members: Members,
    definitions: Mapping[str, Any],
    removed: Collection[str],
    kept: Collection[str] = (),
) -> Members:
    """The members that a client sets, without those that have their default value."""
    found = {}
    for name, value in members.items():
        definition = definitions.get(name, {})
        is_default = "default" in definition and definition["default"] == value
        is_assigned = definition.get("readonly") or (name in _ASSIGNED and name not in kept)
        if not (is_default or is_assigned or name in removed):
            found[name] = value
    return found
