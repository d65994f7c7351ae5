"""What is registered at `/confluent` or written natively is read through both without a loss."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import string
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from catalog.dialects.confluent.nativeversions import run_native_versions
from tests.integration.confluent import Registry
from tests.integration.conftest import start_node
from tests.integration.federation import eventually, quick_timing
from tests.unit.test_confluent_protobuf import files

pytestmark = pytest.mark.asyncio(loop_scope="module")
QUIET = settings(
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    deadline=None,
)
AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"
FORMATS = {AVRO: "Avro", JSON: "JsonSchema", PROTOBUF: "Protobuf/3"}
BASES = {
    AVRO: ("q.Base", '{"type":"record","name":"Base","namespace":"q","fields":[]}'),
    JSON: ("base.json", '{"type":"object","title":"Base"}'),
    PROTOBUF: ("base.proto", 'syntax = "proto3"; package q; message Base { string a = 1; }'),
}
"""A schema of each type to refer to, under the name that references give it."""
CONTEXTS = ("", ":.lossless:", ":.Lossless:", ":.ein Ort/ä:", ":.a.b-c:")
numbers = itertools.count(1)

texts = st.text(string.printable.strip() + " äß€漢😀\u0301", min_size=1, max_size=10)
names = st.text("/: %?#.~+@-_&=;,'\"\\aZäİß漢e\u0301😀", max_size=10).filter(
    lambda name: not name.startswith((":.", ":*:"))
)
words = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,5}", fullmatch=True)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.sampled_from([0, -1, 2**31, 2**53 + 1, 2**63 - 1, 0.5, 1.0, -0.0, 1e22, 1e-7, 1.5e300])
    | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)


def maybe(**members: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=members)


def lists_of(members: st.SearchStrategy[Any], **how: Any) -> st.SearchStrategy[list[Any]]:
    return st.lists(members, min_size=1, max_size=3, **how)


metadata = maybe(
    tags=st.dictionaries(texts, lists_of(texts, unique=True), min_size=1, max_size=2),
    properties=st.dictionaries(texts, st.just("") | texts, min_size=1, max_size=3),
    sensitive=lists_of(texts, unique=True),
).filter(bool)


def rules(*modes: str) -> st.SearchStrategy[list[dict[str, Any]]]:
    rule = st.fixed_dictionaries(
        {
            "name": st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,8}", fullmatch=True),
            "kind": st.sampled_from(["TRANSFORM", "CONDITION"]),
            "mode": st.sampled_from(modes),
            "type": texts,
            "disabled": st.booleans(),
        },
        optional={
            "tags": lists_of(texts, unique=True),
            "params": st.dictionaries(texts, texts, min_size=1, max_size=2),
            **dict.fromkeys(("doc", "expr", "onSuccess", "onFailure"), texts),
        },
    )
    return lists_of(rule, unique_by=lambda one: one["name"])


rule_sets = maybe(
    migrationRules=rules("UPGRADE", "DOWNGRADE", "UPDOWN"),
    domainRules=rules("WRITE", "READ", "WRITEREAD"),
    encodingRules=rules("WRITE", "READ", "WRITEREAD"),
    enableAt=texts,
).filter(bool)


@st.composite
def avro(draw: st.DrawFn, refers: bool) -> str:
    kinds = ["int", "string", ["null", "bytes"], {"type": "map", "values": "long"}]
    kinds += ["q.Base"] if refers else []
    fields = [
        {"name": name, "type": draw(st.sampled_from(kinds)), **draw(maybe(doc=texts, tag=values))}
        for name in draw(st.lists(words, max_size=4, unique=True))
    ]
    more = draw(maybe(doc=texts, aliases=lists_of(words, unique=True), extra=values))
    return draw(written({"type": "record", "name": draw(words), "fields": fields, **more}))


@st.composite
def json_schema(draw: st.DrawFn, refers: bool) -> str:
    kinds = [{"type": "string"}, {"type": ["null", "number"]}, {"maximum": 2**70}, True]
    kinds += [{"$ref": "base.json"}] if refers else []
    properties = st.dictionaries(texts, st.sampled_from(kinds), max_size=3)
    more = draw(maybe(description=texts, default=values, const=values))
    return draw(written({"type": "object", "properties": draw(properties), **more}))


@st.composite
def protobuf(draw: st.DrawFn, refers: bool) -> str:
    file = draw(files())
    if not refers:
        return file
    file = file.replace("package p;", 'package p; import "base.proto";')
    return f"{file} message User {{ q.Base base = 1; }}"


def written(value: Any) -> st.SearchStrategy[str]:
    """A JSON text in one of the ways to write it."""
    return st.builds(
        lambda indent, ascii: json.dumps(value, indent=indent, ensure_ascii=ascii),
        st.sampled_from([None, 1, 4]),
        st.booleans(),
    )


SCHEMAS = {AVRO: avro, JSON: json_schema, PROTOBUF: protobuf}


@dataclass(frozen=True)
class Schema:
    """A schema to register; `refers` says by which number of the version, if it does."""

    type: str
    text: str
    refers: int | None
    contract: dict[str, Any]


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    type = draw(st.sampled_from(sorted(SCHEMAS)))
    refers = draw(st.sampled_from([None, 1, -1]))
    text = draw(SCHEMAS[type](refers is not None))
    return Schema(type, text, refers, draw(maybe(metadata=metadata, ruleSet=rule_sets)))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def registry(shared_database_url: str) -> AsyncIterator[Registry]:
    async with start_node(shared_database_url) as running:
        registry = Registry(running)
        # A native client writes into contexts that are there.
        await registry.register(":.native:first", '"string"')
        loop = asyncio.create_task(run_native_versions(running.context, timing=quick_timing()))
        yield registry
        loop.cancel()
        await asyncio.wait([loop])


@settings(QUIET, max_examples=20)
@given(schema=schemas(), name=names, context=st.sampled_from(CONTEXTS), base=names)
async def test_a_registered_schema_is_kept_as_it_is_also_by_native_writes(
    registry: Registry, schema: Schema, name: str, context: str, base: str
) -> None:
    number = next(numbers)
    subject, base = f"{context}{name}s{number}", f"{base}base{number}"
    body = {"schemaType": schema.type, **schema.contract}
    kept = dict(schema.contract)
    if schema.refers is not None:
        named, text = BASES[schema.type]
        await registry.register(f"{context}{base}", text, schemaType=schema.type)
        reference = {"name": named, "subject": base, "version": schema.refers}
        body["references"], kept["references"] = [reference], [{**reference, "version": 1}]
    id = await registry.register(subject, schema.text, **body)
    shown = await read(registry, subject)
    assert (shown["subject"], shown["id"], shown["schemaType"]) == (subject, id, schema.type)
    assert {
        key: shown[key] for key in ("metadata", "ruleSet", "references") if key in shown
    } == kept
    if schema.type != PROTOBUF:
        assert json.loads(shown["schema"]) == json.loads(schema.text)

    # A name that differs in case only is another subject.
    twin = f"{context}{name.swapcase()}S{number}"
    other = await registry.register(twin, '"bytes"')
    assert other != id
    assert subject in await registry.get("/subjects")

    async def check() -> None:
        assert await read(registry, subject) == shown
        again = await registry.try_register(subject, shown["schema"], **body)
        assert (again.json["id"], again.json["guid"]) == (id, shown["guid"]), again.body
        by_id = await registry.get(f"/schemas/ids/{id}?subject={quote(subject, safe='')}")
        assert without_time(by_id) == {key: shown[key] for key in shown if key != "id"}

    await check()
    node, path = registry.node, await xid_of(registry, id, subject)
    for query in ("?inline=*", "?inline=*&doc"):
        await node.put(f"{path}$details", await node.get(f"{path}$details{query}"))
        await check()
    group = path.partition("/schemas/")[0]
    await node.put(group, await node.get(group))
    document = await node.send("GET", path)
    assert document.body == shown["schema"].encode()
    answer = await node.send("PUT", path, body=document.body)
    assert answer.status == 200, answer.body
    await check()
    assert (await read(registry, twin))["schema"] == '"bytes"'


async def read(registry: Registry, subject: str) -> dict[str, Any]:
    return without_time(await registry.get(f"/subjects/{quote(subject, safe='')}/versions/1"))


def without_time(shown: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in shown.items() if name != "ts"}


async def xid_of(registry: Registry, id: int, subject: str) -> str:
    """The path of the native schema of a subject."""
    groups = await registry.node.get("/schemagroups?inline=schemas")
    [xid] = [
        schema["xid"]
        for group in groups.values()
        for schema in group["schemas"].values()
        if schema["confluent"]["id"] == id
        and subject.endswith(schema["confluent"].get("subject", schema["schemaid"]))
    ]
    return str(xid)


@settings(QUIET, max_examples=12)
@given(
    texts=st.lists(
        st.sampled_from(sorted(SCHEMAS)).flatmap(
            lambda type: st.tuples(st.just(type), SCHEMAS[type](False))
        ),
        min_size=1,
        max_size=3,
    )
)
async def test_a_native_version_gets_an_id_and_keeps_its_text(
    registry: Registry, texts: list[tuple[str, str]]
) -> None:
    node, context = registry.node, registry.within(".native")
    written = {f"n{next(numbers)}": given for given in texts}
    for subject, (type, text) in written.items():
        body = {
            "format": FORMATS[type],
            "schemabase64": base64.b64encode(text.encode()).decode(),
            "description": "by a native client",
        }
        await node.put(f"/schemagroups/native/schemas/{subject}/versions/3$details", body)

    async def has_ids() -> bool:
        return {*written} <= {*await context.get("/subjects")}

    await eventually(has_ids)
    for subject, (type, text) in written.items():
        xid = f"/schemagroups/native/schemas/{subject}/versions/3"
        shown = await context.get(f"/subjects/{subject}/versions/3")
        assert shown["schemaType"] == type
        for same in (text, shown["schema"]):
            answer = await context.try_register(subject, same, schemaType=type)
            assert (answer.json["id"], answer.json["guid"]) == (shown["id"], shown["guid"])
        if type != PROTOBUF:
            assert json.loads(shown["schema"]) == json.loads(text)
        assert await context.get(f"/subjects/{subject}/versions") == [3]
        assert (await node.send("GET", xid)).body == text.encode()
        native = await node.get(f"{xid}$details?inline=*")
        assert native["description"] == "by a native client"
        assert native["confluent"]["id"] == shown["id"]
        await node.put(f"{xid}$details", native)
        assert without_time(await context.get(f"/subjects/{subject}/versions/3")) == without_time(
            shown
        )
        assert (await node.send("GET", xid)).body == text.encode()
