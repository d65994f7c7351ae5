"""Each field that differs has a verdict of its own, in every language that can be compared."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
import pytest_asyncio

from catalog.formats.checker import CheckedDocument, Checker, Direction, comparison
from catalog.lint.fieldchanges import field_changes

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def checker() -> AsyncIterator[Checker]:
    async with Checker() as opened:
        yield opened


def json_schema(required: list[str], /, **properties: Any) -> bytes:
    return orjson.dumps({"type": "object", "properties": properties, "required": required})


def avro(**fields: Any) -> bytes:
    listed = [{"name": name, "type": type} for name, type in fields.items()]
    return orjson.dumps({"type": "record", "name": "R", "fields": listed})


def within(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


INNER = {"type": "record", "name": "I", "fields": [{"name": "d", "type": "long"}]}
OTHER = {"type": "record", "name": "I", "fields": [{"name": "d", "type": "string"}]}
PROTOBUF = b'syntax = "proto3"; package p; message M { int32 a = 1; string b = 2; N n = 3; } '
NESTED = b"message N { int64 d = 1; }"


@pytest.mark.parametrize(
    ("format", "older", "newer", "verdicts"),
    [
        (
            "JsonSchema/draft-07",
            json_schema(["a"], a={"type": "integer"}, b={"type": "string"}, c=within(d={})),
            json_schema(
                ["a", "e"],
                a={"type": "string"},
                b={"type": "integer"},
                c=within(d={}, f={}),
                e={"type": "string"},
            ),
            {"a": True, "b": True, "c.f": False, "e": True},
        ),
        (
            "JsonSchema/draft-07",
            json_schema([], a={"type": "array", "items": within(d={"type": "string"}, e={})}),
            json_schema([], a={"type": "array", "items": within(d={"type": "null"}, g={}, e={})}),
            {"a[].d": True, "a[].g": False},
        ),
        (
            "Avro/1.12",
            avro(a="int", b="string", c=INNER, u=["null", "int"]),
            avro(a="long", b="int", c=OTHER, u=["null", "int", "string"]),
            {"a": False, "b": True, "c.d": True, "u": False},
        ),
        (
            "Avro/1.12",
            avro(a="int", u=["null", INNER]),
            avro(a="int", u=["null", OTHER], x="string"),
            {"u.d": True, "x": True},
        ),
        (
            "Protobuf/3",
            PROTOBUF + NESTED,
            PROTOBUF.replace(b"string b", b"int32 b").replace(b"int32 a", b"int64 a")
            + NESTED.replace(b"int64", b"string"),
            {"M.a": False, "M.b": True, "N.d": True},
        ),
    ],
)
async def test_a_field_is_breaking_if_its_change_alone_breaks_readers(
    checker: Checker, format: str, older: bytes, newer: bytes, verdicts: dict[str, bool]
) -> None:
    directions: tuple[Direction, ...] = ("backward",)
    documents = CheckedDocument.of(older), CheckedDocument.of(newer)
    faults = await checker.answers([comparison(format, *documents, "backward")])

    async def fields(directions: tuple[Direction, ...], faults: Any) -> dict[str, bool | None]:
        found = await field_changes(
            older, newer, format=format, directions=directions, faults=faults, checker=checker
        )
        return {each.path: each.is_breaking for each in found}

    assert await fields(directions, faults) == verdicts
    # Nothing breaks where the whole fits, and without a rule there is no verdict.
    assert await fields(directions, []) == dict.fromkeys(verdicts, False)
    assert await fields((), []) == dict.fromkeys(verdicts)
