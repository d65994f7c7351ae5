"""Writes a document of the newest edition in an older edition; `migrate` restores the original."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from catalog.documents import migration
from catalog.documents.rewriter import RC4_ATTRIBUTES, DocumentPart, Rewriter
from catalog.documents.rewrites.attributes import older_reference
from catalog.documents.rewrites.groups import rewrite_group
from catalog.documents.rewrites.protocols import family
from catalog.documents.rewrites.resources import (
    DOCUMENT_ATTRIBUTES,
    rewrite_message,
    rewrite_schema,
)

Members = dict[str, Any]
_ENTITY = {
    "labels": "tags",
    "documentation": "docs",
    "createdat": "createdOn",
    "modifiedat": "modifiedOn",
}
_MESSAGE = {
    "dataschemaformat": "schemaformat",
    "dataschema": "schema",
    "basemessage": "basemessageurl",
}
_AMQP_ENDPOINT = ("link-properties", "connection-properties", "distribution-mode")
_AMQP_SECTIONS = ("application-properties", "message-annotations", "delivery-annotations")


def precedes(edition: str, other: str) -> bool:
    """Whether an edition is older than a second edition."""
    return migration.EDITIONS.index(edition) < migration.EDITIONS.index(other)


def older_entity(members: Members, singular: str, edition: str) -> Members:
    """Rename the attributes that every entity has, in place."""
    if edition == "0.4":
        _rename(members, f"{singular}id", "id")
        for newer, older in _ENTITY.items():
            _rename(members, newer, older)
    return members


def older_endpoint(members: Members, edition: str) -> None:
    """Rewrite an endpoint or message group in place."""
    usage = members.get("usage")
    if precedes(edition, "rc2") and isinstance(usage, list) and usage:
        members["usage"] = usage[0]
    options = members.get("protocoloptions")
    if isinstance(options, dict) and precedes(edition, "rc3"):
        # Only the newest editions assume that an endpoint without the member is deployed.
        members["protocoloptions"] = options = {"deployed": True, **options}
    if isinstance(options, dict) and precedes(edition, "rc4") and edition != "0.4":
        members["protocoloptions"] = _older_options(options, members.get("protocol"), edition)
    if edition == "0.4":
        _fold_config(members)
        if isinstance(groups := members.pop("messagegroups", None), list):
            members["definitionGroups"] = [_reference(item) for item in groups]


def _older_options(options: Members, protocol: Any, edition: str) -> Members:
    options = dict(options)
    authorization = options.get("authorization")
    if isinstance(authorization, list) and len(authorization) == 1:
        options["authorization"] = authorization[0]
    if family(protocol) == "amqp":
        mark = "_" if edition == "rc3" else ""
        for name in _AMQP_ENDPOINT:
            _rename(options, name, name.replace("-", mark))
    if protocol == "MQTT/5.0":
        _rename(options, "cleanstart", "cleansession")
    return options


def _fold_config(members: Members) -> None:
    if _is_event(members):
        _rename(members, "envelope", "format")
    options = members.get("protocoloptions")
    if not isinstance(options, dict) or "config" in members or "usage" not in members:
        return
    rest = {name: value for name, value in options.items() if name not in ("endpoints", "deployed")}
    config: Members = {"protocol": members["protocol"]} if "protocol" in members else {}
    if isinstance(addresses := options.get("endpoints"), list):
        config["endpoints"] = [_uri(item) for item in addresses]
    if "deployed" in options:
        config["strict"] = options["deployed"]
    members["config"] = {**config, "options": rest} if rest else config
    members.pop("protocol", None)
    del members["protocoloptions"]


def _is_event(members: Members) -> bool:
    return _is_string(members, "envelope") and members["envelope"].startswith("CloudEvents")


def _uri(address: Any) -> Any:
    return address["uri"] if isinstance(address, dict) and [*address] == ["uri"] else address


def older_message(members: Members, edition: str) -> None:
    """Rewrite a message definition in place, but not the versions."""
    if precedes(edition, "rc3") and _is_string(members, "basemessage"):
        _rename(members, "basemessage", "basemessageurl")
    options = members.get("protocoloptions")
    if isinstance(options, dict) and family(members.get("protocol")) == "amqp":
        members["protocoloptions"] = options = dict(options)
        for name in _AMQP_SECTIONS if edition == "rc3" else ():
            _rename(options, name, name.replace("-", "_"))
    if precedes(edition, "rc1"):
        for newer, older in _MESSAGE.items():
            _rename(members, newer, older)
        _rename(members, "dataschemauri", "schemaurl" if edition == "0.4" else "schemauri")
    if edition == "0.4":
        _fold_metadata(members)
        for name in ("basemessageurl", "basemessageuri", "schemaurl"):
            if name in members:
                members[name] = _reference(members[name])


def _fold_metadata(members: Members) -> None:
    """Write the envelope or protocol of a message as `format` and `metadata`."""
    if _is_event(members):
        _rename(members, "envelope", "format")
        if isinstance(metadata := members.get("envelopemetadata"), dict) and metadata:
            _rename(members, "envelopemetadata", "metadata")
            members["metadata"] = {"attributes": metadata}
    elif _is_string(members, "protocol") and "envelopemetadata" not in members:
        _rename(members, "protocol", "format")
        _rename(members, "protocoloptions", "metadata")


def _is_string(members: Members, name: str) -> bool:
    return isinstance(members.get(name), str)


def _reference(value: Any) -> Any:
    return older_reference(value) if isinstance(value, str) else value


def _rename(members: Members, old: str, new: str) -> None:
    if old in members and new not in members:
        members[new] = members.pop(old)


_CAMEL = {"messagegroups": "definitionGroups", "schemagroups": "schemaGroups"}
_DERIVED = frozenset(
    {"self", "shortself", "xid", "metaurl", "versionsurl", "versionscount", "defaultversionurl"}
    | {"messagesurl", "messagescount", "schemasurl", "schemascount"}
)
_ROOT_DERIVED = frozenset({"specversion", "self", "shortself", "xid"}).union(
    *({f"{plural}url", f"{plural}count"} for plural in migration.RESOURCES)
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
    if edition == migration.NEWEST_EDITION:
        return dict(document)
    written: Members = {"specversion": migration.SPECVERSIONS[edition]}
    left_out = _ROOT_DERIVED | (_CONFIGURATION if edition in ("0.4", "0.5") else frozenset())
    for name, value in document.items():
        if name in migration.RESOURCES and isinstance(value, dict):
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
    resources = migration.RESOURCES[plural]
    own = own_attributes({name: value for name, value in group.items() if name != resources})
    written = older_entity(dict(own), plural.removesuffix("s"), edition)
    if resources == "messages":
        older_endpoint(written, edition)
    part = _part(written)
    rewrite_group(plural, key, part)
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
