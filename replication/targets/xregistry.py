"""Writes to a server of xRegistry 1.0 through its standard API."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from catalog.client import Client, JsonObject, Params, Refused
from catalog.load.longwork import aside
from catalog.model.entity import Entity
from catalog.model.xid import Xid
from catalog.store.database import Connection
from replication.deciding.provenance import Copy
from replication.store.writtenentities import WrittenEntity
from replication.targets.requests import delete, get_or_none, members_of, object_in
from replication.targets.target import Answered, Found, Item, Translation, Unwritable, in_order
from replication.targets.xregistryforms import (
    GroupNames,
    ResourceNames,
    body_of,
    check_types,
    content_of,
    found_in,
    read_model,
    tag_of,
)

_INLINED = [("inline", "versions"), ("inline", "meta")]


class XRegistryTarget:
    """An xRegistry server, with its model.

    Args:
        mark: the value of the label that marks the entities of the link.
    """

    def __init__(
        self, client: Client, root: Mapping[str, Any], model: Mapping[str, GroupNames], mark: str
    ) -> None:
        self.root = client.url
        self.identity = f"{root.get('registryid')} {root.get('createdat')}"[:200]
        self.software = f"xRegistry {root.get('specversion')}"[:64]
        self.client = client
        self._model = model
        self._mark = mark

    @classmethod
    async def open(cls, client: Client, root: Mapping[str, Any], mark: str) -> XRegistryTarget:
        """Read the model of a server after its root."""
        model = read_model(await client.get("/model"), f"{client.url}/model")
        return cls(client, root, model, mark)

    async def plan(self, connection: Connection, copies: Sequence[Copy]) -> Translation:
        return await aside(len(copies), self._plan, copies)

    def _plan(self, copies: Sequence[Copy]) -> Translation:
        plan = Translation()
        for copy in copies:
            if not isinstance(copy, Entity):
                plan.gone.append(copy)
                continue
            try:
                kind = check_types(copy.path, self._model)
                plan.items.append(Item(entity=copy, content=content_of(copy, kind)))
            except Unwritable as error:
                plan.faults.append((copy, str(error)))
        plan.items = in_order(plan.items)
        return plan

    def path_of(self, item: Item) -> str:
        return item.entity.xid

    async def find(self, holder: Xid) -> Mapping[str, Found]:
        xid = str(holder)
        if not holder.rid:
            shown = await get_or_none(self.client, xid)
            return {} if shown is None else {xid: self._group(holder, shown)}
        meta = await get_or_none(self.client, f"{xid}/meta")
        if meta is None:
            return {}
        versions: JsonObject = {}
        if "xref" not in meta:
            versions = dict([each async for each in members_of(self.client, f"{xid}/versions")])
        return self._resource(holder, meta, versions)

    async def find_below(self, group: Xid) -> Mapping[str, Mapping[str, Found]]:
        found: dict[str, Mapping[str, Found]] = {}
        for plural in self._model[group.groups].resources:
            async for rid, shown in members_of(self.client, f"{group}/{plural}", _INLINED):
                holder = group.child(plural, rid)
                meta, versions = shown.get("meta"), shown.get("versions")
                is_whole = isinstance(meta, dict) and (isinstance(versions, dict) or "xref" in meta)
                found[str(holder)] = (
                    self._resource(holder, meta, versions or {})
                    if is_whole and isinstance(meta, dict)
                    else await self.find(holder)
                )
        return found

    def _group(self, holder: Xid, shown: Mapping[str, Any]) -> Found:
        names = self._model[holder.groups]
        return found_in(shown, names.links | {f"{names.singular}id"})

    def _resource(
        self, holder: Xid, meta: Mapping[str, Any], versions: Mapping[str, Any]
    ) -> dict[str, Found]:
        kind = self._kind(holder)
        value, encoded, _ = kind.document_names
        hidden = frozenset({f"{kind.singular}id"})
        found = {str(holder): found_in(meta, hidden)}
        if "xref" not in meta:
            hidden |= {value, encoded} if kind.has_document else set()
            for vid, shown in versions.items():
                shown = shown if isinstance(shown, dict) else {}
                found[f"{holder}/versions/{vid}"] = found_in(shown, hidden, is_version=True)
        return found

    async def create(
        self, items: Sequence[Item], documents: Mapping[str, bytes]
    ) -> Mapping[str, str] | None:
        body: dict[str, JsonObject] = {}
        for item in items:
            xid, kind = item.entity.xid, self._kind(item.xid)
            own = body_of(item.entity, item.content, documents.get(xid), kind, self._mark)
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
        entity, xid = item.entity, item.entity.xid
        kind = check_types(item.xid, self._model)
        body = body_of(entity, item.content, document, kind, self._mark)
        path = xid
        if entity.kind == "version":
            path = self._metadata(xid, kind)
        elif entity.kind == "resource":
            # The versions were written before, so the resource exists.
            path, is_new = f"{xid}/meta", False
            if "xref" in body:
                path, body = self._metadata(xid, kind), {"meta": body}
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

    def _metadata(self, xid: str, kind: ResourceNames | None) -> str:
        return f"{xid}$details" if kind is not None and kind.has_document else xid

    def _kind(self, holder: Xid) -> ResourceNames:
        return self._model[holder.groups].resources[holder.resources]

    async def read_document(self, path: str) -> bytes:
        return (await self.client.request("GET", path)).body

    async def remove(
        self, holder: Xid, paths: Collection[str], adopted: Collection[str], *, is_whole: bool
    ) -> bool:
        if holder.rid:
            return await self._remove_resource(holder, paths, adopted, is_whole=is_whole)
        shown = await get_or_none(self.client, str(holder))
        if shown is None:
            return True
        for plural in self._model[holder.groups].resources if holder.groups in self._model else ():
            if await self._has_members(shown, f"{holder}/{plural}", plural):
                raise Unwritable(f'it stays, since it has "{plural}" that this link did not bring')
        await delete(self.client, str(holder), _at_epoch(shown))
        return True

    async def _has_members(self, shown: Mapping[str, Any], path: str, plural: str) -> bool:
        count = shown.get(f"{plural}count")
        if type(count) is int:
            return count > 0
        async for _ in members_of(self.client, path):
            return True
        return False

    async def _remove_resource(
        self, holder: Xid, paths: Collection[str], adopted: Collection[str], *, is_whole: bool
    ) -> bool:
        xid = str(holder)
        meta = await get_or_none(self.client, f"{xid}/meta")
        if meta is None:
            return True
        there: set[str] = set()
        if "xref" not in meta:
            members = members_of(self.client, f"{xid}/versions")
            there = {f"{xid}/versions/{vid}" async for vid, _ in members}
        elif not is_whole:
            return False
        if there <= {*paths}:
            await delete(self.client, xid, _at_epoch(meta))
            return True
        for path in sorted(there & {*paths}):
            await delete(self.client, path)
        if is_whole and there - {*paths, *adopted}:
            raise Unwritable("it stays, since it has versions that this link did not bring")
        return False


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
