"""Calls for documents of resources and versions: bytes with their media type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from aiohttp import hdrs

from catalog.client.connection import Answer, Connection

_METADATA = "xRegistry-"
# The characters that a header value may have unencoded, beside letters and digits.
_PLAIN = "!#$&'()*+,-./:;<=>?@[]^_`{|}~"


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A version's document. `location` is its URL if it is stored elsewhere.

    `etag` and `epoch` are guards for the next write.
    """

    content: bytes
    content_type: str
    version: str
    epoch: int
    etag: str = ""
    location: str = ""


class DocumentCalls(Connection):
    """The calls for documents. The metadata of a document is an entity."""

    async def document(
        self, xid: str, *, wait_for: str = "", wait_seconds: int | None = None
    ) -> Document:
        """The document of a version, or of a resource's default version.

        Args:
            wait_for: the position of a write that the answer is to show; see `request`.
            wait_seconds: how long to wait for it.

        Raises:
            Refused: `not_found`, if there is no such entity or it has no document.
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
            xid: a resource or a version.
            content: of any format.
            content_type: its media type, kept as `contenttype`.
            metadata: attributes to change with it, such as the `format` of a new schema.
            etag: the node refuses the write with status 412 if the document has another one.
            epoch: the node refuses the write with `mismatched_epoch` if the version has another.
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
    """A scalar as core/http.md, "HTTP Header Values", writes it; a plain "null" would delete."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "%6Eull" if value == "null" else quote(str(value), safe=_PLAIN)
