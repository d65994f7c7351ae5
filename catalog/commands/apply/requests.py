"""The requests of an apply: a desired state, cut into bodies within the limits of a node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any, Self

import orjson

from catalog.client import Client, JsonObject
from catalog.commands.apply.desiredstate import DesiredState
from catalog.commands.console import CommandError

Params = list[tuple[str, str]]

MOST_NAMED = 3
# A type is sent before the types that refer to it.
_ORDER = {"schemagroups": 0, "messagegroups": 1, "endpoints": 3}
_OTHER_TYPES = 2
# Room for brackets, commas and the names of a group's collections.
_WRAPPING = 1024


@dataclass(frozen=True, slots=True)
class Capacity:
    """The most bytes and JSON values that a node takes in one request."""

    bytes: int
    values: int

    @classmethod
    async def of(cls, client: Client) -> Self:
        """The capacity of a client's node.

        Raises:
            ClientError
        """
        told = await client.get("/apply")
        return cls(told["maxbodybytes"], told["maxbodyvalues"])

    def size(self, value: Any) -> int:
        """The bytes of a value, scaled up if the value uses more of `values` than of `bytes`.

        JSON values are counted by the rule of a node (http/body.py).
        """
        text = orjson.dumps(value)
        values = text.count(b",") + text.count(b"{") + text.count(b"[")
        return max(len(text), ceil(values * self.bytes / self.values))


class PortionTooLarge(CommandError):
    """A single resource, or a group without its resources, is too large for a request."""

    def __init__(self, xid: str, capacity: Capacity) -> None:
        super().__init__(
            f"{xid} alone is larger than the {capacity.bytes:,} bytes or {capacity.values:,} JSON "
            "values that the node takes.",
            "Give the node a larger CONCORD_MAX_BODY_BYTES.",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyOptions:
    """The options of an apply; see `concord apply --help`."""

    prune: bool = False
    scopes: tuple[str, ...] = ()
    set: str = ""
    allow_empty: bool = False
    check_epochs: bool = False

    def params(self) -> Params:
        """The parameters of every request."""
        ignored = "readonly" if self.check_epochs else "epoch,readonly"
        return [("ignore", ignored), *([("set", self.set)] if self.set else [])]

    def prune_params(self) -> Params:
        """The additional parameters of the request that prunes."""
        if not self.prune:
            return []
        empty = [("allowempty", "")] if self.allow_empty else []
        return [("prune", ""), *empty, *(("scope", scope) for scope in self.scopes)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyRequest:
    """An interaction of an apply."""

    body: JsonObject
    params: Params

    @property
    def summary(self) -> str:
        """The xids of the first few groups, as text."""
        xids = [f"/{name}/{id}" for name in self.body if name != "$keep" for id in self.body[name]]
        more = f" and {len(xids) - MOST_NAMED:,} more" if len(xids) > MOST_NAMED else ""
        return ", ".join(xids[:MOST_NAMED]) + more or "deletions"


def requests_for(
    desired: DesiredState, options: ApplyOptions, capacity: Capacity
) -> list[ApplyRequest]:
    """The requests of an apply, in order. The only request deletes, or an additional last request.

    Raises:
        PortionTooLarge
    """
    params, prune_params = options.params(), options.prune_params()
    bodies: list[JsonObject] = [*portions(desired.groups, desired.model, capacity)]
    if len(bodies) <= 1:
        body = bodies[0] if bodies else {}
        is_needed = bodies or prune_params
        return [ApplyRequest(body=body, params=params + prune_params)] if is_needed else []
    requests = [ApplyRequest(body=body, params=params) for body in bodies]
    if prune_params:
        # The last request has no groups, so it lists the entities of the earlier requests to keep.
        kept = {"$keep": [*desired.xids()]}
        requests.append(ApplyRequest(body=kept, params=params + prune_params))
    return requests


def portions(
    groups: Mapping[str, Mapping[str, JsonObject]], model: Mapping[str, Any], capacity: Capacity
) -> list[dict[str, JsonObject]]:
    """Cut groups into the bodies of the fewest requests, in the order of the groups.

    A group that is too large for one request is sent in several requests, each with the attributes
    of the group.

    Args:
        groups: the groups by plural and id.
        model: the model of the node, as `GET /model` returns it.
        capacity: the capacity of the node.

    Raises:
        PortionTooLarge
    """
    whole = {name: dict(groups[name]) for name in sorted(groups, key=_rank) if groups[name]}
    if not whole:
        return []
    if capacity.size(whole) <= capacity.bytes:
        return [whole]
    bodies: list[dict[str, JsonObject]] = []
    used = capacity.bytes
    for plural, gid, part, size in _parts(whole, model, capacity):
        # Two parts of a group need two bodies, since a body has a group only once.
        if used + size > capacity.bytes - _WRAPPING or gid in bodies[-1].get(plural, {}):
            bodies.append({})
            used = 0
        used += size
        bodies[-1].setdefault(plural, {})[gid] = part
    return bodies


def _rank(plural: str) -> tuple[int, str]:
    return _ORDER.get(plural, _OTHER_TYPES), plural


def _parts(
    groups: Mapping[str, Mapping[str, JsonObject]], model: Mapping[str, Any], capacity: Capacity
) -> Iterator[tuple[str, str, JsonObject, int]]:
    """Groups and parts of groups with their sizes, each small enough for a request."""
    for plural, members in groups.items():
        for gid, group in members.items():
            size = capacity.size({plural: {gid: group}})
            if size <= capacity.bytes - _WRAPPING:
                yield plural, gid, group, size
                continue
            collections = model["groups"].get(plural, {}).get("resources", {})
            for part in _cut(f"/{plural}/{gid}", group, collections, capacity):
                yield plural, gid, part, capacity.size({plural: {gid: part}})


def _cut(
    xid: str, group: Any, collections: Mapping[str, Any], capacity: Capacity
) -> Iterator[JsonObject]:
    found = group if isinstance(group, dict) else {}
    cut = [name for name in found if name in collections and isinstance(found[name], dict)]
    own = {name: value for name, value in found.items() if name not in cut}
    limit, least = capacity.bytes - _WRAPPING, capacity.size(own) + len(xid)
    if found is not group or least > limit:
        raise PortionTooLarge(xid, capacity)
    part, used = dict(own), least
    for name in cut:
        for rid, resource in found[name].items():
            size = capacity.size({name: {rid: resource}})
            if len(part) > len(own) and used + size > limit:
                yield part
                part, used = dict(own), least
            if used + size > limit:
                raise PortionTooLarge(f"{xid}/{name}/{rid}", capacity)
            part.setdefault(name, {})[rid] = resource
            used += size
    yield part
