"""A client of the Confluent API of a node, and schemas for it."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import orjson

from tests.integration.conftest import Answer, Node

MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
_numbers = itertools.count(1)


def new_name(word: str = "orders") -> str:
    """The name of a subject that no other test of the module has."""
    return f"{word}-{next(_numbers)}-value"


def record(*fields: str, name: str = "Order", defaults: bool = False) -> str:
    """An Avro record with text fields."""
    shown = [
        {"name": field, "type": "string", **({"default": ""} if defaults and place else {})}
        for place, field in enumerate(fields)
    ]
    return orjson.dumps({"type": "record", "name": name, "fields": shown}).decode()


@dataclass(frozen=True, slots=True)
class Registry:
    """Sends requests to `/confluent` of a node."""

    node: Node
    root: str = "/confluent"

    def within(self, context: str) -> Registry:
        return Registry(self.node, f"/confluent/contexts/{context}")

    async def send(self, method: str, path: str, body: Any = None) -> Answer:
        answer = await self.node.send(method, self.root + path, body, Content_Type=MEDIA_TYPE)
        if answer.status != 204:
            assert answer.headers["Content-Type"] == MEDIA_TYPE, answer.headers
        return answer

    async def get(self, path: str) -> Any:
        answer = await self.send("GET", path)
        assert answer.status == 200, answer.body
        return answer.json

    async def put(self, path: str, body: Any) -> Any:
        answer = await self.send("PUT", path, body)
        assert answer.status == 200, answer.body
        return answer.json

    async def register(self, subject: str, schema: str, **more: Any) -> int:
        """Register a schema; the id."""
        answer = await self.try_register(subject, schema, **more)
        assert answer.status == 200, answer.body
        return int(answer.json["id"])

    async def try_register(self, subject: str, schema: str, **more: Any) -> Answer:
        path = f"/subjects/{quote(subject, safe='')}/versions"
        return await self.send("POST", path, {"schema": schema, **more})

    async def delete(self, path: str) -> Any:
        answer = await self.send("DELETE", path)
        assert answer.status == 200, answer.body
        return answer.json


def assert_error(answer: Answer, code: int, said: str = "") -> None:
    """The answer is an error of the API with a code, whose first digits are the status."""
    document = answer.json
    assert {*document} == {"error_code", "message"}, document
    assert (answer.status, document["error_code"]) == (int(str(code)[:3]), code), document
    assert said in document["message"], document
