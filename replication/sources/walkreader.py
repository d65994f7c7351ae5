"""Reads the entities of a server of any make, in as few answers as it can give."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from catalog.client import ClientError, JsonObject, Refused
from catalog.model.entity import Entity
from catalog.model.schema import Model, ResourceType
from catalog.model.xid import RESERVED_VERSION_IDS, Xid, is_valid_id
from replication.deciding.copychecks import MalformedCopy
from replication.deciding.selection import is_of_types, is_selected
from replication.feed.feedlines import check_storable
from replication.peers.linkbounds import Allowance
from replication.sources.walkedentities import WalkedEntity, read_group, read_resource, read_version
from replication.sources.walkedregistry import WalkedRegistry
from replication.sources.walkedserver import GONE, AnswerMalformed, AnswerTooLarge, WalkedServer

WalkedItem = WalkedEntity | MalformedCopy

# With everything below them, and alone.
_FEW, _FEWER, _MANY = 100, 10, 500
_MOST_BARREN_PAGES = 20
_MOST_FAULTS = 5
# A server answers so where it takes no such flags, or cannot inline so much.
_UNUSABLE = frozenset({400, 405, 406, 414, 422, 501})
_NO_ENTITY = "its path is not that of an entity"


class ListingContradicts(AnswerMalformed):
    """A collection lists an entity that belongs to another one, by the entity's own xid."""


@dataclass(frozen=True, slots=True)
class WalkPart:
    """A part of a registry that is read as a whole: the groups of a type, or one of them."""

    plural: str
    gid: str = ""

    @property
    def path(self) -> str:
        return f"/{self.plural}/{self.gid}" if self.gid else f"/{self.plural}"

    def covers(self, xid: str) -> bool:
        return xid == self.path or xid.startswith(self.path + "/")


def parts_of(
    registry: WalkedRegistry, scope: Sequence[str], types: Sequence[str]
) -> list[WalkPart]:
    """The parts of a registry to read for a scope and types; none of either is everything."""
    readable = [plural for plural in registry.readable if is_of_types(f"/{plural}", types)]
    if not scope:
        return [WalkPart(plural) for plural in readable]
    named = sorted({tuple(path.split("/")[1:3]) for path in scope})
    whole = {names[0] for names in named if len(names) == 1}
    wanted = [WalkPart(*names) for names in named if len(names) == 1 or names[0] not in whole]
    return [part for part in wanted if part.plural in readable]


