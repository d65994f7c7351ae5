"""Laws of AsyncAPI documents: import, export, import is stable, and nothing is lost on the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.commands.documentfile import read_document
from catalog.documents.asyncapi.fromentities import EDITIONS, from_entities
from catalog.documents.asyncapi.toentities import to_entities

DOCUMENTS = sorted((Path(__file__).parents[1] / "documents").glob("*/*.*"))
KEYS = st.sampled_from(["a", "A", "schema", "b.c", "light/on", "x~y", "ä", "1"])
TEXT = st.sampled_from(["T", "two words", "", "über\n" * 400, "env:prod", "a:a"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=2),
    max_leaves=4,
)


def some(required: dict[str, Any], /, **optional: Any) -> st.SearchStrategy[dict[str, Any]]:
    """Objects with all required members and some of the optional ones, with an extension."""
    return st.fixed_dictionaries(required, optional={**optional, "x-a": JSON})


def reference(*kind: str) -> st.SearchStrategy[dict[str, Any]]:
    path = "/".join(kind)
    return KEYS.map(lambda key: {"$ref": f"#/{path}/{key.replace('~', '~0').replace('/', '~1')}"})


DOCS = some({"url": st.sampled_from(["https://a.example/x", "not a url"])}, description=TEXT)
TAGS = st.lists(some({"name": TEXT}, description=TEXT), max_size=3)
DESCRIBED = {"description": TEXT, "tags": TAGS, "externalDocs": DOCS}
TITLED = {**DESCRIBED, "title": TEXT, "summary": TEXT}
SCHEMA_REFERENCE = reference("components", "schemas")
PLAIN_SCHEMA = some({"type": st.sampled_from(["string", "object"])}, const=TEXT, default=JSON)
SCHEMAS = PLAIN_SCHEMA | some(
    {"type": st.just("object")},
    properties=st.dictionaries(KEYS, PLAIN_SCHEMA | SCHEMA_REFERENCE, max_size=3),
    required=st.just(["a"]),
    definitions=st.dictionaries(KEYS, PLAIN_SCHEMA, max_size=2),
)
AVRO = st.just({"type": "record", "name": "R", "fields": []})
FORMATS = [
    "application/vnd.apache.avro;version=1.9.0",
    "application/vnd.apache.avro+json;version=1",
]
MULTI = st.fixed_dictionaries({"schemaFormat": st.sampled_from(FORMATS), "schema": AVRO})
BINDINGS = some(
    {},
    kafka=some({}, groupId=PLAIN_SCHEMA, key=PLAIN_SCHEMA, topic=TEXT, partitions=st.just(3)),
    mqtt=some({}, qos=st.integers(0, 3), retain=st.booleans(), responseTopic=TEXT),
    amqp=some({}, ack=st.booleans(), priority=st.integers(0, 9), queue=some({"name": TEXT})),
    nats=some({}, queue=TEXT),
    http=some({}, method=st.sampled_from(["GET", "POST"]), query=PLAIN_SCHEMA),
)


def messages(payload: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return some(
        {},
        **TITLED,
        name=TEXT,
        contentType=st.sampled_from(["application/json", "text/plain"]),
        payload=payload,
        headers=SCHEMAS,
        bindings=BINDINGS,
        correlationId=some({"location": st.just("$message.header#/id")}),
    )


MESSAGES = messages(SCHEMAS | MULTI | SCHEMA_REFERENCE)
PROTOCOLS = ["kafka", "kafka-secure", "mqtt", "mqtt5", "amqp", "amqp1", "nats", "http", "ws"]
SERVER = {
    "protocol": st.sampled_from(PROTOCOLS),
    "protocolVersion": st.sampled_from(["5", "1.0"]),
    "security": st.just([{"type": "scramSha256"}, {"type": "apiKey", "in": "user"}]),
    "variables": st.just({"v": {"default": "x"}}),
}


def several(value: st.SearchStrategy[Any], least: int = 0) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(KEYS, value, min_size=least, max_size=3)


@st.composite
def newer(draw: st.DrawFn) -> dict[str, Any]:
    """Documents of 3.0 whose references lead to what is there."""
    hosts = st.sampled_from(["h:1", "a:1,b:2", "{v}.example"])
    document = draw(
        some(
            {
                "info": some({"title": st.just("T"), "version": st.just("1")}, **DESCRIBED),
                "servers": several(some({**SERVER, "host": hosts}, **TITLED), 1),
                "channels": several(
                    some(
                        {
                            "address": st.none() | TEXT,
                            "messages": several(MESSAGES | reference("components", "messages"), 1),
                        },
                        **TITLED,
                        bindings=BINDINGS,
                        parameters=st.just({"p": {"enum": ["x"]}}),
                    ),
                    1,
                ),
                "components": st.fixed_dictionaries(
                    {"schemas": several(SCHEMAS | MULTI), "messages": several(MESSAGES)},
                    optional={"correlationIds": several(some({"location": TEXT}))},
                ),
            },
            defaultContentType=st.just("application/json"),
        )
    )
    operations = {}
    for key, channel in document["channels"].items():
        if draw(st.booleans()):
            channel["servers"] = [
                _pointer("servers", draw(st.sampled_from([*document["servers"]])))
            ]
        operations[key] = {
            **draw(some({"action": st.sampled_from(["send", "receive"])}, **TITLED)),
            "channel": _pointer("channels", key),
            "messages": [
                _pointer("channels", key, "messages", each) for each in channel["messages"]
            ],
        }
    return _without_dangling({**document, "asyncapi": "3.0.0", "operations": operations})


@st.composite
def older(draw: st.DrawFn) -> dict[str, Any]:
    """Documents of 2.6."""
    own = messages(SCHEMAS | SCHEMA_REFERENCE)
    own |= messages(AVRO).map(lambda each: {**each, "schemaFormat": FORMATS[0]})
    message = own | reference("components", "messages")
    operation = some(
        {"message": message | st.fixed_dictionaries({"oneOf": st.lists(message, min_size=1)})},
        **DESCRIBED,
        bindings=BINDINGS,
    )
    urls = st.sampled_from(["mqtt://h:1/p", "h:1", "{v}.example"])
    document = draw(
        some(
            {
                "info": some({"title": st.just("T"), "version": st.just("1")}, description=TEXT),
                "servers": several(some({**SERVER, "url": urls, "security": st.just([{"s": []}])})),
                "channels": several(some({}, publish=operation, subscribe=operation)),
                "components": st.fixed_dictionaries(
                    {
                        "schemas": several(SCHEMAS),
                        "messages": several(own),
                        "securitySchemes": st.just({"s": {"type": "X509"}}),
                    }
                ),
            },
            tags=TAGS,
        )
    )
    return _without_dangling({**document, "asyncapi": "2.6.0"})


def _pointer(*steps: str) -> dict[str, str]:
    escaped = (step.replace("~", "~0").replace("/", "~1") for step in steps)
    return {"$ref": "#/" + "/".join(escaped)}


def _without_dangling(document: dict[str, Any]) -> dict[str, Any]:
    """A document with an empty component for every reference to a component."""
    for value in [*_values(document)]:
        target = value.get("$ref", "") if isinstance(value, dict) else ""
        if target.startswith("#/components/"):
            _, _, kind, key = target.split("/")
            key = key.replace("~1", "/").replace("~0", "~")
            document["components"].setdefault(kind, {}).setdefault(key, {})
    return document


def _values(value: Any) -> Iterator[Any]:
    yield value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for each in inner:
        yield from _values(each)


def _leaves(document: Any) -> Counter[str]:
    leaves = (each for each in _values(document) if not isinstance(each, dict | list))
    return Counter(str(each) for each in leaves if not str(each).startswith("#/"))


def _stored(groups: Any) -> Any:
    """Groups as a database returns them: the order of members is another one."""
    return orjson.loads(orjson.dumps(groups, option=orjson.OPT_SORT_KEYS))


def assert_stable(groups: Any) -> None:
    for edition in EDITIONS:
        exported = from_entities(_stored(groups), title="T", edition=edition)
        again = to_entities(exported.document)
        if edition == EDITIONS[0]:
            assert again.groups == groups
        elif not again.losses:
            further = from_entities(_stored(again.groups), title="T", edition=edition)
            assert to_entities(further.document).groups == again.groups


@settings(max_examples=50)
@given(newer() | older())
def test_import_export_import_is_stable(document: dict[str, Any]) -> None:
    translated = to_entities(document)
    assert translated.losses == ()
    assert_stable(translated.groups)


@settings(max_examples=50)
@given(newer())
def test_an_export_has_every_value_of_the_imported_document(document: dict[str, Any]) -> None:
    groups = to_entities(document).groups
    exported = from_entities(_stored(groups), title="T")
    assert exported.losses == ()
    assert not _leaves(document) - _leaves(exported.document)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_published_documents_are_stable_and_name_their_losses(path: Path) -> None:
    document = read_document(path, migrate=True)
    assert not document.is_asyncapi or document.losses == ()
    exported = from_entities(_stored(document.groups), title="T")
    assert_stable(to_entities(exported.document).groups)
