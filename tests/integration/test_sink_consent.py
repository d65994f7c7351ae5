"""The validation handshake with sinks that are not on a loopback address (http-webhook.md 4)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import pytest
from aiohttp import web
from yarl import URL

from catalog.subscriptions.delivery.dispatcher import run_deliveries
from replication.routes import routes
from tests.integration.conftest import Node, start_node
from tests.integration.webhooksink import Answer, WebHookSink, accept, own_address

PUBLIC = "https://catalog.example:8443"
ORIGIN = "catalog.example"


def outer_address() -> str:
    """An address of this machine at which a sink has to consent."""
    if (address := own_address()) == "127.0.0.1":
        pytest.skip("this machine has a loopback address only")
    return address


@contextlib.asynccontextmanager
async def delivering(node: Node) -> AsyncIterator[None]:
    task = asyncio.create_task(run_deliveries(node.context))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


@contextlib.asynccontextmanager
async def open_node(dsn: str, **settings: Any) -> AsyncIterator[Node]:
    chosen = {
        "allow_private_addresses": True,
        "backoff_initial_seconds": 0.05,
        "delivery_timeout_seconds": 1.0,
        **settings,
    }
    async with start_node(dsn, routes=routes, **chosen) as node:
        node.context.shared.public_base = PUBLIC
        yield node


@pytest.fixture
async def idle(database_url: str) -> AsyncIterator[Node]:
    """A node that neither asks sinks nor delivers yet."""
    async with open_node(database_url) as node:
        yield node


@pytest.fixture
async def node(idle: Node) -> AsyncIterator[Node]:
    async with delivering(idle):
        yield idle


def consenting(rate: str | None = "*", origin: str = "*") -> Answer:
    async def answer(_: web.Request) -> web.StreamResponse:
        headers = {"WebHook-Allowed-Origin": origin}
        return web.Response(
            headers=headers if rate is None else {**headers, "WebHook-Allowed-Rate": rate}
        )

    return answer


def sink_here(on_options: Answer = accept) -> WebHookSink:
    return WebHookSink(outer_address(), on_options=on_options)


def definition(sink: WebHookSink, **members: Any) -> dict[str, Any]:
    return {
        "sink": sink.url,
        "protocol": "HTTP",
        "types": ["io.xregistry.group.created"],
        **members,
    }


async def subscribe(node: Node, sink: WebHookSink, **members: Any) -> str:
    """Subscribe, and return the path of a subscription that is pending."""
    answer = await node.send("POST", "/subscriptions", definition(sink, **members))
    assert answer.status == 202, answer.body
    assert answer.json["status"]["state"] == "pending"
    return f"/subscriptions/{answer.json['id']}"


async def status_of(node: Node, path: str) -> dict[str, Any]:
    status: dict[str, Any] = (await node.get(path))["status"]
    return status


async def until(node: Node, path: str, state: str, *, reason: str = "") -> dict[str, Any]:
    """Wait until a subscription is in a state, and shows a reason."""
    async with asyncio.timeout(30):
        while True:
            status = await status_of(node, path)
            if status["state"] == state and reason in (status.get("reason") or ""):
                return status
            await asyncio.sleep(0.02)  # between two looks at the status


def callback_of(sink: WebHookSink, number: int = 0) -> str:
    """The path and query of the callback that a sink was offered."""
    url = URL(sink.asked[number].headers["WebHook-Request-Callback"])
    assert str(url.origin()) == PUBLIC
    return url.raw_path_qs


async def test_a_sink_that_consents_is_sent_what_happened_meanwhile(idle: Node) -> None:
    async with sink_here(consenting()) as sink:
        path = await subscribe(idle, sink)
        await idle.put("/messagegroups/before")
        async with delivering(idle):
            await until(idle, path, "active")
            await sink.has(lambda sink: sink.events)
        [question] = sink.asked
        assert question.path == "/events"
        assert question.body == b""
        assert question.headers["WebHook-Request-Origin"] == ORIGIN
        assert question.headers["WebHook-Request-Rate"] == "6000"
        assert sink.arrived[0] is question
        [event] = sink.events
        assert event.headers["WebHook-Request-Origin"] == ORIGIN
        assert event.headers["ce-subject"] == "/messagegroups/before"
        assert "reason" not in await status_of(idle, path)


async def test_no_secret_is_sent_before_the_consent(node: Node) -> None:
    async with sink_here() as sink:
        await subscribe(
            node,
            sink,
            sinkcredential={"credentialtype": "PLAIN", "identifier": "me", "secret": "s3cret"},
            protocolsettings={"headers": {"X-Key": "s3cret"}, "signature": "hmac-sha256"},
        )
        await sink.has(lambda sink: sink.asked)
    headers = sink.asked[0].headers
    assert not {"authorization", "x-key", "webhook-signature"} & {name.lower() for name in headers}


@pytest.mark.parametrize("origin", [ORIGIN, ORIGIN.upper(), "*", f" {ORIGIN} "])
async def test_consent_names_this_node_or_all(node: Node, origin: str) -> None:
    async with sink_here(consenting(origin=origin)) as sink:
        await until(node, await subscribe(node, sink), "active")


async def breaks_off(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def endless(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b"x" * 65536)


async def enormous_header(_: web.Request) -> web.StreamResponse:
    return web.Response(headers={"X-Large": "x" * 1_000_000, "WebHook-Allowed-Origin": "*"})


async def redirecting(_: web.Request) -> web.StreamResponse:
    return web.Response(status=307, headers={"Location": "http://169.254.169.254/"})


async def forbids(_: web.Request) -> web.StreamResponse:
    return web.Response(status=405, headers={"Allow": "POST"})


async def twice(_: web.Request) -> web.StreamResponse:
    response = web.Response()
    response.headers.add("WebHook-Allowed-Origin", "other.example")
    response.headers.add("WebHook-Allowed-Origin", "*")
    return response


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (accept, "waits for the sink's consent: it answered OPTIONS with 204"),
        (forbids, "it answered OPTIONS with 405"),
        (endless, "it answered OPTIONS with 200"),
        (redirecting, "it answered OPTIONS with 307"),
        (consenting(origin="other.example"), "the sink refused"),
        (consenting(origin=f"{ORIGIN}, *"), "the sink refused"),
        (consenting(origin=""), "the sink refused"),
        (twice, "the sink refused"),
        (consenting(rate="0"), "WebHook-Allowed-Rate"),
        (consenting(rate="-1"), "WebHook-Allowed-Rate"),
        (consenting(rate="1e3"), "WebHook-Allowed-Rate"),
        (consenting(rate="9" * 40), "WebHook-Allowed-Rate"),
        (consenting(rate=""), "WebHook-Allowed-Rate"),
        (breaks_off, "did not answer OPTIONS as a whole"),
        (enormous_header, "did not answer OPTIONS as a whole"),
    ],
)
async def test_anything_else_is_no_consent_and_is_told(
    node: Node, answer: Answer, reason: str
) -> None:
    async with sink_here(answer) as sink:
        path = await subscribe(node, sink)
        await node.put("/messagegroups/g")
        # Once the time of the next attempt has come, it is not shown any more.
        async with asyncio.timeout(30):
            while "nextattemptat" not in await until(node, path, "pending", reason=reason):
                await asyncio.sleep(0.02)  # between two looks at the status
        # It is asked again, and consents this time.
        sink.on_options = consenting()
        await until(node, path, "active")
        await sink.has(lambda sink: sink.events)
        first = sink.arrived.index(sink.events[0])
        assert all(each.method == "OPTIONS" for each in sink.arrived[:first])


async def test_a_sink_that_does_not_answer_is_told(node: Node) -> None:
    async with sink_here() as sink:
        sink.on_options = sink.silent
        path = await subscribe(node, sink)
        await until(node, path, "pending", reason="did not answer OPTIONS in time")


async def test_a_sink_that_cannot_be_reached_is_told_without_its_address(node: Node) -> None:
    async with sink_here() as sink:
        gone = sink.url
    answer = await node.send("POST", "/subscriptions", definition(sink) | {"sink": gone})
    assert answer.status == 202
    path = f"/subscriptions/{answer.json['id']}"
    status = await until(node, path, "pending", reason="cannot be reached")
    assert outer_address() not in status["reason"]
    sink.on_options = consenting()
    async with sink:
        await until(node, path, "active")


async def test_an_address_that_is_refused_is_never_connected_to(database_url: str) -> None:
    async with (
        open_node(database_url, allow_private_addresses=False) as node,
        sink_here(consenting()) as sink,
        delivering(node),
    ):
        # The name is not resolved before the connection is opened.
        address = outer_address().replace(".", "-")
        body = definition(sink) | {"sink": f"http://{address}.invalid:{URL(sink.url).port}/"}
        answer = await node.send("POST", "/subscriptions", body)
        path = f"/subscriptions/{answer.json['id']}"
        await until(node, path, "pending", reason="cannot be reached")
        assert sink.arrived == []


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_sink_may_consent_later_by_the_callback(node: Node, method: str) -> None:
    async with sink_here() as sink:
        path = await subscribe(node, sink)
        await sink.has(lambda sink: sink.asked)
        await node.put("/messagegroups/g")
        callback = callback_of(sink)
        assert callback.startswith(f"{path}/consent?key=")
        head = await node.send("HEAD", callback)
        assert head.status in (404, 405)
        assert (await status_of(node, path))["state"] == "pending"
        answer = await node.send(method, callback, WebHook_Allowed_Rate="120")
        assert answer.status == 200, answer.body
        assert answer.headers["Cache-Control"] == "no-store"
        await until(node, path, "active")
        await sink.has(lambda sink: sink.events)
        # It is of use once.
        again = await node.send(method, callback)
        assert again.status == 404
    async with node.database.acquire() as connection:
        rows = await connection.fetch("SELECT allowedrate, callbacks FROM sink_consents")
    assert [(row["allowedrate"], row["callbacks"]) for row in rows] == [(120, [])]


async def test_the_secret_of_a_callback_is_not_stored(node: Node) -> None:
    async with sink_here() as sink:
        await subscribe(node, sink)
        await sink.has(lambda sink: sink.asked)
        key = URL(callback_of(sink)).query["key"]
    assert len(key) >= 43  # 256 bits in base64
    async with node.database.acquire() as connection:
        stored = str(await connection.fetch("SELECT * FROM sink_consents"))
        stored += str(await connection.fetch("SELECT * FROM subscriptions"))
    assert key not in stored


async def test_guesses_all_get_the_same_answer(node: Node) -> None:
    async with sink_here() as sink:
        path = await subscribe(node, sink)
        await sink.has(lambda sink: sink.asked)
        callback = callback_of(sink)
        shapes = set()
        for wrong in (
            f"{path}/consent",
            f"{path}/consent?key=",
            f"{path}/consent?key=x",
            callback[:-1],
            f"{callback}A",
            callback.swapcase()
            .replace(path.swapcase(), path)
            .replace("CONSENT?KEY", "consent?key"),
            f"/subscriptions/nothing/consent?{callback.partition('?')[2]}",
        ):
            answer = await node.send("POST", wrong)
            shapes.add((answer.status, answer.error, answer.json["title"].partition(" /")[0]))
        assert shapes == {(404, "not_found", "There is nothing at")}
        assert (await status_of(node, path))["state"] == "pending"
        bad = await node.send("POST", callback, WebHook_Allowed_Rate="many")
        assert bad.status == 400
        assert (await node.send("POST", callback)).status == 200


async def test_a_client_may_not_guess_often(node: Node) -> None:
    async def guess() -> int:
        answer = await node.send("GET", "/subscriptions/x/consent?key=y")
        assert answer.status == 404 or answer.headers["Retry-After"]
        return answer.status

    assert {*await asyncio.gather(*(guess() for _ in range(40)))} == {404, 429}


async def test_an_earlier_callback_holds_until_the_search_ends(node: Node) -> None:
    async with sink_here() as sink:
        path = await subscribe(node, sink)
        await sink.has(lambda sink: len(sink.asked) >= 3)
        assert callback_of(sink, 0) != callback_of(sink, 1)
        assert (await node.send("GET", callback_of(sink, 0))).status == 200
        await until(node, path, "active")


async def test_a_restart_in_between_loses_neither_the_search_nor_the_callback(idle: Node) -> None:
    async with sink_here() as sink:
        sink.on_options = sink.silent
        path = await subscribe(idle, sink)
        async with delivering(idle):
            await sink.has(lambda sink: sink.asked)
        # The process has ended while the sink was asked; it is due when that time is over.
        async with idle.database.acquire() as connection:
            due: datetime = await connection.fetchval("SELECT askat FROM sink_consents")
            await connection.execute("UPDATE sink_consents SET askat = now()")
        assert due is not None
        assert (await status_of(idle, path))["state"] == "pending"
        async with delivering(idle):
            await sink.has(lambda sink: len(sink.asked) >= 2)
            assert (await idle.send("GET", callback_of(sink, 0))).status == 200
            await until(idle, path, "active")


async def test_a_subscription_without_consent_ends_in_its_time(database_url: str) -> None:
    async with (
        open_node(database_url, consent_hours=0.5 / 3600) as node,
        sink_here() as sink,
        delivering(node),
    ):
        path = await subscribe(node, sink)
        status = await until(node, path, "ended")
        assert "there was no consent of the sink" in status["reason"]
        late = await node.send("GET", callback_of(sink, 0))
        assert late.status == 404
        # Whoever replaces it begins anew.
        sink.on_options = consenting()
        answer = await node.send("PUT", path, definition(sink))
        assert answer.status == 202
        await until(node, path, "active")


async def test_another_origin_has_to_consent_anew_and_another_path_does_not(node: Node) -> None:
    async with sink_here(consenting()) as sink, sink_here() as other:
        path = await subscribe(node, sink)
        await until(node, path, "active")
        for change in ({"sink": f"{sink.url}/below"}, {"config": {"interval": 0.5}}):
            answer = await node.send("PUT", path, definition(sink) | change)
            assert (answer.status, answer.json["status"]["state"]) == (200, "active")
        answer = await node.send("PUT", path, definition(other))
        assert (answer.status, answer.json["status"]["state"]) == (202, "pending")
        await other.has(lambda sink: sink.asked)
        # The former sink's consent is of no use for this one.
        answer = await node.send("PUT", path, definition(sink))
        assert answer.status == 202
        await until(node, path, "active")
        assert len(sink.asked) == 2
        assert (await node.send("GET", callback_of(other))).status == 404


async def test_a_sink_that_is_silent_holds_back_no_others(node: Node) -> None:
    async with sink_here() as dead, sink_here(consenting()) as sink:
        dead.on_options = dead.silent
        for _ in range(40):
            await subscribe(node, dead)
        path = await subscribe(node, sink)
        await until(node, path, "active")
        assert len(dead.asked) <= 8


async def test_the_rate_that_a_sink_allows_is_kept(node: Node) -> None:
    async with sink_here(consenting(rate="60")) as sink:
        path = await subscribe(node, sink)
        await until(node, path, "active")
        for number in range(3):
            await node.put(f"/messagegroups/g{number}")
        loop = asyncio.get_running_loop()
        await sink.has(lambda sink: sink.events)
        first = loop.time()
        await sink.has(lambda sink: len(sink.events) == 3)
        assert loop.time() - first >= 1.5


async def test_sinks_on_loopback_and_of_other_settings_need_no_consent(database_url: str) -> None:
    async with (
        open_node(database_url, validate_sinks=False) as node,
        WebHookSink() as near,
        sink_here() as far,
        delivering(node),
    ):
        for sink in (near, far):
            answer = await node.send("POST", "/subscriptions", definition(sink))
            assert (answer.status, answer.json["status"]["state"]) == (201, "active")
        await node.put("/messagegroups/g")
        for sink in (near, far):
            await sink.has(lambda sink: sink.events)
            assert sink.asked == []


async def test_who_waits_goes_on_when_the_setting_is_turned_off(database_url: str) -> None:
    async with sink_here() as sink:
        async with open_node(database_url) as node, delivering(node):
            path = await subscribe(node, sink)
            await sink.has(lambda sink: sink.asked)
        async with open_node(database_url, validate_sinks=False) as node, delivering(node):
            await until(node, path, "active")
