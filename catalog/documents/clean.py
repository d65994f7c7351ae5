"""Removes assigned members from an export, so that a person can keep the rest in git."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

Members = dict[str, Any]

# Replicas show `authority` and `origin`; clients do not set these attributes.
_ASSIGNED = frozenset({"ancestorid", "authority", "createdat", "modifiedat", "origin"})
_FIRST_VERSION = "1"


def clean(document: Mapping[str, Any], model: Mapping[str, Any]) -> Members:
    """An export without the members that an import would assign again.

    The removed members are paths, epochs, times, URLs and counts of collections, default values,
    ids that are keys, and the list of versions of a resource with a single version. Ancestors and
    times of versions stay if the order of the versions depends on them. `meta.readonly` stays
    too, because the attribute marks a replica.

    Args:
        document: an export of the newest edition, in document view, with all versions.
        model: the model of the catalog in the form of `GET /model`.
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
        if version.get(document) == "":  # An export shows a missing document as an empty document.
            del version[document]
    if len(listed) != 1:
        return {**cleaned, "versions": listed}
    [(vid, version)] = listed.items()
    named = {} if vid == _FIRST_VERSION else {"versionid": vid}
    return {**named, **version, **cleaned}


def _ordering(versions: Mapping[str, Members], mode: str) -> Collection[str]:
    """The attributes that order the versions, if the order differs from the order of the ids."""
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
    """The members that a client sets, without members that have the default value.

    Args:
        members: the members of an entity.
        definitions: the model's definitions of attributes, by name.
        removed: names of members to leave out in addition.
        kept: names of assigned members to keep.
    """
    found = {}
    definitions = _with_siblings(members, definitions)
    for name, value in members.items():
        definition = definitions.get(name, {})
        is_assigned = definition.get("readonly") or (name in _ASSIGNED and name not in kept)
        if not (_is_default(value, definition) or is_assigned or name in removed):
            found[name] = _without_defaults(value, definition)
    return found


def _with_siblings(members: Members, definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    """The definitions, with the definitions that values of attributes add."""
    added: Members = {}
    for name, definition in definitions.items():
        if conditions := definition.get("ifvalues"):
            condition = conditions.get(str(members.get(name)), {})
            added |= condition.get("siblingattributes") or {}
    return {**definitions, **added} if added else definitions


def _is_default(value: Any, definition: Mapping[str, Any]) -> bool:
    # 1 and true are equal in Python.
    default = definition.get("default")
    return default is not None and default == value and type(default) is type(value)


def _without_defaults(value: Any, definition: Mapping[str, Any]) -> Any:
    """A value without the members of its objects that have the default value."""
    item = definition.get("item")
    if isinstance(value, list) and item:
        return [_without_defaults(each, item) for each in value]
    if not isinstance(value, dict):
        return value
    if item:
        return {name: _without_defaults(each, item) for name, each in value.items()}
    inner = definition.get("attributes") or {}
    return {
        name: _without_defaults(each, inner.get(name, {}))
        for name, each in value.items()
        if not _is_default(each, inner.get(name, {}))
    }
