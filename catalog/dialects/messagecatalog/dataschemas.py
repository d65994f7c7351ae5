"""Data schemas (message catalog, 3.1.2), and the native `dataschema…` attributes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from catalog.dialects.messagecatalog.bodypath import BodyPath, as_object, text_in
from catalog.dialects.messagecatalog.valuetemplates import fits
from catalog.model.capabilities import Capabilities
from catalog.writing.formatcheck import DocumentChecker

# The names of schema formats that this API has for some of the native ones.
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
    """Refuse what is no data schema.

    Raises:
        InvalidAttribute
    """
    schema = as_object(value, place)
    uri = text_in(schema, "value", place)
    if uri and not (fits("uri", uri) and fits("uriabsolute", uri.partition("#")[0])):
        raise place.at("value").fault("it needs to be a URI, which is never relative")
    text_in(schema, "schematype", place)
    if not isinstance(schema.get("schema", ""), dict | str | None):
        raise place.at("schema").fault("it needs to be a string or a JSON object")
    if schema.get("schematype") == "Protobuf" and isinstance(schema.get("schema"), dict):
        raise place.at("schema").fault("a Protobuf schema needs to be a string")


async def check_embedded(
    attributes: Mapping[str, Any],
    place: BodyPath,
    capabilities: Capabilities,
    checker: DocumentChecker,
) -> None:
    """Refuse a schema that is none of its type, where the type is one of 3.1.2.

    Args:
        attributes: native ones; a schema whose format cannot be checked passes.
        place: of the data schema.

    Raises:
        InvalidAttribute
    """
    format, schema = str(attributes.get("dataschemaformat", "")), attributes.get("dataschema")
    family = format.partition("/")[0].lower()
    if schema is None or family not in _SHOWN or not capabilities.validates(format):
        return
    document = schema.encode() if isinstance(schema, str) else orjson.dumps(schema)
    if fault := await checker.validate(format, document):
        raise place.at("schema").fault(f"it is no {_SHOWN[family]} schema: {fault}")


def to_attributes(schema: Mapping[str, Any] | None) -> dict[str, Any]:
    """The native attributes of a data schema. One that is embedded goes before a reference,
    since natively only one of the two may be there."""
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
    """The data schema that native attributes tell of; empty where they tell of none."""
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
