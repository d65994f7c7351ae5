"""Calls for entities, which are dicts of xRegistry JSON."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from aiohttp import hdrs

from catalog.client.connection import Connection, JsonObject

_DETAILS = "$details"
_SEGMENTS_WITH_DOCUMENTS = (4, 6)


class EntityCalls(Connection):
    """The calls for groups, resources, their meta entities and versions.

    An entity is named by its xid, and is a dict of its attributes as in the standard. The `epoch`
    of a write is a guard: the node refuses the write with `mismatched_epoch` if the entity has
    another epoch. A write that is repeated because its answer was lost is refused like that if it
    was carried out the first time; `is_doubtful` is true then: read the entity to find out.
    """

    async def entity(
        self,
        xid: str,
        *,
        inline: Sequence[str] = (),
        wait_for: str = "",
        wait_seconds: int | None = None,
    ) -> JsonObject:
        """One entity; a resource with the attributes of its default version.

        Args:
            xid: the registry's is `/`.
            inline: collections to show in it, `*` for all (core/spec.md, "Inline Flag").
            wait_for: the position of a write that the answer is to show; see `request`.
            wait_seconds: how long to wait for it.

        Raises:
            Refused: `not_found`, if there is no such entity.
        """
        return await self.get(
            metadata_path(xid),
            _flags(inline=inline),
            wait_for=wait_for,
            wait_seconds=wait_seconds,
        )

    async def items(
        self,
        collection: str,
        *,
        filters: Sequence[str] = (),
        sort: str = "",
        inline: Sequence[str] = (),
        page_size: int | None = None,
        wait_for: str = "",
        wait_seconds: int | None = None,
    ) -> AsyncIterator[tuple[str, JsonObject]]:
        """Every entity of a collection with its id, read page by page.

        Args:
            collection: its path, such as `/messagegroups/g/messages`.
            filters: alternatives that select entities; commas within one mean "and".
            sort: an attribute, and `=desc` after it for the other direction.
            inline: as in `entity`.
            page_size: the most entities of one page; the node's own limit unless given.
            wait_for: as in `entity`, for each page; `wait_seconds`, too.
        """
        params = _flags(inline=inline, filters=filters, sort=sort)
        if page_size is not None:
            params.append(("limit", str(page_size)))
        pages = self.pages(collection, params, wait_for=wait_for, wait_seconds=wait_seconds)
        async for page in pages:
            for item in page.items():
                yield item

    async def versions(self, resource: str) -> AsyncIterator[tuple[str, JsonObject]]:
        """Every version of a resource with its id."""
        async for item in self.items(f"{resource}/versions"):
            yield item

    async def create(self, xid: str, attributes: Mapping[str, Any]) -> JsonObject:
        """Create an entity, with the entities below it that are among the attributes.

        Raises:
            Refused: status 412, `precondition_failed`, if the entity exists.
        """
        headers = {hdrs.IF_NONE_MATCH: "*"}
        return await self._json("PUT", metadata_path(xid), body=attributes, headers=headers)

    async def replace(
        self, xid: str, attributes: Mapping[str, Any], *, epoch: int | None = None
    ) -> JsonObject:
        """Give an entity just these attributes, or create it. Entities below it stay."""
        return await self.put(metadata_path(xid), _guarded(attributes, epoch))

    async def update(
        self, xid: str, changes: Mapping[str, Any], *, epoch: int | None = None
    ) -> JsonObject:
        """Change some attributes of an entity; `None` deletes one."""
        return await self.patch(metadata_path(xid), _guarded(changes, epoch))

    async def add_version(self, resource: str, attributes: Mapping[str, Any]) -> JsonObject:
        """Create a version whose id the node chooses, unless `versionid` is among the attributes.

        It is not repeated if its answer is lost, since that could create two versions.
        """
        return await self.post(metadata_path(resource), attributes)

    async def set_default_version(self, resource: str, version: str | None) -> JsonObject:
        """Make a version the default one, sticky; `None` is the newest version from now on.

        The answer is the resource's meta entity.
        """
        chosen = {"defaultversionid": version, "defaultversionsticky": version is not None}
        return await self.patch(f"{resource}/meta", chosen)

    async def delete(self, path: str, *, epoch: int | None = None) -> None:
        """Delete an entity with all entities below it, or all entities of a collection.

        Args:
            path: an xid, or a collection's path.
            epoch: for a resource, the epoch of its meta entity, not of its default version.
        """
        await self.request("DELETE", path, params=[] if epoch is None else [("epoch", str(epoch))])


def is_replica(entity: Mapping[str, Any]) -> bool:
    """Whether another catalog is the authority of an entity that a node shows."""
    return "authority" in entity and "origin" in entity


def metadata_path(xid: str) -> str:
    """The path of an entity's JSON, whether or not it has a document."""
    has_document = len(xid.strip("/").split("/")) in _SEGMENTS_WITH_DOCUMENTS
    return xid + _DETAILS if has_document and not xid.endswith(_DETAILS) else xid


def _flags(
    *, inline: Sequence[str] = (), filters: Sequence[str] = (), sort: str = ""
) -> list[tuple[str, str]]:
    flags = [("inline", each) for each in inline] + [("filter", each) for each in filters]
    return [*flags, ("sort", sort)] if sort else flags


def _guarded(attributes: Mapping[str, Any], epoch: int | None) -> dict[str, Any]:
    return dict(attributes) if epoch is None else {**attributes, "epoch": epoch}
