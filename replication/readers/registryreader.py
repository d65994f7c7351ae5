"""Reads the entities of an xRegistry server of other software in as few requests as possible."""

from __future__ import annotations

from collections.abc import AsyncIterator, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from catalog.client import ClientError, JsonObject, Refused
from catalog.model.capabilities import SPECVERSION
from catalog.model.entity import Entity
from catalog.model.schema import STRICT_NAME, Model, ResourceType
from catalog.model.xid import Xid, is_valid_id
from replication.deciding.copychecks import MalformedCopy
from replication.peers.linkerrors import may_pass
from replication.readers.reader import (
    NO_ENTITY,
    ListingContradicts,
    NoCatalog,
    Reading,
    UnreadableType,
    WalkedCatalog,
    WalkedEntity,
    WalkedItem,
    WalkPart,
    WalkReader,
    read_group,
    read_resource,
    read_version,
)
from replication.readers.walkedserver import (
    AnswerMalformed,
    AnswerTooLarge,
    IgnoredRefusals,
    WalkedServer,
)

EDITIONS = (SPECVERSION, "1.0")
"""The editions of the standard whose servers can be walked."""
# The sizes of pages with inlined collections, and of pages without.
_FEW, _FEWER, _MANY = 100, 10, 500
_MOST_BARREN_PAGES = 20
_MOST_TYPES = 1000
# Statuses of a server that does not offer a path.
_NOT_OFFERED = frozenset({400, 401, 403, 404, 405, 406, 410, 501})
# The statuses of a server that does not support a flag, or cannot inline as much.
_UNUSABLE = frozenset({400, 405, 406, 414, 422, 501})


class OtherEdition(ClientError):
    """The edition of an xRegistry server is not readable for this node."""


@dataclass(frozen=True, slots=True)
class ServerResourceType:
    """A type of resources at a server."""

    singular: str
    has_document: bool


@dataclass(frozen=True, slots=True)
class ServerGroupType:
    """A type of groups at a server, with its types of resources by their plural names."""

    singular: str
    resources: Mapping[str, ServerResourceType]


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkedRegistry:
    """A registry as its server describes it.

    `counts` has the number of groups by type, as far as the server states the number. `types` has
    every type of groups. `readable` has the types of groups that this node can take over, each with
    its readable types of resources.
    """

    epoch: int | None
    counts: Mapping[str, int]
    flags: frozenset[str]
    has_pages: bool
    types: Mapping[str, ServerGroupType]
    readable: Mapping[str, tuple[str, ...]]


