"""Writes to a server of xRegistry 1.0 through its standard API."""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from catalog.client import Client, JsonObject, Params, Refused
from catalog.context import Context
from catalog.load.workthread import aside
from catalog.model.entity import Entity
from catalog.model.timestamps import format_time
from catalog.model.xid import Xid
from catalog.store.database import Connection
from replication.deciding.copychecks import Copy
from replication.readers.registryreader import ServerGroupType, ServerResourceType, read_types
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

# Attributes that a server sets, or that do not belong to the content.
_SET_BY_SERVER = frozenset(
    {"self", "shortself", "xid", "epoch", "createdat", "modifiedat", "readonly", "isdefault"}
    | {"formatvalidated", "formatvalidatedreason", "authority", "origin"}
    | {"compatibilityvalidated", "compatibilityvalidatedreason", "defaultversionurl"}
    | {"metaurl", "meta", "versionsurl", "versionscount", "versions", "versionid"}
)
_DEFAULT, _STICKY = "defaultversionid", "defaultversionsticky"
_INLINED = [("inline", "versions"), ("inline", "meta")]

ServerModel = Mapping[str, ServerGroupType]
"""The types of groups of a server's model, by their plurals."""


class XRegistryTarget(Target):
    """An xRegistry server, with its model.

    Args:
        mark: the value of the label that marks the entities of the link.
    """

    def __init__(
        self, client: Client, root: Mapping[str, Any], model: ServerModel, mark: str
    ) -> None:
        identity = f"{root.get('registryid')} {root.get('createdat')}"[:200]
        super().__init__(client, identity, f"xRegistry {root.get('specversion')}"[:64])
        self._model = model
        self._mark = mark

    @classmethod
    async def open(cls, context: Context, client: Client, mark: str) -> XRegistryTarget | None:
        root = await client.get("/")
        if not (str(root.get("specversion", "")).startswith("1.") and "registryid" in root):
            return None
        return cls(client, root, read_types(await client.get("/model")), mark)

    async def plan(self, connection: Connection, copies: Sequence[Copy]) -> Translation:
        return await aside(len(copies), self._plan, copies)

    def _plan(self, copies: Sequence[Copy]) -> Translation:
        plan = Translation()
        for copy in copies:
            if not isinstance(copy, Entity):
                plan.gone.append(copy)
                continue
            try:
                content = _content_of(copy, self._kind(copy.path))
                plan.items.append(Item(entity=copy, content=content))
            except Unwritable as error:
                plan.faults.append((copy, str(error)))
        plan.items = in_order(plan.items)
        return plan

    def path_of(self, item: Item) -> str:
        return item.entity.xid

    async def find(self, holder: Xid) -> Mapping[str, Found]:
        xid = str(holder)
        if not holder.rid:
            shown = await self.get_or_none(xid)
            if shown is None:
                return {}
            kind = self._model[holder.groups]
            links = {f"{name}{end}" for name in kind.resources for end in ("", "url", "count")}
            return {xid: _found_in(shown, {f"{kind.singular}id", *links})}
        meta = await self.get_or_none(f"{xid}/meta")
        if meta is None:
            return {}
        versions: JsonObject = {}
        if "xref" not in meta:
            versions = dict([each async for each in self.members(f"{xid}/versions")])
        return self._resource(holder, meta, versions)

    async def find_below(self, group: Xid) -> Mapping[str, Mapping[str, Found]]:
        found: dict[str, Mapping[str, Found]] = {}
        for plural in self._model[group.groups].resources:
            async for rid, shown in self.members(f"{group}/{plural}", _INLINED):
                holder = group.child(plural, rid)
                meta, versions = shown.get("meta"), shown.get("versions")
                if isinstance(meta, dict) and (isinstance(versions, dict) or "xref" in meta):
                    found[str(holder)] = self._resource(holder, meta, versions or {})
                else:
                    found[str(holder)] = await self.find(holder)
        return found

    def _resource(
        self, holder: Xid, meta: Mapping[str, Any], versions: Mapping[str, Any]
    ) -> dict[str, Found]:
        kind = self._model[holder.groups].resources[holder.resources]
        hidden = {f"{kind.singular}id"}
        found = {str(holder): _found_in(meta, hidden)}
        if "xref" not in meta:
            if kind.has_document:
                hidden |= {kind.singular, f"{kind.singular}base64"}
            for vid, shown in versions.items():
                shown = shown if isinstance(shown, dict) else {}
                found[f"{holder}/versions/{vid}"] = _found_in(shown, hidden, is_version=True)
        return found

    async def create(
        self, items: Sequence[Item], documents: Mapping[str, bytes]
    ) -> Mapping[str, str] | None:
        body: dict[str, JsonObject] = {}
        for item in items:
            own = self._body(item, documents.get(item.entity.xid), self._kind(item.xid))
            resource = body.setdefault(item.xid.rid, {})
            if item.xid.vid:
                resource.setdefault("versions", {})[item.xid.vid] = own
            else:
                resource["meta"] = own
        answer = await self.client.request(
            "POST", items[0].collection, params=_INLINED, body=body, is_repeatable=True
        )
        shown = object_in(answer)
        return {item.entity.xid: _tag_in(shown.get(item.xid.rid), item) for item in items}

    async def write(
        self, item: Item, document: bytes | None, written: WrittenEntity, *, is_new: bool
    ) -> Answered:
        xid, kind = item.entity.xid, self._kind(item.xid)
        body = self._body(item, document, kind)
        metadata = f"{xid}$details" if kind is not None and kind.has_document else xid
        path = xid
        if item.xid.kind == "version":
            path = metadata
        elif item.xid.kind == "resource":
            # The versions were written before, so the resource exists.
            path, is_new = f"{xid}/meta", False
            if "xref" in body:
                path, body = metadata, {"meta": body}
        # The condition keeps a delayed request from creating an entity again after its deletion.
        condition = "If-None-Match" if is_new else "If-Match"
        try:
            answer = await self.client.request("PUT", path, body=body, headers={condition: "*"})
        except Refused as error:
            if is_new or error.problem.status != HTTPStatus.PRECONDITION_FAILED:
                raise
            # The server has lost the entity.
            answer = await self.client.request("PUT", path, body=body)
        return Answered(path=xid, tag="" if "xref" in item.content else tag_of(object_in(answer)))

    async def remove(
        self, holder: Xid, paths: Collection[str], adopted: Collection[str], *, is_whole: bool
    ) -> bool:
        xid = str(holder)
        if holder.rid:
            meta = await self.get_or_none(f"{xid}/meta")
            if meta is None:
                return True
            there: set[str] = set()
            if "xref" not in meta:
                there = {
                    f"{xid}/versions/{vid}" async for vid, _ in self.members(f"{xid}/versions")
                }
            elif not is_whole:
                return False
            return await self.remove_versions(
                xid, there, paths, adopted, is_whole=is_whole, params=_at_epoch(meta)
            )
        shown = await self.get_or_none(xid)
        if shown is None:
            return True
        for plural in self._model[holder.groups].resources if holder.groups in self._model else ():
            if await self._has_members(shown, f"{xid}/{plural}", plural):
                raise Unwritable(f'it stays, since it has "{plural}" that this link did not bring')
        await self.delete(xid, _at_epoch(shown))
        return True

    async def _has_members(self, shown: Mapping[str, Any], path: str, plural: str) -> bool:
        count = shown.get(f"{plural}count")
        if type(count) is int:
            return count > 0
        async for _ in self.members(path):
            return True
        return False

    def _kind(self, xid: Xid) -> ServerResourceType | None:
        """The type of a resource or version at the server; `None` for a group.

        Raises:
            Unwritable: the type is not in the server's model.
        """
        group = self._model.get(xid.groups)
        if group is None:
            raise Unwritable(f'the model of the server has no groups "{xid.groups}"')
        if not xid.rid:
            return None
        kind = group.resources.get(xid.resources)
        if kind is None:
            raise Unwritable(f'the model of the server has no "{xid.resources}" in "{xid.groups}"')
        return kind

    def _body(
        self, item: Item, document: bytes | None, kind: ServerResourceType | None
    ) -> JsonObject:
        """The body of a request with the content of an item, its times and the mark of the link."""
        entity, content = item.entity, item.content
        if "xref" in content:
            return dict(content)
        body = {
            **content,
            "createdat": format_time(entity.createdat),
            "modifiedat": format_time(entity.modifiedat),
            "labels": {**(content.get("labels") or {}), MARK: self._mark},
        }
        if entity.kind == "version" and kind is not None and kind.has_document:
            if document is not None:
                body[f"{kind.singular}base64"] = base64.b64encode(document).decode()
            elif f"{kind.singular}url" not in content:
                body[kind.singular] = None
        return body


