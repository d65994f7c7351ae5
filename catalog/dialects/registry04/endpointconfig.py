"""Translates an endpoint's `config` to `protocol` and `protocoloptions`, and back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from catalog.dialects.registry04.entityreferences import References
from catalog.dialects.registry04.names import Json, native_protocol
from catalog.documents.rewrites.protocols import kafka_address
from catalog.model.schema import EXTENDED_NAME, STRICT_NAME

_MQTT = {"will-topic": "willtopic", "will-message": "willmessage"}
# The names of protocol options in the standard, where the names differ.
_RENAMED: Mapping[str, Mapping[str, str]] = {
    "MQTT/5.0": _MQTT | {"clean-session": "cleanstart"},
    "MQTT/3.1.1": _MQTT | {"clean-session": "cleansession"},
    "KAFKA": {"consumer-group": "consumergroup"},
}
_NUMBERS = frozenset({"qos", "acks", "partition"})
_SWITCHES = frozenset({"retain", "durable", "cleanstart", "cleansession"})
_NUMBER = re.compile(r"-?[0-9]{1,15}")
_OWN = ("endpoints", "deployed")


def native_config(
    config: Mapping[str, Any], before: Mapping[str, Any], references: References
) -> Json:
    """The native attributes for an endpoint's `config`.

    Args:
        before: the present native attributes; a known address keeps the attributes beside the URI.
    """
    protocol = config.get("protocol")
    native: Json = {}
    if isinstance(protocol, str) and protocol:
        native["protocol"] = protocol = native_protocol(protocol)
    options = _native_options(str(protocol), config.get("options"))
    _refer_to_will(options, before, references)
    if isinstance(addresses := config.get("endpoints"), list):
        present = _by_uri(before)
        new = kafka_address if protocol == "KAFKA" else dict
        options["endpoints"] = [present.get(str(uri), new({"uri": uri})) for uri in addresses]
    options["deployed"] = config.get("strict", False)
    native["protocoloptions"] = options
    return native


def own_config(attributes: Mapping[str, Any], references: References) -> Json | None:
    """An endpoint's `config`; `None` if the native attributes have no part of a `config`."""
    config: Json = {}
    if "protocol" in attributes:
        config["protocol"] = attributes["protocol"]
    native = attributes.get("protocoloptions")
    if isinstance(native, dict):
        if "deployed" in native:
            config["strict"] = native["deployed"]
        if "endpoints" in native:
            config["endpoints"] = [*_by_uri(attributes)]
        options = _own_options(str(config.get("protocol")), native, references)
        if options:
            config["options"] = options
    return config or None


def _by_uri(attributes: Mapping[str, Any]) -> dict[str, Json]:
    """The addresses of an endpoint by URI, in order."""
    options = attributes.get("protocoloptions")
    addresses = options.get("endpoints") if isinstance(options, dict) else None
    return {
        uri: address
        for address in (addresses if isinstance(addresses, list) else ())
        if isinstance(address, dict) and (uri := _uri_of(address))
    }


def _uri_of(address: Mapping[str, Any]) -> str:
    """The URI of an address; for brokers of Kafka, the scheme is the security protocol."""
    servers = address.get("bootstrap.servers")
    if "uri" in address or not isinstance(servers, list):
        return str(address.get("uri", ""))
    scheme = f"{security}://" if (security := address.get("security.protocol")) else ""
    return scheme + ",".join(map(str, servers))


def _native_options(protocol: str, options: Any) -> Json:
    """Options under the standard's names, except options without a valid native name."""
    renamed = _RENAMED.get(protocol, {})
    charset = EXTENDED_NAME if protocol == "AMQP/1.0" else STRICT_NAME
    native: Json = {}
    for name, value in options.items() if isinstance(options, dict) else ():
        name = renamed.get(name, name)
        if name not in _OWN and charset.fullmatch(name):
            native[name] = _typed(name, value)
    return native


def _refer_to_will(options: Json, before: Mapping[str, Any], references: References) -> None:
    """Refer to a will message by the xid in a message group; drop every other reference."""
    held = before.get("protocoloptions")
    present = held.get("willmessage") if isinstance(held, Mapping) else None
    if isinstance(message := options.get("willmessage"), str):
        options["willmessage"] = will = references.native(message, (present,))
        if not will.startswith("/") or will.startswith("/endpoints/"):
            del options["willmessage"]


def _own_options(protocol: str, native: Mapping[str, Any], references: References) -> Json:
    names = {ours: own for own, ours in _RENAMED.get(protocol, {}).items()}
    options = {names.get(k, k): v for k, v in native.items() if k not in _OWN}
    message = options.get("will-message")
    if isinstance(message, str):
        options["will-message"] = references.own(message)
    return options


def _typed(name: str, value: Any) -> Any:
    """The value of an option. Edition 0.4 defines strings, but the examples have further types."""
    if not isinstance(value, str):
        return value
    if name in _NUMBERS and _NUMBER.fullmatch(value):
        return int(value)
    return value == "true" if name in _SWITCHES and value in ("true", "false") else value
