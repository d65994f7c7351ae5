"""Answers the questions of the Confluent API about schemas, in the process of the checks.

A question is the JSON of the parameters of a function, and an answer is JSON with the result or
with the fault of the schema.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import orjson

from catalog.formats.confluent.document import SchemaDocument
from catalog.formats.documenttext import MalformedDocument

_MODULES = {
    "confluent/avro": "avro",
    "confluent/json": "jsonschema",
    "confluent/protobuf": "protobuf",
}


def answer(format: str, question: str, parameters: bytes) -> str:
    """Answer `canonical`, `incompatibilities`, `field_names` or `formatted` for a schema type.

    Returns:
        `{"result": …}`, or `{"fault": …}` for a text that is no valid schema.
    """
    module = import_module(f"catalog.formats.confluent.{_MODULES[format]}")
    given = orjson.loads(parameters)
    try:
        result = _ask(module, question, given)
    except MalformedDocument as error:
        return orjson.dumps({"fault": str(error).encode(errors="replace").decode()}).decode()
    return orjson.dumps({"result": result}).decode()


def _ask(module: Any, question: str, given: dict[str, Any]) -> Any:
    match question:
        case "canonical":
            flags = {"normalize": given["normalize"], "is_new": given["is_new"]}
            return module.canonical(given["text"], given["references"], **flags)
        case "incompatibilities":
            return module.incompatibilities(
                SchemaDocument(*given["reader"]), SchemaDocument(*given["writer"])
            )
        case "field_names":
            return module.field_names(given["text"], given["references"])
        case _:
            return module.formatted(given["text"], given["references"], given["format"])
