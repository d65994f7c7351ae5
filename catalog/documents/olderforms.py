"""Writes attributes in the forms of older editions; `migrate` restores the newest form."""

from __future__ import annotations

from typing import Any

from catalog.documents.editions import EDITIONS
from catalog.documents.rewrites.protocols import family
from catalog.documents.rewrites.references import older_reference

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
    return EDITIONS.index(edition) < EDITIONS.index(other)


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
        members["protocoloptions"] = _older_sections(options, edition)
    if precedes(edition, "rc1"):
        for newer, older in _MESSAGE.items():
            _rename(members, newer, older)
        _rename(members, "dataschemauri", "schemaurl" if edition == "0.4" else "schemauri")
    if edition == "0.4":
        _fold_metadata(members)
        for name in ("basemessageurl", "basemessageuri", "schemaurl"):
            if name in members:
                members[name] = _reference(members[name])


def _older_sections(options: Members, edition: str) -> Members:
    options = dict(options)
    if edition == "rc3":
        for name in _AMQP_SECTIONS:
            _rename(options, name, name.replace("-", "_"))
    return options


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
