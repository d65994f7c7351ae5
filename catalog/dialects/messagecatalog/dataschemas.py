"""Value templates, data schemas and compatibility policies of the Message Catalog API.

Sources: message catalog, 3.1.1 and 3.1.2. The policy is the group's attribute `compatibility`, an
extension that the message catalog permits (2.2 and 2.2.4).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
import uri_template

from catalog.dialects.bodypath import BodyPath, checked_members, checked_object, text_in
from catalog.formats.checker import CheckedDocument, comparison, validation
from catalog.formats.families import RULES
from catalog.messages.values import is_now
from catalog.model.capabilities import Capabilities
from catalog.model.concorderrors import UnresolvedConflict
from catalog.model.entity import Entity
from catalog.model.scalars import SCALAR_CHECKS
from catalog.writing.validation import DIRECTIONS, DocumentChecker

_MOST_CHARACTERS = 4000
# Bounds the time to parse a template, which blocks every concurrent request.
_MOST_EXPRESSIONS = 64
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
POLICIES = ("none", *RULES)


def check_template(value: Any, place: BodyPath) -> Mapping[str, Any]:
    """Refuse an invalid attribute value template.

    An absent `value` permits every content, as in the definitions of section 5.

    Raises:
        InvalidAttribute
    """
    template = checked_object(value, place)
    check_text(template.get("value"), place.at("value"))
    text_in(template, "description", place)
    if not isinstance(template.get("required", False), bool | None):
        raise place.at("required").fault("it needs to be a boolean")
    return template


def check_text(value: Any, place: BodyPath) -> None:
    """Raise `InvalidAttribute` for a value that is no URI template (RFC 6570)."""
    if value is None:
        return
    if not isinstance(value, str):
        raise place.fault("it needs to be a string")
    if len(value) > _MOST_CHARACTERS:
        raise place.fault(f"it is longer than {_MOST_CHARACTERS} characters")
    if value.count("{") > _MOST_EXPRESSIONS:
        raise place.fault(f"it has more than {_MOST_EXPRESSIONS} expressions")
    if not uri_template.validate(value):
        raise place.fault("it needs to be a URI template (RFC 6570)")


def without_expressions(text: str) -> str:
    """A valid template without the expressions, each in braces."""
    return re.sub(r"\{[^}]*\}", "", text)


def is_listed(template: Any) -> bool:
    """Whether a template is present; a `value` of null counts as absent."""
    return isinstance(template, dict) and template.get("value", "") is not None


def constant_in(template: Mapping[str, Any] | None) -> str:
    """The value of a template without variables; empty with variables, or without a value."""
    text = (template or {}).get("value") or ""
    return "" if "{" in text else text


def is_time(text: str) -> bool:
    """Whether a value without variables is a time, or the placeholder for a message's time."""
    return is_now("timestamp", text) or fits("timestamp", text)


def is_base64(text: str) -> bool:
    """Whether a value without variables can be a Binary (CloudEvents, "Type System")."""
    try:
        base64.b64decode(text, validate=True)
    except ValueError:
        return False
    return True


def to_property(template: Mapping[str, Any], kind: str, template_kind: str = "") -> Any:
    """The native form of a template.

    Args:
        kind: the native type of a constant.
        template_kind: the native type of a value with variables, if different from `kind`.
    """
    text = template.get("value")
    shown: dict[str, Any] = {"type": (template_kind or kind) if "{" in (text or "") else kind}
    if text:
        shown["value"] = text
    if template.get("description") is not None:
        shown["description"] = template["description"]
    return {**shown, "required": bool(template.get("required"))}


def from_property(found: Mapping[str, Any]) -> dict[str, Any]:
    """The template of a native property; a property without a value permits every value."""
    value = found.get("value", "")
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    shown: dict[str, Any] = {"value": text}
    if found.get("required"):
        shown["required"] = True
    if "description" in found:
        shown["description"] = found["description"]
    return shown


def members_of(value: Any) -> Mapping[str, Any]:
    """The members of an object; empty for a different type, which a replaced model can permit."""
    return value if isinstance(value, dict) else {}


def templates_of(value: Any) -> dict[str, dict[str, Any]]:
    """The templates of a native object's members."""
    members = members_of(value).items()
    return {name: from_property(one) for name, one in members if isinstance(one, dict)}


def fits(kind: str, value: Any) -> bool:
    """Whether a value is of a native scalar type."""
    try:
        SCALAR_CHECKS[kind](value)
    except (ValueError, OverflowError):
        return False
    return True


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


def check_policy_name(value: Any, place: BodyPath) -> None:
    """Raise `InvalidAttribute` for a value that names no policy."""
    if value is not None and value not in POLICIES:
        raise place.fault(f"it needs to be one of {', '.join(POLICIES)}")


async def check_policy(
    policy: Any,
    earlier: Sequence[Entity],
    attributes: Mapping[str, Any],
    *,
    subject: str,
    capabilities: Capabilities,
    checker: DocumentChecker,
) -> None:
    """Refuse a new version that breaks the policy of its group.

    A version in a format that cannot be compared passes.

    Args:
        earlier: the existing versions, newest first.
        attributes: the attributes of the new version.

    Raises:
        UnresolvedConflict
    """
    if policy not in POLICIES or policy == "none" or "dataschema" not in attributes:
        return
    format = _format_of(attributes)
    if policy not in capabilities.rules_for(format):
        return
    document = CheckedDocument.of(document_of(attributes["dataschema"]))
    compared = [one for one in earlier if "dataschema" in one.attributes]
    if not policy.endswith("_transitive"):
        compared = compared[:1]
    for older in compared:
        vid = older.path.vid
        if _family(_format_of(older.attributes)) != _family(format):
            raise _conflict(subject, f"of another format than that of version {vid}")
        before = CheckedDocument.of(document_of(older.attributes["dataschema"]))
        for direction in DIRECTIONS[policy.removesuffix("_transitive")]:
            [fault] = await checker.answers([comparison(format, before, document, direction)])
            if fault:
                fault = f"not {direction} compatible with version {vid}: {fault}"
                raise _conflict(subject, fault)


def _conflict(subject: str, fault: str) -> UnresolvedConflict:
    detail = "Its group has a compatibility policy."
    return UnresolvedConflict(subject, error_detail=f"its schema is {fault}", detail=detail)


def _format_of(attributes: Mapping[str, Any]) -> str:
    return str(attributes.get("dataschemaformat", ""))


def _family(format: str) -> str:
    return format.partition("/")[0].lower()
