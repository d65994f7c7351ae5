"""Deliveries that are signed, and the life of the keys, over HTTP."""

from __future__ import annotations

import asyncio
from base64 import b64decode
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
from aiohttp import web
from standardwebhooks import Webhook

from catalog.client import SignatureInvalid, verify
from catalog.subscriptions.delivery.dispatcher import run_deliveries
from tests.integration.conftest import Node, assert_problem, start_node
from tests.integration.webhooksink import WebHookSink, accept


@pytest.fixture
async def node(database_url: str) -> AsyncIterator[Node]:
    async with start_node(database_url, backoff_initial_seconds=0.01) as node:
        delivering = asyncio.create_task(run_deliveries(node.context))
        yield node
        delivering.cancel()
        await asyncio.wait([delivering])


async def subscribe(node: Node, sink: WebHookSink, signature: str, **settings: Any) -> Any:
    answer = await node.send("POST", "/subscriptions", definition(sink, signature, **settings))
    assert answer.status == 201, answer.body
    return answer.json


def definition(sink: WebHookSink, signature: str, **settings: Any) -> dict[str, Any]:
    return {
        "sink": sink.url,
        "protocol": "HTTP",
        "types": ["io.xregistry.group.created"],
        "protocolsettings": {"signature": signature, **settings},
    }


def path_of(subscription: Any) -> str:
    return f"/subscriptions/{subscription['id']}"


@pytest.mark.parametrize("contentmode", ["binary", "structured"])
async def test_the_library_verifies_what_a_subscriber_gets(node: Node, contentmode: str) -> None:
    async with WebHookSink() as sink:
        made = await subscribe(node, sink, "hmac-sha256", contentmode=contentmode)
        [key] = made["signingkeys"]
        await node.put("/messagegroups/g", {"name": "Zürich"})
        await sink.has(lambda sink: sink.events)
        [event] = sink.events
    assert Webhook(key["secret"]).verify(event.body, dict(event.headers)) is not None
    is_binary = contentmode == "binary"
    id = event.headers["ce-id"] if is_binary else orjson.loads(event.body)["id"]
    assert event.headers["webhook-id"] == id


async def test_a_public_key_is_enough_for_ed25519(node: Node) -> None:
    async with WebHookSink() as sink:
        made = await subscribe(node, sink, "ed25519")
        [key] = made["signingkeys"]
        assert key["publickey"].startswith("whpk_")
        assert "secret" not in key
        assert (await node.get(path_of(made)))["signingkeys"] == [key]
        await node.put("/messagegroups/g")
        await sink.has(lambda sink: sink.events)
        [event] = sink.events
    verify(event.headers, event.body, key["publickey"])


async def test_a_repeated_attempt_has_the_same_id_and_a_signature_of_its_own_time(
    node: Node,
) -> None:
    async def refuse_once(request: web.Request) -> web.StreamResponse:
        sink.on_event = accept
        return web.Response(status=503, headers={"Retry-After": "1"})

    async with WebHookSink() as sink:
        sink.on_event = refuse_once
        made = await subscribe(node, sink, "hmac-sha256")
        secret = made["signingkeys"][0]["secret"]
        await node.put("/messagegroups/g")
        await sink.has(lambda sink: len(sink.events) == 2)
        first, second = sink.events
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.headers["webhook-timestamp"] < second.headers["webhook-timestamp"]
    for event in (first, second):
        verify(event.headers, event.body, secret)


async def test_a_secret_is_shown_once_and_stored_encrypted(node: Node, capsys: Any) -> None:
    async with WebHookSink() as sink:
        made = await subscribe(node, sink, "hmac-sha256")
        secret: str = made["signingkeys"][0].pop("secret")
        path = path_of(made)
        listed = (await node.send("GET", "/subscriptions")).body
        shown = (await node.send("GET", path)).body
        again = (await node.send("PUT", path, definition(sink, "hmac-sha256"))).body
        assert (await node.get(path))["signingkeys"] == made["signingkeys"]
        await node.put("/messagegroups/g")
        await sink.has(lambda sink: sink.events)
    encoded = secret.removeprefix("whsec_")
    async with node.database.acquire() as connection:
        rows = await connection.fetch("SELECT sealed FROM signing_keys")
        text = str(await connection.fetch("SELECT * FROM subscriptions"))
        text += str(await connection.fetch("SELECT * FROM subscription_events"))
    [row] = rows
    raw = b64decode(encoded)
    assert raw not in row["sealed"]
    printed = "".join(capsys.readouterr())
    everything = b"".join([listed, shown, again]).decode() + text + printed
    for form in (encoded, raw.hex(), str(raw)):
        assert form not in everything


