"""Calls for documents of resources and versions: bytes with a media type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from aiohttp import hdrs

from catalog.client.connection import Answer, Connection

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
            wait_for: the position of a write that the answer has to show; see `request`.
            wait_seconds: how long to wait for the position.

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
