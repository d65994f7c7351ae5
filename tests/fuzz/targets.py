"""The parsers of what strangers send, each as a function of bytes.

A target raises nothing: errors that its parser documents are its answers. Whatever else it raises
is a fault of the parser.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
from multidict import CIMultiDict

from catalog import cesql
from catalog.api.metadataheaders import decode_header, metadata_from
from catalog.api.requesttarget import parse_path
from catalog.documents.downgrade import downgrade
from catalog.documents.losses import find_losses
from catalog.documents.migration import EDITIONS, migrate, root_of
from catalog.documents.serialization import NotParsable, parse_json, parse_yaml
from catalog.http.allowedaddresses import why_refused
from catalog.http.route import checked
from catalog.messages.message import read_binary_event, read_json_message
from catalog.messages.values import Template, media_type_fits
from catalog.model.attributereference import EntityKind
from catalog.model.caller import node_caller
from catalog.model.entity import Entity
from catalog.model.errors import XRegistryError
from catalog.model.filter import parse_filters, parse_sort
from catalog.model.interaction import Interaction
from catalog.model.modelsource import default_model, load_model
from catalog.model.xid import Xid
from catalog.operations.subscriptions import NewSubscription
from catalog.settings import Settings
from catalog.subscriptions.delivery.filters import FilterError, compile_filters
from catalog.subscriptions.requests import credential_in, definition_of, unmasked
from catalog.subscriptions.sinks.protocols import PROTOCOLS
from replication.feed.feedlines import read_line, write_copy
from tests.fuzz.requests import SUBSCRIPTION_BODIES

DOCUMENTS = Path(__file__).parents[1] / "documents"

Target = Callable[[bytes], None]


def feed_line(data: bytes) -> None:
    """A line of another catalog's feed; a copy that is read can be written, and read as equal."""
    copy = read_line(data)
    if isinstance(copy, Entity):
        try:
            again = write_copy(copy)
        except orjson.JSONEncodeError:
            return
        assert read_line(again) == copy


def query_filter(data: bytes) -> None:
    """The value of `?filter`, and of `?sort`."""
    text, kind = _text(data), EntityKind(model=default_model(), groups="schemagroups")
    with suppress(XRegistryError):
        parse_filters([text], kind)
    with suppress(XRegistryError):
        parse_sort(text, kind)


def subscription_filter(data: bytes) -> None:
    """The filters of a subscription, compiled and tried on an event."""
    try:
        filters = parse_json(data)
    except NotParsable:
        return
    if not isinstance(filters, list):
        return
    try:
        matches = compile_filters(filters)
    except FilterError:
        return
    matches({"type": "t", "source": "s", "subject": "/messagegroups/g", "id": "1"})


def subscription_body(data: bytes) -> None:
    """A subscription as a client proposes it, by any protocol."""
    try:
        value = parse_json(data)
    except NotParsable:
        return
    with suppress(XRegistryError):
        wanted = checked(NewSubscription, value, "/subscriptions")
        given = definition_of(wanted, "/subscriptions")
        definition = unmasked(given, None, "/subscriptions")
        protocol = PROTOCOLS[definition.protocol]
        schemes, most = protocol.schemes[definition.protocol], protocol.most_hosts
        why_refused(definition.sink, _settings(), schemes=schemes, most_hosts=most)
        credential_in(wanted)


def cesql_expression(data: bytes) -> None:
    """An expression of CloudEvents SQL, evaluated for an event."""
    try:
        expression = cesql.parse(_text(data))
    except cesql.ParseError:
        return
    expression.evaluate({"type": "t", "source": "s", "id": "1", "subject": "", "hops": 2**40})


def json_document(data: bytes) -> None:
    """A document of any edition as JSON, migrated and written in every edition."""
    try:
        document = parse_json(data)
    except NotParsable:
        return
    _migrate(document)


def yaml_document(data: bytes) -> None:
    """A document of any edition as YAML, migrated and written in every edition."""
    try:
        document = parse_yaml(data)
    except NotParsable:
        return
    _migrate(document)


def _migrate(document: object) -> None:
    if not isinstance(document, dict):
        return
    newest = migrate(document, keep_unknown=True).document
    find_losses(newest)
    interaction = Interaction(caller=node_caller())
    try:
        interaction.put_registry(default_model(), root_of(newest), patch=False)
    except XRegistryError:
        return
    if interaction.violations:
        return
    # Only what a node has accepted is written in older editions.
    for edition in EDITIONS:
        downgrade(newest, edition)


def model_source(data: bytes) -> None:
    """A model as a client sends it."""
    try:
        source = parse_json(data)
    except NotParsable:
        return
    if isinstance(source, dict):
        with suppress(XRegistryError):
            load_model(source)


