"""XML Schema documents, by the xmlschema library."""

from __future__ import annotations

import warnings
from io import BytesIO

from xmlschema import XMLSchema10, XMLSchema11
from xmlschema.exceptions import XMLResourceBlocked, XMLSchemaException
from xmlschema.validators import XMLSchemaParseError

from catalog.formats.documents import Malformed, unquoted

OUTSIDE = "and nothing but the document itself is read"


def validate(format: str, document: bytes) -> str:
    """Check the schema and everything that it declares; an empty document is no schema.

    Document type declarations with entities are refused. What an include, a redefinition or
    an import names is not read: an include is an error, and so is a use of what another
    namespace declares, except the XML namespaces that the library carries (xml:lang and such).
    """
    schema = XMLSchema10 if format.endswith("/1.0") else XMLSchema11
    with warnings.catch_warnings(record=True) as blocked_imports:
        warnings.simplefilter("always")
        try:
            schema(BytesIO(unquoted(document)), defuse="always", allow="none")
        except XMLResourceBlocked as error:
            raise Malformed(f"it includes another document, {OUTSIDE}") from error
        except XMLSchemaParseError as error:
            imports = f"; it imports other namespaces, {OUTSIDE}" if blocked_imports else ""
            raise Malformed(f"{error.path or '/'}: {error.message}{imports}") from error
        except XMLSchemaException as error:
            raise Malformed(str(error)) from error
    return ""
