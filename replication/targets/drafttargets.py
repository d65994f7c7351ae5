"""Writes to servers of older drafts: Message Catalog, Discovery, CloudEvents Registry 0.4."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import orjson

from catalog.client import Answer, BadAnswer, Client, JsonObject
from catalog.context import Context
from catalog.dialects.discovery.read import (
    ENDPOINTS,
    ServiceCatalog,
    id_of,
    load_stored_services,
    show,
)
from catalog.dialects.discovery.translate import is_service
from catalog.dialects.messagecatalog import uris
from catalog.dialects.messagecatalog.translate import show_group, show_version
from catalog.dialects.messagecatalog.uris import CATALOG_ROOT, GROUP_MESSAGES, MESSAGE_GROUPS
from catalog.dialects.registry04 import names
from catalog.dialects.registry04.load import Layout
from catalog.dialects.registry04.names import Types, types_in
from catalog.dialects.registry04.requestcontent import HEADER_PREFIX, headers_of
from catalog.dialects.registry04.translate import SERVED
from catalog.dialects.versionnumbers import is_number
from catalog.http.responses import encode_url
from catalog.model.entity import Entity
from catalog.model.errors import XRegistryError
from catalog.model.timestamps import format_time
from catalog.model.xid import Xid
from catalog.store import discoveryservices, entities
from catalog.store.database import Connection
from replication.deciding.copychecks import Copy
from replication.readers.walkedserver import IgnoredRefusals
from replication.store.writtenentities import WrittenEntity
from replication.targets.target import (
    MARK,
    Answered,
    Found,
    Item,
    Target,
    Translation,
    Unwritable,
    in_order,
    object_in,
    shape_of,
    tag_of,
)

_SET_OF_VERSIONS = frozenset({"id", "version", "createdtimeutc", "updatedtimeutc"})
_MOST_VERSIONS = 10_000
_SERVICES = "/services"
_MESSAGE_GROUPS = "messagegroups"
# Members that the server sets; `url` is the address of the service at the server.
_SET_OF_SERVICES = ("id", "epoch", "url")
_META = [("meta", "")]
_ANY = "application/octet-stream"


class MessageCatalogTarget(Target):
    """A Message Catalog, with message groups and the versions of their messages only.

    The server numbers versions upwards and never changes a version. A definition of a foreign
    authority keeps the version numbers of the authority, whose name is stored with the definition.
    """

    @classmethod
    async def open(cls, context: Context, client: Client, mark: str) -> MessageCatalogTarget | None:
        """Look whether a server lists the ids of message groups at its root."""
        answer = await client.request("GET", "/", params=[("limit", "1")])
        try:
            ids = orjson.loads(answer.body)
        except orjson.JSONDecodeError:
            return None
        is_list = isinstance(ids, list) and all(isinstance(id, str) for id in ids)
        return cls(client, client.url, "Message Catalog") if is_list else None

    async def plan(self, connection: Connection, copies: Sequence[Copy]) -> Translation:
        plan = Translation()
        resources = {str(Xid.parse(copy.xid).resource) for copy in copies}
        held = await entities.load(connection, resources)
        for copy in copies:
            xid = Xid.parse(copy.xid)
            if xid.groups != MESSAGE_GROUPS or xid.resources not in ("", GROUP_MESSAGES):
                continue
            if not isinstance(copy, Entity):
                plan.gone.append(copy)
            elif xid.kind != "resource":
                self._add(plan, copy, held.get(str(xid.resource)) if xid.vid else copy)
        plan.items = sorted(in_order(plan.items), key=_by_number)
        return plan

    def _add(self, plan: Translation, entity: Entity, resource: Entity | None) -> None:
        vid = entity.path.vid
        if vid and not is_number(vid):
            plan.faults.append((entity, "a Message Catalog has versions with numbers only"))
        elif resource is not None:
            try:
                # The empty authority of the node makes each definition name its authority.
                shown = show_version(entity, resource, "") if vid else show_group(entity)
            except XRegistryError as error:
                plan.faults.append((entity, error.title))
            else:
                plan.items.append(Item(entity=entity, content=_without(shown, _SET_OF_VERSIONS)))

    def path_of(self, item: Item) -> str:
        return _path_at_server(item.xid)

    async def find(self, holder: Xid) -> Mapping[str, Found]:
        path, found = _path_at_server(holder), {}
        for each in await self._versions(path) if holder.rid else [path]:
            if (shown := await self.get_or_none(each)) is not None:
                shape = shape_of(_without(shown, _SET_OF_VERSIONS))
                found[each] = Found(shape=shape, is_version=bool(holder.rid))
        return found

    async def find_below(self, group: Xid) -> Mapping[str, Mapping[str, Found]]:
        found = {}
        for id in await self._ids(f"{_path_at_server(group)}/messagedefinitions"):
            holder = group.child(GROUP_MESSAGES, str(id))
            found[str(holder)] = await self.find(holder)
        return found

    async def _numbers(self, path: str) -> list[int]:
        numbers = await self._ids(f"{path}/versions")
        return [number for number in numbers if type(number) is int][:_MOST_VERSIONS]

    async def _versions(self, path: str) -> list[str]:
        return [f"{path}/versions/{number}" for number in await self._numbers(path)]

    async def _ids(self, path: str) -> list[Any]:
        """The members of a list, ids or numbers; none if the list does not exist."""
        found: list[Any] = []
        with IgnoredRefusals():
            async for page in self.client.pages(path):
                if not isinstance(page, list):
                    raise BadAnswer(self.root + path, "something else than a list")
                found += page
        return found

    async def write(
        self, item: Item, document: bytes | None, written: WrittenEntity, *, is_new: bool
    ) -> Answered:
        xid = item.xid
        if not xid.vid:
            await self.client.put(written.path, {"id": xid.gid, **item.content})
            return Answered(path=written.path)
        definition, _, _ = written.path.partition("/versions/")
        numbers = await self._numbers(definition)
        if int(xid.vid) in numbers:
            # An existing version cannot be changed.
            shown = await self.get_or_none(written.path)
            if shown is None or shape_of(_without(shown, _SET_OF_VERSIONS)) != item.shape:
                raise Unwritable("a Message Catalog changes no version: add a new one instead")
            return Answered(path=written.path)
        if numbers and max(numbers) > int(xid.vid):
            raise Unwritable("a Message Catalog takes no version before others that it has")
        body = {"id": xid.rid, "version": int(xid.vid), **item.content}
        answer = await self.client.request("POST", definition.rpartition("/")[0], body=body)
        number = object_in(answer).get("version", int(xid.vid))
        return Answered(path=f"{definition}/versions/{number}")

    async def remove(
        self, holder: Xid, paths: Collection[str], adopted: Collection[str], *, is_whole: bool
    ) -> bool:
        path = _path_at_server(holder)
        if not holder.rid:
            if await self._ids(f"{path}/messagedefinitions"):
                raise Unwritable("it stays, since it has definitions that this link did not bring")
            await self.delete(path)
            return True
        there = {*await self._versions(path)}
        return await self.remove_versions(path, there, paths, adopted, is_whole=is_whole)


def _path_at_server(xid: Xid) -> str:
    path = uris.path_of(xid)
    assert path is not None, "it was planned"
    return path.removeprefix(CATALOG_ROOT)


def _without(shown: Mapping[str, Any], names: Collection[str]) -> JsonObject:
    """The content of an entity, without members that the server sets."""
    return {name: value for name, value in shown.items() if name not in names}


class DiscoveryTarget(Target):
    """A Discovery endpoint, which imports the endpoints of this node as services.

    Entities that belong to no service are left out.
    """

    def __init__(self, context: Context, client: Client) -> None:
        super().__init__(client, client.url, "Discovery")
        self._context = context

    @classmethod
    async def open(cls, context: Context, client: Client, mark: str) -> DiscoveryTarget | None:
        """Look whether a server lists services."""
        answer = await client.request("GET", _SERVICES, params=[("limit", "1")])
        return cls(context, client) if answer.body.lstrip().startswith(b"[") else None

    async def plan(self, connection: Connection, copies: Sequence[Copy]) -> Translation:
        plan = Translation()
        gone = [copy for copy in copies if not isinstance(copy, Entity)]
        plan.gone = [copy for copy in gone if copy.xid.count("/") == 2]
        catalog = ServiceCatalog(
            configuration=self._context.configuration,
            authority=self._context.database.node.authority,
            base=self._context.public_base,
        )
        endpoints = await self._endpoints_of(connection, copies)
        services = [each for each in endpoints if is_service(each.attributes)]
        plan.gone += [each for each in endpoints if not is_service(each.attributes)]
        held = await load_stored_services(connection, catalog, services)
        for endpoint in services:
            shown = show(endpoint, held[endpoint.xid], catalog)
            plan.items.append(Item(entity=endpoint, content=_without(shown, _SET_OF_SERVICES)))
        return plan

    async def _endpoints_of(self, connection: Connection, copies: Sequence[Copy]) -> list[Entity]:
        """The endpoints among the copies, and the endpoints of message groups among the copies."""
        paths = [Xid.parse(copy.xid).group for copy in copies]
        groups = {path.gid for path in paths if path.groups == _MESSAGE_GROUPS}
        xids = {str(path) for path in paths if path.groups == ENDPOINTS}
        if groups:
            own = [f"/{_MESSAGE_GROUPS}/{gid}" for gid in groups]
            absolute = [self._context.public_base + path for path in own]
            xids |= {*await discoveryservices.find_referring(connection, [*own, *absolute])}
        found = await entities.load(connection, xids)
        return [found[xid] for xid in sorted(found)]

    def path_of(self, item: Item) -> str:
        return f"{_SERVICES}/{id_of(item.entity)}"

    async def find(self, holder: Xid) -> Mapping[str, Found]:
        async with self._context.database.acquire() as connection:
            endpoint = (await entities.load(connection, [str(holder)])).get(str(holder))
        if endpoint is None:
            return {}
        path = f"{_SERVICES}/{id_of(endpoint)}"
        shown = await self.get_or_none(path)
        if shown is None:
            return {}
        shape = shape_of(_without(shown, _SET_OF_SERVICES))
        return {path: Found(shape=shape, tag=str(shown.get("epoch", "")))}

    async def write(
        self, item: Item, document: bytes | None, written: WrittenEntity, *, is_new: bool
    ) -> Answered:
        """Import a service: the server raises its epoch above the sent and the former epoch."""
        service = {"id": id_of(item.entity), "epoch": item.entity.epoch, **item.content}
        await self.client.request(
            "POST", _SERVICES, params=[("import", "")], body=[service], is_repeatable=True
        )
        return Answered(path=self.path_of(item))

    async def remove(
        self, holder: Xid, paths: Collection[str], adopted: Collection[str], *, is_whole: bool
    ) -> bool:
        for path in paths:
            await self.delete(path)
        return True


class Registry04Target(Target):
    """A CloudEvents Registry 0.4: endpoints, definition groups and schema groups.

    The server shows a resource as its latest version, and numbers the versions: a version with a
    different id gets a new id at the server, which the link stores.
    """

    def __init__(
        self, context: Context, client: Client, root: Mapping[str, Any], mark: str
    ) -> None:
        software = f"CloudEvents Registry {root.get('specVersion')}"[:64]
        super().__init__(client, str(root.get("id"))[:200], software)
        self._context = context
        self._mark = mark

    @classmethod
    async def open(cls, context: Context, client: Client, mark: str) -> Registry04Target | None:
        """Look whether a server has a root of edition 0.4."""
        root = await client.get("/")
        is_known = str(root.get("specVersion", "")).startswith("0.4")
        return cls(context, client, root, mark) if is_known else None

    def _types_or_none(self, xid: Xid) -> Types | None:
        for types in types_in(self._context.model):
            is_named = types.group.native == xid.groups
            if is_named and xid.resources in ("", types.resource.native):
                return types
        return None

    def _types(self, xid: Xid) -> Types:
        types = self._types_or_none(xid)
        assert types is not None, "it was planned"
        return types

    async def plan(self, connection: Connection, copies: Sequence[Copy]) -> Translation:
        plan = Translation()
        for copy in copies:
            xid = Xid.parse(copy.xid)
            types = self._types_or_none(xid)
            if types is None:
                plan.faults += [(copy, "edition 0.4 has no such type")] * isinstance(copy, Entity)
            elif not isinstance(copy, Entity):
                plan.gone.append(copy)
            elif xid.kind in ("group", "version"):
                self._add(plan, copy, types)
        plan.items = sorted(in_order(plan.items), key=_by_number)
        return plan

    def _add(self, plan: Translation, entity: Entity, types: Types) -> None:
        base = self._context.public_base
        layout = Layout(self._context.model, base=base, authority=entity.authority)
        is_version = entity.kind == "version"
        try:
            shown = layout.version(entity, types) if is_version else layout.group(entity, types, 0)
        except XRegistryError as error:
            plan.faults.append((entity, error.title))
        else:
            plan.items.append(Item(entity=entity, content=_shown_content(shown, types)))

    def path_of(self, item: Item) -> str:
        return names.path_of(item.xid)

    async def find(self, holder: Xid) -> Mapping[str, Found]:
        path, types = names.path_of(holder), self._types(holder)
        if not holder.rid:
            shown = await self.get_or_none(path)
            return {} if shown is None else {path: _found(shown, types)}
        return {
            f"{path}/versions/{id}": _found(shown, types, is_version=True)
            async for id, shown in self.members(f"{path}/versions")
        }

    async def find_below(self, group: Xid) -> Mapping[str, Mapping[str, Found]]:
        types, found = self._types(group), {}
        async for id, _ in self.members(f"{names.path_of(group)}/{types.resource.plural}"):
            holder = group.child(types.resource.native, id)
            found[str(holder)] = await self.find(holder)
        return found

    async def write(
        self, item: Item, document: bytes | None, written: WrittenEntity, *, is_new: bool
    ) -> Answered:
        body = {**item.content, "tags": {**(item.content.get("tags") or {}), MARK: self._mark}}
        if not item.xid.rid:
            return await self._write_group(item, body, written)
        path = await self._place_version(item, body, document, written, is_new=is_new)
        return Answered(path=path, tag=await self._complete(path, item, body))

    async def _write_group(self, item: Item, body: JsonObject, written: WrittenEntity) -> Answered:
        body["createdOn"] = format_time(item.entity.createdat)
        if await self.get_or_none(written.path) is None:
            collection, _, id = written.path.rpartition("/")
            answer = await self.client.request("POST", collection, body={"id": id, **body})
        else:
            answer = await self.client.request("PUT", written.path, body=body)
        return Answered(path=written.path, tag=tag_of(object_in(answer)))

    async def _place_version(
        self,
        item: Item,
        body: JsonObject,
        document: bytes | None,
        written: WrittenEntity,
        *,
        is_new: bool,
    ) -> str:
        """Write a version without the rest of its metadata; return the path at the server."""
        resource = names.path_of(item.xid.resource)
        there = await self.find(item.xid.resource)
        if written.path in there and not is_new:
            await self._send("PUT", written.path, body, item, document)
            return written.path
        if not there:
            collection, _, id = resource.rpartition("/")
            answer = await self._send("POST", collection, {"id": id, **body}, item, document)
        elif not written.digest and not is_new and (lost := await self._lost(item, there)):
            return lost
        else:
            answer = await self._send("POST", resource, body, item, document)
        number = answer.headers.get(f"{HEADER_PREFIX}version") or object_in(answer).get("version")
        if number is None:
            raise Unwritable("the server did not say which number it gave to the version")
        return f"{resource}/versions/{number}"

    async def _lost(self, item: Item, there: Mapping[str, Found]) -> str:
        """The path of a version whose creation was not answered; empty if no version was added."""
        newest = max(there, key=lambda path: (len(path), path))
        expected = item.entity.document_sha256
        if expected is None:
            return newest if there[newest].shape == item.shape else ""
        document = await self.read_document(newest)
        return newest if hashlib.sha256(document).digest() == expected else ""

    async def _send(
        self, method: str, path: str, body: JsonObject, item: Item, document: bytes | None
    ) -> Answer:
        """Send a definition as JSON, or a document with its scalar metadata in headers."""
        if not self._types(item.xid).has_document:
            return await self.client.request(method, path, body=body)
        media_type = str(item.entity.attributes.get("contenttype") or _ANY)
        headers = {**headers_of(body), "Content-Type": encode_url(media_type)}
        return await self.client.request(method, path, body=document or b"", headers=headers)

    async def _complete(self, path: str, item: Item, body: JsonObject) -> str:
        """Write the metadata of a version where it differs; return the tag.

        A new version inherits metadata from the version before.
        """
        types, shown = self._types(item.xid), await self.client.get(path, _META)
        found = _found(shown, types)
        if found.shape == item.shape and found.owner == self._mark:
            return found.tag
        gone = {name: None for name in _shown_content(shown, types) if name not in body}
        body = {name: value for name, value in body.items() if name != types.uri}
        answer = await self.client.request("PUT", path, params=_META, body={**gone, **body})
        return tag_of(object_in(answer))

    async def remove(
        self, holder: Xid, paths: Collection[str], adopted: Collection[str], *, is_whole: bool
    ) -> bool:
        path, types = names.path_of(holder), self._types_or_none(holder)
        if not holder.rid:
            if types is not None:
                async for _ in self.members(f"{path}/{types.resource.plural}"):
                    detail = f'it stays, since it has "{types.resource.plural}" of others'
                    raise Unwritable(detail)
            await self.delete(path)
            return True
        there = {f"{path}/versions/{id}" async for id, _ in self.members(f"{path}/versions")}
        return await self.remove_versions(path, there, paths, adopted, is_whole=is_whole)


def _shown_content(shown: Mapping[str, Any], types: Types) -> JsonObject:
    plural = types.resource.plural
    hidden = SERVED | {plural, f"{plural}URL", f"{plural}Count", "versionsURL", "versionsCount"}
    content = {name: value for name, value in shown.items() if name not in hidden}
    tags = content.pop("tags", None)
    kept = {n: v for n, v in tags.items() if n != MARK} if isinstance(tags, dict) else tags
    return {**content, "tags": kept} if kept else content


def _found(shown: Mapping[str, Any], types: Types, *, is_version: bool = False) -> Found:
    content = _shown_content(shown, types)
    return Found.marked(shown, content, shown.get("tags"), is_version=is_version)


def _by_number(item: Item) -> tuple[bool, str, bool, int]:
    vid = item.xid.vid
    number = int(vid) if is_number(vid) else 0
    return bool(vid), item.holder if vid else "", is_number(vid), number