class RegistryReader(WalkReader):
    """Reads an xRegistry server."""

    @classmethod
    async def find(cls, server: WalkedServer, model: Model, root: str) -> WalkedCatalog:
        """The catalog of an xRegistry server, with its types compared with the model of this node.

        If the server has several editions, later requests ask for an edition that this node can
        read.

        Raises:
            NoCatalog
            OtherEdition: the server has no edition that this node can read.
            ClientError: the server does not answer.
        """
        found = await _read_root(server)
        capabilities = await _optional(server, "/capabilities") or {}
        edition = _choose_edition(server, found, capabilities)
        if server.flags:
            found = await _read_root(server)
        server.has_pages = capabilities.get("pagination") is True
        described = await _optional(server, "/model")
        types = _types_here(model, found) if described is None else read_types(described)
        faults = tuple(_faults_of(types, model))
        faulty, epoch = {fault.path for fault in faults}, found.get("epoch")
        registry = WalkedRegistry(
            epoch=epoch if type(epoch) is int else None,
            counts={
                name: count for name in types if type(count := found.get(f"{name}count")) is int
            },
            flags=frozenset(each.lower() for each in _texts(capabilities.get("flags"))),
            has_pages=server.has_pages,
            types=types,
            readable={
                plural: tuple(e for e in kind.resources if f"/{plural}/*/{e}" not in faulty)
                for plural, kind in types.items()
                if f"/{plural}" not in faulty
            },
        )
        return WalkedCatalog(
            dialect="xregistry",
            software=f"xRegistry {edition}",
            identity=str(found["registryid"])[:128],
            faults=faults,
            reader=partial(cls, registry=registry),
        )

    def __init__(self, reading: Reading, registry: WalkedRegistry) -> None:
        super().__init__(reading, [*registry.readable])
        self.registry = registry

    async def read_part(self, part: WalkPart) -> AsyncIterator[list[WalkedItem]]:
        groups = self._one_group(part)
        if not part.gid:
            told = self.registry.counts.get(part.plural)
            groups = self._members(part.path, told, part.plural)
        async for gid, body in groups:
            async for items in self._tree(part.plural, gid, body):
                yield items

    async def _one_group(self, part: WalkPart) -> AsyncIterator[tuple[str, Any]]:
        """The group of a part; nothing if the group does not exist."""
        with IgnoredRefusals():
            yield part.gid, await self._group(part)

    async def _tree(self, plural: str, gid: str, body: Any) -> AsyncIterator[list[WalkedItem]]:
        """A group and the entities below it, as far as they are in scope."""
        xid = f"/{plural}/{gid}"
        if not self.reading.selects(xid):
            return
        if (misplaced := self._misplaced(xid, body)) is not None:
            yield [misplaced]
            return
        kind = self.reading.model.groups[plural]
        collections = {*self.registry.types[plural].resources, *kind.resources}
        read = partial(read_group, self.reading.authority, kind, body=body, collections=collections)
        group = self.item(f"/{plural}", gid, read)
        yield [group]
        if not isinstance(group, WalkedEntity):
            return
        for resources in self.registry.readable[plural]:
            path = f"{xid}/{resources}"
            if self.reading.selects(path):
                async for rid, inner in self._below(body, path, resources):
                    if self.reading.selects(f"{path}/{rid}"):
                        yield await self._resource(
                            kind.resources[resources], path, rid, inner, group.entity
                        )

    async def _resource(
        self, kind: ResourceType, path: str, rid: str, body: Any, group: Entity
    ) -> list[WalkedItem]:
        """A resource with its versions."""
        xid = f"{path}/{rid}"
        if not is_valid_id(rid) or not isinstance(body, dict):
            return [self.malformed(xid, NO_ENTITY)]
        if (misplaced := self._misplaced(xid, body)) is not None:
            return [misplaced]
        try:
            meta = body.get("meta")
            if not isinstance(meta, dict):
                meta = await self._nested(f"{xid}/meta")
            read = partial(read_resource, self.reading.authority, kind, meta=meta, group=group)
            resource = self.item(path, rid, read)
            items: list[WalkedItem] = [resource]
            if isinstance(resource, WalkedEntity) and "xref" in resource.entity.attributes:
                return items
            async for vid, version in self._below(body, f"{xid}/versions", "versions"):
                read = partial(read_version, self.reading.authority, kind, body=version)
                misplaced = self._misplaced(f"{xid}/versions/{vid}", version)
                items.append(misplaced or self.item(f"{xid}/versions", vid, read))
        except Refused as error:
            if may_pass(error):
                raise
            return [self.malformed(xid, f"it cannot be read: {error.message[:200]}")]
        return items

    async def _below(
        self, body: JsonObject, path: str, plural: str
    ) -> AsyncIterator[tuple[str, Any]]:
        """The members of a nested collection, from the body of its owner or from the server.

        The inlined members are used if their number equals the count in the body; otherwise the
        server lists the collection.
        """
        told, inlined = body.get(f"{plural}count"), body.get(plural)
        if isinstance(inlined, dict) and (type(told) is not int or told == len(inlined)):
            for id, member in inlined.items():
                self.count()
                yield id, member
        elif told != 0:
            async for id, member in self._members(path, told, f"{path.split('/')[1]}/{plural}"):
                yield id, member

    async def _members(self, path: str, told: Any, kind: str) -> AsyncIterator[tuple[str, Any]]:
        """The members of a collection, page by page, with as much inlined as possible."""
        levels = self._levels_of(kind)
        last = len(levels) - 1
        index = min(self.reading.levels.get(kind, 0), last)
        ids: set[str] = set()
        while True:
            try:
                async for page in self._paged(path, levels[index]):
                    if index < last:
                        self._check_listed(kind, path, page)
                    for id, member in page.items():
                        # A request with less inlined begins at the first page again.
                        if id not in ids:
                            ids.add(id)
                            self.count()
                            yield id, member
                break
            except (AnswerTooLarge, Refused) as error:
                if index == last or not _may_be_less(error):
                    raise
                index += 1
                self.reading.levels[kind] = index
        if path.count("/") == 1 and told != len(ids):
            # The set of groups may have changed during the listing.
            told = (await self._nested("/")).get(f"{path[1:]}count")
        self.check_count(path, told, len(ids))

    async def _paged(
        self, path: str, params: Sequence[tuple[str, str]]
    ) -> AsyncIterator[JsonObject]:
        """The members of a collection, page by page."""
        barren, listed, total = 0, 0, None
        ids: set[str] = set()
        async for page in self.server.pages(path, params):
            before = len(ids)
            ids |= page.members.keys()
            listed += len(page.members)
            total = page.total if page.total is not None else total
            self.count_bytes()
            yield page.members
            barren = barren + 1 if len(ids) == before else 0
            # A server may link pages in an endless chain that repeats members.
            if barren > _MOST_BARREN_PAGES:
                raise ClientError(f"{self.server.url}{path} has pages without end.")
        self.check_count(path, total, listed)

    def _levels_of(self, kind: str) -> list[list[tuple[str, str]]]:
        """The flags of requests for a collection, from everything inlined to nothing inlined."""
        flags = self.registry.flags
        deep: list[tuple[str, str]] = []
        if "inline" in flags and (inlined := self._inlined(kind)):
            deep = [("inline", inlined)]
            deep += [("binary", "")] if "binary" in flags else []
            # In document view, a server refuses to list the versions of a cross reference.
            deep += [("doc", "")] if "doc" in flags and not kind.endswith("/versions") else []
        if not self.registry.has_pages:
            return [deep, []] if deep else [[]]
        sizes = [_FEW, _FEWER, 1] if deep else []
        return [*([*deep, ("limit", str(size))] for size in sizes), [("limit", str(_MANY))]]

    def _inlined(self, kind: str) -> str:
        """The value of the flag for inlining; documents only where their exact bytes are shown."""
        plural, _, inner = kind.partition("/")
        if "binary" in self.registry.flags:
            return "*"
        if inner:
            return "" if inner == "versions" else "meta,versions"
        resources = self.registry.types[plural].resources
        return ",".join(f"{each}.{what}" for each in resources for what in ("meta", "versions"))

    async def _group(self, part: WalkPart) -> JsonObject:
        """A group with as much inlined as in lists of groups, or else with nothing inlined."""
        levels = self._levels_of(part.plural)
        level = levels[min(self.reading.levels.get(part.plural, 0), len(levels) - 1)]
        if deep := [flag for flag in level if flag[0] != "limit"]:
            try:
                page = await self.server.read(part.path, deep)
                self._check_listed(part.plural, f"/{part.plural}", {part.gid: page.members})
                self.count()
                return page.members
            except (AnswerTooLarge, Refused) as error:
                if not _may_be_less(error):
                    raise
        self.count()
        return await self._nested(part.path)

    async def _nested(self, path: str) -> JsonObject:
        page = await self.server.read(path)
        self.count_bytes()
        return page.members

    async def is_gone(self, xid: str) -> bool:
        """Whether the server has neither the entity nor a document of the entity."""
        path = Xid.parse(xid)
        kind = self.reading.model.resource_type(path.groups, path.resources)
        has_document = kind is not None and kind.hasdocument
        if has_document and not await self.server.is_gone(f"{xid}$details"):
            return False
        return await self.server.is_gone(xid)

    def state_of(self, part: WalkPart) -> Hashable | None:
        """The epoch of the registry, and the number of the groups."""
        counts, epoch = self.registry.counts, self.registry.epoch
        return None if epoch is None else (epoch, counts.get(part.plural))

    def is_unreadable(self, xid: str) -> bool:
        names = xid.split("/")
        kind = self.registry.types.get(names[1])
        if kind is None:
            return False
        readable = self.registry.readable.get(names[1])
        if readable is None:
            return True
        return len(names) > 3 and names[3] in kind.resources and names[3] not in readable

    def _check_listed(self, kind: str, path: str, members: Any) -> None:
        """Check that a collection lists only its own members, inlined members included.

        Raises:
            ListingContradicts: nothing is inlined any more in collections of this kind.
        """
        for id, member in members.items() if isinstance(members, dict) else ():
            xid = f"{path}/{id}"
            if (told := _other_xid(xid, member)) is not None:
                self.reading.levels[kind] = len(self._levels_of(kind)) - 1
                raise ListingContradicts(f"{self.server.url}{path} lists {told[:200]}.")
            for plural in self._collections_in(path) if isinstance(member, dict) else ():
                self._check_listed(kind, f"{xid}/{plural}", member.get(plural))

    def _collections_in(self, path: str) -> Iterable[str]:
        """The plural names of the collections of each member of a collection."""
        names = path.split("/")
        if len(names) == 2:
            return self.registry.types[names[1]].resources
        return ("versions",) if len(names) == 4 else ()

    def _misplaced(self, xid: str, body: Any) -> MalformedCopy | None:
        """The conflict about an entity whose own xid differs from its place in the listing."""
        told = _other_xid(xid, body)
        if told is None:
            return None
        self.note_fault(f"{told[:200]} is listed as {xid}")
        return self.malformed(told, f"its server lists it as {xid}")


