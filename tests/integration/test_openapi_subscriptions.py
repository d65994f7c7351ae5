"""Every answer about subscriptions fits its description, and every status described there comes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web
from jsonschema_rs import Draft202012Validator
from yarl import URL

from catalog.http.stream import SINK_TESTS
from catalog.operations import deliveries, subscriptions
from catalog.subscriptions.delivery.dispatcher import run_deliveries
from tests.integration.conftest import Answer, Node, start_node
from tests.integration.federation import execute
from tests.integration.test_sink_consent import sink_here
from tests.integration.webhooksink import WebHookSink

ALL, ONE = "/subscriptions", "/subscriptions/{id}"
KEYS, KEY = f"{ONE}/signingkeys", f"{ONE}/signingkeys/{{key}}"
DEAD, LETTER = f"{ONE}/deadletters", f"{ONE}/deadletters/{{number}}"
CONSENT = f"{ONE}/consent"
COURSE = ({"paused": True, "reason": "x"}, {"paused": False}, {"cursor": "earliest"})
OTHER_TAG = {"If-Match": '"0"'}


@dataclass(slots=True)
class DescribedApi:
    """A client that checks each answer against the description of the node."""

    node: Node
    description: dict[str, Any]
    came: set[tuple[str, str, str]] = field(default_factory=set)

    async def send(
        self, method: str, path: str, body: Any = None, *, query: str = "", **named: Any
    ) -> Answer:
        """Send a request; the named values stand in the path, `headers` are the headers."""
        headers = named.pop("headers", {})
        target = path.format(**named) + query
        answer = await self.node.send(method, target, body, **headers)
        operation = self.description["paths"][path][method.lower()]
        described = operation["responses"].get(str(answer.status))
        assert described, (method, target, answer.status, answer.body)
        self.came.add((method, path, str(answer.status)))
        self.check_content(described.get("content", {}), answer)
        if answer.status < 400 and body is not None:
            taken = operation["requestBody"]["content"]["application/json"]["schema"]
            self.check(taken, body)
        if 200 <= answer.status < 300:
            assert all(name in answer.headers for name in described.get("headers", ()))
        return answer

    async def done(self, method: str, path: str, body: Any = None, **named: Any) -> Any:
        answer = await self.send(method, path, body, **named)
        assert answer.status < 300, answer.body
        return answer.json if answer.body else None

    async def refused(self, status: int, method: str, path: str, *given: Any, **named: Any) -> None:
        answer = await self.send(method, path, *given, **named)
        assert answer.status == status, (method, path, answer.status, answer.body)

    def check_content(self, described: dict[str, Any], answer: Answer) -> None:
        media_type = answer.headers.get("Content-Type", "").partition(";")[0]
        assert ({media_type} if answer.body else set()) == {*described}
        if media_type == "application/json":
            self.check(described[media_type]["schema"], answer.json)

    def check(self, schema: dict[str, Any], value: Any) -> None:
        validator = Draft202012Validator({**schema, "components": self.description["components"]})
        faults = [
            f"{fault.instance_path}: {fault.message}" for fault in validator.iter_errors(value)
        ]
        assert not faults, (faults, value)

    def described(self) -> set[tuple[str, str, str]]:
        """Every status of every operation on subscriptions."""
        return {
            (method.upper(), path, status)
            for path, operations in self.description["paths"].items()
            if path.startswith(ALL)
            for method, operation in operations.items()
            if method != "parameters"
            for status in operation["responses"]
            # The node is open: nobody lacks a right.
            if status not in ("403", "4XX", "5XX")
        }


async def described_api(node: Node) -> DescribedApi:
    """The API of a node, whose answers have no members but those that are described."""
    description = await node.get("/openapi.json")
    for model in vars(subscriptions) | vars(deliveries):
        schema = description["components"]["schemas"].get(model)
        if schema is not None and "properties" in schema:
            schema["additionalProperties"] = False
    return DescribedApi(node, description)


@pytest.fixture
async def node(database_url: str) -> AsyncIterator[Node]:
    async with start_node(
        database_url,
        allow_private_addresses=True,
        backoff_initial_seconds=0.05,
        delivery_timeout_seconds=1,
        max_subscriptions=4,
    ) as node:
        for _ in range(3):
            assert node.client.app[SINK_TESTS].take_now("127.0.0.1")
        delivering = asyncio.create_task(run_deliveries(node.context))
        yield node
        delivering.cancel()
        await asyncio.wait([delivering])


async def test_every_answer_fits_and_every_described_status_comes(node: Node) -> None:
    api = await described_api(node)
    async with WebHookSink() as sink:
        await unknown_ones(api)
        id = await definitions(api, sink)
        await conditions(api, id)
        await course(api, id)
        await keys(api, id)
        await examples(api, id, sink)
        await dead_letters(api, id, sink)
        await states_that_do_not_allow_it(api, id)
    async with sink_here() as sink:
        await consents(api, sink)
    await limits(api)
    assert api.described() - api.came == set()


async def unknown_ones(api: DescribedApi) -> None:
    named = {"id": "x", "key": "x", "number": 1}
    body = {"sink": "http://127.0.0.1:9/", "protocol": "HTTP"}
    for method, path, status in api.described():
        if status == "404":
            given = {"PUT": body, "PATCH": COURSE[0]}.get(method)
            await api.refused(404, method, path, given, **named)


async def definitions(api: DescribedApi, sink: WebHookSink) -> str:
    """Everything that a subscription can show, and the id of one that is signed."""
    wanted = {
        "sink": sink.url,
        "protocol": "HTTP",
        "source": f"{api.node.url}",
        "types": ["io.xregistry.group.created"],
        "filters": [{"prefix": {"subject": "/messagegroups/"}}],
        "config": {
            "from": "now",
            "startsAt": "2020-01-01T00:00:00Z",
            "expiresAt": "2999-01-01T00:00:00Z",
            "maxEvents": 1000,
            "batch": {"count": 1},
            "retry": {"attempts": 1},
            "order": "wait",
        },
        "sinkcredential": {"credentialtype": "PLAIN", "identifier": "me", "secret": "s"},
        "protocolsettings": {"signature": "hmac-sha256", "headers": {"X-A": "b"}},
    }
    tried = await api.done("POST", ALL, {**wanted, "filters": []}, query="?dryrun")
    assert tried["changes"] >= tried["events"]
    made = await api.done("POST", ALL, wanted)
    assert made["signingkeys"][0]["secret"]
    id: str = made["id"]
    assert await api.done("GET", ONE, id=id)
    assert (
        await api.send("PUT", ONE, {**wanted, "config": {"order": "wait"}}, id=id)
    ).status == 200
    await api.done(
        "PUT", ONE, {**wanted, "config": {"order": "wait", "retry": {"attempts": 1}}}, id=id
    )
    token = {
        "credentialtype": "REFRESHTOKEN",
        "accesstoken": "a",
        "accesstokenexpiresutc": "2999-01-01T00:00:00Z",
        "accesstokentype": "Bearer",
        "refreshtoken": "r",
        "refreshtokenendpoint": "http://127.0.0.1:9/token",
    }
    other = await api.done("POST", ALL, {**wanted, "sinkcredential": token})
    assert len((await api.send("GET", ALL, query="?limit=1")).json) == 1
    await api.done("DELETE", ONE, id=other["id"])
    await unchanged(api, ALL)
    for body in ({}, {**wanted, "protocol": "PIGEON"}):
        await api.refused(400, "POST", ALL, body)
        await api.refused(400, "PUT", ONE, body, id=id)
    await api.refused(400, "GET", ALL, query="?limit=0")
    return id


async def unchanged(api: DescribedApi, path: str, **named: Any) -> None:
    """Read something twice, the second time with its tag."""
    async with asyncio.timeout(20):
        while True:
            tag = (await api.send("GET", path, **named)).headers["ETag"]
            if (await api.send("GET", path, headers={"If-None-Match": tag}, **named)).status == 304:
                return


async def conditions(api: DescribedApi, id: str) -> None:
    body = {"sink": "http://127.0.0.1:9/", "protocol": "HTTP"}
    for method, path, status in api.described():
        if status == "412":
            given = {"PUT": body, "PATCH": COURSE[0]}.get(method)
            named = {"id": id, "key": "x", "number": 1}
            await api.refused(412, method, path, given, headers=OTHER_TAG, **named)


async def course(api: DescribedApi, id: str) -> None:
    for body in COURSE:
        await api.done("PATCH", ONE, body, id=id)
    await api.refused(400, "PATCH", ONE, {"x": 1}, id=id)


async def keys(api: DescribedApi, id: str) -> None:
    await api.refused(400, "POST", KEYS, {"overlapseconds": -1}, id=id)
    await api.done("POST", KEYS, {"overlapseconds": 60}, id=id)
    new, old = (await api.done("GET", ONE, id=id))["signingkeys"]
    await api.refused(409, "POST", KEYS, id=id)
    await api.refused(409, "DELETE", KEY, id=id, key=new["id"])
    await api.done("DELETE", KEY, id=id, key=old["id"])


async def examples(api: DescribedApi, id: str, sink: WebHookSink) -> None:
    answers = sink.on_event
    assert (await api.done("POST", f"{ONE}/test", id=id))["outcome"] == "delivered"
    for status, outcome in ((500, "refused"), (410, "gone")):
        sink.on_event = answering(status)
        assert (await api.done("POST", f"{ONE}/test", id=id))["outcome"] == outcome
    sink.on_event = sink.silent
    before = len(sink.events)
    waiting = asyncio.create_task(api.node.send("POST", f"{ALL}/{id}/test"))
    await sink.has(lambda sink: len(sink.events) > before)
    await api.refused(429, "POST", f"{ONE}/test", id=id)
    assert (await waiting).json["outcome"] == "refused"
    sink.on_event = answers


def answering(status: int) -> Any:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(status=status)

    return answer


async def dead_letters(api: DescribedApi, id: str, sink: WebHookSink) -> None:
    sink.on_event = answering(400)
    for name in "12":
        await api.node.put("/messagegroups/a", {"name": name})
        await api.node.put("/messagegroups/b", {"name": name})
        await api.node.send("DELETE", "/messagegroups")
    async with asyncio.timeout(30):
        while len(letters := await api.done("GET", DEAD, id=id)) < 4:
            await asyncio.sleep(0.02)  # between two looks at the dead letters
        while not await api.done("GET", f"{ONE}/attempts", id=id):
            await asyncio.sleep(0.02)  # they are saved a little later
    await api.done("PATCH", ONE, {"paused": True}, id=id)
    number, waiting = letters[0]["number"], letters[2]["number"]
    assert letters[2]["state"] == "waiting"
    for path in (DEAD, f"{ONE}/attempts"):
        assert len(await api.done("GET", path, query="?limit=1", id=id)) == 1
        await api.refused(400, "GET", path, query="?limit=x", id=id)
        await unchanged(api, path, id=id)
    causes = f"{ONE}/deadlettercauses"
    assert len((await api.done("GET", causes, id=id))["causes"]) == 2
    await unchanged(api, causes, id=id)
    assert (await api.done("GET", LETTER, id=id, number=number))["event"]["specversion"] == "1.0"
    await unchanged(api, LETTER, id=id, number=number)
    redeliver = f"{DEAD}/redeliver"
    await api.refused(409, "POST", redeliver, {"number": waiting}, id=id)
    assert (await api.done("POST", redeliver, {"number": number}, id=id))["accepted"] == 2
    await api.refused(400, "POST", redeliver, {"since": "yesterday"}, id=id)
    since = {"since": letters[0]["at"]}
    assert (await api.done("POST", redeliver, since, id=id))["accepted"] == 2
    await api.done("DELETE", LETTER, id=id, number=number)
    await api.refused(400, "DELETE", DEAD, query=f"?cause={'x' * 3000}", id=id)
    assert (await api.done("DELETE", DEAD, id=id))["deleted"] == 3


async def states_that_do_not_allow_it(api: DescribedApi, id: str) -> None:
    await execute(api.node, "UPDATE subscriptions SET state = 'ended'")
    for body in COURSE:
        await api.refused(409, "PATCH", ONE, body, id=id)
    await api.refused(409, "POST", f"{DEAD}/redeliver", id=id)
    await execute(api.node, "UPDATE subscriptions SET state = 'pending'")
    await api.refused(409, "POST", f"{ONE}/test", id=id)
    await api.done("DELETE", ONE, id=id)


async def consents(api: DescribedApi, sink: WebHookSink) -> None:
    definition = {"sink": sink.url, "protocol": "HTTP"}
    for method in ("GET", "POST"):
        before = len(sink.asked)
        answer = await api.send("POST", ALL, definition)
        assert answer.status == 202
        id = answer.json["id"]
        again = await api.send("PUT", ONE, {**definition, "types": ["x"]}, id=id)
        assert again.status == 202
        for paused in (True, False):
            assert (await api.send("PATCH", ONE, {"paused": paused}, id=id)).status == 202
        await sink.has(lambda sink, before=before: len(sink.asked) > before)
        query = "?" + URL(sink.asked[-1].headers["WebHook-Request-Callback"]).raw_query_string
        rate = {"WebHook-Allowed-Rate": "many"}
        await api.refused(400, method, CONSENT, id=id, query=query, headers=rate)
        assert (await api.send(method, CONSENT, id=id, query=query)).status == 200


async def limits(api: DescribedApi) -> None:
    for method, path, status in api.described():
        if status == "413":
            await api.refused(413, method, path, {"x": [0] * 10_001}, id="x")
    wanted = {"sink": "http://127.0.0.1:9/", "protocol": "HTTP"}
    large = {**wanted, "types": ["x" * 250] * 250}
    await api.refused(413, "POST", ALL, large)
    for _ in range(2):
        id = (await api.done("POST", ALL, wanted))["id"]
    await api.refused(413, "PUT", ONE, large, id=id)
    await api.refused(409, "POST", ALL, wanted)
    for method in ("GET", "POST"):
        async with asyncio.timeout(60):
            while (await api.send(method, CONSENT, id=id)).status != 429:
                pass
