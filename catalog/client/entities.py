"""Calls for entities, as dicts of xRegistry JSON, and for their documents, as bytes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from aiohttp import hdrs

from catalog.client.connection import Answer, Connection, JsonObject

_DETAILS = "$details"
_SEGMENTS_WITH_DOCUMENTS = (4, 6)


class EntityCalls(Connection):
    """The calls for groups, resources, their meta entities and versions.

    The xid names an entity, and a dict has the attributes in the form of the standard. The `epoch`
    of a write is a guard: the node refuses the write with `mismatched_epoch` if the entity has a
    different epoch. If the answer to a write was lost, the client repeats the write; the node
    refuses the repetition in the same way if the first attempt succeeded. Then `is_doubtful` is
    true, and only a read of the entity tells whether the write succeeded.
    """

    async def entity(
        self,
        xid: str,
        *,
        inline: Sequence[str] = (),
        wait_for: str = "",
        wait_seconds: int | None = None,
    ) -> JsonObject:
        """One entity; a resource has the attributes of the default version.

        Args:
            xid: the xid of the entity; `/` is the registry.
            inline: the collections to show in the entity; `*` shows the whole subtree
                (core/spec.md, "Inline Flag").
            wait_for, wait_seconds: the position of a write that the answer has to show; see
                `request`.

        Raises:
            Refused: `not_found`, if the entity does not exist.
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
        """The entities of a collection with ids, read page by page.

        Args:
            collection: the path of the collection, such as `/messagegroups/g/messages`.
            filters: alternatives that select entities; commas within an alternative mean "and".
            sort: the attribute to sort by, followed by `=desc` for descending order.
            inline: as in `entity`.
            page_size: the largest number of entities in a page; by default the limit of the node.
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
        """The versions of a resource with ids."""
        async for item in self.items(f"{resource}/versions"):
            yield item

    async def create(self, xid: str, attributes: Mapping[str, Any]) -> JsonObject:
        """Create an entity, together with the nested entities among the attributes.

        Raises:
            Refused: status 412, `precondition_failed`, if the entity exists.
        """
        headers = {hdrs.IF_NONE_MATCH: "*"}
        return await self._json("PUT", metadata_path(xid), body=attributes, headers=headers)

    async def replace(
        self, xid: str, attributes: Mapping[str, Any], *, epoch: int | None = None
    ) -> JsonObject:
        """Replace the attributes of an entity, or create the entity; nested entities stay."""
        return await self.put(metadata_path(xid), _guarded(attributes, epoch))

    async def update(
        self, xid: str, changes: Mapping[str, Any], *, epoch: int | None = None
    ) -> JsonObject:
        """Change the given attributes of an entity; `None` deletes an attribute."""
        return await self.patch(metadata_path(xid), _guarded(changes, epoch))

    async def add_version(self, resource: str, attributes: Mapping[str, Any]) -> JsonObject:
        """Create a version whose id the node chooses, unless `versionid` is among the attributes.

        The request is not repeated after a lost answer, since it could create two versions.
        """
        return await self.post(metadata_path(resource), attributes)

    async def set_default_version(self, resource: str, version: str | None) -> JsonObject:
        """Make a version the sticky default; with `None`, the newest version is always the default.

        The answer is the meta entity of the resource.
        """
        chosen = {"defaultversionid": version, "defaultversionsticky": version is not None}
        return await self.patch(f"{resource}/meta", chosen)

    async def delete(self, path: str, *, epoch: int | None = None) -> None:
        """Delete an entity with the entities below, or every entity of a collection.

        Args:
            path: an xid, or the path of a collection.
            epoch: the expected epoch; for a resource, the epoch of the meta entity, not of the
                default version.
        """
        await self.request("DELETE", path, params=[] if epoch is None else [("epoch", str(epoch))])


def is_replica(entity: Mapping[str, Any]) -> bool:
    """Whether an entity shown by a node is a replica from a different authority."""
    return "authority" in entity and "origin" in entity


def metadata_path(xid: str) -> str:
    """The path of the JSON of an entity, whether or not the entity has a document."""
    has_document = len(xid.strip("/").split("/")) in _SEGMENTS_WITH_DOCUMENTS
    return xid + _DETAILS if has_document and not xid.endswith(_DETAILS) else xid


def _flags(
    *, inline: Sequence[str] = (), filters: Sequence[str] = (), sort: str = ""
) -> list[tuple[str, str]]:
    flags = [("inline", each) for each in inline] + [("filter", each) for each in filters]
    return [*flags, ("sort", sort)] if sort else flags


def _guarded(attributes: Mapping[str, Any], epoch: int | None) -> dict[str, Any]:
    return dict(attributes) if epoch is None else {**attributes, "epoch": epoch}


_METADATA = "xRegistry-"
# The characters of header values that need no encoding, beside letters and digits.
_PLAIN = "!#$&'()*+,-./:;<=>?@[]^_`{|}~"


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The document of a version; `location` is the URL of an external document.

    `etag` and `epoch` are guards for the next write.
    """

    content: bytes
    content_type: str
    version: str
    epoch: int
    etag: str = ""
    location: str = ""


class DocumentCalls(Connection):
    """The calls for documents; the metadata of a document is an entity."""

    async def document(
        self, xid: str, *, wait_for: str = "", wait_seconds: int | None = None
    ) -> Document:
        """The document of a version, or of the default version of a resource.

        Args:
            wait_for, wait_seconds: the position of a write that the answer has to show; see
                `request`.

        Raises:
            Refused: `not_found`, if the entity does not exist or has no document.
        """
        answer = await self.request("GET", xid, wait_for=wait_for, wait_seconds=wait_seconds)
        return _document_of(answer)

    async def put_document(
        self,
        xid: str,
        content: bytes,
        *,
        content_type: str,
        metadata: Mapping[str, str | int | bool] | None = None,
        etag: str = "",
        epoch: int | None = None,
    ) -> Document:
        """Replace the document of a version or of a default version, or create it.

        Args:
            xid: the xid of a resource or a version.
            content: the document, in an arbitrary format.
            content_type: the media type of the document, stored as `contenttype`.
            metadata: attributes to change with the document, such as the `format` of a new schema.
            etag: the expected tag of the document; the node refuses a mismatch with status 412.
            epoch: the expected epoch of the version; the node refuses a mismatch with
                `mismatched_epoch`.
        """
        guard = {} if epoch is None else {"epoch": epoch}
        headers: dict[str, str] = {
            hdrs.CONTENT_TYPE: content_type,
            **{_METADATA + k: _header(v) for k, v in {**(metadata or {}), **guard}.items()},
            **({hdrs.IF_MATCH: etag} if etag else {}),
        }
        return _document_of(await self.request("PUT", xid, body=content, headers=headers))


def _document_of(answer: Answer) -> Document:
    headers = answer.headers
    return Document(
        content=answer.body,
        content_type=headers.get(hdrs.CONTENT_TYPE, ""),
        version=headers.get(f"{_METADATA}versionid", ""),
        epoch=int(headers.get(f"{_METADATA}epoch", "0")),
        etag=headers.get(hdrs.ETAG, ""),
        location=headers.get(hdrs.LOCATION, "") if not answer.body else "",
    )


def _header(value: str | int | bool) -> str:
    """A scalar as a header (core/http.md, "HTTP Header Values"); a plain "null" would delete."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "%6Eull" if value == "null" else quote(str(value), safe=_PLAIN)
