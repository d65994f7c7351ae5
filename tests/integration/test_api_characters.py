"""Characters that no text here can have are refused in every part of every request, by 400.

PostgreSQL stores no U+0000, and UTF-8 has no lone surrogates.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any

import orjson
import pytest
import pytest_asyncio

from replication.routes import routes as replication_routes
from tests.integration.conftest import Node, start_node
from tests.integration.test_api_hostile import raw

pytestmark = pytest.mark.asyncio(loop_scope="module")

ENTITIES = [
    "/",
    "/messagegroups",
    "/messagegroups/{x}",
    "/messagegroups/g/messages/{x}",
    "/messagegroups/g/messages/m/versions/{x}",
    "/schemagroups/s/schemas/{x}",
    "/schemagroups/s/schemas/{x}$details",
    "/endpoints/{x}",
]
QUERY = ["after", "filter", "link", "name", "uri", "set", "a%00b"]
ODD = ["%00", "a%00b", "%FF", "%ED%A0%80", "\xff"]
SUBSCRIPTION = {
    "id": "s",
    "sink": "http://127.0.0.1:1/a?b=c",
    "source": "http://127.0.0.1",
    "types": ["t"],
    "config": {"interval": 1},
    "filters": [{"exact": {"subject": "x"}}, {"not": {"prefix": {"type": "x"}}}],
    "protocol": "HTTP",
    "protocolsettings": {
        "method": "POST",
        "headers": {"X-A": "v"},
        "contentmode": "batched",
        "compression": "gzip",
    },
    "sinkcredential": {"credentialtype": "PLAIN", "identifier": "i", "secret": "s"},
}
ACCEPTED = {"mode": "accept", "authority": "urn:a", "authorities": ["urn:a", "urn:b"]}
LINK = {
    "id": "l",
    "source": "http://127.0.0.1:1/a",
    "mode": "pull",
    "authorities": ["urn:a"],
    "scope": ["/messagegroups/g"],
}
ORIGINS = {"origins": [{"authority": "urn:a", "origin": "/messagegroups/g"}]}
DOCUMENT = {"messagegroups": {"n": {"name": "n", "messages": {"m": {"name": "n", "x": ["y"]}}}}}
MODEL = {"groups": {"dirs": {"singular": "dir", "description": "d", "attributes": {"a": {}}}}}
SERVICE = {
    "id": "5e0cf5d4-7a6c-4d2e-8a3f-0f5a0f0a0f0a",
    "name": "n",
    "description": "d",
    "protocols": ["HTTP"],
    "subscriptionurl": "https://e.example/s",
    "events": [{"type": "t", "datacontenttype": "a/b", "description": "d"}],
}
DEFINITION = {"id": "d", "description": "x", "definition": {"attributes": {"type": {"value": "t"}}}}
BODIES: list[tuple[str, str, Any]] = [
    ("POST", "/subscriptions", SUBSCRIPTION),
    ("PUT", "/subscriptions/kept", SUBSCRIPTION),
    ("POST", "/replication/links?force", LINK),
    ("PUT", "/replication/links/l", LINK),
    ("POST", "/replication/links", ACCEPTED),
    ("POST", "/replication/fetch", ORIGINS),
    ("POST", "/replication/repair", ORIGINS),
    ("POST", "/apply", DOCUMENT),
    ("POST", "/apply?set=x", {"$keep": ["/messagegroups/g"]}),
    ("PATCH", "/", DOCUMENT | {"name": "n"}),
    ("POST", "/", DOCUMENT),
    ("DELETE", "/messagegroups", {"none": {"epoch": 1}}),
    ("PUT", "/modelsource", MODEL),
    ("PATCH", "/", {"modelsource": MODEL}),
    ("PUT", "/capabilities", {"flags": ["inline"], "available": {"entities": {"mutable": True}}}),
    ("PATCH", "/capabilities", {"flags": ["inline"]}),
    ("POST", "/validate/messagegroups/g/messages/m", {"specversion": "1.0", "id": "1", "x": "y"}),
    ("POST", "/services", [SERVICE]),
    ("PUT", "/services/5e0cf5d4-7a6c-4d2e-8a3f-0f5a0f0a0f0a", SERVICE),
    ("DELETE", "/services", [SERVICE]),
    ("PUT", "/messagecatalog/c", {"format": "CloudEvents", "description": "d"}),
    ("POST", "/messagecatalog/g/messagedefinitions", DEFINITION),
    ("PUT", "/messagecatalog/g/messagedefinitions/d", DEFINITION),
    ("POST", "/registry/0.4/schemaGroups", {"id": "t", "description": "d"}),
    ("PUT", "/registry/0.4/schemaGroups/t", {"description": "d"}),
    ("DELETE", "/registry/0.4/schemaGroups", [{"id": "none"}]),
    ("POST", "/registry/0.4", {"schemaGroups": {"t": {"id": "t", "description": "d"}}}),
]
HEADERS = [
    *("xRegistry-name", "xRegistry-labels.a", "xRegistry-", "Registry-id", "Registry-description"),
    *("Content-Type", "If-Match", "If-None-Match", "Accept", "Prefer", "Cache-Control", "Origin"),
    *("WebHook-Request-Origin", "WebHook-Request-Callback", "Access-Control-Request-Headers"),
    *("X-Forwarded-For", "X-Forwarded-Host", "Forwarded", "Authorization", "ce-type", "ce-id"),
    *("Content-Encoding", "Range", "Sec-Fetch-Site"),
]
VALUES = [b"a\xffb", b"%00", "a\u00e9b".encode(), b"%ED%A0%80"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(shared_database_url: str) -> AsyncIterator[Node]:
    async with start_node(
        shared_database_url,
        routes=replication_routes,
        allow_private_addresses=True,
        cors_origins="https://page.example",
    ) as running:
        await running.put("/messagegroups/g/messages/m", {})
        await running.put("/schemagroups/s/schemas/s$details", {"format": "f", "schema": {}})
        yield running


async def state_of(node: Node) -> object:
    return [
        await node.state(),
        *[await node.get(path) for path in ("/subscriptions", "/replication/links", "/services")],
    ]


def paths_of(node: Node) -> list[str]:
    """Every path of the routing table, with `{x}` for one value in it at a time."""
    found = {*ENTITIES}
    for resource in node.client.app.router.resources():
        canonical = resource.canonical.removesuffix("{end}")
        if canonical.startswith("/confluent/contexts/{context}/"):
            continue  # has the handlers of the paths without a context
        names = re.findall(r"\{(\w+)", canonical)
        for name in names or [""]:
            path = re.sub(rf"\{{{name}[^}}]*\}}", "{x}", canonical) if name else ""
            found.add(re.sub(r"\{(?!x\})[^}]*\}", "g", path or canonical))
    return sorted(found)


def request_of(method: str, path: str, body: bytes = b"", headers: Iterable[bytes] = ()) -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    named = b"".join(header + b"\r\n" for header in headers)
    return head.encode("latin-1") + named + b"Connection: close\r\n\r\n" + body


async def ask(node: Node, requests: Iterable[tuple[str, bytes]]) -> list[str]:
    """The requests that were not answered as they should be."""
    free, wrong = asyncio.Semaphore(8), []

    async def send(name: str, content: bytes) -> None:
        async with free:
            try:
                status, _, body = await raw(node, content, wait=10)
            except TimeoutError:
                wrong.append(f"{name}: no answer")
                return
        is_explained = b'"type"' in body or b'"error_code"' in body or name.startswith("HEAD ")
        if status >= 500 or (status >= 400 and not is_explained):
            wrong.append(f"{name}: {status} {body[:300]!r}")
        if "\0" in name and status not in (400, 404, 405, 410, 415):
            wrong.append(f"{name}: {status} {body[:300]!r}")

    async with asyncio.TaskGroup() as tasks:
        for name, content in requests:
            tasks.create_task(send(name, content))
    return wrong


JSON = [b"Content-Type: application/json"]
METHODS = ("GET", "PUT", "POST", "DELETE", "OPTIONS")


async def test_in_every_path(node: Node) -> None:
    before = await state_of(node)
    requests = [
        (f"{method} {path} {odd!r}", request_of(method, path.replace("{x}", odd), b"{}", JSON))
        for path in paths_of(node)
        if "{x}" in path
        for odd in ODD
        for method in METHODS
    ]
    assert len(requests) > 500
    assert await ask(node, requests) == []
    assert await state_of(node) == before


async def test_in_every_query(node: Node) -> None:
    before = await state_of(node)
    requests = [
        (f"{method} {path} {name} {odd!r}", request_of(method, f"{path}?{name}={odd}", b"{", JSON))
        for path in (each.replace("{x}", "g") for each in paths_of(node))
        for odd in ("a%00b", "%FF", "\xff")
        for name in (QUERY if odd == "a%00b" else ["after"])
        for method in ("GET", "POST")
    ]
    assert await ask(node, requests) == []
    assert await state_of(node) == before


async def test_in_every_header(node: Node) -> None:
    requests = [
        (f"{method} {path} {name} {value!r}", request_of(method, path, body, [line]))
        for path, body in (
            ("/schemagroups/s/schemas/h", b"x"),
            ("/messagegroups/h", b"{}"),
            ("/registry/0.4/schemaGroups/h/schemas", b"x"),
            ("/notifications", b""),
            ("/services", b"[]"),
            ("/validate/messagegroups/g/messages/m", b"{}"),
            ("/", b"{}"),
        )
        for name in HEADERS
        for value in VALUES
        for line in (name.encode() + b": " + value,)
        for method in (METHODS if value == VALUES[0] else ("PUT", "POST"))
    ]
    assert await ask(node, requests) == []
    # What was written can be read again.
    for path in ("/export", "/?inline=*", "/services", "/registry/0.4/schemaGroups/h"):
        assert (await node.send("GET", path)).status in (200, 404)


def mutations(value: Any, text: str) -> Iterator[Any]:
    """The value with `text` put into each of its strings and names, one at a time."""
    match value:
        case str():
            yield f"{value}{text}"
        case dict():
            for name, inner in value.items():
                yield {(f"{n}{text}" if n == name else n): v for n, v in value.items()}
                for mutated in mutations(inner, text):
                    yield {**value, name: mutated}
            yield {**value, f"x{text}": "y"}
        case list():
            for place, inner in enumerate(value):
                for mutated in mutations(inner, text):
                    yield [*value[:place], mutated, *value[place + 1 :]]


@pytest.mark.parametrize("escaped", [b"\\u0000", b"\\ud800", b"\\udc00\\ud800", b"\xff", b"\0"])
async def test_in_every_part_of_a_body(node: Node, escaped: bytes) -> None:
    before = await state_of(node)
    marked = "\ue000"
    requests = [
        (f"{method} {path} {mark} {mutated}", request_of(method, path, body, JSON))
        for method, path, content in BODIES
        # A message that does not conform is told so.
        for mark in ("" if "validate" in path else "\0",)
        for mutated in mutations(content, marked)
        for body in (orjson.dumps(mutated).replace(marked.encode(), escaped),)
    ]
    assert len(requests) > 100
    assert await ask(node, requests) == []
    assert await state_of(node) == before


@pytest.mark.parametrize("escaped", [b"\\0", b"\\ud800", b"\\x00", b"\xff"])
async def test_in_documents_of_other_types(node: Node, escaped: bytes) -> None:
    before = await state_of(node)
    marked = "\ue000"
    types = ("application/cloudevents-registry+json", "application/cloudevents-registry+yaml")
    requests = [
        (f"POST {path} {groups}", request_of("POST", path, body, [header]))
        for path in ("/", "/apply")
        for groups in mutations(DOCUMENT["messagegroups"], marked)
        for body in (orjson.dumps({"messagegroups": groups}).replace(marked.encode(), escaped),)
        for header in (f"Content-Type: {each}".encode() for each in types)
    ]
    assert await ask(node, requests) == []
    assert await state_of(node) == before
