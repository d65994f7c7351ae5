"""Reads a CloudEvents Registry 0.4: endpoints, definition groups and schema groups."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

from aiohttp import hdrs

from catalog.client import JsonObject, Refused
from catalog.dialects.registry04.address import Types, types_in
from catalog.dialects.registry04.attributechecks import check_body, resource_attributes
from catalog.dialects.registry04.layout import Layout
from catalog.dialects.registry04.names import has_names, path_of
from catalog.dialects.registry04.nativeforms import checked_group, new_meta
from catalog.dialects.registry04.translate import to_entity
from catalog.dialects.versionnumbers import in_order
from catalog.model.schema import Model
from catalog.model.xid import Xid, is_valid_id
from replication.readers.reader import (
    NO_ENTITY,
    NoCatalog,
    Reading,
    WalkedCatalog,
    WalkedItem,
    WalkPart,
    WalkReader,
)
from replication.readers.walkedentities import (
    WalkedEntity,
    entity_of,
    resource_of,
    with_document,
)
from replication.readers.walkedserver import GONE, AnswerMalformed, AnswerTooLarge, WalkedServer


async def find_registry04(server: WalkedServer, model: Model, root: str) -> WalkedCatalog:
    """The registry of edition 0.4 at a path of a server.

    Raises:
        NoCatalog
        ClientError: the server does not answer.
    """
    try:
        found = (await server.read(root or "/")).members
    except AnswerMalformed as error:
        raise NoCatalog(f"{server.url}{root} is no registry.", error.message) from error
    edition = str(found.get("specVersion", ""))
    if not edition.startswith("0.4"):
        raise NoCatalog(f"{server.url}{root} is no CloudEvents Registry 0.4.")
    return WalkedCatalog(
        dialect="registry04",
        software=f"CloudEvents Registry {edition}"[:64],
        identity=str(found.get("id"))[:128],
        reader=partial(Registry04Reader, root=root),
    )


class Registry04Reader(WalkReader):
    """Reads the registry below a path of its server, which shows a resource as its latest version.

    The document of a version is fetched together with its media type, which the metadata lacks.
    """

    def __init__(self, reading: Reading, root: str) -> None:
        self._types = {types.group.native: types for types in types_in(reading.model)}
        super().__init__(reading, [*self._types])
        self._root = root
        self._layout = Layout(reading.model, base="", authority=reading.authority)

    async def read_part(self, part: WalkPart) -> AsyncIterator[list[WalkedItem]]:
        types = self._types[part.plural]
        async for gid, shown in self._members(f"/{types.group.plural}"):
            xid = f"/{part.plural}/{gid}"
            if part.covers(xid) and self.reading.selects(xid):
                async for items in self._group(types, gid, shown):
                    yield items

    async def _group(
        self, types: Types, gid: str, shown: JsonObject
    ) -> AsyncIterator[list[WalkedItem]]:
        read = partial(self._read_group, types, shown)
        group = self.item(f"/{types.group.native}", gid, read)
        yield [group]
        if not isinstance(group, WalkedEntity):
            return
        path = group.entity.path
        below = f"{path}/{types.resource.native}"
        if not self.reading.selects(below):
            return
        async for rid, _ in self._members(f"{path_of(path)}/{types.resource.plural}"):
            xid = f"{below}/{rid}"
            if not is_valid_id(rid):
                yield [self.malformed(xid, NO_ENTITY)]
            elif self.reading.selects(xid):
                yield await self._resource(types, path.child(types.resource.native, rid))

    async def _resource(self, types: Types, xid: Xid) -> list[WalkedItem]:
        """A resource with its versions; empty if the resource was deleted after its listing."""
        shown = {vid: each async for vid, each in self._members(f"{path_of(xid)}/versions")}
        items: list[WalkedItem] = []
        ancestor = ""
        for vid in in_order(shown):
            ancestor, before = vid, ancestor or vid
            content: JsonObject = {}
            document = b""
            if types.has_document and is_valid_id(vid) and not shown[vid].get(types.uri):
                try:
                    answer = await self.server.document(self._path(xid.version(vid)))
                except (Refused, AnswerMalformed, AnswerTooLarge) as error:
                    # A passing fault ends the walk; otherwise a readable version would count as
                    # malformed.
                    if isinstance(error, Refused) and error.is_retryable:
                        raise
                    items.append(self.malformed(f"{xid}/versions/{vid}", error.message))
                    continue
                self.count_bytes()
                document = answer.body
                if document:
                    content = {"contenttype": answer.headers.get(hdrs.CONTENT_TYPE)}
            read = partial(self._read_version, types, shown[vid], content, document, before)
            items.append(self.item(f"{xid}/versions", vid, read))
        versions = [item for item in items if isinstance(item, WalkedEntity)]
        if not versions:
            return items
        authority, meta = self.reading.authority, new_meta(types)
        read_resource = partial(resource_of, authority, versions=versions, meta=meta)
        return [self.item(f"{xid.group}/{xid.resources}", xid.rid, read_resource), *items]

    def _read_group(self, types: Types, shown: JsonObject, xid: Xid) -> WalkedEntity:
        own = _without_name(checked_group(types, str(xid), shown), xid.gid)
        fill = self._layout.fill(types.group_type.own_attributes)
        native = to_entity(types.group.singular, own, None, fill, self._layout.references)
        return self._entity(xid, shown, native)

    def _read_version(
        self,
        types: Types,
        shown: JsonObject,
        content: JsonObject,
        document: bytes,
        ancestor: str,
        xid: Xid,
    ) -> WalkedEntity:
        own = _without_name(resource_attributes(types, shown), xid.rid)
        check_body(types.resource.singular, str(xid), own)
        fill = self._layout.fill(types.resource_type.version_attributes)
        native = to_entity(types.resource.singular, own, None, fill, self._layout.references)
        if types.has_document and (url := shown.get(types.uri)):
            native[f"{types.resource_type.singular}url"] = url
        read = self._entity(xid, shown, {**native, **content, "ancestorid": ancestor})
        return WalkedEntity(
            entity=with_document(read.entity, document), lacks_times=read.lacks_times
        )

    def _entity(self, xid: Xid, shown: JsonObject, attributes: JsonObject) -> WalkedEntity:
        epoch = shown.get("epoch")
        return entity_of(
            self.reading.authority,
            xid,
            attributes,
            epoch=epoch if type(epoch) is int and epoch >= 0 else 0,
            createdat=shown.get("createdOn"),
            modifiedat=shown.get("modifiedOn"),
        )

    async def is_gone(self, xid: str) -> bool:
        path = Xid.parse(xid)
        return has_names(path) and await self.server.is_gone(self._path(path))

    async def _members(self, path: str) -> AsyncIterator[tuple[str, JsonObject]]:
        """The members of a collection; none if the collection does not exist."""
        try:
            async for page in self.server.pages(self._root + path):
                self.count_bytes()
                for id, shown in page.members.items():
                    self.count()
                    yield id, _object(shown)
        except Refused as error:
            if error.problem.status not in GONE:
                raise

    def _path(self, xid: Xid) -> str:
        return self._root + path_of(xid)


def _without_name(own: JsonObject, id: str) -> JsonObject:
    """Attributes without a name equal to the id, since servers show the id for an absent name."""
    return {n: value for n, value in own.items() if not (n == "name" and value == id)}


def _object(value: Any) -> JsonObject:
    return value if isinstance(value, dict) else {}
