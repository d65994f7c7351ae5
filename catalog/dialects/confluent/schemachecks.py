"""Canonical texts and compatibility of schemas, found in the processes that check documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

from catalog.context import Context as NodeContext
from catalog.dialects.confluent.errors import invalid_schema
from catalog.formats.checker import Check, CheckedDocument
from catalog.operations.schemacontracts import AVRO, JSON, PROTOBUF
from catalog.writing.documentchecks import RequestChecks

_LONGEST_SHOWN = 10 * 1024
_FORMATS = {AVRO: "confluent/avro", JSON: "confluent/json", PROTOBUF: "confluent/protobuf"}


class SchemaText(NamedTuple):
    """A schema with the texts of its references, by name, dependencies first."""

    schema_type: str
    text: str
    references: Mapping[str, str]


class OlderVersion(NamedTuple):
    """A version that a new one is compared with."""

    number: int
    schema: SchemaText


@dataclass(frozen=True, slots=True)
class SchemaChecks:
    """The checks of one request, within the limits of its client."""

    checks: RequestChecks

    @classmethod
    def of(cls, node: NodeContext) -> SchemaChecks:
        """The checks of a request of the node's caller."""
        return cls(node.checked_requests.begin(node.caller.client))

    async def canonical(self, schema: SchemaText, *, normalize: bool, is_new: bool = True) -> str:
        """The text as the registry stores and hashes it.

        Args:
            is_new: whether to check what is checked in new schemas only.

        Raises:
            ConfluentError: 42201.
        """
        asked = {"text": schema.text, "references": schema.references, "normalize": normalize}
        # The text is the same for both. A registration asks for both, so one answer serves it.
        answer = await self._ask(schema.schema_type, "canonical", **asked, is_new=True)
        if "fault" in answer and not is_new:
            answer = await self._ask(schema.schema_type, "canonical", **asked, is_new=False)
        if "fault" in answer:
            raise invalid_schema(
                f"Invalid schema of type {schema.schema_type}, details: {answer['fault']}"
            )
        return str(answer["result"])

    async def formatted(self, schema: SchemaText, format: str) -> str:
        """The text in a format that a reader asked for; the text itself if it has no such form."""
        answer = await self._ask(
            schema.schema_type,
            "formatted",
            text=schema.text,
            references=schema.references,
            format=format,
        )
        return str(answer.get("result", schema.text))

    async def field_names(self, schema: SchemaText) -> set[str]:
        """The names of the fields of the outermost record, object or message of a schema."""
        answer = await self._ask(
            schema.schema_type, "field_names", text=schema.text, references=schema.references
        )
        return set(answer.get("result") or ())

    async def incompatibilities(
        self, schema: SchemaText, older: Sequence[OlderVersion], level: str
    ) -> list[str]:
        """What makes a schema incompatible with older versions; empty if nothing does.

        Args:
            schema: the new schema, in canonical form.
            older: the versions in the order of their numbers.
            level: the compatibility level.

        Returns:
            the messages of a verbose check, about the newest version that differs too much.
        """
        direction, _, reach = level.partition("_")
        if direction == "NONE":
            return []
        for number, other in reversed(older if reach else older[-1:]):
            if found := await self._between(schema, other, direction):
                shown = other.text[:_LONGEST_SHOWN]
                return [*found, f"{{oldSchemaVersion: {number}}}", f"{{oldSchema: '{shown}'}}"]
        return []

    async def _between(self, newer: SchemaText, older: SchemaText, direction: str) -> list[str]:
        if newer.schema_type != older.schema_type:
            return [
                "{errorType:'TYPE_MISMATCH', description:'The schema type changed from "
                f"{older.schema_type} to {newer.schema_type}'}}"
            ]
        found: list[str] = []
        if direction in ("FORWARD", "FULL"):
            found += await self._unreadable(older, newer, "old", "new")
        if direction in ("BACKWARD", "FULL"):
            found += await self._unreadable(newer, older, "new", "old")
        return found

    async def _unreadable(self, reader: SchemaText, writer: SchemaText, *words: str) -> list[str]:
        """What a reader cannot read of a writer's; `words` say which is the new schema."""
        answer = await self._ask(
            reader.schema_type,
            "incompatibilities",
            reader=[reader.text, reader.references],
            writer=[writer.text, writer.references],
        )
        if "fault" in answer:
            return [f"{{errorType:'INVALID_SCHEMA', description:'{answer['fault']}'}}"]
        messages = [str(each) for each in answer["result"]]
        for word in words:
            messages = [message.replace("%s", word, 1) for message in messages]
        return messages

    async def _ask(self, schema_type: str, question: str, **parameters: Any) -> dict[str, Any]:
        """Ask the process of the checks; a check that did not end has a fault, too."""
        document = CheckedDocument.of(orjson.dumps(parameters))
        [answer] = await self.checks.answers([Check(_FORMATS[schema_type], question, (document,))])
        try:
            read = orjson.loads(answer)
        except orjson.JSONDecodeError:
            return {"fault": answer}
        return read if isinstance(read, dict) else {"fault": answer}
