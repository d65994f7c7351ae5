"""Rewrites the addresses of endpoints for another network, where bridges stand for them. Pure.

The addresses are those that clients connect to: `protocoloptions.endpoints`, whose entries have a
`uri` or, for Kafka, `bootstrap.servers`, and the `subscriptionurl` of the Discovery API. What the
authority wrote is kept beside them, so the copy has the same digest, and is sent on as it came.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from catalog.model.entity import Entity
from catalog.store.links import LinkDefinition
from replication.deciding.copychecks import Incoming
from replication.deciding.mapping import read_names

ENDPOINTS = "endpoints"
# Of an endpoint's entries, and of the brokers of each, as many are looked at: each may grow.
_MOST_ENTRIES = 100
_LONGEST_URL = 255
_KAFKA, _BROKERS = "kafka", "bootstrap.servers"
_HOST = r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~-]+)"
_URL = re.compile(
    rf"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://{_HOST}(?::(?P<port>[1-9][0-9]{{0,4}}))?"
    r"(?P<path>(?:/[A-Za-z0-9._~%!$&'()+,;:@-]*)*)"
)
# An address may be a URI template, whose expressions may begin what follows a host, or be a port.
_ADDRESS = re.compile(
    rf"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<user>[^/?#@]*@)?{_HOST}"
    r"(?P<port>:(?:[0-9]+|\{[^{}]*\}))?(?P<rest>(?:[/?#]|\{[/?#]).*)?",
    re.DOTALL,
)
_BOUNDARY = re.compile(r"\{?[/?#]|\Z")


@dataclass(frozen=True, slots=True)
class _Place:
    """The part of a URL that says where something is; the `path` has no slash at its end."""

    scheme: str
    host: str
    port: str
    path: str

    @classmethod
    def parse(cls, url: str) -> Self | None:
        found = _URL.fullmatch(url)
        if found is None or len(url) > _LONGEST_URL or int(found["port"] or 0) > 65535:
            return None
        path = found["path"].rstrip("/")
        return cls(found["scheme"].lower(), found["host"].lower(), found["port"] or "", path)


@dataclass(frozen=True, slots=True)
class AddressRules:
    """The rules of a link by which addresses at its source become addresses here.

    A rule is for the addresses that have its scheme and host, its port if it names one, and its
    path or one below it. Of several, the one with the longest path is taken, and of these the one
    with a port.

    Args:
        rules: valid ones, by the URL at the source.
    """

    rules: Mapping[str, str] = field(default_factory=dict)
    _by_host: Mapping[tuple[str, str], list[tuple[_Place, _Place]]] = field(
        init=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        by_host: dict[tuple[str, str], list[tuple[_Place, _Place]]] = {}
        for urls in self.rules.items():
            there, here = map(_Place.parse, urls)
            assert there is not None
            assert here is not None
            by_host.setdefault((there.scheme, there.host), []).append((there, here))
        for pairs in by_host.values():
            pairs.sort(key=lambda pair: (len(pair[0].path), bool(pair[0].port)), reverse=True)
        object.__setattr__(self, "_by_host", by_host)

    def address(self, address: str) -> str:
        """The address here of one at the source; the same one if no rule is for it."""
        found = _ADDRESS.fullmatch(address)
        if found is None:
            return address
        host = found["scheme"].lower(), found["host"].lower()
        port, rest = found["port"] or "", found["rest"] or ""
        for there, here in self._by_host.get(host, ()):
            is_below = rest.startswith(there.path) and _BOUNDARY.match(rest, len(there.path))
            if is_below and there.port in ("", port[1:]):
                kept = "" if there.port else port
                port = f":{here.port}" if here.port else kept
                user = found["user"] or ""
                below = rest[len(there.path) :]
                return f"{here.scheme}://{user}{here.host}{port}{here.path}{below}"
        return address

    def apply(self, entity: Entity) -> Entity:
        """An entity with its addresses here, whatever they were before."""
        is_endpoint = entity.kind == "group" and entity.origin.startswith(f"/{ENDPOINTS}/")
        if entity.damage or not is_endpoint:
            return entity
        published = entity.published
        changed = {
            name: value
            for name, value in self._shown(published).items()
            if value != published[name]
        }
        kept = {name: published[name] for name in changed} or None
        return replace(entity, attributes={**published, **changed}, replaced=kept)

    def _shown(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """The attributes that have addresses, with those of here."""
        shown: dict[str, Any] = {}
        options, url = attributes.get("protocoloptions"), attributes.get("subscriptionurl")
        if isinstance(options, dict) and isinstance(listed := options.get("endpoints"), list):
            entries = _each(self._entry, listed)
            shown["protocoloptions"] = {**options, "endpoints": entries}
        if isinstance(url, str):
            shown["subscriptionurl"] = self.address(url)
        return shown

    def _entry(self, entry: Any) -> Any:
        """An entry of an endpoint's list of addresses, rewritten. The entry may be malformed."""
        if isinstance(entry, str):
            return self.address(entry)
        if not isinstance(entry, dict):
            return entry
        shown = dict(entry)
        if isinstance(uri := entry.get("uri"), str):
            shown["uri"] = self.address(uri)
        if isinstance(brokers := entry.get(_BROKERS), list):
            shown[_BROKERS] = _each(self._broker, brokers)
        return shown

    def _broker(self, broker: Any) -> Any:
        """A broker of Kafka, which has no scheme: rules are for it as for `kafka://HOST:PORT`."""
        if not isinstance(broker, str):
            return broker
        return self.address(f"{_KAFKA}://{broker}").removeprefix(f"{_KAFKA}://")


def _each(rewrite: Callable[[Any], Any], listed: list[Any]) -> list[Any]:
    return [*map(rewrite, listed[:_MOST_ENTRIES]), *listed[_MOST_ENTRIES:]]


NO_RULES = AddressRules()
"""Leaves all addresses as they are at their authorities."""


def rules_of(definition: LinkDefinition) -> AddressRules:
    """The rules of a link."""
    return AddressRules(read_names(definition.addresses))


def rewrite_copies(copies: Iterable[Incoming], rules: AddressRules) -> list[Incoming]:
    """The same copies with the addresses of here."""
    if not rules.rules:
        return list(copies)
    return [rules.apply(copy) if isinstance(copy, Entity) else copy for copy in copies]


def why_no_rules(rules: Mapping[str, str]) -> str:
    """The reason why a table of rules cannot be used; empty if it can."""
    seen = set()
    for urls in rules.items():
        there, here = map(_Place.parse, urls)
        if there is None or here is None:
            wrong = urls[0] if there is None else urls[1]
            return f'"{wrong[:64]}" is not the beginning of an address, as amqp://broker:5672'
        # A broker of Kafka is an address of which only the host and the port are written.
        if _KAFKA in (there.scheme, here.scheme) and (
            there.scheme != here.scheme or there.path or here.path
        ):
            return f"{urls[0]} and {urls[1]} both have to be brokers, as kafka://broker:9092"
        if there in seen:
            return f"there are two rules for {urls[0]}"
        seen.add(there)
    return ""
