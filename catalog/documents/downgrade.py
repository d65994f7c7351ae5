"""Writes a document of the newest edition as an older one, which `migrate` reads back the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from catalog.documents.editions import NEWEST_EDITION, SPECVERSIONS
from catalog.documents.migration import rewrite_group_itself
from catalog.documents.olderforms import older_endpoint, older_entity, older_message
from catalog.documents.rewriter import RC4_ATTRIBUTES, DocumentPart, Rewriter
from catalog.documents.rewrites.messages import rewrite_message
from catalog.documents.rewrites.schemas import rewrite_schema

_RESOURCES = {"endpoints": "messages", "messagegroups": "messages", "schemagroups": "schemas"}
_CAMEL = {"messagegroups": "definitionGroups", "schemagroups": "schemaGroups"}
_DERIVED = frozenset(
    {"self", "shortself", "xid", "metaurl", "versionsurl", "versionscount", "defaultversionurl"}
    | {"messagesurl", "messagescount", "schemasurl", "schemascount"}
)
_ROOT_DERIVED = frozenset({"specversion", "self", "shortself", "xid"}).union(
    *({f"{plural}url", f"{plural}count"} for plural in _RESOURCES)
)
_CONFIGURATION = frozenset({"capabilities", "model", "modelsource"})
# What of its default version a resource does not show.
_OF_VERSIONS = frozenset(
    {
        "versionid",
        "isdefault",
        "ancestorid",
        "defaultversionid",
        "defaultversionsticky",
        "xref",
        "uri",
    }
)
_DOCUMENTS = frozenset({"schema", "schemabase64", "schemaurl"})
Members = dict[str, Any]


def downgrade(document: Mapping[str, Any], edition: str) -> Members:
    """Write a document as one of an older edition.

    What the edition cannot express is kept in the extension attribute `rc4attributes` of its
    entity: migrating the result brings back each entity exactly (`own_attributes`).

    Args:
        document: one of the newest edition.
        edition: one of `EDITIONS`.
    """
    if edition == NEWEST_EDITION:
        return dict(document)
    written: Members = {"specversion": SPECVERSIONS[edition]}
    left_out = _ROOT_DERIVED | (_CONFIGURATION if edition in ("0.4", "0.5") else frozenset())
    for name, value in document.items():
        if name in _RESOURCES and isinstance(value, dict):
            plural = _CAMEL.get(name, name) if edition == "0.4" else name
            written[plural] = {
                key: _group(name, key, group, edition) for key, group in value.items()
            }
        elif name == "registryid" and edition == "0.4":
            written["id"] = value
        elif name not in left_out:
            written[name] = value
    return written


def _group(plural: str, key: str, group: Members, edition: str) -> Members:
    resources = _RESOURCES[plural]
    own = own_attributes({name: value for name, value in group.items() if name != resources})
    written = older_entity(dict(own), plural.removesuffix("s"), edition)
    if resources == "messages":
        older_endpoint(written, edition)
    back = _part(written)
    rewrite_group_itself(plural, key, back)
    _keep_exact(written, back.members, own)
    if isinstance(group.get(resources), dict):
        name = "definitions" if edition == "0.4" and resources == "messages" else resources
        written[name] = {
            id: _resource(resources, id, resource, edition)
            for id, resource in group[resources].items()
        }
    return written


def own_attributes(entity: Mapping[str, Any]) -> Members:
    """An entity without URLs, counts and whatever else its place in the document tells."""
    own = {name: value for name, value in entity.items() if name not in _DERIVED}
    if isinstance(meta := own.get("meta"), dict):
        own["meta"] = {name: value for name, value in meta.items() if name not in _DERIVED}
    return own


def _resource(plural: str, key: str, resource: Members, edition: str) -> Members:
    own = own_attributes({name: value for name, value in resource.items() if name != "versions"})
    versions = resource.get("versions")
    if not isinstance(versions, dict):
        return _itself(plural, key, own, own, edition)
    shown = _default_attributes(plural, own, versions) if edition in ("0.4", "0.5") else {}
    written = _itself(plural, key, own, shown | own, edition)
    written["versions"] = {
        id: _version(plural, id, own_attributes(version), edition)
        for id, version in versions.items()
    }
    return written


def _default_attributes(plural: str, own: Members, versions: Members) -> Members:
    """What early editions say in the resource itself."""
    meta = own.get("meta")
    id = meta.get("defaultversionid") if isinstance(meta, dict) else None
    default = own_attributes(versions[id]) if isinstance(id, str) and id in versions else {}
    hidden = _OF_VERSIONS | (_DOCUMENTS if plural == "schemas" else frozenset())
    return {name: value for name, value in default.items() if name not in hidden}


def _itself(plural: str, key: str, own: Members, shown: Members, edition: str) -> Members:
    """A resource without its versions."""
    written = _older(plural, shown, plural.removesuffix("s"), edition)
    back = _part(written)
    (rewrite_message if plural == "messages" else rewrite_schema)(back, key)
    _keep_exact(written, back.members, own)
    return written


def _version(plural: str, key: str, own: Members, edition: str) -> Members:
    written = _older(plural, own, "version", edition)
    back = _part({"versions": {key: written}})
    (rewrite_message if plural == "messages" else rewrite_schema)(back, "")
    _keep_exact(written, back.members["versions"][key], own)
    return written


def _older(plural: str, members: Members, singular: str, edition: str) -> Members:
    written = older_entity(dict(members), singular, edition)
    if plural == "messages":
        older_message(written, edition)
    return written


def _part(members: Members) -> DocumentPart:
    return DocumentPart(orjson.loads(orjson.dumps(members)), "", Rewriter())


def _keep_exact(written: Members, back: Members, own: Members) -> None:
    """Note where migrating what was written would not bring back what there was."""
    written.pop(RC4_ATTRIBUTES, None)
    names = {name for name in {*own, *back} if own.get(name) != back.get(name)} - {RC4_ATTRIBUTES}
    if names:
        written[RC4_ATTRIBUTES] = {name: own.get(name) for name in sorted(names)}