def _content_of(entity: Entity, kind: ServerResourceType | None) -> JsonObject:
    """The content of an entity; for a resource, the content of its meta entity.

    Raises:
        Unwritable: the entity has a document, and the type in the server's model has none.
    """
    if kind is not None and not kind.has_document and entity.document_sha256 is not None:
        raise Unwritable("it has a document, and the model of the server has none for it")
    return _settled({n: v for n, v in entity.attributes.items() if n not in _SET_BY_SERVER})


def _settled(attributes: JsonObject) -> JsonObject:
    """Attributes without a default version that the server derives itself, and without the mark."""
    if "xref" in attributes:
        return {"xref": attributes["xref"]}
    if not attributes.get(_STICKY):
        attributes = {n: v for n, v in attributes.items() if n not in (_DEFAULT, _STICKY)}
    labels = attributes.get("labels")
    if not isinstance(labels, dict):
        return attributes
    kept = {name: value for name, value in labels.items() if name != MARK}
    rest = {name: value for name, value in attributes.items() if name != "labels"}
    return {**rest, "labels": kept} if kept else rest


def _found_in(shown: Mapping[str, Any], names: set[str], *, is_version: bool = False) -> Found:
    """An entity as a server shows it.

    Args:
        names: the names of collections, documents and ids, which are not content.
    """
    kept = {n: v for n, v in shown.items() if n not in _SET_BY_SERVER and n not in names}
    return Found.marked(shown, _settled(kept), shown.get("labels"), is_version=is_version)


def _at_epoch(shown: Mapping[str, Any]) -> Params:
    """The condition that no write has followed the shown state."""
    epoch = tag_of(shown)
    return [("epoch", epoch)] if epoch else []


def _tag_in(shown: Any, item: Item) -> str:
    """The tag of an item in an answer with the resource."""
    versions = shown.get("versions") if isinstance(shown, dict) else None
    if item.xid.vid:
        found = versions.get(item.xid.vid) if isinstance(versions, dict) else None
    else:
        found = shown.get("meta") if isinstance(shown, dict) else None
    return tag_of(found) if isinstance(found, dict) and "xref" not in found else ""
