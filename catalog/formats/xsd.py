"""Checks XML Schema documents with the xmlschema library."""

from __future__ import annotations

import warnings
from io import BytesIO
from itertools import islice
from xml.etree.ElementTree import ParseError

from xmlschema import XMLResource, XMLSchema10, XMLSchema11
from xmlschema.exceptions import XMLResourceBlocked, XMLSchemaException
from xmlschema.validators import XMLSchemaParseError

from catalog.formats.documenttext import MAX_REASONS, MalformedDocument, Mismatch, unquoted

OUTSIDE = "and nothing but the document itself is read"


def validate(format: str, document: bytes) -> str:
    """Check the schema and every declaration; an empty document is no schema.

    Document type declarations with entities are refused. The documents that an include, a
    redefinition or an import names are not read: an include is an error, and so is a use of the
    declarations of another namespace, except the XML namespaces in the library (xml:lang etc.).
    """
    _read(format, document)
    return ""


def conform(format: str, schema: bytes, payload: bytes, contenttype: str, part: str) -> str:
    """Validate the payload, which must be an XML document.

    The root must be an element that the schema declares. `part` has no meaning.
    """
    described = _read(format, schema)
    try:
        instance = XMLResource(BytesIO(payload), defuse="always", allow="none")
        errors = list(islice(described.iter_errors(instance), MAX_REASONS))
    except (XMLSchemaException, ParseError) as error:
        raise Mismatch(f"it cannot be read as XML: {error}") from error
    return "; ".join(f"{error.path or '/'}: {error.reason}" for error in errors)


def _read(format: str, document: bytes) -> XMLSchema10 | XMLSchema11:
    schema = XMLSchema10 if format.endswith("/1.0") else XMLSchema11
    with warnings.catch_warnings(record=True) as blocked_imports:
        warnings.simplefilter("always")
        try:
            return schema(BytesIO(unquoted(document)), defuse="always", allow="none")
        except XMLResourceBlocked as error:
            raise MalformedDocument(f"it includes another document, {OUTSIDE}") from error
        except XMLSchemaParseError as error:
            imports = f"; it imports other namespaces, {OUTSIDE}" if blocked_imports else ""
            raise MalformedDocument(f"{error.path or '/'}: {error.message}{imports}") from error
        except XMLSchemaException as error:
            raise MalformedDocument(str(error)) from error
