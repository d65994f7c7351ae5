"""Writes to a Message Catalog: message groups, and the versions of their messages.

A Message Catalog numbers versions upwards and never changes a version. A definition of a foreign
authority keeps the version numbers of the authority, whose name is stored with the definition.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import orjson

from catalog.client import BadAnswer, Client, JsonObject, Refused
from catalog.context import Context
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
from replication.targets.target import (
    Answered,
    Found,
    Item,
    Target,
    Translation,
    Unwritable,
    in_order,
    object_in,
    shape_of,
)

_SET_BY_SERVER = frozenset({"id", "version", "createdtimeutc", "updatedtimeutc"})
_MOST_VERSIONS = 10_000


class MessageCatalogTarget(Target):
    """A Message Catalog, with message groups and messages only."""

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
        return _path_at_server(item.xid)

    async def find(self, holder: Xid) -> Mapping[str, Found]:
        path = _path_at_server(holder)
        if not holder.rid:
            shown = await self.get_or_none(path)
            return {} if shown is None else {path: Found(shape=shape_of(_content_of(shown)))}
        found = {}
        for number in await self._numbers(path):
            version = f"{path}/versions/{number}"
            shown = await self.get_or_none(version)
            if shown is not None:
                shape = shape_of(_content_of(shown))
                found[version] = Found(shape=shape, is_version=True)
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
            if shown is None or shape_of(_content_of(shown)) != item.shape:
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
        there = {f"{path}/versions/{number}" for number in await self._numbers(path)}
        return await self.remove_versions(path, there, paths, adopted, is_whole=is_whole)


def _path_at_server(xid: Xid) -> str:
    path = catalog_path(xid)
    assert path is not None, "it was planned"
    return path.removeprefix(CATALOG_ROOT)


def _content_of(shown: Mapping[str, Any]) -> JsonObject:
    return {name: value for name, value in shown.items() if name not in _SET_BY_SERVER}


def _by_number(item: Item) -> tuple[bool, str, int]:
    vid = item.xid.vid
    return bool(vid), item.holder if vid else "", int(vid) if vid else 0
