"""Documents of resources and versions: bytes with their media type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from aiohttp import hdrs

from catalog.client.connection import Answer, Connection

_METADATA = "xRegistry-"
# What a value in a header can have as it is, beside letters and digits.
_PLAIN = "!#$&'()*+,-./:;<=>?@[]^_`{|}~"


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A version's document. `location` is where it is if it is kept elsewhere.

    `etag` and `epoch` are guards for the next write of it.
    """

    content: bytes
    content_type: str
    version: str
    epoch: int
    etag: str = ""
    location: str = ""


class DocumentCalls(Connection):
    """Reading and writing documents. Their metadata is an entity, as that of all resources."""

    async def document(self, xid: str) -> Document:
        """The document of a version, or of a resource's default version.

        Raises:
            Refused: `not_found`, if there is no such thing.
        """
        return _document_of(await self.request("GET", xid))

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
            etag: is refused with status 412 if the document has another one by then.
            epoch: is refused with `mismatched_epoch` if the version has another one by then.
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
    """A scalar as core/http.md, "HTTP Header Values" has it; the text "null" would delete."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "%6Eull" if value == "null" else quote(str(value), safe=_PLAIN)
