"""Requests that build state and break rules, the same ones for the same seed.

Half of them are valid for their route, so that later ones meet entities, links and subscriptions;
the others are mutated in path, query, headers, method or body. No request depends on an answer, so
request number N of a seed is the same in every run, save for the names that only a node can choose
(`tests/fuzz/nodenames.py`).
"""

from __future__ import annotations

import random
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson

DOCUMENTS = Path(__file__).parents[1] / "documents"

_PLACEHOLDER = re.compile(r"\{(\w+)\}")
# Names that a node has chosen itself stand for these. Some commands ask for one that is not there.
_SUBSCRIPTIONS = (*(f"~subscription{place}" for place in (0, 0, 1, 2, 3)), "a")
_NAMED = {"id": _SUBSCRIPTIONS, "key": ("~key", "~key", "a"), "number": ("~number", "~number", "1")}
_IDS = ("a", "b", "A", "c1", "x~y:z@w", "request", "null", "1", "2", "first")
_JSON = "application/json"
_MEDIA_TYPES = (
    *(_JSON, "application/cloudevents+json", "text/plain", "application/octet-stream", ""),
    *("application/yaml", "application/x-ndjson", "application/xregistry+json", "*/*", "a/b;c"),
)
_FLAGS = (
    *("inline", "filter", "sort", "limit", "epoch", "doc", "binary", "collections", "ignore"),
    *("setdefaultversionid", "specversion", "prune", "dryrun", "scope", "set", "import", "after"),
    *("wait", "authority", "from", "to", "format", "verify", "name", "uri", "link", "force"),
    *("page", "count", "event_type", "matches", "pagetoken", "key"),
)
_HEADERS = (
    *("If-Match", "If-None-Match", "Accept", "Content-Type", "Content-Encoding", "Origin"),
    *("Accept-Encoding", "Cache-Control", "Prefer", "Range", "X-Forwarded-For", "ce-type"),
    *("ce-specversion", "xRegistry-name", "xRegistry-epoch", "xRegistry-labels.a"),
    *("xRegistry-versionid", "xRegistry-schemaurl", "Registry-name", "WebHook-Request-Origin"),
    *("WebHook-Allowed-Rate",),
)
_TEXTS = (
    *("", "*", "null", "true", "0", "1", "-1", "1e400", "9" * 400, "a" * 5000, "..", "%00", "%FF"),
    *("\0", "\x1b[31m", "\u202e", "é", "\U0001f600", "a=b", "a*", "a,b", "'", '"', "\\", "{", "["),
    *("/messagegroups/a", "/messagegroups/a/messages/a", "http://127.0.0.1:1/", "urn:x", "//x"),
    *("2020-01-01T00:00:00Z", "9999-12-31T23:59:60Z", "0001-01-01T00:00:00+23:59", "AAEC", "{a}"),
    *("JsonSchema/draft-07", "Avro/1.12", "Protobuf/3", "XSD/1.0", "CloudEvents/1.0", "HTTP"),
)
_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2**31, 2**53, 2**63 - 1, 2**64 - 1, 1.5, 1e308, [], {}),
    *([[]], {"": None}, {"a": {"a": {"a": {"a": []}}}}, ["a"] * 50, *_TEXTS),
)


@dataclass(frozen=True, slots=True)
class Route:
    """A method and a path template, with what its valid bodies look like."""

    method: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FuzzedRequest:
    """A request as it is sent. `path` is encoded; `route` is the template that it comes from."""

    method: str
    path: str
    route: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    def as_curl(self, url: str) -> str:
        """The command that sends it again, if its body is text."""
        headers = [f"-H {shlex.quote(f'{name}: {value}')}" for name, value in self.headers.items()]
        body = shlex.quote(self.body.decode("utf-8", "backslashreplace"))
        target = shlex.quote(url + self.path)
        return " ".join(["curl -X", self.method, *headers, "--data-binary", body, target])


def routes_of(openapi: Mapping[str, Any]) -> list[Route]:
    """Every operation that a node describes, except a stream without end."""
    return [
        Route(method.upper(), path)
        for path, operations in openapi["paths"].items()
        for method in operations
        if method in ("get", "put", "patch", "post", "delete", "options", "head")
        and path != "/-/events"
    ]


