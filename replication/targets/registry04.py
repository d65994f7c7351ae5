"""Writes to a CloudEvents Registry 0.4: endpoints, definition groups and schema groups.

The server numbers the versions, so a version with a different id gets a new id at the server, which
the link stores.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from catalog.client import Answer, Client, JsonObject
from catalog.context import Context
from catalog.dialects.registry04.address import Types, types_in
from catalog.dialects.registry04.layout import Layout
from catalog.dialects.registry04.names import path_of
from catalog.dialects.registry04.registryheaders import HEADER_PREFIX, headers_of
from catalog.dialects.registry04.translate import SERVED
from catalog.dialects.versionnumbers import is_number
from catalog.http.responses import encode_url
from catalog.model.entity import Entity
from catalog.model.errors import XRegistryError
from catalog.model.timestamps import format_time
from catalog.model.xid import Xid
from catalog.store.database import Connection
from replication.deciding.provenance import Copy
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
    tag_of,
)

_META = [("meta", "")]
_ANY = "application/octet-stream"


class Registry04Target(Target):
    """A CloudEvents Registry 0.4, which shows a resource as its latest version."""

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
        try:
            if entity.kind == "version":
                shown = layout.version(entity, types)
            else:
                shown = layout.group(entity, types, 0)
        except XRegistryError as error:
            plan.faults.append((entity, error.title))
            return
        plan.items.append(Item(entity=entity, content=_content_of(shown, types)))

    def path_of(self, item: Item) -> str:
        return path_of(item.xid)

    async def find(self, holder: Xid) -> Mapping[str, Found]:
        path, types = path_of(holder), self._types(holder)
        if not holder.rid:
            shown = await self.get_or_none(path)
            return {} if shown is None else {path: _found(shown, types)}
        return {
            f"{path}/versions/{id}": _found(shown, types, is_version=True)
            async for id, shown in self.members(f"{path}/versions")
        }

    async def find_below(self, group: Xid) -> Mapping[str, Mapping[str, Found]]:
        types, found = self._types(group), {}
        async for id, _ in self.members(f"{path_of(group)}/{types.resource.plural}"):
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
        resource = path_of(item.xid.resource)
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
        gone = {name: None for name in _content_of(shown, types) if name not in body}
        body = {name: value for name, value in body.items() if name != types.uri}
        answer = await self.client.request("PUT", path, params=_META, body={**gone, **body})
        return tag_of(object_in(answer))

    async def remove(
        self, holder: Xid, paths: Collection[str], adopted: Collection[str], *, is_whole: bool
    ) -> bool:
        path, types = path_of(holder), self._types_or_none(holder)
        if not holder.rid:
            if types is not None:
                async for _ in self.members(f"{path}/{types.resource.plural}"):
                    detail = f'it stays, since it has "{types.resource.plural}" of others'
                    raise Unwritable(detail)
            await self.delete(path)
            return True
        there = {f"{path}/versions/{id}" async for id, _ in self.members(f"{path}/versions")}
        return await self.remove_versions(path, there, paths, adopted, is_whole=is_whole)


def _content_of(shown: Mapping[str, Any], types: Types) -> JsonObject:
    plural = types.resource.plural
    hidden = SERVED | {plural, f"{plural}URL", f"{plural}Count", "versionsURL", "versionsCount"}
    content = {name: value for name, value in shown.items() if name not in hidden}
    tags = content.pop("tags", None)
    kept = {n: v for n, v in tags.items() if n != MARK} if isinstance(tags, dict) else tags
    return {**content, "tags": kept} if kept else content


def _found(shown: Mapping[str, Any], types: Types, *, is_version: bool = False) -> Found:
    content = _content_of(shown, types)
    return Found.marked(shown, content, shown.get("tags"), is_version=is_version)


def _by_number(item: Item) -> tuple[bool, str, bool, int]:
    vid = item.xid.vid
    number = int(vid) if is_number(vid) else 0
    return bool(vid), item.holder if vid else "", is_number(vid), number
