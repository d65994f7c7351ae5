"""The references of an entity: in its attributes, and in its schema document.

Source: message/spec.md, "basemessage" and "dataschemauri"; endpoint/spec.md, "messagegroups";
core/spec.md, "Cross Referencing Resources".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

import orjson

from catalog.indexing.schemafields import MOST_BYTES
from catalog.model.confluentattribute import CONFLUENT, possible_ids
from catalog.model.entity import Entity
from catalog.model.record import record
from catalog.model.xid import Kind, resource_of

BASES = ("basemessage", "basemessageuri", "basemessageurl")
"""The names of the reference to a base message in the editions."""
MOST_REFERENCES = 200
"""The number of references of an entity that are followed."""
_OF_VERSIONS = (*BASES, "dataschemauri", "dataschemaxid")
DOCUMENT = "document"
"""The place of references in a document."""

_LONGEST_KEY = 500
_MOST_VALUES = 20_000
_PROTOBUF_IMPORT = re.compile(r'^\s*+import\s++(?:public\s++|weak\s++)?"([^"\n]++)"', re.MULTILINE)
_XML_LOCATION = re.compile(r"""\bschemaLocation\s*+=\s*+["']([^"'\s]++)["']""")


@record
class EntityReference:
    """A reference of an entity.

    Args:
        place: the JSON pointer of the attribute, or `document`.
        text: the reference as written.
        key: the target in the form by which references are found: an absolute path for a target in
            the catalog of the entity's authority, else a URL; without fragment and `$details`.
    """

    place: str
    text: str
    key: str


def references_of(entity: Entity) -> list[EntityReference]:
    """The references of an entity; those in the document only if the document is loaded."""
    return [*own_references(entity), *document_references(entity)]


def own_references(entity: Entity) -> list[EntityReference]:
    """The references in the attributes of an entity."""
    found = [
        EntityReference(place=place, text=text, key=key)
        for place, text in attribute_references(entity.kind, entity.attributes)
        if (key := _key(text))
    ]
    if CONFLUENT in entity.attributes and entity.kind == "version":
        found += _confluent_references(entity)
    return found[:MOST_REFERENCES]


def attribute_references(kind: Kind, attributes: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The JSON pointer and the text of each attribute that refers to an entity."""
    found: Iterable[tuple[str, Any]] = ()
    if kind == "version":
        found = ((f"/{name}", attributes[name]) for name in _OF_VERSIONS if name in attributes)
    elif kind == "resource":
        found = [("/meta/xref", attributes.get("xref"))]
    elif kind == "group":
        groups, options = attributes.get("messagegroups"), attributes.get("protocoloptions")
        listed = enumerate(groups if isinstance(groups, list) else ())
        will = options.get("willmessage") if isinstance(options, dict) else None
        found = [(f"/messagegroups/{place}", value) for place, value in listed]
        found.append(("/protocoloptions/willmessage", will))
    for place, value in found:
        if isinstance(value, str):
            yield place, value


def document_references(entity: Entity) -> list[EntityReference]:
    """The references in the document of a version, if the document is loaded."""
    document = entity.document
    if document is None or len(document) > MOST_BYTES:
        return []
    # A relative reference leads to a schema of the same group.
    base = resource_of(entity.origin)
    texts: Iterable[str]
    if document[:64].lstrip()[:1] in (b"{", b"["):
        try:
            schema = orjson.loads(document)
        except orjson.JSONDecodeError:
            return []
        identity = schema.get("$id") if isinstance(schema, dict) else None
        base = identity if isinstance(identity, str) and urlsplit(identity).scheme else base
        texts = _references_in(schema)
    elif b"import" in document:
        texts = (found[1] for found in _PROTOBUF_IMPORT.finditer(document.decode(errors="replace")))
    elif b"schemaLocation" in document:
        texts = (found[1] for found in _XML_LOCATION.finditer(document.decode(errors="replace")))
    else:
        return []
    return [
        EntityReference(place=DOCUMENT, text=text, key=key)
        for text in dict.fromkeys(islice(texts, MOST_REFERENCES))
        if (key := _key(_joined(base, text)))
    ]


def _references_in(schema: Any) -> Iterator[str]:
    waiting, values = [schema], 0
    while waiting and values < _MOST_VALUES:
        values += 1
        value = waiting.pop()
        if isinstance(value, list):
            waiting.extend(reversed(value))
        elif isinstance(value, dict):
            target = value.get("$ref")
            if isinstance(target, str):
                yield target
            waiting.extend(
                below for below in reversed(value.values()) if isinstance(below, dict | list)
            )


def _joined(base: str, text: str) -> str:
    """A reference in a document as an absolute one; empty for a part of the document itself."""
    if text.startswith("#"):
        # A fragment of an xRegistry document that holds the schema names an entity.
        return text if text.startswith("#/schemagroups/") else ""
    try:
        return urljoin(base, text)
    except ValueError:
        return ""


def _confluent_references(entity: Entity) -> Iterator[EntityReference]:
    """The references of a schema by subject and version, which are in the same group."""
    kept = entity.attributes.get(CONFLUENT)
    found = kept.get("references") if isinstance(kept, Mapping) else None
    group = "/".join(entity.origin.split("/", 4)[:4])
    for place, one in enumerate(found if isinstance(found, list) else ()):
        if isinstance(one, Mapping) and isinstance(subject := one.get("subject"), str):
            key = f"{group}/{possible_ids(subject)[0]}/versions/{one.get('version')}"
            if len(key) <= _LONGEST_KEY:
                text = f"{subject}:{one.get('version')}"
                yield EntityReference(place=f"/{CONFLUENT}/references/{place}", text=text, key=key)


def _key(text: str) -> str:
    """The key of a reference; empty if the text is no reference to an entity."""
    if not text or len(text) > _LONGEST_KEY:
        return ""
    if text.startswith(("#/", "/")):
        key = unquote(text.removeprefix("#").partition("#")[0])
        is_whole = key.count("/") > 1
    else:
        key = text.partition("#")[0]
        is_whole = "://" in key
    # PostgreSQL stores no null character.
    return key.removesuffix("$details").rstrip("/") if is_whole and "\0" not in key else ""