class RequestGenerator:
    """Generates the requests of one seed."""

    def __init__(self, routes: Sequence[Route], seed: int) -> None:
        self._routes = [route for route in routes for _ in range(_weight(route))]
        self._seed = seed
        self._documents = [
            orjson.loads(path.read_bytes())
            for path in sorted(DOCUMENTS.rglob("*.xreg.json"))
            if path.stat().st_size < 100_000
        ]

    def request(self, number: int) -> FuzzedRequest:
        randomness = random.Random(f"{self._seed}:{number}")
        route = randomness.choice(self._routes)
        names = _NAMED if route.path.startswith("/subscriptions/") else {}
        path = _PLACEHOLDER.sub(
            lambda found: quote(randomness.choice(names.get(found[1], _IDS))), route.path
        )
        valid = FuzzedRequest(method=route.method, path=path, route=route.path)
        if route.method in ("PUT", "PATCH", "POST"):
            body = orjson.dumps(self._body(route, randomness))
            valid = replace(valid, body=body, headers={"Content-Type": _JSON})
        if randomness.random() < 0.5:
            return valid
        for _ in range(randomness.randint(1, 3)):
            valid = randomness.choice(_MUTATIONS)(valid, randomness)
        return valid

    def _body(self, route: Route, randomness: random.Random) -> Any:
        for start, bodies in _BODIES.items():
            if f"{route.method} {route.path}".startswith(start) or route.path.startswith(start):
                return randomness.choice(bodies)
        return self._part_of_a_document(route, randomness)

    def _part_of_a_document(self, route: Route, randomness: random.Random) -> Any:
        """Entities of a real document, of the kind that the route takes."""
        document = randomness.choice(self._documents)
        if route.path == "/":
            return document
        for step in route.path.strip("/").split("/"):
            if not isinstance(document, dict):
                break
            if step.startswith("{") and document:
                document = randomness.choice(list(document.values()))
            elif step in document:
                document = document[step]
        return document if isinstance(document, dict) else {}


def _weight(route: Route) -> int:
    """Writes of what others need come often; what would end all others' state seldom."""
    if route.path in ("/modelsource", "/capabilities") or route.path.startswith("/~"):
        return 1
    if route.method == "DELETE" and route.path.count("{") == 0:
        return 1
    return 6 if route.method in ("PUT", "POST", "PATCH") else 3


def _service(**attributes: Any) -> dict[str, Any]:
    return {"name": "a", "protocols": ["HTTP"], "subscriptionurl": "http://x.example", **attributes}


_EVENT = {"specversion": "1.0", "id": "1", "type": "t", "source": "/s", "data": {"a": 1}}
_DEFINITION = {
    "id": "a",
    "definition": {
        "attributes": {
            "type": {"value": "t"},
            "dataschema": {"schematype": "JSON", "schema": {"type": "object"}},
        }
    },
}
_SUBSCRIPTION = {
    "sink": "http://127.0.0.1:1/",
    "protocol": "HTTP",
    "filters": [{"prefix": {"subject": "/messagegroups"}}],
    "sinkcredential": {
        "credentialtype": "ACCESSTOKEN",
        "accesstoken": "secret",
        "accesstokenexpiresutc": "2030-01-01T00:00:00Z",
        "accesstokentype": "Bearer",
    },
}
_REFRESHED = {
    **_SUBSCRIPTION["sinkcredential"],
    "credentialtype": "REFRESHTOKEN",
    "refreshtoken": "secret",
    "refreshtokenendpoint": "http://127.0.0.1:1/token",
}


def _subscription(sink: str = "http://127.0.0.1:1/", **attributes: Any) -> dict[str, Any]:
    return {"sink": sink, "protocol": "HTTP", **attributes}


SUBSCRIPTION_BODIES: tuple[Any, ...] = (
    _SUBSCRIPTION,
    _subscription(),
    # What nobody takes becomes a dead letter at once.
    _subscription(config={"from": "earliest", "order": "wait", "retry": {"attempts": 1}}),
    _subscription(
        config={"initialEvents": True, "retry": {"seconds": 0}, "batch": {"count": 5, "wait": 0.1}},
        protocolsettings={"contentmode": "batched", "compression": "gzip"},
    ),
    _subscription(
        protocolsettings={"signature": "hmac-sha256", "headers": {"X-B": "b"}},
        config={"startsAt": "2020-01-01T00:00:00Z", "expiresAt": "2100-01-01T00:00:00Z"},
    ),
    _subscription(protocolsettings={"headers": {"X-B": "***"}}),
    _subscription(protocolsettings={"signature": "ed25519"}, sinkcredential=_REFRESHED),
    _subscription(
        filters=[{"sql": "subject LIKE '/messagegroups/%' AND epoch > 1"}],
        config={"interval": 1, "maxEvents": 1},
        types=["io.xregistry.group.created", "concord.subscription.failing"],
    ),
    _subscription("https://sink.invalid/events?token=secret"),
    _subscription("kafka://127.0.0.1:1/t", protocol="KAFKA", config={"retry": {"attempts": 1}}),
    _subscription("nats://127.0.0.1:1", protocol="NATS", protocolsettings={"subject": "a.b"}),
    _subscription("mqtt://127.0.0.1:1", protocol="MQTT5", protocolsettings={"topicname": "a/b"}),
    _subscription("mqtt://127.0.0.1:1", protocol="MQTT3", protocolsettings={"topicname": "a/b"}),
    _subscription("amqp://127.0.0.1:1/queue", protocol="AMQP"),
)
_PLACES = ("earliest", "now", "2020-01-01T00:00:00Z", "1.1", "9223372036854775807.0")
_ORIGINS = {"origins": [{"authority": "urn:x", "origin": "/messagegroups/a"}]}
# The bodies of paths that the model does not define, by the beginning of the path, or of the method
# and the path.
_BODIES: Mapping[str, Sequence[Any]] = {
    "PATCH /subscriptions/{id}": (
        {"paused": True, "reason": "a"},
        {"paused": False},
        *({"cursor": place} for place in _PLACES),
    ),
    "/subscriptions/{id}/signingkeys": ({}, {"overlapseconds": 0}, {"overlapseconds": 60}),
    "/subscriptions/{id}/deadletters": (
        {},
        {"since": "2020-01-01T00:00:00Z"},
        {"number": "~number"},
    ),
    "/subscriptions/{id}/": ({},),
    "/subscriptions": SUBSCRIPTION_BODIES,
    "/replication/links": ({"id": "a", "source": "http://127.0.0.1:1", "mode": "pull"},),
    "/replication": (_ORIGINS,),
    "/notifications": (_EVENT,),
    "/validate": (_EVENT, {"protocol": "HTTP", "headers": [{"name": "a", "value": "b"}]}),
    "/services": ([_service()], _service(), [_service(name="b", events=[{"type": "t"}])]),
    "/messagecatalog/{groupid}/messagedefinitions": (_DEFINITION,),
    "/messagecatalog": ({"format": "CloudEvents"}, {"format": "AMQP"}),
    "/registry/0.4": ({"id": "a"}, {"id": "a", "format": "CloudEvents/1.0", "name": "n"}),
    "/capabilities": ({"pagination": True}, {"shortself": True}, {"mutable": ["*"]}),
    "/modelsource": (
        {"groups": {"dirs": {"singular": "dir", "resources": {"files": {"singular": "file"}}}}},
        {"groups": {}},
    ),
}

