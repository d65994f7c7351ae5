"""The schema of an entity as pages show it: its text, and its fields."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from catalog.client.errors import BadAnswer, Refused
from catalog.console.entitytypes import EntityType
from catalog.console.page import ConsolePage, json_text, local_path
from catalog.formats.fieldtypes import SchemaField, fields_of
from catalog.load.workthread import in_thread
from catalog.model.xid import Xid

_LARGEST_TEXT = 256 * 1024
_LARGEST = 512 * 1024
_MOST_FIELDS = 1000
_LONG_NUMBER = re.compile(rb"\d{16}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownSchema:
    """The path, the format, the fields and the text of a schema.

    Args:
        text: the document; `None` if the document is no text, or too large for a page.
    """

    path: str
    format: str
    fields: list[SchemaField]
    text: str | None
    size: int


async def schema_of(
    page: ConsolePage, xid: Xid, kind: EntityType, entity: Mapping[str, Any]
) -> ShownSchema | None:
    """The schema that an entity is, or that the payload of a message has, if the schema is here."""
    if kind.has_document and xid.rid:
        return await _read_schema(page, str(xid), str(entity.get("format", "")))
    inline = entity.get("dataschema")
    if inline is not None:
        format = str(entity.get("dataschemaformat", ""))
        text = inline if isinstance(inline, str) else orjson.dumps(inline).decode()
        return await in_thread(_shown_schema, "", format, text.encode())
    target = local_path(entity.get("dataschemaxid") or entity.get("dataschemauri"))
    if target is None:
        return None
    found = await page.node.found(f"{target}$details")
    if found is None:
        return None
    return await _read_schema(page, target, str(found.get("format", "")))


async def _read_schema(page: ConsolePage, path: str, format: str) -> ShownSchema | None:
    try:
        document = (await page.node.request("GET", path)).body
        return await in_thread(_shown_schema, path, format, document)
    except BadAnswer:
        # The document is elsewhere, or too large.
        return None
    except Refused as error:
        if error.problem.status in (401, 403, 404):
            return None
        raise


def _shown_schema(path: str, format: str, document: bytes) -> ShownSchema | None:
    if not document:
        return None
    return ShownSchema(
        path=path,
        format=format,
        fields=fields_of(document)[:_MOST_FIELDS] if len(document) <= _LARGEST else [],
        text=_as_text(document),
        size=len(document),
    )


def _as_text(document: bytes) -> str | None:
    """A document as a page shows it: JSON with indents, other texts as they are."""
    if len(document) > _LARGEST_TEXT or b"\0" in document:
        return None
    # JSON with numbers that a double cannot hold, or nested too deeply, is shown as it is.
    if not _LONG_NUMBER.search(document):
        with contextlib.suppress(orjson.JSONDecodeError, orjson.JSONEncodeError):
            return json_text(orjson.loads(document))
    try:
        return document.decode()
    except UnicodeDecodeError:
        return None
