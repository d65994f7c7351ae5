"""Reads the entities of an xRegistry server of other software in as few requests as possible."""

from __future__ import annotations

from collections.abc import AsyncIterator, Hashable, Iterable, Sequence
from functools import partial
from typing import Any

from catalog.client import ClientError, JsonObject, Refused
from catalog.model.entity import Entity
from catalog.model.schema import Model, ResourceType
from catalog.model.xid import Xid, is_valid_id
from replication.deciding.copychecks import MalformedCopy
from replication.peers.linkerrors import may_pass
from replication.readers.reader import (
    NO_ENTITY,
    ListingContradicts,
    Reading,
    WalkedCatalog,
    WalkedEntity,
    WalkedItem,
    WalkPart,
    WalkReader,
    read_group,
    read_resource,
    read_version,
)
from replication.readers.walkedregistry import WalkedRegistry, describe_registry
from replication.readers.walkedserver import GONE, AnswerTooLarge, WalkedPage, WalkedServer

# The sizes of pages with inlined collections, and of pages without.
_FEW, _FEWER, _MANY = 100, 10, 500
_MOST_BARREN_PAGES = 20
# The statuses of a server that does not support a flag, or cannot inline as much.
_UNUSABLE = frozenset({400, 405, 406, 414, 422, 501})


class RegistryReader(WalkReader):
    """Reads an xRegistry server."""

    @classmethod
    async def find(cls, server: WalkedServer, model: Model, root: str) -> WalkedCatalog:
        """The catalog of an xRegistry server; raises `OtherEdition` for an unreadable edition."""
        registry = await describe_registry(server, model)
        return WalkedCatalog(
            dialect="xregistry",
            software=f"xRegistry {registry.edition}",
            identity=registry.registryid,
            faults=registry.faults,
            reader=partial(cls, registry=registry),
        )

    def __init__(self, reading: Reading, registry: WalkedRegistry) -> None:
        super().__init__(reading, [*registry.readable])
        self.registry = registry
        self.has_export = registry.has_export

    async def read_part(self, part: WalkPart) -> AsyncIterator[list[WalkedItem]]:
        if not part.gid:
            told = self.registry.counts.get(part.plural)
            async for gid, body in self._members(part.path, told, part.plural):
                async for items in self._tree(part.plural, gid, body):
                    yield items
            return
        try:
            body = await self._group(part)
        except Refused as error:
            if error.problem.status in GONE:
                return
            raise
        async for items in self._tree(part.plural, part.gid, body):
            yield items

    async def read_exported(
        self, part: WalkPart, document: JsonObject
    ) -> AsyncIterator[list[WalkedItem]]:
        groups = document.get(part.plural)
        if not isinstance(groups, dict):
            self.note_fault(f"{part.path} is not in the export")
            return
        self.check_count(part.path, self.registry.counts.get(part.plural), len(groups))
        self.check_count(part.path, document.get(f"{part.plural}count"), len(groups))
        for gid, body in groups.items():
            self.count()
            async for items in self._tree(part.plural, gid, body):
                yield items

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
                        self._check_listed(path, page)
                    for id, member in page.items():
                        # A request with less inlined begins at the first page again.
                        if id not in ids:
                            ids.add(id)
                            self.count()
                            yield id, member
                break
            except ListingContradicts:
                self.reading.levels[kind] = last
                raise
            except (AnswerTooLarge, Refused) as error:
                is_refused = isinstance(error, Refused) and error.problem.status not in _UNUSABLE
                if is_refused or index == last:
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
        registry = self.registry
        deep: list[tuple[str, str]] = []
        if registry.inlines and (inlined := self._inlined(kind)):
            deep = [("inline", inlined)]
            deep += [("binary", "")] if registry.has_binary else []
            # In document view, a server refuses to list the versions of a cross reference.
            deep += [("doc", "")] if registry.has_doc and not kind.endswith("/versions") else []
        if not registry.has_pages:
            return [deep, []] if deep else [[]]
        sizes = [_FEW, _FEWER, 1] if deep else []
        return [*([*deep, ("limit", str(size))] for size in sizes), [("limit", str(_MANY))]]

    def _inlined(self, kind: str) -> str:
        """The value of the flag for inlining; documents only where their exact bytes are shown."""
        plural, _, inner = kind.partition("/")
        if self.registry.has_binary:
            return "*"
        if inner:
            return "" if inner == "versions" else "meta,versions"
        resources = self.registry.types[plural].resources
        return ",".join(f"{each}.{what}" for each in resources for what in ("meta", "versions"))

    async def _group(self, part: WalkPart) -> JsonObject:
        levels = self._levels_of(part.plural)
        last = len(levels) - 1
        rest = levels[min(self.reading.levels.get(part.plural, 0), last) :]
        tried = [tuple(flag for flag in level if flag[0] != "limit") for level in rest]
        for flags in dict.fromkeys(tried):
            try:
                page = await self.server.read(part.path, flags)
                if flags:
                    self._check_listed(f"/{part.plural}", {part.gid: page.members})
            except ListingContradicts:
                self.reading.levels[part.plural] = last
                raise
            except (AnswerTooLarge, Refused) as error:
                is_refused = isinstance(error, Refused) and error.problem.status not in _UNUSABLE
                if is_refused or not flags:
                    raise
                continue
            self.count()
            return page.members
        raise AnswerTooLarge(f"{self.server.url}{part.path} is too large.")

    async def _nested(self, path: str) -> JsonObject:
        page = await self.server.read(path)
        self.count_bytes()
        return page.members

    async def export(self) -> WalkedPage[JsonObject]:
        flags = [("binary", "")] if self.registry.has_binary else []
        page = await self.server.read("/export", flags)
        for part in self.parts:
            self._check_listed(part.path, page.members.get(part.plural))
        return page

    async def is_gone(self, xid: str) -> bool:
        """Whether the server has neither the entity nor a document of the entity."""
        path = Xid.parse(xid)
        kind = self.reading.model.resource_type(path.groups, path.resources)
        if (
            kind is not None
            and kind.hasdocument
            and not await self.server.is_gone(f"{xid}$details")
        ):
            return False
        return await self.server.is_gone(xid)

    def state_of(self, part: WalkPart | None) -> Hashable | None:
        """The epoch of the registry, and the number of the groups."""
        counts, epoch = self.registry.counts, self.registry.epoch
        number = sum(counts.values()) if part is None else counts.get(part.plural)
        return None if epoch is None else (epoch, number)

    def is_unreadable(self, xid: str) -> bool:
        names = xid.split("/")
        kind = self.registry.types.get(names[1])
        if kind is None:
            return False
        readable = self.registry.readable.get(names[1])
        if readable is None:
            return True
        return len(names) > 3 and names[3] in kind.resources and names[3] not in readable

    def _check_listed(self, path: str, members: Any) -> None:
        """Check that a collection lists only its own members, inlined members included."""
        if not isinstance(members, dict):
            return
        for id, member in members.items():
            xid = f"{path}/{id}"
            if (told := _other_xid(xid, member)) is not None:
                raise ListingContradicts(f"{self.server.url}{path} lists {told[:200]}.")
            for plural in self._collections_in(path) if isinstance(member, dict) else ():
                self._check_listed(f"{xid}/{plural}", member.get(plural))

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
