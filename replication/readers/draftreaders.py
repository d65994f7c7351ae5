"""Readers of three older drafts: Message Catalog, Discovery and CloudEvents Registry 0.4."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from typing import Any

from aiohttp import hdrs

from catalog.client import JsonObject, Refused
from catalog.dialects.discovery.events import StoredService
from catalog.dialects.discovery.read import ENDPOINT_MESSAGES, ENDPOINTS
from catalog.dialects.discovery.requests import read_added
from catalog.dialects.discovery.translate import to_entities
from catalog.dialects.messagecatalog import uris
from catalog.dialects.messagecatalog.definitionformats import format_of
from catalog.dialects.messagecatalog.translate import group_to_entity, version_to_entity
from catalog.dialects.messagecatalog.uris import CATALOG_ROOT, GROUP_MESSAGES, MESSAGE_GROUPS
from catalog.dialects.registry04 import names
from catalog.dialects.registry04.load import Layout
from catalog.dialects.registry04.names import Types, types_in
from catalog.dialects.registry04.nativeforms import (
    check_body,
    checked_group,
    new_meta,
    resource_attributes,
)
from catalog.dialects.registry04.translate import to_entity
from catalog.dialects.versionnumbers import in_order, is_number
from catalog.model.errors import XRegistryError
from catalog.model.schema import Model
from catalog.model.xid import Xid, is_valid_id
from replication.readers.reader import (
    NO_ENTITY,
    NO_TIME,
    NoCatalog,
    Reading,
    WalkedCatalog,
    WalkedEntity,
    WalkedItem,
    WalkPart,
    WalkReader,
    entity_at,
    read_time,
    with_document,
)
from replication.readers.walkedserver import (
    AnswerMalformed,
    AnswerTooLarge,
    IgnoredRefusals,
    WalkedServer,
)

_SERVICES = "/services"
_ONLY_VERSION = "1"


class DraftReader(WalkReader):
    """Reads a server without xids, which shows only the versions of resources."""

    def entity(
        self,
        xid: Xid,
        attributes: JsonObject,
        *,
        epoch: int = 0,
        createdat: str | None = None,
        modifiedat: str | None = None,
    ) -> WalkedEntity:
        """An entity; `attributes` are in the form of xRegistry 1.0.

        Raises:
            ValueError: a time is malformed.
        """
        created = NO_TIME if createdat is None else read_time(createdat, "createdat")
        modified = created if modifiedat is None else read_time(modifiedat, "modifiedat")
        present = {name: value for name, value in attributes.items() if value is not None}
        entity = entity_at(self.reading.authority, xid, epoch, present, created, modified)
        return WalkedEntity(entity=entity, lacks_times=createdat is None)

    def resource(self, xid: Xid, items: list[WalkedItem], **meta: Any) -> list[WalkedItem]:
        """A resource with its versions; only `items` if no version is readable.

        Args:
            items: the versions in order; the last version is the default version.
            meta: further attributes of the meta entity.
        """
        versions = [item for item in items if isinstance(item, WalkedEntity)]
        if not versions:
            return items

        def read(xid: Xid) -> WalkedEntity:
            default = versions[-1].entity.path.vid
            chosen = {**meta, "defaultversionid": default, "defaultversionsticky": False}
            created = min(each.entity.createdat for each in versions)
            modified = max(each.entity.modifiedat for each in versions)
            entity = entity_at(self.reading.authority, xid, 0, chosen, created, modified)
            return WalkedEntity(entity=entity, lacks_times=any(v.lacks_times for v in versions))

        return [self.item(f"{xid.group}/{xid.resources}", xid.rid, read), *items]


async def first_listed(server: WalkedServer, path: str, fault: str) -> list[Any]:
    """The first page of a list that shows which API a server has.

    Raises:
        NoCatalog: there is no list; the message is `fault`.
    """
    try:
        async for page in server.lists(path, [("limit", "1")]):
            return page.members
    except AnswerMalformed as error:
        raise NoCatalog(fault, error.message) from error
    return []


class MessageCatalogReader(DraftReader):
    """Reads message groups, and the versions of their messages, below a path of a server."""

    @classmethod
    async def find(cls, server: WalkedServer, model: Model, root: str) -> WalkedCatalog:
        """The Message Catalog at a path, recognised by its list of group ids."""
        fault, name = f"{server.url}{root} is no Message Catalog.", "Message Catalog"
        ids = await first_listed(server, root or "/", fault)
        if not all(isinstance(id, str) for id in ids[:1]):
            raise NoCatalog(fault, "It lists something else than message groups.")
        reader = partial(cls, root=root)
        return WalkedCatalog(dialect="messagecatalog", software=name, identity=name, reader=reader)

    def __init__(self, reading: Reading, root: str) -> None:
        has_groups = reading.model.resource_type(MESSAGE_GROUPS, GROUP_MESSAGES) is not None
        super().__init__(reading, [MESSAGE_GROUPS] if has_groups else [])
        self._root = root

    async def read_part(self, part: WalkPart) -> AsyncIterator[list[WalkedItem]]:
        for gid in [part.gid] if part.gid else await self._members(self._root or "/"):
            xid = f"/{MESSAGE_GROUPS}/{gid}"
            if not self.reading.selects(xid):
                continue
            if not is_valid_id(gid):
                yield [self.malformed(xid, NO_ENTITY)]
                continue
            async for items in self._group(Xid(MESSAGE_GROUPS, gid)):
                yield items

    async def _group(self, xid: Xid) -> AsyncIterator[list[WalkedItem]]:
        try:
            shown = await self._shown(xid)
        except AnswerMalformed as error:
            yield [self.malformed(str(xid), error.message)]
            return
        if shown is None:
            return
        group = self.item(f"/{MESSAGE_GROUPS}", xid.gid, partial(self._read_group, shown))
        yield [group]
        below = f"{xid}/{GROUP_MESSAGES}"
        if not isinstance(group, WalkedEntity) or not self.reading.selects(below):
            return
        format = format_of(group.entity.attributes)
        for rid in await self._members(f"{self._path(xid)}/messagedefinitions"):
            path = f"{below}/{rid}"
            if not is_valid_id(rid):
                yield [self.malformed(path, NO_ENTITY)]
            elif self.reading.selects(path):
                yield await self._definition(xid.child(GROUP_MESSAGES, rid), format or "")

    async def _definition(self, xid: Xid, format: str) -> list[WalkedItem]:
        """A definition with its versions; empty if the definition was deleted after its listing."""
        items: list[WalkedItem] = []
        numbers = await self._members(f"{self._path(xid)}/versions")
        ancestor = ""
        for number in sorted(each for each in numbers if type(each) is int):
            version = xid.version(str(number))
            try:
                shown = await self._shown(version) if is_number(version.vid) else None
            except AnswerMalformed as error:
                items.append(self.malformed(str(version), error.message))
                continue
            if shown is not None:
                ancestor = ancestor or version.vid
                read = partial(self._read_version, shown, ancestor, format)
                items.append(self.item(f"{xid}/versions", version.vid, read))
                ancestor = version.vid
        return self.resource(xid, items)

    def _read_group(self, shown: JsonObject, xid: Xid) -> WalkedEntity:
        return self._read(xid, shown, group_to_entity(xid.gid, shown, {}, str(xid)))

    def _read_version(
        self, shown: JsonObject, ancestor: str, format: str, xid: Xid
    ) -> WalkedEntity:
        format = str(shown.get("format") or format)
        try:
            native = version_to_entity(xid.rid, shown, format, str(xid), checks=False)
        except (AttributeError, KeyError) as error:
            raise ValueError("its definition has another form than those of its format") from error
        return self._read(xid, shown, {**native, "ancestorid": ancestor})

    def _read(self, xid: Xid, shown: JsonObject, attributes: JsonObject) -> WalkedEntity:
        createdat, modifiedat = shown.get("createdtimeutc"), shown.get("updatedtimeutc")
        return self.entity(xid, attributes, createdat=createdat, modifiedat=modifiedat)

    async def is_gone(self, xid: str) -> bool:
        path = Xid.parse(xid)
        is_shown = path.groups == MESSAGE_GROUPS and uris.path_of(path) is not None
        return is_shown and await self.server.is_gone(self._path(path))

    async def _shown(self, xid: Xid) -> JsonObject | None:
        """An entity as the server shows it; `None` if the server has deleted the entity."""
        self.count()
        with IgnoredRefusals():
            page = await self.server.read(self._path(xid))
            self.count_bytes()
            return page.members
        return None

    async def _members(self, path: str) -> list[Any]:
        """The ids or numbers in the list of a collection; none if the collection does not exist."""
        found: list[Any] = []
        with IgnoredRefusals():
            async for page in self.server.lists(path):
                self.count_bytes()
                found += page.members
        return found

    def _path(self, xid: Xid) -> str:
        return self._root + (uris.path_of(xid) or "").removeprefix(CATALOG_ROOT)


class ServiceReader(DraftReader):
    """Reads the services of a Discovery endpoint, which are endpoints with their messages."""

    @classmethod
    async def find(cls, server: WalkedServer, model: Model, root: str) -> WalkedCatalog:
        """The services of a Discovery endpoint."""
        fault, name = f"{server.url}{root} is no Discovery endpoint.", "Discovery"
        services = await first_listed(server, root + _SERVICES, fault)
        if not all(isinstance(service, dict) for service in services[:1]):
            raise NoCatalog(fault, "It lists something else than services.")
        reader = partial(cls, root=root)
        return WalkedCatalog(dialect="discovery", software=name, identity=name, reader=reader)

    def __init__(self, reading: Reading, root: str) -> None:
        has_endpoints = reading.model.group_type(ENDPOINTS) is not None
        super().__init__(reading, [ENDPOINTS] if has_endpoints else [])
        self._path = root + _SERVICES
        self._has_messages = reading.model.resource_type(ENDPOINTS, ENDPOINT_MESSAGES) is not None
        self._whole: set[str] = set()

    async def read_part(self, part: WalkPart) -> AsyncIterator[list[WalkedItem]]:
        async for page in self.server.lists(self._path):
            self.count_bytes()
            for service in page.members:
                id = service.get("id") if isinstance(service, dict) else None
                xid = f"/{ENDPOINTS}/{id}"
                if not isinstance(id, str):
                    yield [self.malformed(xid, NO_ENTITY)]
                elif part.covers(xid) and self.reading.selects(xid):
                    yield self._service(id, service)

    def _service(self, id: str, shown: JsonObject) -> list[WalkedItem]:
        """The endpoint of a service, with its messages."""
        self.count()
        xid = f"/{ENDPOINTS}/{id}"
        try:
            [put] = read_added([shown], self._path, imports=True)
        except XRegistryError as error:
            return [self.malformed(xid, str(error))]
        patch = to_entities(put.service, StoredService(id=id), "")
        read = partial(self.entity, attributes=patch.endpoint, epoch=put.least_epoch)
        endpoint = self.item(f"/{ENDPOINTS}", id, read)
        items = [endpoint]
        if not isinstance(endpoint, WalkedEntity) or not self._has_messages:
            return items
        self._whole.add(xid)
        for rid, attributes in patch.messages.items():
            path = f"{xid}/{ENDPOINT_MESSAGES}/{rid}"
            if self.reading.selects(path):
                self.count()
                native = {**attributes, "ancestorid": _ONLY_VERSION}
                read = partial(self.entity, attributes=native)
                version = self.item(f"{path}/versions", _ONLY_VERSION, read)
                message = endpoint.entity.path.child(ENDPOINT_MESSAGES, rid)
                items += self.resource(message, [version])
        return items

    async def is_gone(self, xid: str) -> bool:
        """Whether an endpoint does not exist; a message is gone if its endpoint's list was read."""
        path = Xid.parse(xid)
        if path.groups != ENDPOINTS:
            return False
        if path.rid:
            return str(path.group) in self._whole
        return await self.server.is_gone(f"{self._path}/{path.gid}")