def _other_xid(xid: str, member: Any) -> str | None:
    """The own xid of an entity, if it differs from the xid of its place."""
    told = member.get("xid") if isinstance(member, dict) else None
    return told if isinstance(told, str) and told != xid else None


def _may_be_less(error: AnswerTooLarge | Refused) -> bool:
    """Whether a server may answer a request for less."""
    return not isinstance(error, Refused) or error.problem.status in _UNUSABLE


async def _read_root(server: WalkedServer) -> JsonObject:
    try:
        root = (await server.read("/")).members
    except AnswerMalformed as error:
        raise NoCatalog(f"{server.url} is no xRegistry server.", error.message) from error
    except Refused as error:
        if may_pass(error):
            raise
        status = error.problem.status
        raise NoCatalog(f"{server.url} answered {status}: {error.message[:300]}") from error
    if not isinstance(root.get("specversion"), str) or not isinstance(root.get("registryid"), str):
        raise NoCatalog(f"{server.url} is no xRegistry server.", "Name the URL of its root.")
    return root


async def _optional(server: WalkedServer, path: str) -> JsonObject | None:
    """The answer at a path that a server need not offer."""
    with IgnoredRefusals(_NOT_OFFERED), suppress(AnswerMalformed):
        return (await server.read(path)).members
    return None