Mutation = Callable[[FuzzedRequest, random.Random], FuzzedRequest]


def _with_odd_path(request: FuzzedRequest, randomness: random.Random) -> FuzzedRequest:
    steps = request.path.split("/")
    at = randomness.randrange(len(steps))
    text = randomness.choice(_TEXTS)
    steps[at] = randomness.choice(
        (quote(text, safe=""), "", "%00", "%ff%fe", "$details", "meta", "versions", "a" * 300)
    )
    return replace(request, path="/" + "/".join(steps).lstrip("/"))


def _with_flags(request: FuzzedRequest, randomness: random.Random) -> FuzzedRequest:
    flags = [
        f"{randomness.choice(_FLAGS)}={quote(randomness.choice(_TEXTS)[:1000], safe='')}"
        for _ in range(randomness.randint(1, 3))
    ]
    return replace(request, path=f"{request.path.partition('?')[0]}?{'&'.join(flags)}")


def _with_headers(request: FuzzedRequest, randomness: random.Random) -> FuzzedRequest:
    name = randomness.choice(_HEADERS)
    texts = _MEDIA_TYPES if name in ("Accept", "Content-Type") else _TEXTS
    value = re.sub(r"[\0\r\n]", "", randomness.choice(texts))
    return replace(request, headers={**request.headers, name: value})


def _with_other_method(request: FuzzedRequest, randomness: random.Random) -> FuzzedRequest:
    methods = ("GET", "HEAD", "PUT", "PATCH", "POST", "DELETE", "OPTIONS", "QUERY")
    return replace(request, method=randomness.choice(methods))


def _with_odd_bytes(request: FuzzedRequest, randomness: random.Random) -> FuzzedRequest:
    body = bytearray(request.body)
    at = randomness.randrange(len(body) + 1)
    body[at : at + randomness.choice((0, 1, 2, 100))] = randomness.choice(
        (b"", b"\0", b"\xff", b'"', b"}", b"[" * 100, b'"\\ud800"', b'"\\u0000"', b"1e999")
    )
    return replace(request, body=bytes(body))


def _with_odd_values(request: FuzzedRequest, randomness: random.Random) -> FuzzedRequest:
    try:
        value = orjson.loads(request.body)
    except orjson.JSONDecodeError:
        return _with_odd_bytes(request, randomness)
    places = list(_places(value))
    if not places:
        return replace(request, body=orjson.dumps(randomness.choice(_VALUES)))
    holder, key = randomness.choice(places)
    match randomness.randrange(4):
        case 0:
            del holder[key]
        case 1:
            other, name = randomness.choice(places)
            # A value inside itself could not be written.
            holder[key] = orjson.loads(orjson.dumps(other[name])) if name in _keys(other) else None
        case 2 if isinstance(holder, dict):
            holder[randomness.choice(_TEXTS)] = holder.pop(key)
        case _:
            holder[key] = randomness.choice(_VALUES)
    return replace(request, body=orjson.dumps(value))


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every member of every object and array, as the holder and the key."""
    for key in _keys(value):
        yield value, key
        yield from _places(value[key])


def _keys(value: Any) -> Sequence[Any]:
    if isinstance(value, dict):
        return list(value)
    return range(len(value)) if isinstance(value, list) else ()


_MUTATIONS: tuple[Mutation, ...] = (
    _with_odd_path,
    _with_flags,
    _with_headers,
    _with_other_method,
    _with_odd_bytes,
    _with_odd_values,
    _with_odd_values,
)
