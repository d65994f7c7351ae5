"""Writes to a Message Catalog: message groups, and the versions of their messages.

A Message Catalog numbers versions upwards and never changes a version. A definition of a foreign
authority keeps the version numbers of the authority, whose name is stored with the definition.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import orjson

from catalog.client import BadAnswer, Client, JsonObject, Refused
from catalog.dialects.messagecatalog.translate import show_group, show_version
from catalog.dialects.messagecatalog.uris import CATALOG_ROOT, GROUP_MESSAGES, MESSAGE_GROUPS
from catalog.dialects.messagecatalog.uris import path_of as catalog_path
from catalog.dialects.versionnumbers import is_number
from catalog.model.entity import Entity
from catalog.model.errors import XRegistryError
from catalog.model.xid import Xid
from catalog.store import entities
from catalog.store.database import Connection
from replication.deciding.provenance import Copy
from replication.store.writtenentities import WrittenEntity
from replication.targets.requests import delete, get_or_none, object_in
from replication.targets.target import (
    Answered,
    Found,
    Item,
    Translation,
    Unwritable,
    in_order,
    shape_of,
)

_SET_BY_SERVER = frozenset({"id", "version", "createdtimeutc", "updatedtimeutc"})
_MOST_VERSIONS = 10_000


class MessageCatalogTarget:
    """A Message Catalog, with message groups and messages only."""

    def __init__(self, client: Client) -> None:
        self.root = client.url
        self.identity = client.url
        self.software = "Message Catalog"
        self.client = client

    @classmethod
    async def open(cls, client: Client) -> MessageCatalogTarget | None:
        """Look whether a server lists the ids of message groups at its root."""
        answer = await client.request("GET", "/", params=[("limit", "1")])
        ids = _ids_in(answer.body)
        is_list = ids is not None and all(isinstance(id, str) for id in ids)
        return cls(client) if is_list else None

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
                self._add(plan, copy, held.get(str(xid.resource)))
        plan.items = in_order(plan.items)
        plan.items.sort(key=_by_number)
        return plan

    def _add(self, plan: Translation, entity: Entity, resource: Entity | None) -> None:
        xid = entity.path
        if xid.vid and not is_number(xid.vid):
            plan.faults.append((entity, "a Message Catalog has versions with numbers only"))
            return
        try:
            if not xid.vid:
                shown = show_group(entity)
            elif resource is None:
                return
            else:
                # The empty authority of the node makes each definition name its authority.
                shown = show_version(entity, resource, "")
        except XRegistryError as error:
            plan.faults.append((entity, error.title))
            return
        plan.items.append(Item(entity=entity, content=_content_of(shown)))

    def path_of(self, item: Item) -> str:
        path = catalog_path(item.xid)
        assert path is not None, "it was planned"
        return path.removeprefix(CATALOG_ROOT)

    async def find(self, holder: Xid) -> Mapping[str, Found]:
        path = (catalog_path(holder) or "").removeprefix(CATALOG_ROOT)
        if not holder.rid:
            shown = await get_or_none(self.client, path)
            return {} if shown is None else {path: Found(shape=shape_of(_content_of(shown)))}
        found = {}
        for number in await self._numbers(path):
            version = f"{path}/versions/{number}"
            shown = await get_or_none(self.client, version)
            if shown is not None:
                shape = shape_of(_content_of(shown))
                found[version] = Found(shape=shape, is_version=True)
        return found

    async def find_below(self, group: Xid) -> Mapping[str, Mapping[str, Found]]:
        path = (catalog_path(group) or "").removeprefix(CATALOG_ROOT)
        found = {}
        for id in await self._ids(f"{path}/messagedefinitions"):
            holder = group.child(GROUP_MESSAGES, str(id))
            found[str(holder)] = await self.find(holder)
        return found

    async def _numbers(self, path: str) -> list[int]:
        numbers = await self._ids(f"{path}/versions")
        return [number for number in numbers if type(number) is int][:_MOST_VERSIONS]

    async def _ids(self, path: str) -> list[Any]:
        """The members of a list, ids or numbers; none if the list does not exist."""
        found: list[Any] = []
        try:
            async for page in self.client.pages(path):
                if not isinstance(page, list):
                    raise BadAnswer(self.root + path, "something else than a list")
                found += page
        except Refused as error:
            if error.problem.status != 404:
                raise
        return found

    async def create(
        self, items: Sequence[Item], documents: Mapping[str, bytes]
    ) -> Mapping[str, str] | None:
        return None

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
            return await self._keep(item, written)
        if numbers and max(numbers) > int(xid.vid):
            raise Unwritable("a Message Catalog takes no version before others that it has")
        body = {"id": xid.rid, "version": int(xid.vid), **item.content}
        answer = await self.client.request("POST", definition.rpartition("/")[0], body=body)
        number = object_in(answer).get("version", int(xid.vid))
        return Answered(path=f"{definition}/versions/{number}")

    async def _keep(self, item: Item, written: WrittenEntity) -> Answered:
        """Check that an existing version has the wanted content, since it cannot be changed."""
        shown = await get_or_none(self.client, written.path)
        if shown is None or shape_of(_content_of(shown)) != item.shape:
            raise Unwritable("a Message Catalog changes no version: add a new one instead")
        return Answered(path=written.path)

    async def read_document(self, path: str) -> bytes:
        raise BadAnswer(self.root + path, "a document")

    async def remove(
        self, holder: Xid, paths: Collection[str], adopted: Collection[str], *, is_whole: bool
    ) -> bool:
        path = (catalog_path(holder) or "").removeprefix(CATALOG_ROOT)
        if not holder.rid:
            if await self._ids(f"{path}/messagedefinitions"):
                raise Unwritable("it stays, since it has definitions that this link did not bring")
            await delete(self.client, path)
            return True
        there = {f"{path}/versions/{number}" for number in await self._numbers(path)}
        if there <= {*paths}:
            await delete(self.client, path)
            return True
        for version in sorted(there & {*paths}):
            await delete(self.client, version)
        if is_whole and there - {*paths, *adopted}:
            raise Unwritable("it stays, since it has versions that this link did not bring")
        return False


def _content_of(shown: Mapping[str, Any]) -> JsonObject:
    return {name: value for name, value in shown.items() if name not in _SET_BY_SERVER}


def _by_number(item: Item) -> tuple[bool, str, int]:
    vid = item.xid.vid
    return bool(vid), item.holder if vid else "", int(vid) if vid else 0


def _ids_in(body: bytes) -> list[Any] | None:
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, list) else None
