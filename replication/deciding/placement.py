"""Gives incoming copies their local xids, and endpoints their local addresses. Pure.

Only new groups get local names from the mapping of a link. A stored group keeps the xid, and copies
of entities below follow the group, regardless of the link. Only the id of a group changes: entities
below keep the rest of the path, and every entity keeps the origin, so the digest of a copy does not
depend on the local name.

Addresses are rewritten for a network in which bridges replace endpoints: those that clients connect
to, in `protocoloptions.endpoints`, whose entries have a `uri` or, for Kafka, `bootstrap.servers`,
and the `subscriptionurl` of the Discovery API. The original values are stored beside the local
values, so the copy keeps the digest, and is sent on unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from catalog.model.entity import Entity, Origin
from catalog.model.xid import group_path, is_valid_id
from catalog.store.links import LinkDefinition
from replication.deciding.copychecks import Copy, Incoming, MalformedCopy


class NoPlace(ValueError):
    """A mapping has no local name for an entity; the message says why."""


@dataclass(frozen=True, slots=True)
class GroupMapping:
    """The local names of groups.

    Args:
        prefix: precedes the id of each group that is not in `names`.
        names: the local path of a group by the path at the authority, such as
            `messagegroups/shop`. Local paths are unique, regardless of case.
    """

    prefix: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    _owners: Mapping[str, str] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        owners = {here.lower(): there for there, here in self.names.items()}
        object.__setattr__(self, "_owners", owners)

    def place(self, origin: str) -> str:
        """The local xid of an entity with the xid `origin` at the authority, unique for each.

        Raises:
            NoPlace
        """
        if not (self.prefix or self.names):
            return origin
        _, groups, id, *below = origin.split("/", 3)
        there = f"{groups}/{id}"
        here = self.names.get(there)
        if here is None:
            here = f"{groups}/{self.prefix}{id}"
            if not is_valid_id(self.prefix + id):
                raise NoPlace(f"with the prefix {self.prefix}, the name of its group is too long")
            if here.lower() in self._owners:
                raise NoPlace(f"the link gives its name here to {self._owners[here.lower()]}")
        return "/".join(("", here, *below))


UNMAPPED = GroupMapping()
"""Leaves the names of groups unchanged."""


def mapping_of(definition: LinkDefinition) -> GroupMapping:
    """The mapping of a link."""
    return GroupMapping(prefix=definition.prefix, names=read_names(definition.map))


def read_names(pairs: Iterable[str]) -> dict[str, str]:
    """Read pairs as `messagegroups/shop=messagegroups/eu-shop`."""
    return {there: here for there, _, here in (pair.partition("=") for pair in pairs)}


def write_names(names: Mapping[str, str]) -> tuple[str, ...]:
    """Write the pairs that `read_names` reads, sorted by the path at the authority."""
    return tuple(f"{there}={here}" for there, here in sorted(names.items()))


def why_no_names(names: Mapping[str, str]) -> str:
    """The reason why a table of names is invalid; empty if it is valid."""
    for path in (*names, *names.values()):
        groups, _, id = path.partition("/")
        if not (is_valid_id(groups) and is_valid_id(id)):
            return f'"{path[:64]}" is not the path of a group, as messagegroups/shop'
    for there, here in names.items():
        if there.partition("/")[0] != here.partition("/")[0]:
            return f"{there} cannot become a group of another type, {here}"
    if len({here.lower() for here in names.values()}) < len(names):
        return "two groups cannot have one name"
    return ""


class PlacesChanged(Exception):
    """Groups have different xids than assumed when copies were placed.

    `held` are the xids that differ from the mapping, by the origin of the group.
    """

    def __init__(self, held: Mapping[Origin, str]) -> None:
        super().__init__("groups are elsewhere")
        self.held = held


def place_copies(
    copies: Iterable[Incoming], mapping: GroupMapping, held: Mapping[Origin, str]
) -> list[Incoming]:
    """Give copies local xids; return a `MalformedCopy` in place of a copy without a local name.

    Args:
        copies: checked copies.
        held: the xids of stored groups that differ from the mapping, by origin.
    """
    placed: list[Incoming] = []
    for copy in copies:
        try:
            placed.append(copy if isinstance(copy, MalformedCopy) else _placed(copy, mapping, held))
        except NoPlace as error:
            reason = str(error)
            placed.append(MalformedCopy.of(copy.authority, copy.origin, reason, epoch=copy.epoch))
    return placed


def groups_of(copies: Collection[Copy]) -> set[Origin]:
    """The origins of the groups of copies, and of the groups of cross references' targets."""
    groups = {Origin(copy.authority, group_path(copy.origin)) for copy in copies}
    for copy in copies:
        if isinstance(copy, Entity) and "xref" in copy.attributes:
            groups.add(Origin(copy.authority, group_path(copy.published["xref"])))
    return groups


def check_places(
    mapping: GroupMapping, assumed: Mapping[Origin, str], live: Mapping[Origin, str]
) -> None:
    """Raise `PlacesChanged` unless groups have the xids assumed when copies were placed.

    Args:
        assumed: as `held` of `place_copies`.
        live: the xids of stored groups, by origin.
    """
    held = {}
    for origin, xid in live.items():
        try:
            is_elsewhere = mapping.place(origin.xid) != xid
        except NoPlace:
            is_elsewhere = True
        if is_elsewhere:
            held[origin] = xid
    if held != assumed:
        raise PlacesChanged(held)