async def test_two_keys_sign_while_they_are_exchanged_until_the_old_one_is_ended(
    node: Node,
) -> None:
    async with WebHookSink() as sink:
        made = await subscribe(node, sink, "hmac-sha256")
        path, old = path_of(made), made["signingkeys"][0]
        answer = await node.send("POST", f"{path}/signingkeys")
        assert answer.status == 201, answer.body
        new = answer.json
        assert answer.headers["Location"].endswith(f"{path}/signingkeys/{new['id']}")
        shown = (await node.get(path))["signingkeys"]
        assert [each["id"] for each in shown] == [new["id"], old["id"]]
        assert "endsat" in shown[1]
        assert "endsat" not in shown[0]

        await node.put("/messagegroups/a")
        await sink.has(lambda sink: len(sink.events) == 1)
        assert is_signed_by(sink, old)
        assert is_signed_by(sink, new)

        third = await node.send("POST", f"{path}/signingkeys")
        assert (third.status, third.error) == (409, "conflict")
        current = await node.send("DELETE", f"{path}/signingkeys/{new['id']}")
        assert (current.status, current.error) == (409, "conflict")
        ended = await node.send("DELETE", f"{path}/signingkeys/{old['id']}")
        assert ended.status == 204
        gone = await node.send("DELETE", f"{path}/signingkeys/{old['id']}")
        assert gone.status == 404

        # The delivery learns of the end of a key while it goes on.
        async with asyncio.timeout(30):
            while is_signed_by(sink, old):
                last = f"/messagegroups/b{len(sink.events)}"
                await node.put(last)
                await has_subject(sink, last)
        assert is_signed_by(sink, new)


async def has_subject(sink: WebHookSink, subject: str) -> None:
    await sink.has(lambda sink: sink.events[-1].headers["ce-subject"] == subject)


def is_signed_by(sink: WebHookSink, key: Any) -> bool:
    """Whether a key has signed the last event of a sink."""
    event = sink.events[-1]
    try:
        verify(event.headers, event.body, key["secret"])
    except SignatureInvalid:
        return False
    return True


async def test_a_key_that_became_known_is_ended_at_once(node: Node) -> None:
    async with WebHookSink() as sink:
        made = await subscribe(node, sink, "ed25519")
        path, old = path_of(made), made["signingkeys"][0]
        await node.send("POST", f"{path}/signingkeys")
        answer = await node.send("POST", f"{path}/signingkeys", {"overlapseconds": 0})
        assert answer.status == 201, answer.body
        assert [each["id"] for each in (await node.get(path))["signingkeys"]] == [answer.json["id"]]
        await node.put("/messagegroups/a")
        await sink.has(lambda sink: sink.events)
    [event] = sink.events
    verify(event.headers, event.body, answer.json["publickey"])
    with pytest.raises(SignatureInvalid):
        verify(event.headers, event.body, old["publickey"])


@pytest.mark.parametrize("overlap", [-1, 2592001, 1.5, True, "60", None, [1]])
async def test_an_overlap_that_is_none_is_refused(node: Node, overlap: Any) -> None:
    async with WebHookSink() as sink:
        path = path_of(await subscribe(node, sink, "ed25519"))
        answer = await node.send("POST", f"{path}/signingkeys", {"overlapseconds": overlap})
    assert answer.error == "invalid_attribute"
    assert_problem(answer)


