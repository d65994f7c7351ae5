"""Translates a service to an endpoint with its messages, and back: pure, no I/O.

Attributes without a native form are kept in extension attributes of the same name; the order
of events, and attributes that the seed does not define, in the extension attribute `discovery`.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from catalog.dialects.discovery.attributechecks import OF_SERVICE
from catalog.dialects.discovery.events import (
    DISCOVERY_ATTRIBUTE,
    Json,
    StoredService,
    as_object,
    match_events,
    message_patches,
    put_or_remove,
    put_order,
    shown_events,
)

SUBSCRIBER = "subscriber"
# The namespace of derived ids; a name is an authority, a line feed, and the xid at the authority.
NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "urn:concord:services")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE)

_RENAMED = {"name": "name", "description": "description", "docsurl": "documentation"}
_KEPT = ("subscriptionconfig", "subscriptiondialects", "authscope")
_KNOWN = {*OF_SERVICE, "id", "epoch", "url", "events"}
_DEPRECATED = {"effectivetime": "effective", "removaltime": "removal", "docsurl": "docs"}
_SHOWN_DEPRECATED = {native: name for name, native in _DEPRECATED.items()}
_PROTOCOLS = {"AMQP": "AMQP/1.0", "MQTT3": "MQTT/3.1.1", "MQTT5": "MQTT/5.0"}
_NATIVE_PROTOCOLS = {native: name for name, native in _PROTOCOLS.items()}
_HTTP = re.compile(r"https?://.+", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """The patches of an endpoint and its messages, and the messages to delete."""

    endpoint: Json
    messages: dict[str, Json]
    deleted: list[str]


def from_entities(held: StoredService, base: str) -> Json:
    """Show an endpoint as a service, without id, epoch and the URLs of the server.

    Values that violate the constraints of services are left out.
    """
    attributes = held.attributes
    own = as_object(attributes.get(DISCOVERY_ATTRIBUTE))
    found: Json = {name: attributes.get(native) for name, native in _RENAMED.items()}
    found["name"] = found["name"] or held.id
    found |= {name: attributes.get(name) for name in _KEPT}
    found["deprecated"] = _renamed(attributes.get("deprecated"), _SHOWN_DEPRECATED)
    found["specversions"] = _specversions(attributes)
    found["protocols"] = _protocols(attributes)
    found["subscriptionurl"] = attributes.get("subscriptionurl") or _url_in(attributes)
    service = {n: v for n, v in found.items() if v is not None and not OF_SERVICE[n](v)}
    events = [*shown_events(held, base).values()]
    if events or own.get("events") == []:
        service["events"] = events
    service["name"] = found["name"]
    unknown = as_object(own.get("attributes")).items()
    return service | {name: value for name, value in unknown if name not in _KNOWN}


def to_entities(service: Mapping[str, Any], held: StoredService, base: str) -> Patch:
    """The patch that turns an endpoint into a service; attributes not shown in a service stay.

    Args:
        service: a service that fulfils the constraints.
        held: the endpoint before the patch, without attributes if the endpoint is new.
    """
    attributes = held.attributes
    shown = from_entities(held, base) if attributes else {}
    names = service.keys() | shown.keys()
    changed = {name for name in names if service.get(name) != shown.get(name)}
    own = dict(as_object(attributes.get(DISCOVERY_ATTRIBUTE)))
    patch: Json = {n: service.get(name) for name, n in _RENAMED.items() if name in changed}
    patch |= {name: service.get(name) for name in _KEPT if name in changed}
    if "deprecated" in changed:
        patch["deprecated"] = _renamed(service.get("deprecated"), _DEPRECATED)
    if "specversions" in changed:
        patch |= _put_specversions(service.get("specversions"), attributes)
    if "subscriptionurl" in changed:
        patch |= _put_url(service.get("subscriptionurl"), attributes)
    if changed & {"protocols", "subscriptionurl"}:
        patch |= _put_protocols(service["protocols"], {**attributes, **patch})
    shown_now = shown_events(held, base)
    events = service.get("events") or []
    order = match_events(events, shown_now, held)
    put_order(own, events, order, held)
    if service.get("events") == []:
        own["events"] = []
    put_or_remove(own, "attributes", {n: v for n, v in service.items() if n not in _KNOWN})
    patch |= {"usage": _with_subscriber(attributes.get("usage")), DISCOVERY_ATTRIBUTE: own or None}
    return Patch(
        endpoint={name: value for name, value in patch.items() if value != attributes.get(name)},
        messages=message_patches(service, order, shown_now, held),
        deleted=[id for id in shown_now if id in held.messages and id not in {*order}],
    )


def is_service(attributes: Mapping[str, Any]) -> bool:
    """Whether an endpoint with the given attributes is shown as a service."""
    return SUBSCRIBER in _usage(attributes.get("usage"))


def _usage(usage: Any) -> list[Any]:
    return [*usage] if isinstance(usage, list | dict) else [usage]


def _with_subscriber(usage: Any) -> Any:
    if SUBSCRIBER in _usage(usage):
        return usage
    return [*_usage(usage), SUBSCRIBER] if usage else [SUBSCRIBER]


def _renamed(value: Any, names: Mapping[str, str]) -> Json | None:
    if not isinstance(value, dict):
        return None
    return {names.get(name, name): item for name, item in value.items()}


def _specversions(attributes: Mapping[str, Any]) -> Any:
    kept = attributes.get("specversions")
    envelope = str(attributes.get("envelope") or "")
    if not envelope.lower().startswith("cloudevents/"):
        return kept
    version = envelope.partition("/")[2]
    kept = [] if kept is None or OF_SERVICE["specversions"](kept) else kept
    return kept if version in kept else [version, *kept]


def _put_specversions(versions: list[str] | None, attributes: Mapping[str, Any]) -> Json:
    """The native envelope, and the versions that the envelope does not express."""
    envelope = str(attributes.get("envelope") or "")
    version = envelope.partition("/")[2]
    if envelope.lower().startswith("cloudevents/") and version not in (versions or ()):
        envelope = ""
    if not envelope and "1.0" in (versions or ()):
        envelope, version = "CloudEvents/1.0", "1.0"
    is_said = bool(envelope) and versions == [version]
    return {"envelope": envelope or None, "specversions": None if is_said else versions}


def _protocols(attributes: Mapping[str, Any]) -> Any:
    kept = attributes.get("protocols")
    if kept is not None and not OF_SERVICE["protocols"](kept):
        return kept
    native = attributes.get("protocol")
    return [_NATIVE_PROTOCOLS.get(native.upper(), native)] if isinstance(native, str) else None


def _put_protocols(protocols: list[str], attributes: Mapping[str, Any]) -> Json:
    """The native protocol, for subscribing, and `protocols`, for delivery.

    An endpoint without a native protocol takes the first of `protocols`.
    """
    native = attributes.get("protocol") or _PROTOCOLS.get(protocols[0], protocols[0])
    is_said = _protocols({"protocol": native}) == protocols
    return {"protocol": native, "protocols": None if is_said else protocols}


def _addresses(attributes: Mapping[str, Any]) -> list[Json]:
    found = as_object(attributes.get("protocoloptions")).get("endpoints")
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _url_in(attributes: Mapping[str, Any]) -> str | None:
    """The URL of the subscription manager, which is an address of an endpoint over HTTP.

    Source: endpoint/spec.md, "HTTP".
    """
    if str(attributes.get("protocol")).upper() != "HTTP":
        return None
    urls = (str(one.get("uri")) for one in _addresses(attributes))
    return next((url for url in urls if _HTTP.fullmatch(url)), None)


def _put_url(url: str | None, attributes: Mapping[str, Any]) -> Json:
    protocol = attributes.get("protocol")
    speaks_http = str(protocol or "HTTP").upper() == "HTTP"
    is_native = url is not None and speaks_http and _HTTP.fullmatch(url) is not None
    held = _url_in(attributes)
    if not is_native and held is None:
        return {"subscriptionurl": url}
    options = deepcopy(as_object(attributes.get("protocoloptions")))
    addresses = _addresses({"protocoloptions": options})
    addresses = [one for one in addresses if held is None or one.get("uri") != held]
    if is_native:
        addresses.insert(0, {"uri": url})
    put_or_remove(options, "endpoints", addresses)
    return {
        "protocol": protocol or "HTTP",
        "protocoloptions": options or None,
        "subscriptionurl": None if is_native else url,
    }


def is_service_id(value: object) -> bool:
    """Whether a value is a UUID in the notation of RFC 4122."""
    return isinstance(value, str) and _UUID.fullmatch(value) is not None


def service_id(authority: str, origin: str) -> str:
    """The id of an endpoint's service, the same in every catalog that shows the service.

    The id is the id of the endpoint if that is a UUID, as of every endpoint that was created as a
    service. Else it is a UUID derived from `authority` and `origin`, which never change.

    Args:
        authority: the authority of the endpoint.
        origin: the xid of the endpoint at the authority.
    """
    own = origin.rpartition("/")[2]
    if is_service_id(own):
        return own
    return str(uuid.uuid5(NAMESPACE, f"{authority}\n{origin}"))