def metadata_headers(data: bytes) -> None:
    """A version's metadata as headers, a name and a value in each line."""
    kind = default_model().groups["schemagroups"].resources["schemas"]
    # A mocked request of aiohttp cannot have the bytes above 0x7F that a real one can.
    request: Any = SimpleNamespace(headers=CIMultiDict(_lines(data)), path="/schemagroups")
    with suppress(XRegistryError):
        metadata_from(request, kind)


def message(data: bytes) -> None:
    """A message as JSON, and an event in HTTP headers."""
    with suppress(XRegistryError, orjson.JSONDecodeError):
        read_json_message(orjson.loads(data), "HTTP")
    with suppress(XRegistryError):
        read_binary_event(_lines(data), data)


def template(data: bytes) -> None:
    """A template of URIs and a text that may fit it, in two lines."""
    pattern, _, text = _text(data).partition("\n")
    parsed = Template.parse(pattern)
    assert parsed.fits(text) or not parsed.is_constant or text != pattern
    media_type_fits(pattern, text)


def request_path(data: bytes) -> None:
    """The raw path of a request, and the path of an entity."""
    text = "/" + _text(data)
    with suppress(XRegistryError):
        parse_path(text, default_model())
    with suppress(ValueError):
        assert str(Xid.parse(text)) == text
    with suppress(ValueError):
        decode_header(text)


TARGETS: dict[str, Target] = {
    target.__name__: target
    for target in (
        feed_line,
        query_filter,
        subscription_filter,
        subscription_body,
        cesql_expression,
        json_document,
        yaml_document,
        model_source,
        metadata_headers,
        message,
        template,
        request_path,
    )
}


@cache
def seeds() -> dict[str, list[bytes]]:
    """Valid input of each target, to begin from."""
    json_documents = [path.read_bytes() for path in sorted(DOCUMENTS.rglob("*.json"))]
    small = [text for text in json_documents if len(text) < 50_000]
    return {
        "feed_line": [
            b'{"xid":"/messagegroups/g","kind":"group","authority":"a","origin":"/messagegroups/g"'
            b',"epoch":1,"createdat":"2020-01-01T00:00:00Z","modifiedat":"2020-01-01T00:00:00Z"'
            b',"attributes":{},"digest":"00","document":"AAEC"}',
            b'{"xid":"/messagegroups/g","kind":"group","authority":"a","origin":"/messagegroups/g"'
            b',"epoch":1,"deleted":true,"deletedat":"2020-01-01T00:00:00Z","digest":"00"}',
            b'{"cursor":"c"}',
        ],
        "query_filter": [
            b"name=a*,epoch>=3",
            b"schemas.versions.labels.x!=null",
            b"schemas.labels['a.b']=\\,",
            b"name=desc",
        ],
        "subscription_filter": [
            b'[{"exact":{"type":"t"}},{"prefix":{"subject":"/m"}},{"suffix":{"id":"1"}}]',
            b'[{"all":[{"any":[{"not":{"exact":{"source":"s"}}}]}]}]',
        ],
        "subscription_body": [*map(orjson.dumps, SUBSCRIPTION_BODIES)],
        "json_document": small,
        "yaml_document": [path.read_bytes() for path in sorted(DOCUMENTS.rglob("*.yaml"))],
        "model_source": [
            orjson.dumps(
                {
                    "groups": {
                        "dirs": {
                            "singular": "dir",
                            "resources": {"files": {"singular": "file", "maxversions": 2}},
                            "attributes": {
                                "x": {
                                    "type": "object",
                                    "attributes": {"y": {"type": "map", "item": {"type": "uri"}}},
                                },
                                "z": {
                                    "type": "string",
                                    "enum": ["a"],
                                    "ifvalues": {
                                        "a": {"siblingattributes": {"b": {"type": "any"}}}
                                    },
                                },
                            },
                        }
                    }
                }
            )
        ],
        "metadata_headers": [
            b"xRegistry-name: a\nxRegistry-labels.x: %C3%A9\nxRegistry-epoch: 3",
            b"Content-Type: text/plain\nxRegistry-versionid: null",
        ],
        "message": [
            b'{"specversion":"1.0","id":"1","type":"t","source":"/s","data":{"a":1}}',
            b'{"headers":[{"name":"a","value":"b"}],"payload_base64":"AAEC"}',
            b'ce-type: "a%20b"\ncontent-type: application/json',
        ],
        "cesql_expression": [
            b"NOT id LIKE 'a%_' AND -1 + INT(hops) IN (1, '2')",
            b"EXISTS subject OR SUBSTRING(type, 1, 2) <> CONCAT_WS(',', id)",
        ],
        "template": [b"/a/{b}/c{+d}\n/a/x/cy", b"application/*+json; a=b\napplication/x+json"],
        "request_path": [b"schemagroups/g/schemas/s/versions/1$details", b"%7e/%C3%A9"],
    }


@cache
def _settings() -> Settings:
    return Settings()


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _lines(data: bytes) -> Iterator[tuple[str, str]]:
    for line in _text(data).splitlines():
        name, _, value = line.partition(":")
        if name.strip():
            yield name.strip(), value.strip()
