"""Reads a Discovery endpoint, whose services are endpoints with their messages."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

from catalog.client import JsonObject
from catalog.dialects.discovery.eventlist import StoredService
from catalog.dialects.discovery.load import ENDPOINT_MESSAGES, ENDPOINTS
from catalog.dialects.discovery.requests import read_added
from catalog.dialects.discovery.translate import to_entities
from catalog.model.errors import XRegistryError
from catalog.model.schema import Model
from catalog.model.xid import Xid
from replication.readers.reader import (
    NO_ENTITY,
    NoCatalog,
    Reading,
    WalkedCatalog,
    WalkedItem,
    WalkPart,
    WalkReader,
)
from replication.readers.walkedentities import WalkedEntity, entity_of, resource_of
from replication.readers.walkedserver import AnswerMalformed, WalkedServer

_SERVICES = "/services"
_VERSION = "1"


async def find_services(server: WalkedServer, model: Model, root: str) -> WalkedCatalog:
    """The services of a Discovery endpoint.

    Raises:
        NoCatalog
        ClientError: the server does not answer.
    """
    try:
        async for page in server.lists(root + _SERVICES, [("limit", "1")]):
            if not all(isinstance(service, dict) for service in page.members[:1]):
                raise NoCatalog(f"{server.url}{root}{_SERVICES} lists no services.")
            break
    except AnswerMalformed as error:
        raise NoCatalog(f"{server.url} is no Discovery endpoint.", error.message) from error
    return WalkedCatalog(
        dialect="discovery",
        software="Discovery",
        identity="Discovery",
        reader=partial(ServiceReader, root=root),
    )


class ServiceReader(WalkReader):
    """Reads the services of a Discovery endpoint."""

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
        read = partial(entity_of, self.reading.authority, attributes=patch.endpoint)
        items = [self.item(f"/{ENDPOINTS}", id, partial(read, epoch=put.least_epoch))]
        if not isinstance(items[0], WalkedEntity) or not self._has_messages:
            return items
        self._whole.add(xid)
        for rid, attributes in patch.messages.items():
            if self.reading.selects(f"{xid}/{ENDPOINT_MESSAGES}/{rid}"):
                self.count()
                items += self._message(f"{xid}/{ENDPOINT_MESSAGES}", rid, attributes)
        return items

    def _message(self, path: str, rid: str, attributes: JsonObject) -> list[WalkedItem]:
        """A message with its single version."""
        authority = self.reading.authority
        read = partial(entity_of, authority, attributes={**attributes, "ancestorid": _VERSION})
        version = self.item(f"{path}/{rid}/versions", _VERSION, read)
        if not isinstance(version, WalkedEntity):
            return [version]
        resource = partial(resource_of, authority, versions=[version], meta={})
        return [self.item(path, rid, resource), version]

    async def is_gone(self, xid: str) -> bool:
        """Whether an endpoint does not exist; a message is gone if its endpoint's list was read."""
        path = Xid.parse(xid)
        if path.groups != ENDPOINTS:
            return False
        if path.rid:
            return str(path.group) in self._whole
        return await self.server.is_gone(f"{self._path}/{path.gid}")