async def test_keys_stay_as_they_are_under_another_tag(node: Node) -> None:
    async with WebHookSink() as sink:
        path = path_of(await subscribe(node, sink, "ed25519"))
        await node.send("POST", f"{path}/signingkeys")
        before = await node.send("GET", path)
        old = before.json["signingkeys"][1]["id"]
        for method, below in (("POST", ""), ("DELETE", f"/{old}")):
            keys = f"{path}/signingkeys{below}"
            refused = await node.send(method, keys, If_Match='"0"')
            assert (refused.status, refused.error) == (412, "precondition_failed")
        assert (await node.get(path))["signingkeys"] == before.json["signingkeys"]
        tag = before.headers["ETag"]
        ended = await node.send("DELETE", f"{path}/signingkeys/{old}", If_Match=tag)
        assert ended.status == 204


async def test_other_members_and_other_subscriptions_are_refused(node: Node) -> None:
    async with WebHookSink() as sink:
        unsigned = await subscribe(node, sink, "none")
        assert "signingkeys" not in unsigned
        signed = path_of(await subscribe(node, sink, "ed25519"))
        unknown = await node.send("POST", f"{signed}/signingkeys", {"secret": "whsec_mine"})
        assert unknown.error == "unknown_attribute"
        answer = await node.send("POST", f"{path_of(unsigned)}/signingkeys")
        assert (answer.status, answer.error) == (409, "conflict")
        answer = await node.send("POST", "/subscriptions/nothing/signingkeys")
        assert answer.status == 404
        bad = await node.send("POST", "/subscriptions", definition(sink, "rot13"))
        assert bad.error == "invalid_attribute"


async def test_keys_stay_while_the_sink_and_the_kind_of_signature_do(node: Node) -> None:
    async with WebHookSink() as sink, WebHookSink() as other:
        made = await subscribe(node, sink, "hmac-sha256")
        path, [key] = path_of(made), made["signingkeys"]

        async def replaced(body: dict[str, Any]) -> Any:
            answer = await node.send("PUT", path, {**body, "signingkeys": ["ignored"]})
            assert answer.status == 200, answer.body
            return answer.json.get("signingkeys")

        kept = await replaced({**definition(sink, "hmac-sha256"), "sink": f"{sink.url}/below"})
        assert [each["id"] for each in kept] == [key["id"]]
        assert "secret" not in kept[0]
        [moved] = await replaced(definition(other, "hmac-sha256"))
        assert moved["id"] != key["id"]
        assert moved["secret"] != key["secret"]
        [public] = await replaced(definition(other, "ed25519"))
        assert public["signature"] == "ed25519"
        assert await replaced(definition(other, "none")) is None
        # A delivery that is under way still has the definition before.
        signed = True
        for number in range(20):
            await node.put(f"/messagegroups/g{number}")
            await other.has(lambda sink, least=number: len(sink.events) > least)
            if not (signed := "webhook-signature" in other.events[-1].headers):
                break
        assert not signed


async def test_nothing_is_sent_unsigned_because_a_key_cannot_be_read(node: Node) -> None:
    async with WebHookSink() as sink:
        made = await subscribe(node, sink, "hmac-sha256")
        async with node.database.acquire() as connection:
            await connection.execute("UPDATE signing_keys SET sealed = sealed || '\\x00'")
        answer = await node.send(
            "PUT", path_of(made), {**definition(sink, "hmac-sha256"), "config": {"interval": 0.5}}
        )
        assert answer.status == 200
        await node.put("/messagegroups/a")
        async with asyncio.timeout(30):
            while not (status := (await node.get(path_of(made)))["status"])["failures"]:
                await asyncio.sleep(0.02)  # between two looks at the progress
        assert "secret" in status["error"]
        assert sink.events == []


async def test_the_keys_of_a_deleted_subscription_are_gone(node: Node) -> None:
    async with WebHookSink() as sink:
        path = path_of(await subscribe(node, sink, "hmac-sha256"))
        assert (await node.send("DELETE", path)).status == 200
    async with node.database.acquire() as connection:
        assert await connection.fetchval("SELECT count(*) FROM signing_keys") == 0
