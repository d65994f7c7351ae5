"""Translates data schemas (message catalog, 3.1.2) to native `dataschema…` attributes, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from catalog.dialects.bodypath import BodyPath, checked_members, checked_object, text_in
from catalog.dialects.messagecatalog.valuetemplates import fits
from catalog.formats.checker import CheckedDocument, validation
from catalog.model.capabilities import Capabilities
from catalog.writing.validation import DocumentChecker

# Schema formats with different names in the Message Catalog API and natively.
_NATIVE = {"Avro": "Avro", "JSON": "JSONSchema", "Protobuf": "Protobuf/3"}
_SHOWN = {"avro": "Avro", "jsonschema": "JSON", "protobuf": "Protobuf"}
_DRAFTS = {
    "http://json-schema.org/draft-04/schema": "JSONSchema/draft-04",
    "http://json-schema.org/draft-06/schema": "JSONSchema/draft-06",
    "http://json-schema.org/draft-07/schema": "JSONSchema/draft-07",
    "https://json-schema.org/draft/2019-09/schema": "JSONSchema/draft/2019-09",
    "https://json-schema.org/draft/2020-12/schema": "JSONSchema/draft/2020-12",
}


def check_schema(value: Any, place: BodyPath) -> None:
    """Raise `InvalidAttribute` for an invalid data schema."""
    schema = checked_object(value, place)
    uri = text_in(schema, "value", place)
    if uri and not (fits("uri", uri) and fits("uriabsolute", uri.partition("#")[0])):
        raise place.at("value").fault("it needs to be an absolute URI")
    text_in(schema, "schematype", place)
    if not isinstance(schema.get("schema", ""), dict | str | None):
        raise place.at("schema").fault("it needs to be a string or a JSON object")
    if schema.get("schematype") == "Protobuf" and isinstance(schema.get("schema"), dict):
        raise place.at("schema").fault("a Protobuf schema needs to be a string")


def check_payload(value: Any, place: BodyPath) -> None:
    """Raise `InvalidAttribute` for an invalid payload, which has at most a data schema."""
    payload = checked_members(value, ("dataschema",), place)
    if payload.get("dataschema") is not None:
        check_schema(payload["dataschema"], place.at("dataschema"))


async def check_embedded(
    attributes: Mapping[str, Any],
    place: BodyPath,
    capabilities: Capabilities,
    checker: DocumentChecker,
) -> None:
    """Refuse an embedded schema that is invalid in its format (message catalog, 3.1.2).

    A schema passes unchecked if its format is not in that section, or if this node does not
    validate the format.

    Args:
        attributes: the attributes of the message, with their native names.
        place: the place of the data schema in the body, which the error names.

    Raises:
        InvalidAttribute: the schema is invalid.
    """
    format, schema = str(attributes.get("dataschemaformat", "")), attributes.get("dataschema")
    family = format.partition("/")[0].lower()
    if schema is None or family not in _SHOWN or not capabilities.validates(format):
        return
    [fault] = await checker.answers([validation(format, CheckedDocument.of(document_of(schema)))])
    if fault:
        raise place.at("schema").fault(f"it is no {_SHOWN[family]} schema: {fault}")


def document_of(schema: Any) -> bytes:
    """An embedded schema as a document: the text, or the JSON."""
    return schema.encode() if isinstance(schema, str) else orjson.dumps(schema)


def to_attributes(schema: Mapping[str, Any] | None) -> dict[str, Any]:
    """The native attributes of a data schema.

    An embedded schema takes precedence over a reference: a native message cannot have both.
    """
    if schema is None:
        return {}
    document, uri, kind = (schema.get(name) for name in ("schema", "value", "schematype"))
    found: dict[str, Any] = {}
    if document is not None:
        found["dataschema"] = document
    elif uri and fits("uri", uri):
        found["dataschemauri"] = uri
    if kind:
        found["dataschemaformat"] = _native_format(kind, document)
    return found


def from_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The data schema in native attributes; empty without a data schema."""
    found: dict[str, Any] = {}
    if "dataschemauri" in attributes:
        found["value"] = attributes["dataschemauri"]
    if "dataschemaformat" in attributes:
        format = str(attributes["dataschemaformat"])
        found["schematype"] = _SHOWN.get(format.partition("/")[0].lower(), format)
    if isinstance(attributes.get("dataschema"), dict | str):
        found["schema"] = attributes["dataschema"]
    return found


def _native_format(kind: str, document: Any) -> str:
    if kind == "JSON" and isinstance(document, dict):
        return _DRAFTS.get(str(document.get("$schema", "")).removesuffix("#"), "JSONSchema")
    return _NATIVE.get(kind, kind)