@dataclass(slots=True)
class ReadingLevels:
    """The levels of inlining that the server took last time, by the kind of collection."""

    by_kind: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class WalkReader:
    """Reads parts of one registry, once.

    `seen` has the hashes of all xids that were listed, valid or not: where two of them are the
    same, an entity stays that is gone. `faults` say why the listing may not be complete.

    Args:
        allowance: what the server may send in the whole walk.
    """

    server: WalkedServer
    registry: WalkedRegistry
    model: Model
    authority: str
    scope: tuple[str, ...]
    types: tuple[str, ...]
    allowance: Allowance
    levels: ReadingLevels
    seen: set[int] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)

    def has_seen(self, xid: str) -> bool:
        return hash(xid) in self.seen

    async def read_part(self, part: WalkPart) -> AsyncIterator[list[WalkedItem]]:
        """The entities of a part, parents first; a resource comes together with its versions.

        Raises:
            ListingContradicts: all parts are to be read again, as entities of those that were read
                may have been missing. Less is inlined then.
        """
        if not part.gid:
            told = self.registry.counts.get(part.plural)
            async for gid, body in self._members(part.path, told, part.plural):
                async for items in self.read_tree(part.plural, gid, body):
                    yield items
            return
        try:
            body = await self._group(part)
        except Refused as error:
            if error.problem.status in GONE:
                return
            raise
        async for items in self.read_tree(part.plural, part.gid, body):
            yield items

    async def read_exported(
        self, part: WalkPart, document: JsonObject
    ) -> AsyncIterator[list[WalkedItem]]:
        """The same from a document of the whole registry."""
        groups = document.get(part.plural)
        if not isinstance(groups, dict):
            self._note(f"{part.path} is not in the export")
            return
        self._check_count(part.path, self.registry.counts.get(part.plural), len(groups))
        self._check_count(part.path, document.get(f"{part.plural}count"), len(groups))
        for gid, body in groups.items():
            self._take()
            async for items in self.read_tree(part.plural, gid, body):
                yield items

    async def read_tree(self, plural: str, gid: str, body: Any) -> AsyncIterator[list[WalkedItem]]:
        """A group and what is below it, as far as it is in scope."""
        xid = f"/{plural}/{gid}"
        if not self._selects(xid):
            return
        if (misplaced := self._misplaced(xid, body)) is not None:
            yield [misplaced]
            return
        kind = self.model.groups[plural]
        collections = {*self.registry.types[plural].resources, *kind.resources}
        read = partial(read_group, self.authority, kind, body=body, collections=collections)
        group = self._item(f"/{plural}", gid, read)
        yield [group]
        if not isinstance(group, WalkedEntity):
            return
        for resources in self.registry.readable[plural]:
            path = f"{xid}/{resources}"
            if self._selects(path):
                async for rid, inner in self._below(body, path, resources):
                    if self._selects(f"{path}/{rid}"):
                        yield await self._resource(
                            kind.resources[resources], path, rid, inner, group.entity
                        )

    def _selects(self, path: str) -> bool:
        return is_selected(path, self.scope, self.types)

    async def _resource(
        self, kind: ResourceType, path: str, rid: str, body: Any, group: Entity
    ) -> list[WalkedItem]:
        """A resource with its versions."""
        xid = f"{path}/{rid}"
        if not is_valid_id(rid) or not isinstance(body, dict):
            return [self._malformed(xid, _NO_ENTITY)]
        if (misplaced := self._misplaced(xid, body)) is not None:
            return [misplaced]
        try:
            meta = body.get("meta")
            if not isinstance(meta, dict):
                meta = await self._nested(f"{xid}/meta")
            read = partial(read_resource, self.authority, kind, meta=meta, group=group)
            resource = self._item(path, rid, read)
            items: list[WalkedItem] = [resource]
            if isinstance(resource, WalkedEntity) and "xref" in resource.entity.attributes:
                return items
            async for vid, version in self._below(body, f"{xid}/versions", "versions"):
                read = partial(read_version, self.authority, kind, body=version)
                misplaced = self._misplaced(f"{xid}/versions/{vid}", version)
                items.append(misplaced or self._item(f"{xid}/versions", vid, read))
        except Refused as error:
            if error.is_retryable or error.problem.status >= 500:
                raise
            return [self._malformed(xid, f"it cannot be read: {error.message[:200]}")]
        return items

    async def _below(
        self, body: JsonObject, path: str, plural: str
    ) -> AsyncIterator[tuple[str, Any]]:
        """The members of a collection: those in its owner's body, if they are as many as the body
        tells, or else those that the server lists below the owner's path."""
        told, inlined = body.get(f"{plural}count"), body.get(plural)
        if isinstance(inlined, dict) and (type(told) is not int or told == len(inlined)):
            for id, member in inlined.items():
                self._take()
                yield id, member
        elif told != 0:
            async for id, member in self._members(path, told, f"{path.split('/')[1]}/{plural}"):
                yield id, member

    async def _members(self, path: str, told: Any, kind: str) -> AsyncIterator[tuple[str, Any]]:
        """The members of a collection, page by page, with as much inlined as the server can."""
        levels = self._levels_of(kind)
        last = len(levels) - 1
        index = min(self.levels.by_kind.get(kind, 0), last)
        ids: set[str] = set()
        while True:
            try:
                async for page in self._paged(path, levels[index]):
                    if index < last:
                        self._check_listed(path, page)
                    for id, member in page.items():
                        if id not in ids:
                            ids.add(id)
                            self._take()
                            yield id, member
                break
            except ListingContradicts:
                self.levels.by_kind[kind] = last
                raise
            except (AnswerTooLarge, Refused) as error:
                is_refused = isinstance(error, Refused) and error.problem.status not in _UNUSABLE
                if is_refused or index == last:
                    raise
                index += 1
                self.levels.by_kind[kind] = index
        if path.count("/") == 1 and told != len(ids):
            # Groups may have come or gone while they were listed.
            told = (await self._nested("/")).get(f"{path[1:]}count")
        self._check_count(path, told, len(ids))

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
            self.allowance.take_bytes(self.server.take_received())
            yield page.members
            barren = barren + 1 if len(ids) == before else 0
            if barren > _MOST_BARREN_PAGES:
                raise ClientError(f"{self.server.url}{path} has pages without end.")
        self._check_count(path, total, listed)

    def _levels_of(self, kind: str) -> list[list[tuple[str, str]]]:
        """The flags of requests for a collection: with all that is below it, then with less."""
        registry = self.registry
        deep: list[tuple[str, str]] = []
        if registry.inlines and (inlined := self._inlined(kind)):
            deep = [("inline", inlined)]
            deep += [("binary", "")] if registry.has_binary else []
            # Of a cross reference, document view refuses to show the versions alone.
            deep += [("doc", "")] if registry.has_doc and not kind.endswith("/versions") else []
        if not registry.has_pages:
            return [deep, []] if deep else [[]]
        sizes = [_FEW, _FEWER, 1] if deep else []
        return [
            *([*deep, ("limit", str(size))] for size in sizes),
            [("limit", str(_MANY))],
        ]

    def _inlined(self, kind: str) -> str:
        """The flag for inlining: documents only where their bytes are told."""
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
        rest = levels[min(self.levels.by_kind.get(part.plural, 0), last) :]
        tried = [tuple(flag for flag in level if flag[0] != "limit") for level in rest]
        for flags in dict.fromkeys(tried):
            try:
                page = await self.server.read(part.path, flags)
                if flags:
                    self._check_listed(f"/{part.plural}", {part.gid: page.members})
            except ListingContradicts:
                self.levels.by_kind[part.plural] = last
                raise
            except (AnswerTooLarge, Refused) as error:
                is_refused = isinstance(error, Refused) and error.problem.status not in _UNUSABLE
                if is_refused or not flags:
                    raise
                continue
            self._take()
            return page.members
        raise AnswerTooLarge(f"{self.server.url}{part.path} is too large.")

    async def _nested(self, path: str) -> JsonObject:
        page = await self.server.read(path)
        self.allowance.take_bytes(self.server.take_received())
        return page.members

    def _item(self, collection: str, id: str, read: Callable[..., WalkedEntity]) -> WalkedItem:
        """The translation of a member of a collection, or the reason why there is none."""
        xid = f"{collection}/{id}"
        if not is_valid_id(id) or (collection.endswith("/versions") and id in RESERVED_VERSION_IDS):
            return self._malformed(xid, _NO_ENTITY)
        self.seen.add(hash(xid))
        try:
            found = read(xid=Xid.parse(xid))
            check_storable(found.entity.attributes)
        except (ValueError, TypeError) as error:
            return self._malformed(xid, str(error))
        return found

    def check_export(self, parts: Sequence[WalkPart], document: JsonObject) -> None:
        """Check that a document of the whole registry lists each entity in its own place.

        Raises:
            ListingContradicts
        """
        for part in parts:
            self._check_listed(part.path, document.get(part.plural))

    def _check_listed(self, path: str, members: Any) -> None:
        """Check that a collection lists its own members only, with all that is inlined.

        Raises:
            ListingContradicts
        """
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
        """The conflict about an entity that is listed at an xid and tells another one itself."""
        told = _other_xid(xid, body)
        if told is None:
            return None
        self._note(f"{told[:200]} is listed as {xid}")
        return self._malformed(told, f"its server lists it as {xid}")

    def _malformed(self, xid: str, reason: str) -> MalformedCopy:
        self.seen.add(hash(xid))
        path = xid[:500].replace("\0", "")
        text = reason[:500].replace("\0", "")
        return MalformedCopy(authority=self.authority, origin=path, xid=path, epoch=0, reason=text)

    def _take(self) -> None:
        self.allowance.take(0)

    def _check_count(self, path: str, told: Any, listed: int) -> None:
        if type(told) is int and told != listed:
            self._note(f"{path} has {told} members and lists {listed}")

    def _note(self, fault: str) -> None:
        if len(self.faults) < _MOST_FAULTS:
            self.faults.append(fault)


def _other_xid(xid: str, member: Any) -> str | None:
    """The xid that an entity tells of itself, if it is another one than that of its place."""
    told = member.get("xid") if isinstance(member, dict) else None
    return told if isinstance(told, str) and told != xid else None