def _placed(copy: Copy, mapping: GroupMapping, held: Mapping[Origin, str]) -> Copy:
    xid = _xid_here(copy.authority, copy.origin, mapping, held)
    if xid != copy.xid:
        copy = replace(copy, xid=xid)
    if isinstance(copy, Entity) and copy.kind == "resource" and "xref" in copy.attributes:
        published = copy.published
        target = _xid_here(copy.authority, published["xref"], mapping, held)
        # The original target is kept beside the local target.
        kept = None if target == published["xref"] else {"xref": published["xref"]}
        return replace(copy, attributes={**published, "xref": target}, replaced=kept)
    return copy


def _xid_here(
    authority: str, origin: str, mapping: GroupMapping, held: Mapping[Origin, str]
) -> str:
    if held:
        group = group_path(origin)
        if (here := held.get(Origin(authority, group))) is not None:
            return here + origin.removeprefix(group)
    return mapping.place(origin)


ENDPOINTS = "endpoints"
# The number of rewritten entries of an endpoint, and of brokers of an entry. Rewriting may lengthen
# an address, so the limit bounds the growth of an entity.
_MOST_ENTRIES = 100
_LONGEST_URL = 255
_KAFKA, _BROKERS = "kafka", "bootstrap.servers"
_HOST = r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~-]+)"
_URL = re.compile(
    rf"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://{_HOST}(?::(?P<port>[1-9][0-9]{{0,4}}))?"
    r"(?P<path>(?:/[A-Za-z0-9._~%!$&'()+,;:@-]*)*)"
)
# An address may be a URI template; an expression may be the port, or begin the text after the host.
_ADDRESS = re.compile(
    rf"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<user>[^/?#@]*@)?{_HOST}"
    r"(?P<port>:(?:[0-9]+|\{[^{}]*\}))?(?P<rest>(?:[/?#]|\{[/?#]).*)?",
    re.DOTALL,
)
_BOUNDARY = re.compile(r"\{?[/?#]|\Z")


@dataclass(frozen=True, slots=True)
class _Place:
    """The location in a URL: scheme, host, port, and a path without a slash at the end."""

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
    """The rules of a link that turn addresses at the source into local addresses.

    A rule matches addresses with the scheme, the host, the port, if the rule names a port, and a
    path at or below the path of the rule. Of several matching rules, the rule with the longest path
    applies, and of rules with equal paths the rule with a port.

    Args:
        rules: valid rules: the local URL by the URL at the source.
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
        """The local address for an address at the source; unchanged if no rule matches."""
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
        """The entity with local addresses, computed from the addresses that the authority wrote."""
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
        """The attributes with addresses, rewritten to local addresses."""
        shown: dict[str, Any] = {}
        options, url = attributes.get("protocoloptions"), attributes.get("subscriptionurl")
        if isinstance(options, dict) and isinstance(listed := options.get("endpoints"), list):
            entries = _each(self._entry, listed)
            shown["protocoloptions"] = {**options, "endpoints": entries}
        if isinstance(url, str):
            shown["subscriptionurl"] = self.address(url)
        return shown

    def _entry(self, entry: Any) -> Any:
        """A rewritten entry of an endpoint's list of addresses; the entry may be malformed."""
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
        """A rewritten Kafka broker; rules match a broker as `kafka://HOST:PORT`."""
        if not isinstance(broker, str):
            return broker
        return self.address(f"{_KAFKA}://{broker}").removeprefix(f"{_KAFKA}://")


def _each(rewrite: Callable[[Any], Any], listed: list[Any]) -> list[Any]:
    return [*map(rewrite, listed[:_MOST_ENTRIES]), *listed[_MOST_ENTRIES:]]


NO_RULES = AddressRules()
"""Leaves addresses unchanged."""


def rules_of(definition: LinkDefinition) -> AddressRules:
    """The rules of a link."""
    return AddressRules(read_names(definition.addresses))


def rewrite_copies(copies: Sequence[Incoming], rules: AddressRules) -> Sequence[Incoming]:
    """The copies with local addresses."""
    if not rules.rules:
        return copies
    return [rules.apply(copy) if isinstance(copy, Entity) else copy for copy in copies]


def why_no_rules(rules: Mapping[str, str]) -> str:
    """The reason why a table of rules is invalid; empty if it is valid."""
    seen = set()
    for urls in rules.items():
        there, here = map(_Place.parse, urls)
        if there is None or here is None:
            wrong = urls[0] if there is None else urls[1]
            return f'"{wrong[:64]}" is not the beginning of an address, as amqp://broker:5672'
        # Kafka brokers are written as host and port only, so a rule cannot add a scheme or a path.
        if _KAFKA in (there.scheme, here.scheme) and (
            there.scheme != here.scheme or there.path or here.path
        ):
            return f"{urls[0]} and {urls[1]} both have to be brokers, as kafka://broker:9092"
        if there in seen:
            return f"there are two rules for {urls[0]}"
        seen.add(there)
    return ""
