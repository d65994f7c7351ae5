"""The desired state that documents describe, and the requests of an apply that bring it about."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any, Self

import orjson

from catalog.client import BadAnswer, Client, ClientError, JsonObject, Refused
from catalog.commands.console import CommandError, violations_as_json
from catalog.model.digest import canonical

Params = list[tuple[str, str]]

MOST_NAMED = 3
# A type is sent before the types that refer to it.
_ORDER = {"schemagroups": 0, "messagegroups": 1, "endpoints": 3}
_OTHER_TYPES = 2
# Room for brackets, commas and the names of a group's collections.
_WRAPPING = 1024
_ACTIONS = ("created", "updated", "deleted")
# Attributes that a node computes from the place and the children of an entity.
_COMPUTED = frozenset({"self", "shortself"})
_COMPUTED_SUFFIXES = ("url", "count")
# The collections of a resource; a version has none.
_OF_RESOURCES: Mapping[str, Any] = {"versions": {}}


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """Two documents give an attribute of one entity different values."""

    xid: str
    attribute: str
    files: tuple[str, str]


@dataclass(slots=True)
class DesiredState:
    """The groups of the documents, by type and id.

    Args:
        model: the model of the node from `GET /model`, which names the collections.
    """

    model: Mapping[str, Any]
    groups: dict[str, dict[str, JsonObject]] = field(default_factory=dict)
    contradictions: list[Contradiction] = field(default_factory=list)
    # The first file with a value, by xid and attribute.
    _files: dict[tuple[str, str], str] = field(default_factory=dict)

    def add(self, file: str, groups: Mapping[str, Mapping[str, Any]]) -> None:
        """Merge a document into the state, and record contradictions to earlier documents."""
        for plural, members in groups.items():
            below = dict.fromkeys(self._collections(plural), _OF_RESOURCES)
            self._merge_all(file, f"/{plural}", self.groups.setdefault(plural, {}), members, below)

    def _merge_all(
        self,
        file: str,
        path: str,
        owner: JsonObject,
        members: Mapping[str, Any],
        below: Mapping[str, Any],
    ) -> None:
        """Merge the entities of a collection.

        Args:
            below: the collections of each entity, each with the collections of its own entities.
        """
        for id, body in members.items():
            if isinstance(body, dict):
                self._merge(file, f"{path}/{id}", owner.setdefault(id, {}), body, below)
            else:
                self._set(file, f"{path}/{id}", owner, id, body)

    def _merge(
        self, file: str, xid: str, target: JsonObject, body: JsonObject, below: Mapping[str, Any]
    ) -> None:
        computed = _COMPUTED | {f"{name}{end}" for name in below for end in _COMPUTED_SUFFIXES}
        for name, value in body.items():
            if name in below and isinstance(value, dict):
                inner = target.setdefault(name, {})
                self._merge_all(file, f"{xid}/{name}", inner, value, below[name])
            elif name == "meta" and below is _OF_RESOURCES and isinstance(value, dict):
                self._merge(file, f"{xid}/meta", target.setdefault(name, {}), value, {})
            elif name not in computed:
                self._set(file, xid, target, name, value)

    def _set(self, file: str, xid: str, target: JsonObject, name: str, value: Any) -> None:
        # The first file of a value is named, since later files may repeat the contradiction.
        earlier = self._files.setdefault((xid, name), file)
        if name in target and not _is_same(target[name], value):
            self.contradictions.append(
                Contradiction(xid=xid, attribute=name, files=(earlier, file))
            )
        target[name] = value

    def _collections(self, plural: str) -> Mapping[str, Any]:
        resources: Mapping[str, Any] = self.model["groups"].get(plural, {}).get("resources", {})
        return resources

    def xids(self) -> Iterator[str]:
        """The xids of the entities of the documents, including listed versions."""
        for plural, members in self.groups.items():
            collections = self._collections(plural)
            for gid, group in members.items():
                yield f"/{plural}/{gid}"
                for name in (name for name in group if name in collections):
                    for rid, resource in group[name].items():
                        yield from _xids_in(f"/{plural}/{gid}/{name}/{rid}", resource)


def _xids_in(xid: str, resource: Mapping[str, Any]) -> Iterator[str]:
    yield xid
    versions = {*(resource.get("versions") or ()), resource.get("versionid")} - {None}
    if resource.get("versions"):
        yield from sorted(f"{xid}/versions/{vid}" for vid in versions)


def _is_same(one: Any, other: Any) -> bool:
    try:
        return canonical(one) == canonical(other)
    except ValueError:
        return bool(one == other)


@dataclass(slots=True, kw_only=True)
class ApplyResult:
    """The answers to the requests of an apply, in order, until a request failed.

    Args:
        is_dry_run: the node wrote nothing.
        failure: the error of the request `failed`.
        not_sent: the requests after `failed`.
    """

    is_dry_run: bool
    answers: list[JsonObject] = field(default_factory=list)
    failure: ClientError | None = None
    failed: ApplyRequest | None = None
    not_sent: Sequence[ApplyRequest] = ()

    @property
    def changes(self) -> list[JsonObject]:
        """The first change of each entity: a group may be in several requests."""
        first: dict[str, JsonObject] = {}
        for answer in self.answers:
            for change in answer["changes"]:
                first.setdefault(change["xid"], change)
        return [first[xid] for xid in sorted(first, key=lambda xid: xid.split("/"))]

    @property
    def deletions(self) -> list[JsonObject]:
        return [change for change in self.changes if change["action"] == "deleted"]

    @property
    def is_refused(self) -> bool:
        """Whether the node refused the failed request."""
        return isinstance(self.failure, Refused) and self.failure.problem.status < 500

    @property
    def is_in_doubt(self) -> bool:
        """Whether the failed request may have been carried out despite the missing answer."""
        return not self.is_dry_run and self.failure is not None and not self.is_refused

    @property
    def notes(self) -> list[JsonObject]:
        """The rules of the domains that the documents break; a broken rule refuses nothing."""
        return [note for answer in self.answers for note in answer.get("notes", [])]

    def listed(self, name: str) -> list[str]:
        """The distinct xids that the answers list under a name, sorted."""
        return sorted({xid for answer in self.answers for xid in answer[name]})

    def as_json(self) -> JsonObject:
        changes = self.changes
        actions = [change["action"] for change in changes]
        members: JsonObject = {
            "dryrun": self.is_dry_run,
            **{action: actions.count(action) for action in _ACTIONS},
            "changes": changes,
            "leftalone": self.listed("leftalone"),
            "kept": self.listed("kept"),
            "notes": self.notes,
            "interactions": [each["interaction"] for each in self.answers if "interaction" in each],
        }
        if self.failure is not None:
            failure = self.failure
            broken = failure.problem.violations if isinstance(failure, Refused) else ()
            members["error"] = failure.message
            members["violations"] = violations_as_json(broken)
            members["indoubt"] = self.is_in_doubt
            members["notsent"] = len(self.not_sent)
        return members


async def send_all(
    client: Client,
    requests: Sequence[ApplyRequest],
    *,
    dry_run: bool,
    show: Callable[[int, ApplyRequest], None] = lambda *_: None,
) -> ApplyResult:
    """Send requests until a request fails.

    Args:
        dry_run: the node checks the requests and computes the changes, but writes nothing.
        show: a function that is called with position and request before each request.
    """
    result = ApplyResult(is_dry_run=dry_run)
    # The order matters: a request may refer to the entities of an earlier request.
    for place, request in enumerate(requests):
        show(place, request)
        params = request.params + ([("dryrun", "")] if dry_run else [])
        try:
            answer = await client.post("/apply", request.body, params)
            if not isinstance(answer, dict) or "changes" not in answer:
                raise BadAnswer(client.url, "something else than the changes")
        except ClientError as failure:
            result.failure, result.failed = failure, request
            result.not_sent = requests[place + 1 :]
            return result
        result.answers.append(answer)
    return result
