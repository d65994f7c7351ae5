"""Answers the questions of the Confluent API about schemas, in the process of the checks.

A question is the JSON of the parameters of a function, and an answer is JSON with the result or
with the fault of the schema.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NamedTuple

import orjson

from catalog.formats.documenttext import MalformedDocument

_MODULES = {
    "confluent/avro": "avro",
    "confluent/json": "jsonschema",
    "confluent/protobuf": "protobuf",
}


_DOCUMENTS = ("reader", "writer")


class SchemaDocument(NamedTuple):
    """The text of a schema, and the texts of its references by name, dependencies first."""

    text: str
    references: Mapping[str, str]


@contextmanager
def bounded() -> Iterator[None]:
    """Refuse a document that is nested deeper than the stack of the interpreter.

    Raises:
        MalformedDocument: the work in the context has exhausted the stack.
    """
    try:
        yield
    except RecursionError as error:
        raise MalformedDocument("it is nested too deeply") from error


def answer(format: str, question: str, parameters: bytes) -> str:
    """Answer a question of `SchemaChecks` about a schema type.

    Args:
        question: the name of the function of the type's module: `canonical`, `incompatibilities`,
            `field_names` or `formatted`.
        parameters: the parameters of the function in JSON.

    Returns:
        `{"result": …}`, or `{"fault": …}` for a text that is no valid schema.
    """
    module = import_module(f"catalog.formats.confluent.{_MODULES[format]}")
    ask: Callable[..., Any] = getattr(module, question)
    given = orjson.loads(parameters)
    documents = {name: SchemaDocument(*given[name]) for name in _DOCUMENTS if name in given}
    try:
        result = ask(**{**given, **documents})
    except MalformedDocument as error:
        return orjson.dumps({"fault": str(error).encode(errors="replace").decode()}).decode()
    return orjson.dumps({"result": result}).decode()
