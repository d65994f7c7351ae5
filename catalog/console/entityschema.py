"""The schema of an entity as pages show it: its text, and its fields as rows of a tree.

The rows help people to read a schema of Avro, JSON Schema, JSON Structure or Protobuf; no check
depends on them. A schema that cannot be read has no rows, and is shown as text.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import orjson

from catalog.client.errors import BadAnswer, Refused
from catalog.console.entitytypes import EntityType
from catalog.console.page import ConsolePage, json_text, local_path
from catalog.load.workthread import in_thread
from catalog.model.xid import Xid

_LARGEST_TEXT = 256 * 1024
_LONG_NUMBER = re.compile(rb"\d{16}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownSchema:
    """The path, the format, the fields and the text of a schema.

    Args:
        text: the document; `None` if the document is no text, or too large for a page.
    """

    path: str
    format: str
    fields: list[FieldRow]
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
        fields=fields_of(format, document),
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


_MOST_FIELDS = 1000
_MOST_VISITS = 10_000
_DEEPEST = 12
_LARGEST = 512 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldRow:
    """A field: its depth below the schema, its name, its type in words, and what is said of it."""

    depth: int
    name: str
    type: str
    doc: str = ""
    is_required: bool = False


def fields_of(format: str, document: bytes) -> list[FieldRow]:
    """The fields of a schema, parents before their members; none if the format is not known.

    Args:
        format: the attribute `format` of the schema, such as `Avro/1.11.3`.
        document: the text of the schema.
    """
    family = format.partition("/")[0].lower()
    if len(document) > _LARGEST:
        return []
    if family == "protobuf":
        text = document.decode(errors="replace")
        return list(islice(_protobuf_rows(text), _MOST_FIELDS))
    if family not in ("avro", "jsonschema", "jsonstructure"):
        return []
    try:
        schema = orjson.loads(document)
    except orjson.JSONDecodeError:
        return []
    is_avro = family == "avro"
    rows = _avro_rows(schema, 0, {}) if is_avro else _JsonFields(schema).rows(schema, 0)
    return list(islice(rows, _MOST_FIELDS))


def _avro_rows(schema: Any, depth: int, known: dict[str, Any]) -> Iterator[FieldRow]:
    """The fields of the records in a schema; a record that is named again is not repeated."""
    for record in _avro_records(schema):
        name = str(record.get("name", ""))
        if name in known or depth > _DEEPEST:
            continue
        known[name] = record
        for field in _mappings(record.get("fields")):
            inner = field.get("type")
            yield FieldRow(
                depth=depth,
                name=str(field.get("name", "")),
                type=_avro_type(inner),
                doc=_text(field.get("doc")),
                is_required="default" not in field and not _is_nullable(inner),
            )
            yield from _avro_rows(inner, depth + 1, known)


def _avro_records(schema: Any, depth: int = 0) -> Iterator[Mapping[str, Any]]:
    if depth > _DEEPEST:
        return
    match schema:
        case list():
            for each in schema:
                yield from _avro_records(each, depth + 1)
        case {"type": "record" | "error"}:
            yield schema
        case {"type": "array", "items": inner} | {"type": "map", "values": inner}:
            yield from _avro_records(inner, depth + 1)
        case {"type": dict() | list() as inner}:
            yield from _avro_records(inner, depth + 1)


def _is_nullable(type: Any) -> bool:
    return isinstance(type, list) and "null" in type


def _avro_type(type: Any, depth: int = 0) -> str:
    if depth > _DEEPEST:
        return "…"
    match type:
        case str():
            return type
        case list():
            return " or ".join(_avro_type(each, depth + 1) for each in type[:20])
        case {"logicalType": str(logical)}:
            return logical
        case {"type": "array", "items": inner}:
            return f"array of {_avro_type(inner, depth + 1)}"
        case {"type": "map", "values": inner}:
            return f"map of {_avro_type(inner, depth + 1)}"
        case {"type": "enum", "symbols": list(symbols)}:
            return f"enum: {', '.join(map(str, symbols[:12]))}{' …' if len(symbols) > 12 else ''}"
        case {"name": str(name)}:
            return name
        case {"type": inner}:
            return _avro_type(inner, depth + 1)
    return ""


class _JsonFields:
    """The fields of one document; a reference within itself is not followed again."""

    def __init__(self, root: Any) -> None:
        self._root = root
        # References can make a small document a large tree, of which most may have no fields.
        self._left = _MOST_VISITS

    def rows(self, schema: Any, depth: int, within: tuple[int, ...] = ()) -> Iterator[FieldRow]:
        """The properties of a JSON Schema, or of a JSON Structure, with references followed."""
        schema = _target_of(schema, self._root)
        self._left -= 1
        if not isinstance(schema, dict) or id(schema) in within or len(within) > _DEEPEST:
            return
        if self._left < 0:
            return
        within = (*within, id(schema))
        required, properties = schema.get("required"), schema.get("properties")
        names = set(map(str, required)) if isinstance(required, list) else set[str]()
        for name, inner in properties.items() if isinstance(properties, dict) else ():
            found = _target_of(inner, self._root)
            about = found if isinstance(found, dict) else {}
            own = inner if isinstance(inner, dict) else {}
            yield FieldRow(
                depth=depth,
                name=name,
                type=_json_type(inner),
                doc=_text(own.get("description") or about.get("description")),
                is_required=name in names,
            )
            yield from self.rows(_content_of(about, self._root), depth + 1, within)
        for each in _parts(schema):
            yield from self.rows(each, depth, within)
        base = schema.get("$root") or schema.get("$extends")
        if isinstance(base, str):
            yield from self.rows({"$ref": base}, depth, within)


def _parts(schema: Mapping[str, Any]) -> Iterator[Any]:
    for keyword in ("allOf", "oneOf", "anyOf"):
        found = schema.get(keyword)
        yield from found[:20] if isinstance(found, list) else ()


def _content_of(schema: Mapping[str, Any], root: Any) -> Any:
    """What an array or a map contains, else the schema itself."""
    for keyword in ("items", "values"):
        inner = schema.get(keyword)
        if isinstance(inner, dict):
            return _target_of(inner, root)
    kind = schema.get("type")
    return kind if isinstance(kind, dict) else schema


def _target_of(schema: Any, root: Any) -> Any:
    """The definition that a schema refers to in its own document, else the schema."""
    for _ in range(_DEEPEST):
        match schema:
            case {"$ref": str(reference)} | {"type": {"$ref": str(reference)}}:
                if not reference.startswith("#"):
                    return schema
                target = root
                for part in reference[1:].strip("/").split("/") if reference != "#" else ():
                    part = part.replace("~1", "/").replace("~0", "~")
                    target = target.get(part) if isinstance(target, dict) else None
                if target is None:
                    return schema
                schema = target
            case _:
                break
    return schema


def _json_type(schema: Any, depth: int = 0) -> str:
    if not isinstance(schema, dict) or depth > _DEEPEST:
        return str(schema) if isinstance(schema, str) else ""
    reference = schema.get("$ref")
    if isinstance(reference, str):
        return reference.rsplit("/", 1)[-1].removeprefix("#") or "the schema itself"
    values = schema.get("enum")
    if isinstance(values, list):
        return f"enum: {', '.join(map(str, values[:12]))}{' …' if len(values) > 12 else ''}"
    kind, format = schema.get("type"), schema.get("format")
    match kind:
        case "array" | "set":
            inner = _json_type(schema.get("items"), depth + 1)
            return f"{kind} of {inner}" if inner else str(kind)
        case "map":
            return f"map of {_json_type(schema.get('values'), depth + 1)}"
        case list():
            parts = [_json_type(each, depth + 1) for each in kind[:20]]
            return " or ".join(filter(None, parts))
        case dict():
            return _json_type(kind, depth + 1)
        case str():
            return f"{kind} ({format})" if isinstance(format, str) else kind
    parts = [_json_type(each, depth + 1) for each in _parts(schema)]
    return " or ".join(filter(None, parts[:20]))


# The quantifiers give nothing back, and what is not closed ends with the text, so that the time is
# linear in the length of the text, whatever it contains.
_PROTOBUF = re.compile(
    r"//(?P<line>[^\n]*+)|/\*(?P<block>(?:[^*]|\*(?!/))*+)(?:\*/|\Z)"
    r"|\b(?P<kind>message|enum|oneof)\s++(?P<named>\w++)\s*+{"
    r"|(?<![\w.])(?:(?P<label>repeated|optional|required)\s++)?"
    r"(?P<type>map\s*+<[\w\s.,]{1,300}+>|[\w.]++)\s++(?P<field>\w++)"
    r"\s*+=\s*+(?P<number>\d++)[^;{}]{0,500}+;"
    r"|(?P<open>{)|(?P<close>})|\"(?:[^\"\\\n]|\\.)*+(?:\"|(?=\n)|\Z)"
)


def _protobuf_rows(text: str) -> Iterator[FieldRow]:
    """The messages of a file with their fields."""
    depth, doc = 0, ""
    for found in _PROTOBUF.finditer(text):
        comment = found["line"] or found["block"]
        if comment is not None:
            doc = _text(re.sub(r"\s*\n\s*\*?\s*", " ", comment).strip())
            continue
        if found["named"]:
            if depth <= _DEEPEST:
                yield FieldRow(depth=depth, name=found["named"], type=found["kind"], doc=doc)
            depth += 1
        elif found["field"] and depth:
            label = f"{found['label']} " if found["label"] else ""
            if depth <= _DEEPEST:
                yield FieldRow(
                    depth=depth,
                    name=found["field"],
                    type=f"{label}{found['type']}",
                    doc=doc,
                    is_required=found["label"] == "required",
                )
        elif found["open"]:
            depth += 1
        elif found["close"]:
            depth = max(0, depth - 1)
        doc = ""


def _mappings(found: Any) -> Iterator[Mapping[str, Any]]:
    return (
        (each for each in found if isinstance(each, dict)) if isinstance(found, list) else iter(())
    )


def _text(found: Any) -> str:
    return found[:500] if isinstance(found, str) else ""
