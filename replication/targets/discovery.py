"""Writes to a Discovery endpoint: imports the endpoints of this node as services."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from catalog.client import Client, JsonObject
from catalog.context import Context
from catalog.dialects.discovery.load import (
    ENDPOINTS,
    ServiceCatalog,
    id_of,
    load_stored_services,
    show,
)
from catalog.dialects.discovery.translate import is_service
from catalog.model.entity import Entity
from catalog.model.xid import Xid
from catalog.store import discoveryservices, entities
from catalog.store.database import Connection
from replication.deciding.provenance import Copy
from replication.store.writtenentities import WrittenEntity
from replication.targets.target import Answered, Found, Item, Target, Translation, shape_of

_SERVICES = "/services"
_MESSAGE_GROUPS = "messagegroups"
# Members that the server sets; `url` is the address of the service at the server.
_SET_BY_SERVER = ("id", "epoch", "url")


class DiscoveryTarget(Target):
    """A Discovery endpoint. Entities that belong to no service are left out."""

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
            plan.items.append(Item(entity=endpoint, content=_content_of(shown)))
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
        return {path: Found(shape=shape_of(_content_of(shown)), tag=str(shown.get("epoch", "")))}

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


def _content_of(shown: Mapping[str, Any]) -> JsonObject:
    return {name: value for name, value in shown.items() if name not in _SET_BY_SERVER}
