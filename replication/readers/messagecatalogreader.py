"""Reads a Message Catalog: message groups, and the versions of their messages."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

from catalog.client import JsonObject, Refused
from catalog.dialects.messagecatalog.definitionformats import format_of
from catalog.dialects.messagecatalog.translate import group_to_entity, version_to_entity
from catalog.dialects.messagecatalog.uris import (
    CATALOG_ROOT,
    GROUP_MESSAGES,
    MESSAGE_GROUPS,
    path_of,
)
from catalog.dialects.versionnumbers import is_number
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
from replication.readers.walkedentities import WalkedEntity, entity_of, resource_of
from replication.readers.walkedserver import GONE, AnswerMalformed, WalkedServer


async def find_message_catalog(server: WalkedServer, model: Model, root: str) -> WalkedCatalog:
    """The Message Catalog at a path of a server, recognised by its list of group ids.

    Raises:
        NoCatalog
        ClientError: the server does not answer.
    """
    try:
        async for page in server.lists(root or "/", [("limit", "1")]):
            if not all(isinstance(id, str) for id in page.members[:1]):
                raise NoCatalog(f"{server.url}{root} lists something else than message groups.")
            break
    except AnswerMalformed as error:
        raise NoCatalog(f"{server.url}{root} is no Message Catalog.", error.message) from error
    return WalkedCatalog(
        dialect="messagecatalog",
        software="Message Catalog",
        identity="Message Catalog",
        reader=partial(MessageCatalogReader, root=root),
    )


class MessageCatalogReader(WalkReader):
    """Reads the Message Catalog below a path of its server."""

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
        versions = [item for item in items if isinstance(item, WalkedEntity)]
        if not versions:
            return items
        read = partial(resource_of, self.reading.authority, versions=versions, meta={})
        return [self.item(f"{xid.group}/{GROUP_MESSAGES}", xid.rid, read), *items]

    def _read_group(self, shown: JsonObject, xid: Xid) -> WalkedEntity:
        return self._entity(xid, shown, group_to_entity(xid.gid, shown, {}, str(xid)))

    def _read_version(
        self, shown: JsonObject, ancestor: str, format: str, xid: Xid
    ) -> WalkedEntity:
        format = str(shown.get("format") or format)
        try:
            native = version_to_entity(xid.rid, shown, format, str(xid), checks=False)
        except (AttributeError, KeyError) as error:
            raise ValueError("its definition has another form than those of its format") from error
        return self._entity(xid, shown, {**native, "ancestorid": ancestor})

    def _entity(self, xid: Xid, shown: JsonObject, attributes: JsonObject) -> WalkedEntity:
        return entity_of(
            self.reading.authority,
            xid,
            attributes,
            createdat=shown.get("createdtimeutc"),
            modifiedat=shown.get("updatedtimeutc"),
        )

    async def is_gone(self, xid: str) -> bool:
        path = Xid.parse(xid)
        is_shown = path.groups == MESSAGE_GROUPS and path_of(path) is not None
        return is_shown and await self.server.is_gone(self._path(path))

    async def _shown(self, xid: Xid) -> JsonObject | None:
        """An entity as the server shows it; `None` if the server has deleted the entity."""
        self.count()
        try:
            page = await self.server.read(self._path(xid))
        except Refused as error:
            if error.problem.status in GONE:
                return None
            raise
        self.count_bytes()
        return page.members

    async def _members(self, path: str) -> list[Any]:
        """The ids or numbers in the list of a collection; none if the collection does not exist."""
        found: list[Any] = []
        try:
            async for page in self.server.lists(path):
                self.count_bytes()
                found += page.members
        except Refused as error:
            if error.problem.status not in GONE:
                raise
        return found

    def _path(self, xid: Xid) -> str:
        return self._root + (path_of(xid) or "").removeprefix(CATALOG_ROOT)
