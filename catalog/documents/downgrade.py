"""Writes a document of the newest edition in an older edition; `migrate` restores the original."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from catalog.documents.editions import NEWEST_EDITION, SPECVERSIONS
from catalog.documents.migration import RESOURCES, rewrite_group_itself
from catalog.documents.olderforms import Members, older_endpoint, older_entity, older_message
from catalog.documents.rewriter import RC4_ATTRIBUTES, DocumentPart, Rewriter
from catalog.documents.rewrites.messages import rewrite_message
from catalog.documents.rewrites.resources import DOCUMENT_ATTRIBUTES
from catalog.documents.rewrites.schemas import rewrite_schema

_CAMEL = {"messagegroups": "definitionGroups", "schemagroups": "schemaGroups"}
_DERIVED = frozenset(
    {"self", "shortself", "xid", "metaurl", "versionsurl", "versionscount", "defaultversionurl"}
    | {"messagesurl", "messagescount", "schemasurl", "schemascount"}
)
_ROOT_DERIVED = frozenset({"specversion", "self", "shortself", "xid"}).union(
    *({f"{plural}url", f"{plural}count"} for plural in RESOURCES)
)
_CONFIGURATION = frozenset({"capabilities", "model", "modelsource"})
# Attributes of the default version that the resource does not show.
_OF_VERSIONS = frozenset(
    {"versionid", "isdefault", "ancestorid", "defaultversionid", "defaultversionsticky"}
    | {"xref", "uri"}
)


def downgrade(document: Mapping[str, Any], edition: str) -> Members:
    """Write a document in an older edition.

    The extension attribute `rc4attributes` of an entity keeps the attributes that the edition
    cannot express. Migrating the result therefore restores each entity exactly, except for the
    attributes that `own_attributes` leaves out.

    Args:
        document: a document of the newest edition.
        edition: an element of `EDITIONS`.
    """
    if edition == NEWEST_EDITION:
        return dict(document)
    written: Members = {"specversion": SPECVERSIONS[edition]}
    left_out = _ROOT_DERIVED | (_CONFIGURATION if edition in ("0.4", "0.5") else frozenset())
    for name, value in document.items():
        if name in RESOURCES and isinstance(value, dict):
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
    resources = RESOURCES[plural]
    own = own_attributes({name: value for name, value in group.items() if name != resources})
    written = older_entity(dict(own), plural.removesuffix("s"), edition)
    if resources == "messages":
        older_endpoint(written, edition)
    part = _part(written)
    rewrite_group_itself(plural, key, part)
    _keep_differing(written, part.members, own)
    if isinstance(group.get(resources), dict):
        name = "definitions" if edition == "0.4" and resources == "messages" else resources
        written[name] = {
            id: _resource(resources, id, resource, edition)
            for id, resource in group[resources].items()
        }
    return written


def own_attributes(entity: Mapping[str, Any]) -> Members:
    """An entity without URLs, counts and the attributes that follow from the entity's place."""
    own = {name: value for name, value in entity.items() if name not in _DERIVED}
    if isinstance(meta := own.get("meta"), dict):
        own["meta"] = {name: value for name, value in meta.items() if name not in _DERIVED}
    return own


def _resource(plural: str, key: str, resource: Members, edition: str) -> Members:
    own = own_attributes({name: value for name, value in resource.items() if name != "versions"})
    versions = resource.get("versions")
    repeated: Members = {}
    if isinstance(versions, dict) and edition in ("0.4", "0.5"):
        repeated = _default_attributes(plural, own, versions)
    rewrite = rewrite_message if plural == "messages" else rewrite_schema
    written = _older(plural, repeated | own, plural.removesuffix("s"), edition)
    part = _part(written)
    rewrite(part, key)
    _keep_differing(written, part.members, own)
    if isinstance(versions, dict):
        written["versions"] = {}
        for id, version in versions.items():
            own = own_attributes(version)
            written["versions"][id] = older = _older(plural, own, "version", edition)
            part = _part({"versions": {id: older}})
            rewrite(part, "")
            _keep_differing(older, part.members["versions"][id], own)
    return written


def _default_attributes(plural: str, own: Members, versions: Members) -> Members:
    """The attributes of the default version that early editions repeat in the resource."""
    meta = own.get("meta")
    id = meta.get("defaultversionid") if isinstance(meta, dict) else None
    default = own_attributes(versions[id]) if isinstance(id, str) and id in versions else {}
    hidden = _OF_VERSIONS | (DOCUMENT_ATTRIBUTES if plural == "schemas" else frozenset())
    return {name: value for name, value in default.items() if name not in hidden}


def _older(plural: str, members: Members, singular: str, edition: str) -> Members:
    written = older_entity(dict(members), singular, edition)
    if plural == "messages":
        older_message(written, edition)
    return written


def _part(members: Members) -> DocumentPart:
    """A deep copy of an entity, for a trial migration."""
    return DocumentPart(orjson.loads(orjson.dumps(members)), "", Rewriter())


def _keep_differing(written: Members, migrated: Members, own: Members) -> None:
    """Keep the attributes that migrating the written entity would not restore.

    Args:
        written: the entity in the older edition, which gets the extension `rc4attributes`.
        migrated: the result of migrating the written entity.
        own: the entity in the newest edition.
    """
    written.pop(RC4_ATTRIBUTES, None)
    names = {name for name in own.keys() | migrated.keys() if own.get(name) != migrated.get(name)}
    names.discard(RC4_ATTRIBUTES)
    if names:
        written[RC4_ATTRIBUTES] = {name: own.get(name) for name in sorted(names)}