def _choose_edition(server: WalkedServer, root: JsonObject, capabilities: JsonObject) -> str:
    """The edition to read; an edition that is not the server's default is requested by a flag."""
    stated = str(root["specversion"])[:32]
    if stated.lower() in EDITIONS:
        return stated
    offered = {each.lower(): each for each in _texts(capabilities.get("specversions"))}
    flags = {each.lower() for each in _texts(capabilities.get("flags"))}
    known = next((offered[edition] for edition in EDITIONS if edition in offered), None)
    if known is None or "specversion" not in flags:
        raise OtherEdition(
            f"{server.url} is a server of xRegistry {stated}, and this node reads those of "
            f"{SPECVERSION}.",
            "Update the server, or let it speak that edition, too.",
        )
    server.flags = [("specversion", known)]
    return known


def _types_here(model: Model, root: JsonObject) -> Mapping[str, ServerGroupType]:
    """The types of this node with a collection at a server that shows no model."""
    return {
        plural: ServerGroupType(
            kind.singular,
            {n: ServerResourceType(e.singular, e.hasdocument) for n, e in kind.resources.items()},
        )
        for plural, kind in model.groups.items()
        if f"{plural}url" in root or plural in root
    }


def read_types(model: JsonObject) -> Mapping[str, ServerGroupType]:
    """The types of groups in a server's model, by their plural names.

    Raises:
        AnswerMalformed: the model has too many types.
    """
    groups = _objects(model.get("groups"))
    found = {
        plural: ServerGroupType(
            str(kind.get("singular", ""))[:64], dict(_resource_types(kind, groups))
        )
        for plural, kind in groups.items()
    }
    if sum(1 + len(kind.resources) for kind in found.values()) > _MOST_TYPES:
        raise AnswerMalformed(f"Its model has more than {_MOST_TYPES} types.")
    return found


def _resource_types(
    kind: JsonObject, groups: Mapping[str, JsonObject]
) -> Iterator[tuple[str, ServerResourceType]]:
    """The types of resources in a type of groups, including imported types (`ximportresources`)."""
    shared = {}
    for path in _texts(kind.get("ximportresources")):
        _, group, plural, *_ = [*path.split("/"), "", ""]
        elsewhere = _objects(groups.get(group, {}).get("resources"))
        if plural in elsewhere:
            shared[plural] = elsewhere[plural]
    for plural, each in {**shared, **_objects(kind.get("resources"))}.items():
        singular = str(each.get("singular", ""))[:64]
        yield plural, ServerResourceType(singular, each.get("hasdocument") is not False)


def _faults_of(types: Mapping[str, ServerGroupType], model: Model) -> Iterator[UnreadableType]:
    """The types that this node cannot take over."""
    for plural, kind in types.items():
        own = model.group_type(plural)
        if own is None or own.singular != kind.singular:
            has = "has no such type" if own is None else f'calls one of them "{own.singular}"'
            yield UnreadableType(path=f"/{plural}", reason=f"the model here {has}")
            continue
        for name, there in kind.resources.items():
            here, fault = own.resources.get(name), ""
            if here is None:
                fault = "has no such type"
            elif here.singular != there.singular:
                fault = f'calls one of them "{here.singular}"'
            elif here.hasdocument != there.has_document:
                fault = "gives them documents" if here.hasdocument else "gives them no documents"
            if fault:
                yield UnreadableType(path=f"/{plural}/*/{name}", reason=f"the model here {fault}")


def _objects(value: Any) -> dict[str, JsonObject]:
    """The objects among the members of an object, whose names are names of types."""
    if not isinstance(value, dict):
        return {}
    return {
        name: each
        for name, each in value.items()
        if isinstance(each, dict) and STRICT_NAME.fullmatch(name)
    }


def _texts(value: Any) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []
