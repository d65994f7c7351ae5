"""Older names and shapes of endpoints, message groups and schema groups."""

from __future__ import annotations

from typing import Any

from catalog.documents.rewriter import DocumentPart, RewriteRule
from catalog.documents.rewrites import attributes, protocols

_AMQP_DASHES = frozenset(
    {"link-properties", "connection-properties", "distribution-mode", "connection-capabilities"}
    | {"node-capabilities", "source-filters", "terminus-durability", "expiry-policy"}
    | {"sender-settle-mode", "receiver-settle-mode"}
)
_OPTIONS = {
    "amqp": {
        old: name
        for name in _AMQP_DASHES
        for old in (name.replace("-", ""), name.replace("-", "_"))
    },
    "mqtt": {
        "clean-session": "cleansession",
        "will-topic": "willtopic",
        "will-message": "willmessage",
    },
    "kafka": {"consumer-group": "consumergroup"},
}

_USAGE = RewriteRule("usage is an array", "rc1")
_GROUPS = RewriteRule("definition groups are called message groups", "0.5")
_CONFIG = RewriteRule("the configuration of an endpoint is its protocol and protocoloptions", "0.5")
_STRICT = RewriteRule("strict is called deployed", "0.5")
_DEPLOYED = RewriteRule("an endpoint is deployed unless it says otherwise; it was not", "0.5")
_ADDRESS = RewriteRule("each address of an endpoint is an object with a uri", "0.5")
_INSIDE = RewriteRule("addresses, options and deployed belong to protocoloptions", "rc3")
_NESTED = RewriteRule("options are members of protocoloptions", "rc3")
_AUTHORIZATION = RewriteRule("authorization is an array", "rc3")
_NAMES = RewriteRule("protocol options have the names of the standard", "rc3")
_WILL = RewriteRule("a will is a message of this catalog, named by its xid", "0.5")
_CLEAN = RewriteRule("the clean start of MQTT 5 is called cleanstart", "rc3")


def rewrite_group(plural: str, key: str, group: DocumentPart) -> None:
    """Rewrite the attributes of a group, but not the resources."""
    if plural == "endpoints":
        _rewrite_endpoint(group, key)
    else:
        attributes.trim_urls(group)
        if plural == "messagegroups":
            protocols.rewrite_format(group)
        attributes.rewrite_entity(group, key, plural.removesuffix("s"))


def _rewrite_endpoint(part: DocumentPart, key: str) -> None:
    """Rewrite the attributes of an endpoint, but not the messages."""
    attributes.trim_urls(part)
    if isinstance(usage := part.members.get("usage"), str):
        part.set("usage", [usage], _USAGE)
    _rewrite_config(part)
    protocols.rewrite_format(part)
    for name in ("definitionGroups", "definitiongroups"):
        part.rename(name, "messagegroups", _GROUPS)
    attributes.rewrite_references(part, "messagegroups")
    _rewrite_outside(part)
    if (options := part.inside("protocoloptions")) is not None:
        _rewrite_options(options, part.members.get("protocol"))
    attributes.rewrite_entity(part, key, "endpoint")


def _rewrite_config(part: DocumentPart) -> None:
    config = part.inside("config")
    options = part.opened("protocoloptions") if config is not None else None
    if config is None or options is None:
        part.leave_out("config", "it is no object, or protocoloptions is none")
        return
    config.move("protocol", part, "protocol", _CONFIG)
    protocols.rewrite_protocol(part)
    if not isinstance(config.members.get("strict", False), bool):
        config.leave_out("strict", "it is neither true nor false")
    config.move("strict", options, "deployed", _STRICT)
    if "deployed" not in options.members:
        options.set("deployed", False, _DEPLOYED)
    config.lift("options", options, _CONFIG)
    part.lift("config", options, _CONFIG)


def _rewrite_outside(part: DocumentPart) -> None:
    """Move options of the protocol from the endpoint itself to `protocoloptions`."""
    found = {"endpoints": list, "deployed": bool}
    names = [name for name, kind in found.items() if isinstance(part.members.get(name), kind)]
    if names and (options := part.opened("protocoloptions")) is not None:
        for name in names:
            part.move(name, options, name, _INSIDE)


def _rewrite_options(options: DocumentPart, protocol: Any) -> None:
    options.lift("options", options, _NESTED)
    if isinstance(addresses := options.members.get("endpoints"), list):
        options.set("endpoints", [_address(item) for item in addresses], _ADDRESS)
    if protocols.family(protocol) == "kafka":
        protocols.rewrite_kafka_addresses(options)
    if isinstance(authorization := options.members.get("authorization"), dict):
        options.set("authorization", [authorization], _AUTHORIZATION)
    for old, new in _OPTIONS.get(protocols.family(protocol), {}).items():
        options.rename(old, new, _NAMES)
    if isinstance(protocol, str) and protocol.lower() in ("mqtt", "mqtt/5.0"):
        options.rename("cleansession", "cleanstart", _CLEAN)
    if protocols.family(protocol) == "mqtt" and isinstance(options.members.get("willmessage"), str):
        _rewrite_will(options)


def _rewrite_will(options: DocumentPart) -> None:
    """Rewrite a JSON pointer as an xid; leave out a URI that is no message of the catalog."""
    options.set("willmessage", attributes.message_xid(options.members["willmessage"]), _WILL)
    if not attributes.is_message_xid(options.members["willmessage"]):
        options.leave_out("willmessage", "a will has to be a message of this catalog")


def _address(item: Any) -> Any:
    if isinstance(item, str):
        return {"uri": item}
    if isinstance(item, dict) and "url" in item and "uri" not in item:
        return {("uri" if name == "url" else name): value for name, value in item.items()}
    return item
