"""Answers the questions of the Confluent API about schemas, in the process of the checks.

A question is the JSON of the parameters of a function, and an answer is JSON with the result or
with the fault of the schema. The module of each schema type has these functions, which raise
`MalformedDocument` for a text that is no valid schema, or that lacks a reference:

- `canonical(text, references, *, normalize, is_new) -> str`: the text as Confluent's registry
  stores and hashes it. `references` are the canonical texts of the references by name,
  dependencies first. `normalize` gives schemas with the same meaning the same text. `is_new` checks
  what Confluent checks in new schemas only (its setting `validateNewSchemas`, which look-ups and
  imports do not use).
- `incompatibilities(reader, writer) -> list[str]`: sentences that say why a schema cannot read the
  data of another schema. The first `%s` in each stands for the word for the reader, the second `%s`
  for the word for the writer: "new" and "old", or "old" and "new".
- `formatted(text, references, format) -> str`: a canonical text in a format of the API.
- `field_names(text, references) -> list[str]`: the fields of the outermost record, object or
  message.
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