class Registry04Reader(DraftReader):
    """Reads endpoints, definition groups and schema groups below a path of a server.

    The server shows a resource as its latest version. The document of a version is fetched together
    with its media type, which the metadata lacks.
    """

    @classmethod
    async def find(cls, server: WalkedServer, model: Model, root: str) -> WalkedCatalog:
        """The registry of edition 0.4 at a path of a server."""
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
            reader=partial(cls, root=root),
        )

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
        async for rid, _ in self._members(f"{names.path_of(path)}/{types.resource.plural}"):
            xid = f"{below}/{rid}"
            if not is_valid_id(rid):
                yield [self.malformed(xid, NO_ENTITY)]
            elif self.reading.selects(xid):
                yield await self._resource(types, path.child(types.resource.native, rid))

    async def _resource(self, types: Types, xid: Xid) -> list[WalkedItem]:
        """A resource with its versions; empty if the resource was deleted after its listing."""
        shown = {vid: each async for vid, each in self._members(f"{names.path_of(xid)}/versions")}
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
            content["ancestorid"] = before
            read = partial(self._read_version, types, shown[vid], content, document)
            items.append(self.item(f"{xid}/versions", vid, read))
        return self.resource(xid, items, **new_meta(types))

    def _read_group(self, types: Types, shown: JsonObject, xid: Xid) -> WalkedEntity:
        own = _without_name(checked_group(types, str(xid), shown), xid.gid)
        fill = self._layout.fill(types.group_type.own_attributes)
        native = to_entity(types.group.singular, own, None, fill, self._layout.references)
        return self._read(xid, shown, native)

    def _read_version(
        self, types: Types, shown: JsonObject, content: JsonObject, document: bytes, xid: Xid
    ) -> WalkedEntity:
        own = _without_name(resource_attributes(types, shown), xid.rid)
        check_body(types.resource.singular, str(xid), own)
        fill = self._layout.fill(types.resource_type.version_attributes)
        native = to_entity(types.resource.singular, own, None, fill, self._layout.references)
        if types.has_document and (url := shown.get(types.uri)):
            native[f"{types.resource_type.singular}url"] = url
        read = self._read(xid, shown, {**native, **content})
        return replace(read, entity=with_document(read.entity, document))

    def _read(self, xid: Xid, shown: JsonObject, attributes: JsonObject) -> WalkedEntity:
        epoch = shown.get("epoch")
        return self.entity(
            xid,
            attributes,
            epoch=epoch if type(epoch) is int and epoch >= 0 else 0,
            createdat=shown.get("createdOn"),
            modifiedat=shown.get("modifiedOn"),
        )

    async def is_gone(self, xid: str) -> bool:
        path = Xid.parse(xid)
        return names.has_names(path) and await self.server.is_gone(self._path(path))

    async def _members(self, path: str) -> AsyncIterator[tuple[str, JsonObject]]:
        """The members of a collection; none if the collection does not exist."""
        with IgnoredRefusals():
            async for page in self.server.pages(self._root + path):
                self.count_bytes()
                for id, shown in page.members.items():
                    self.count()
                    yield id, shown if isinstance(shown, dict) else {}

    def _path(self, xid: Xid) -> str:
        return self._root + names.path_of(xid)


def _without_name(own: JsonObject, id: str) -> JsonObject:
    """Attributes without a name equal to the id, since servers show the id for an absent name."""
    return {n: value for n, value in own.items() if not (n == "name" and value == id)}
