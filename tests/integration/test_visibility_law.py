"""A restricted client is answered as if the catalog had never held what is hidden."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import md5
from typing import Any
from urllib.parse import quote, urlsplit
from uuid import UUID

import asyncpg
import orjson
import pytest
import pytest_asyncio
from aiohttp import web
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from catalog.access.authentication import Authentication
from catalog.access.identity import EVERYBODY, Identity
from catalog.agents.mcproute import routes as agent_routes
from catalog.dialects.discovery.translate import service_id
from catalog.model.roles import PATH_PERMISSIONS, Permission, RuleGrant, covers
from catalog.model.xid import short_path
from catalog.monitoring.health import routes as monitoring_routes
from catalog.store.accessrules import AccessRule, add_rule, replace_paths
from replication.routes import routes as replication_routes
from tests.integration.conftest import Answer, Node, needs_of, start_node

pytestmark = pytest.mark.asyncio(loop_scope="module")

GROUPS = (
    "/endpoints/orders",
    "/endpoints/stock",
    "/messagegroups/orders",
    "/messagegroups/stock",
    "/schemagroups/orders",
    "/schemagroups/stock",
)
NOW = datetime(2026, 1, 1, tzinfo=UTC)
AUTHORITY = "https://catalog.example"
_HELD = ("entities", "documents", "tombstones", "changes", "revisions")
ROUTES = [*monitoring_routes, *replication_routes, *agent_routes]
# What differs between two answers of one node, too.
_PASSING = frozenset({"Date", "X-Request-ID", "Concord-Cursor", "Content-Length"})
PATHS = (*GROUPS, "/messagegroups/*", "/*/orders", "/*/st*k", "/endpoints/o*", "/message*/bill*")
RULES = st.lists(st.sampled_from(PATHS), max_size=3, unique=True).map(tuple)


@dataclass(frozen=True)
class Extra:
    """An entity beside those of every catalog, which may refer to others."""

    plural: str
    group: str
    name: str
    target: str

    @property
    def xid(self) -> str:
        return f"/{self.plural}/{self.group}/messages/{self.name}"


EXTRAS = st.lists(
    st.builds(
        Extra,
        plural=st.sampled_from(["endpoints", "messagegroups"]),
        group=st.sampled_from(["orders", "Stock", "billing"]),
        name=st.sampled_from(["paid", "moved"]),
        target=st.sampled_from(["", "orders", "stock"]),
    ),
    max_size=4,
    unique_by=lambda extra: extra.xid,
)


class KnownByRule(Authentication):
    """Takes the sender of a request for somebody with the one rule that its header names."""

    async def identify(self, request: web.Request) -> Identity:
        rule = request.headers.get("Authorization")
        if rule is None:
            return EVERYBODY
        return Identity("anonymous", rules=(RuleGrant(rule, "replicator"),))

    async def with_rules(self, identity: Identity) -> Identity:
        return identity


RESTRICTED: dict[str, Any] = {
    "routes": ROUTES,
    "public_url": AUTHORITY,
    "open": False,
    "address_requests_per_second": 0,
    "authentication": KnownByRule,
}


async def fill(node: Node) -> None:
    """Groups of all types, some of which refer to others; versions, documents, tombstones."""
    document = {"type": "object", "properties": {"id": {"type": "string"}}}
    answer = await node.send("PATCH", "/capabilities", {"shortself": True})
    assert answer.status == 200, answer.body
    for name in ("orders", "stock"):
        await node.put(f"/schemagroups/{name}", {"labels": {"team": name}})
        schema = f"/schemagroups/{name}/schemas/item"
        for version in ("1", "2"):
            await node.put(
                f"{schema}/versions/{version}$details",
                {"format": "JsonSchema/draft-07", "schema": document, "name": f"{name} {version}"},
            )
        await node.put(f"/messagegroups/{name}", {"name": name, "labels": {"team": name}})
        for message in ("created", "deleted", "gone"):
            await node.put(
                f"/messagegroups/{name}/messages/{message}",
                {
                    "envelope": "CloudEvents/1.0",
                    "envelopemetadata": {"type": {"value": f"com.{name}.{message}"}},
                    "dataschemaxid": schema,
                    "labels": {"team": name},
                },
            )
        await node.send("DELETE", f"/messagegroups/{name}/messages/gone")
        await node.put(
            f"/endpoints/{name}",
            {
                "name": name,
                "usage": ["subscriber"],
                "envelope": "CloudEvents/1.0",
                "messagegroups": [f"/messagegroups/{name}"],
            },
        )
    for here, there in (("orders", "stock"), ("stock", "orders")):
        await node.put(
            f"/endpoints/{here}/messages/borrowed/meta",
            {"xref": f"/messagegroups/{there}/messages/created"},
        )
        body = {"schema": _SOLD}
        answer = await node.send("POST", f"/confluent/subjects/:.{here}:sold/versions", body)
        assert answer.status == 200, answer.body
        await node.put(f"/confluent/config/:.{here}:", {"compatibility": "FULL"})
        await node.put(f"/confluent/mode/:.{here}:", {"mode": "READWRITE"})
    await node.put("/messagegroups/away", {})
    await node.send("DELETE", "/messagegroups/away")


async def add(node: Node, extra: Extra) -> None:
    """Add an entity: a message of its own, or a cross reference to one of another group."""
    # Ids are the same without regard to case.
    group = {"Stock": "stock"}.get(extra.group, extra.group)
    xid = extra.xid.replace(extra.group, group, 1)
    if extra.target and extra.plural == "endpoints":
        meta = {"xref": f"/messagegroups/{extra.target}/messages/created"}
        await node.put(f"{xid}/meta", meta)
    else:
        schema = f"/schemagroups/{extra.target}/schemas/item"
        refers = {"dataschemaxid": schema} if extra.target else {}
        await node.put(xid, {"labels": {"team": group}, "name": extra.name, **refers})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def base(shared_database_url: str) -> str:
    """A database that holds what every catalog does, which nobody is connected to."""
    async with start_node(shared_database_url, routes=ROUTES, public_url=AUTHORITY) as node:
        await fill(node)
    return shared_database_url


Copy = Callable[[str], Awaitable[str]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def copy(postgres_url: str) -> AsyncIterator[Copy]:
    """A function that copies a database that nobody is connected to."""
    server, made = await asyncpg.connect(postgres_url), []

    async def copied(database: str) -> str:
        name = f"visible_{secrets.token_hex(4)}"
        await server.execute(f'CREATE DATABASE "{name}" TEMPLATE "{urlsplit(database).path[1:]}"')
        made.append(name)
        return urlsplit(database)._replace(path=f"/{name}").geturl()

    yield copied
    for name in made:
        await server.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
    await server.close()


async def forget_hidden(database: str, seen: Collection[str]) -> None:
    """Make a database one that never held what these paths do not cover."""
    connection = await asyncpg.connect(database)
    for relation in _HELD:
        rows = await connection.fetch(f"SELECT DISTINCT xid FROM {relation} WHERE xid <> '/'")
        hidden = [row["xid"] for row in rows if not any(covers(path, row["xid"]) for path in seen)]
        await connection.execute(f"DELETE FROM {relation} WHERE xid = ANY ($1)", hidden)
    await connection.close()


@dataclass(frozen=True)
class Request:
    path: str
    method: str = "GET"
    body: Any = None


EVENT = {"specversion": "1.0", "id": "1", "source": "/s", "type": "com.orders.created"}
_FLAGS = (
    "",
    "?inline=*",
    "?inline=*&doc",
    "?filter=labels.team=orders",
    "?filter=name=stock&inline=*",
    "?sort=name=desc&limit=1",
    "?limit=1",
)
_COLLECTIONS = ("/endpoints", "/messagegroups", "/schemagroups")
_NAMES = ("orders", "stock", "billing")
_BELOW = (
    *("/endpoints/{}", "/endpoints/{}?doc&inline=*", "/endpoints/{}/messages"),
    *(f"/endpoints/{{}}/messages/borrowed{path}" for path in ("", "/meta", "/versions")),
    *("/endpoints/{}/messages/moved", "/messagegroups/{}/messages/paid?inline=meta"),
    *(f"/messagegroups/{{}}{path}" for path in ("", "?inline=*", "/messages/created")),
    *("/messagegroups/{}/messages/gone", "/messagegroups/{}/messages?filter=name=moved"),
    *("/schemagroups/{}", "/schemagroups/{}/schemas/item"),
    "/schemagroups/{}/schemas/item/versions?filter=name={} 2",
    "/schemagroups/{}/schemas/item$details?inline=versions",
)
_CATALOG = "/messagecatalog"
_GROUPS04 = "/registry/0.4/{groups}"
_ENTITY04 = f"{_GROUPS04}/{{gid}}/{{resources}}/{{rid}}"
_VALIDATED = "/validate/{groups}/{{{group}id}}/messages/{{messageid}}"


def each(*paths: str) -> list[str]:
    """Paths below groups of all names."""
    return [path.replace("{}", name) for path in paths for name in _NAMES]


def validations(plural: str, message: str, below: str = "") -> list[Request]:
    return [
        Request(f"/validate/{plural}/{name}/messages/{message}{below}", "POST", EVENT)
        for name in _NAMES
    ]


_SOLD = '{"type":"record","name":"Sold","fields":[]}'
_GUID = str(UUID(bytes=md5(_SOLD.encode()).digest()))
_SUBJECT = "/subjects/{subject}"
_CONFLUENT: dict[str, Sequence[str]] = {
    "/subjects": ("/subjects", "/subjects?subjectPrefix=:.stock:", "/subjects?deleted=true"),
    f"{_SUBJECT}/metadata": each("/subjects/:.{}:sold/metadata"),
    f"{_SUBJECT}/versions": each("/subjects/:.{}:sold/versions", "/subjects/sold/versions"),
    f"{_SUBJECT}/versions/{{version}}": each("/subjects/:.{}:sold/versions/1"),
    f"{_SUBJECT}/versions/{{version}}/schema": each("/subjects/:.{}:sold/versions/1/schema"),
    f"{_SUBJECT}/versions/{{version}}/referencedby": each(
        "/subjects/:.{}:sold/versions/1/referencedby"
    ),
    "/schemas": ("/schemas", "/schemas?subjectPrefix=:*:"),
    "/schemas/types": ("/schemas/types",),
    "/schemas/ids/{id}": ("/schemas/ids/1", *each("/schemas/ids/1?subject=:.{}:sold")),
    "/schemas/ids/{id}/schema": each("/schemas/ids/1/schema?subject=:.{}:sold"),
    "/schemas/ids/{id}/subjects": each("/schemas/ids/1/subjects?subject=:.{}:"),
    "/schemas/ids/{id}/versions": each("/schemas/ids/1/versions?subject=:.{}:"),
    "/schemas/guids/{guid}": (f"/schemas/guids/{_GUID}",),
    "/schemas/guids/{guid}/ids": (f"/schemas/guids/{_GUID}/ids",),
    "/config": ("/config",),
    "/config/{subject}": each("/config/:.{}:", "/config/:.{}:sold?defaultToGlobal=true"),
    "/mode": ("/mode",),
    "/mode/{subject}": each("/mode/:.{}:", "/mode/:.{}:sold?defaultToGlobal=true"),
    "/contexts": ("/contexts",),
    "/v1/metadata/id": ("/v1/metadata/id",),
    "/v1/metadata/version": ("/v1/metadata/version",),
}
_CONFLUENT_POSTS = {
    _SUBJECT: each("/subjects/:.{}:sold"),
    "/compatibility/subjects/{subject}/versions": each(
        "/compatibility/subjects/:.{}:sold/versions"
    ),
    "/compatibility/subjects/{subject}/versions/{version}": each(
        "/compatibility/subjects/:.{}:sold/versions/1"
    ),
}


def confluent_cases() -> Iterator[tuple[str, list[str | Request]]]:
    """The paths of the Confluent API, which are there within each context, too."""
    within = "/contexts/{context}"
    for prefix, roots in (("", [""]), (within, ["/contexts/stock"])):
        for path, gets in _CONFLUENT.items():
            yield (
                f"/confluent{prefix}{path}",
                [f"/confluent{root}{get}" for root in roots for get in gets],
            )
        for path, posts in _CONFLUENT_POSTS.items():
            yield (
                f"/confluent{prefix}{path}",
                [
                    Request(f"/confluent{root}{post}", "POST", {"schema": _SOLD})
                    for root in roots
                    for post in posts
                ],
            )


_REVISED = (
    *("/schemagroups/{}/schemas/item", "/schemagroups/{}", "/messagegroups/{}/messages/created"),
    *("/messagegroups/{}/messages/gone/versions/1", "/endpoints/{}/messages/borrowed/meta"),
)


def tool_calls() -> Iterator[Request]:
    """Calls of the tools that read, as an agent sends them."""
    for tool, arguments in [
        ("search", {"words": "stock"}),
        ("list", {"collection": "/messagegroups"}),
        *(("get", {"xid": xid}) for xid in GROUPS),
        *(("references", {"xid": xid, "depth": 3}) for xid in GROUPS),
    ]:
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
        yield Request("/mcp", "POST", {**call, "params": {"name": tool, "arguments": arguments}})


CASES: dict[str, list[str | Request]] = {
    "/{path}": [
        *("/", "/?inline=*", "/?inline=endpoints.messages", "/?doc"),
        *(f"{path}{flags}" for path in _COLLECTIONS for flags in _FLAGS),
        "/messagegroups?filter=messages.labels.team=stock&inline=messages",
        *each(*_BELOW),
    ],
    "/~{key}{below}": [
        *map(short_path, GROUPS),
        *map(short_path, each("/messagegroups/{}/messages/created/versions/1")),
    ],
    "/model": ["/model"],
    "/modelsource": ["/modelsource"],
    "/capabilities": ["/capabilities"],
    "/capabilitiesoffered": ["/capabilitiesoffered"],
    "/export": ["/export"],
    "/.well-known/xregistry": ["/.well-known/xregistry"],
    "/.xregistry": ["/.xregistry"],
    "/openapi.json": ["/openapi.json"],
    "/apply": [],  # has no reading method
    "/access/holders": [],  # depends on what the caller may grant: test_requested_access.py
    "/mcp": [*tool_calls()],
    "/-/search": [
        *(f"/-/search?q={words}" for words in ("stock", "ord", "created", "id", "sold", "e")),
        *(f"/-/search?type={type}" for type in ("messages", "messagegroups", "endpoints")),
        *("/-/search?q=stock&format=jsonschema", "/-/search?q=paid&limit=1"),
    ],
    "/-/counts": ["/-/counts"],
    "/-/events": [],  # has no end: test_event_streams.py
    "/validate": [
        Request("/validate", "POST", EVENT),
        Request("/validate?type=com.orders.created", "POST", EVENT),
    ],
    "/-/authorities": ["/-/authorities"],
    "/-/freshness": [
        *(f"/-/freshness?of={xid}" for xid in GROUPS),
        *each("/-/freshness?of=/messagegroups/{}/messages/created"),
    ],
    "/-/diff": [
        *(f"/-/diff?of={xid}/schemas/item/versions/1&to=2" for xid in GROUPS[4:]),
        f"/-/diff?of={GROUPS[2]}/messages/created&to={GROUPS[3]}/messages/created",
        *each("/-/diff?of=/messagegroups/{}&ofepoch=1"),
    ],
    "/-/changes": [
        *("/-/changes", "/-/changes?parents&limit=5", "/-/changes?path=/messagegroups"),
        f"/-/changes?authority={AUTHORITY}&limit=3",
        *each("/-/changes?path=/messagegroups/{}"),
    ],
    # The sequence of a change differs between databases: tests/integration/test_change_authors.py.
    "/-/changes/{sequence}": ["/-/changes/0.1"],
    "/-/revisions": [*each(*(f"/-/revisions?of={of}" for of in _REVISED))],
    "/-/revisions/{epoch}": [*each(*(f"/-/revisions/1?of={of}" for of in _REVISED))],
    "/-/references": [
        *(f"/-/references?of={xid}&depth=3" for xid in GROUPS),
        *(f"/-/references?of={xid}/messages/created&depth=2" for xid in GROUPS[2:4]),
        *(f"/-/references?of={xid}/messages/borrowed" for xid in GROUPS[:2]),
        *(f"/-/references?of={xid}/schemas/item&direction=to&depth=5" for xid in GROUPS[4:]),
    ],
    _VALIDATED.format(groups="messagegroups", group="messagegroup"): [
        *validations("messagegroups", "created"),
        *validations("messagegroups", "paid"),
    ],
    _VALIDATED.format(groups="messagegroups", group="messagegroup") + "/versions/{versionid}": [
        *validations("messagegroups", "created", "/versions/1")
    ],
    _VALIDATED.format(groups="endpoints", group="endpoint"): [
        *validations("endpoints", "borrowed"),
        *validations("endpoints", "moved"),
    ],
    _VALIDATED.format(groups="endpoints", group="endpoint") + "/versions/{versionid}": [
        *validations("endpoints", "borrowed", "/versions/1")
    ],
    "/services": ["/services", "/services?name=stock", "/services?name=Orders"],
    "/services/{id}": [
        *each("/services/{}"),
        *each(
            "/services/{}@/endpoints/{}"
        ),  # a service has an id that is derived from its endpoint
    ],
    "/services/requests/{id}": ["/services/requests/1"],
    _CATALOG: [_CATALOG],
    f"{_CATALOG}/": [f"{_CATALOG}/"],
    f"{_CATALOG}/{{group}}": [*each(f"{_CATALOG}/{{}}")],
    f"{_CATALOG}/{{group}}/messagedefinitions": [*each(f"{_CATALOG}/{{}}/messagedefinitions")],
    f"{_CATALOG}/{{group}}/messagedefinitions/": [*each(f"{_CATALOG}/{{}}/messagedefinitions/")],
    f"{_CATALOG}/{{group}}/messagedefinitions/{{definition}}": [
        *each(f"{_CATALOG}/{{}}/messagedefinitions/created")
    ],
    f"{_CATALOG}/{{group}}/messagedefinitions/{{definition}}/versions": [
        *each(f"{_CATALOG}/{{}}/messagedefinitions/created/versions")
    ],
    f"{_CATALOG}/{{group}}/messagedefinitions/{{definition}}/versions/{{version}}": [
        *each(f"{_CATALOG}/{{}}/messagedefinitions/created/versions/1")
    ],
    "/messagedefinition": [
        f"/messagedefinition?uri={quote(uri, safe='')}"
        for uri in each(f"{AUTHORITY}{_CATALOG}/{{}}/messagedefinitions/created")
    ],
    "/registry/0.4": ["/registry/0.4"],
    "/registry/0.4/": ["/registry/0.4/"],
    _GROUPS04: [
        f"/registry/0.4/{groups}" for groups in ("endpoints", "definitionGroups", "schemaGroups")
    ],
    f"{_GROUPS04}/{{gid}}": [
        *each(*(f"/registry/0.4/{groups}/{{}}" for groups in ("endpoints", "definitionGroups")))
    ],
    f"{_GROUPS04}/{{gid}}/{{resources}}": [*each("/registry/0.4/schemaGroups/{}/schemas")],
    _ENTITY04: [*each("/registry/0.4/schemaGroups/{}/schemas/item")],
    f"{_ENTITY04}/versions": [*each("/registry/0.4/schemaGroups/{}/schemas/item/versions")],
    f"{_ENTITY04}/versions/{{vid}}": [
        *each("/registry/0.4/schemaGroups/{}/schemas/item/versions/1")
    ],
    "/replication": ["/replication?count"],
    "/replication/changes": ["/replication/changes?behind", "/replication/changes?wait=1"],
    "/replication/snapshot": ["/replication/snapshot"],
    "/replication/digests": [
        *(
            f"/replication/digests?format={form}"
            for form in ("json", "csv", "authorities", "schemaids")
        ),
        "/replication/digests?bits=8",
    ],
    "/replication/fetch": [
        Request(
            "/replication/fetch",
            "POST",
            {
                "origins": [
                    {"authority": "OWN", "origin": xid}
                    for xid in each("/messagegroups/{}/messages/created", "/schemagroups/{}")
                ]
            },
        )
    ],
    "/replication/arrivals": [
        *(f"/replication/arrivals?of={xid}" for xid in GROUPS),
        *each("/replication/arrivals?of=/messagegroups/{}/messages/created"),
    ],
    "/replication/keys": ["/replication/keys"],
    "/replication/signatures": ["/replication/signatures"],
    "/confluent": ["/confluent"],
    "/confluent/": ["/confluent/"],
    "/confluent/contexts/{context}": [],  # has no reading method
    "/confluent/{rest}": ["/confluent/nowhere"],
    **dict(confluent_cases()),
    "/metrics": [],  # tested by itself: its figures change with each request
}
# Tested where callers have subscriptions, push, or grant.
_OTHERWISE = frozenset({Permission.SUBSCRIBE, Permission.PUSH, Permission.GRANT})
REQUESTS = [
    Request(case) if isinstance(case, str) else case for cases in CASES.values() for case in cases
]


async def test_every_route_that_restricted_clients_read_has_a_case(whole: Node) -> None:
    read = frozenset[Permission]().union(*PATH_PERMISSIONS.values()) - _OTHERWISE
    needs = {path.removesuffix("{end}"): each for path, each in needs_of(whole.client.app).items()}
    assert {path for path in needs if needs[path].get("GET", needs[path]["*"]) in read} == {*CASES}


async def answered(node: Node, request: Request, **headers: str) -> Answer:
    """The answer to a request, in which what only this node tells is filled in."""
    path, own = request.path, node.database.node.authority
    if path.startswith("/replication/changes"):
        path += f"&after={await node.first_cursor()}"
    if "@" in path:
        path = f"/services/{service_id(own, path.partition('@')[2])}"
    body = orjson.dumps(request.body).replace(b"OWN", own.encode()) if request.body else None
    if body is not None:
        headers = {"Content_Type": "application/json", **headers}
    return await node.send(request.method, path, body=body, **headers)


def _without(value: Any, name: str, told: Any) -> Any:
    """A JSON value without the members of a name that have a value."""
    if isinstance(value, dict):
        members = [(key, _without(each, name, told)) for key, each in value.items()]
        return {key: each for key, each in members if (key, each) != (name, told)}
    return [_without(each, name, told) for each in value] if isinstance(value, list) else value


async def answer_of(node: Node, request: Request, **headers: str) -> Any:
    answer = await answered(node, request, **headers)
    shown = {name: value for name, value in answer.headers.items() if name not in _PASSING}
    body: Any = answer.body
    if request.path.startswith(("/replication/changes", "/replication/snapshot", "/replication/f")):
        body = answer.body.splitlines()[:-1]  # the last line is a cursor
    elif request.path.startswith(("/-/changes", "/-/revisions")):
        # Without a rule the caller is an admin, who may know the authors.
        told = {"kind": "anonymous"}
        body = _without(orjson.loads(answer.body), "who", told)
        return answer.status, answer.headers.get("Link"), body
    elif request.path.startswith("/replication?"):
        body = {**answer.json, "instance": "", "incarnation": "", "log": "", "base": ""}
    else:
        return answer.status, shown, body
    assert answer.status == 200
    return body


@settings(
    max_examples=3,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    deadline=None,
)
@example(seen=(), extras=[])
@example(seen=("/*/*",), extras=[])
@example(seen=("/messagegroups/orders", "/endpoints/stock"), extras=[])
@given(seen=RULES, extras=EXTRAS)
async def test_what_is_hidden_does_not_exist(
    base: str, copy: Copy, seen: tuple[str, ...], extras: list[Extra]
) -> None:
    database = await copy(base)
    rule = AccessRule(id="r", who="anonymous", role="replicator", createdat=NOW, createdby="")
    async with start_node(database, routes=ROUTES, public_url=AUTHORITY) as node:
        for extra in extras:
            await add(node, extra)
        async with node.database.transaction() as connection:
            assert await add_rule(connection, rule, seen)
    emptied = await copy(database)
    await forget_hidden(emptied, seen)
    async with (
        start_node(database, **RESTRICTED) as whole,
        start_node(emptied, **RESTRICTED) as alone,
    ):
        for node in (whole, alone):
            await node.changes()  # what other tests hold back is told by now
        for request in REQUESTS:
            expected = await answer_of(alone, request)
            assert await answer_of(whole, request, Authorization=rule.id) == expected, request


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def whole(base: str, copy: Copy) -> AsyncIterator[Node]:
    """A node with a rule "some", which shows two groups to who sends `X-Rule: some`."""
    async with start_node(await copy(base), **RESTRICTED) as node:
        rule = AccessRule(id="some", who="anonymous", role="reader", createdat=NOW, createdby="")
        async with node.database.transaction() as connection:
            assert await add_rule(connection, rule, ["/messagegroups/orders", "/endpoints/*"])
        yield node


def nameless(answer: Answer, name: str) -> Any:
    return answer.status, answer.body.replace(name.encode(), b"NAME")


async def test_every_case_is_of_something_that_is_there(base: str, copy: Copy) -> None:
    async with start_node(await copy(base), routes=ROUTES, public_url=AUTHORITY) as node:
        found: dict[str, bool] = {}
        for path, cases in CASES.items():
            for case in cases:
                request = Request(case) if isinstance(case, str) else case
                answer = await answered(node, request)
                found[path] = found.get(path, False) or answer.status < 400
    assert {path for path in found if not found[path]} == {
        "/services/requests/{id}",
        "/confluent/{rest}",
        "/-/changes/{sequence}",
    }


async def test_what_is_hidden_is_refused_as_what_is_missing(whole: Node) -> None:
    """One code path: the views leave nothing to find, so nothing can tell the two apart."""
    refused = 0
    for request in REQUESTS:
        if "stock" not in request.path or "endpoints" in request.path or "?" in request.path:
            continue
        hidden, missing = [
            await whole.send(
                request.method,
                request.path.replace("stock", name),
                request.body,
                Authorization="some",
            )
            for name in ("stock", "other")
        ]
        # The Confluent API answers some requests about missing contexts as about empty ones.
        if hidden.status == 404 or request.path.startswith("/confluent/"):
            refused += 1
            assert nameless(hidden, "stock") == nameless(missing, "other"), request
        else:
            assert request.path == "/services/stock"  # of an endpoint, which is visible
    assert refused > 10


async def test_metrics_name_nothing_that_is_hidden(whole: Node) -> None:
    for path in ("/schemagroups/stock", "/messagegroups/stock/messages/created"):
        await whole.send("GET", path)
    answer = await whole.send("GET", "/metrics", Authorization="some")

    assert answer.status == 200
    assert b"stock" not in answer.body
    assert b"concord_" in answer.body


async def test_rules_take_effect_with_the_next_request(whole: Node) -> None:
    rule = AccessRule(id="turns", who="anonymous", role="reader", createdat=NOW, createdby="")
    group = "/schemagroups/stock"
    async with whole.database.transaction() as connection:
        await add_rule(connection, rule, [])
    statuses = []
    for paths in ([], [group], []):
        async with whole.database.transaction() as connection:
            await replace_paths(connection, rule.id, paths)
        statuses.append((await whole.send("GET", group, Authorization=rule.id)).status)

    assert statuses == [404, 200, 404]
