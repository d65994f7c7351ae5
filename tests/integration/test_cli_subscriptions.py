"""The commands of a subscription's life, run against a node that delivers to a sink."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner, Result

from catalog.cli import app
from catalog.client import verify
from catalog.subscriptions.delivery.dispatcher import run_deliveries
from tests.integration.conftest import Node, start_node
from tests.integration.federation import execute
from tests.integration.test_sink_consent import sink_here
from tests.integration.test_subscriptions_course import subjects, until
from tests.integration.test_subscriptions_life import (
    AnsweringSink,
    bury,
    letters,
    sink,
    subscribed,
)
from tests.integration.webhooksink import WebHookSink

__all__ = ["sink"]

A, B = "/messagegroups/a", "/messagegroups/b"
WAITING: dict[str, Any] = {
    "filters": [{"prefix": {"subject": "/messagegroups/"}}],
    "config": {"order": "wait", "retry": {"attempts": 1}},
}


@pytest.fixture
async def node(database_url: str) -> AsyncIterator[Node]:
    async with start_node(
        database_url,
        allow_private_addresses=True,
        backoff_initial_seconds=0.05,
        backoff_cap_seconds=0.2,
    ) as node:
        delivering = asyncio.create_task(run_deliveries(node.context))
        yield node
        delivering.cancel()
        await asyncio.wait([delivering])


async def concord(node: Node, *arguments: str) -> Result:
    """Run a subcommand of `subscription`; its loop is its own."""
    run = CliRunner().invoke
    given = ("subscription", *arguments)
    return await asyncio.to_thread(run, app, given, env={"CONCORD_URL": node.url})


async def printed(node: Node, *arguments: str, code: int = 0) -> str:
    """The text that a command prints, each run of blanks as one."""
    result = await concord(node, *arguments)
    assert result.exit_code == code, (result.stdout, result.stderr)
    return re.sub(r"\s+", " ", result.stdout)


async def json_of(node: Node, *arguments: str, code: int = 0) -> Any:
    result = await concord(node, *arguments, "--json")
    assert result.exit_code == code, (result.stdout, result.stderr)
    # Lines of the log of the node, which is in this process, may come before.
    return orjson.loads(result.stdout[re.search(r"^[\[{]", result.stdout, re.M).start() :])


async def buried(node: Node, sink: AnsweringSink, **changes: Any) -> str:
    """The id of a subscription whose sink refused two changes of one group and one of another."""
    path = await subscribed(node, sink.url, **{**WAITING, **changes})
    sink.status = 400
    for xid, name in ((A, "1"), (A, "2"), (B, "1")):
        await node.put(xid, {"name": name})
    async with asyncio.timeout(20):
        while len(await letters(node, path)) < 3:
            await asyncio.sleep(0.02)  # between two looks at the dead letters
    sink.events.clear()
    return path.rpartition("/")[2]


@pytest.mark.parametrize(
    ("scheme", "beginning", "said"),
    [("ed25519", "whpk_", "public key"), ("hmac-sha256", "whsec_", "not shown again")],
)
async def test_a_signed_subscription_tells_the_key_that_verifies_its_deliveries(
    node: Node, scheme: str, beginning: str, said: str
) -> None:
    async with WebHookSink() as sink:
        given = ("add", "--sink", sink.url, "--type", "io.xregistry.group.created")
        text = await printed(node, *given, "--signature", scheme)
        assert said in text
        [key] = re.findall(rf"{beginning}\S+", text)
        await node.put(A)
        await sink.has(lambda sink: sink.events)
        [event] = sink.events
    verify(event.headers, event.body, key)
    [listed] = await json_of(node, "list")
    assert "secret" not in listed["signingkeys"][0]
    [told] = (await json_of(node, *given, "--signature", scheme))["signingkeys"]
    assert told["signature"] == scheme
    assert told["secret" if beginning == "whsec_" else "publickey"].startswith(beginning)


async def test_keys_are_exchanged_listed_and_ended(node: Node) -> None:
    add = ("add", "--sink", "http://127.0.0.1:9/")
    made = await json_of(node, *add, "--signature", "hmac-sha256")
    id, [old] = made["id"], made["signingkeys"]
    said = await printed(node, "keys", "rotate", id, "--overlap", "3600")
    [secret] = re.findall(r"whsec_\S+", said)
    assert secret != old["secret"]
    new, former = (await json_of(node, "show", id))["signingkeys"]
    assert (former["id"], "secret" in new) == (old["id"], False)
    assert "endsat" in former
    shown = await printed(node, "show", id)
    assert ("Signing keys" in shown, secret in shown) == (True, False)
    current = await concord(node, "keys", "remove", id, new["id"])
    assert (current.exit_code, "it is the current key" in current.stderr) == (1, True)
    assert "signs no more" in await printed(node, "keys", "remove", id, old["id"])
    assert (await json_of(node, "show", id))["signingkeys"] == [new]
    ended = await json_of(node, "keys", "rotate", id, "--overlap", "0")
    [left] = (await json_of(node, "show", id))["signingkeys"]
    assert left["id"] == ended["id"]


async def test_a_signature_is_asked_for_once_and_over_http(node: Node) -> None:
    add = ("add", "--sink", "http://127.0.0.1:9/", "--signature")
    unknown = await concord(node, *add, "rot13")
    assert (unknown.exit_code, "hmac-sha256" in unknown.stderr) == (2, True)
    twice = await concord(node, *add, "ed25519", "--setting", "signature=hmac-sha256")
    assert (twice.exit_code, "exclude each other" in twice.stderr) == (2, True)
    kafka = ("add", "--protocol", "KAFKA", "--sink", "kafka://127.0.0.1:9/t")
    other = await concord(node, *kafka, "--signature", "ed25519")
    assert (other.exit_code, "signature" in other.stderr) == (1, True)
    assert await json_of(node, "list") == []
    unsigned = await printed(node, "add", "--sink", "http://127.0.0.1:9/")
    assert "sign" not in unsigned


async def test_a_sink_that_has_to_consent_is_told(node: Node) -> None:
    async with sink_here() as sink:
        assert "once this has consented." in await printed(node, "add", "--sink", sink.url)


async def test_a_subscription_is_paused_and_resumed(node: Node, sink: AnsweringSink) -> None:
    id = (await subscribed(node, sink.url)).rpartition("/")[2]
    assert "is paused." in await printed(node, "pause", id, "--reason", "the [sink] moves")
    listed = await printed(node, "list")
    assert f"{id} paused " in listed
    assert "moves" in listed
    assert "delivers." in await printed(node, "resume", id)
    assert (await json_of(node, "pause", id))["status"]["state"] == "paused"
    assert (await json_of(node, "resume", id))["status"]["state"] == "active"


async def test_a_subscription_goes_on_from_a_place_in_the_log(
    node: Node, sink: AnsweringSink
) -> None:
    await node.put(A)
    await node.changes()
    id = (await subscribed(node, sink.url, **WAITING)).rpartition("/")[2]
    assert "goes on from earliest:" in await printed(node, "replay", id, "--from", "earliest")
    await until(lambda: subjects(sink) == [A])
    await printed(node, "pause", id)
    assert "It is still paused." in await printed(node, "replay", id, "--from", "now")
    refused = await concord(node, "replay", id, "--from", "yesterday")
    assert (refused.exit_code, "cursor" in refused.stderr) == (1, True)


async def test_an_example_event_tells_whether_the_sink_accepts(
    node: Node, sink: AnsweringSink
) -> None:
    id = (await subscribed(node, sink.url)).rpartition("/")[2]
    assert "The sink accepted the example event after" in await printed(node, "test", id)
    sink.status = 500
    text = await printed(node, "test", id, code=1)
    assert "did not accept" in text
    assert "the sink answered 500" in text
    assert (await json_of(node, "test", id, code=1))["outcome"] == "refused"
    assert (await concord(node, "test", "nobody")).exit_code == 1


async def test_the_last_attempts_are_listed(node: Node, sink: AnsweringSink) -> None:
    id = (await subscribed(node, sink.url, **WAITING)).rpartition("/")[2]
    assert "Nothing was sent" in await printed(node, "show", id, "--attempts", "20")
    sink.status = 400
    for name in "abc":
        await node.put(f"/messagegroups/{name}")
    await until(lambda: len(sink.events) == 3)
    async with asyncio.timeout(20):
        while len(await json_of(node, "show", id, "--attempts", "20")) < 3:
            await asyncio.sleep(0.02)  # between two looks at the attempts
    [last, _] = await json_of(node, "show", id, "--attempts", "2")
    assert (last["outcome"], last["reason"]) == ("refused", "the sink answered 400")
    assert "refused" in await printed(node, "show", id, "--attempts", "20")


async def test_dead_letters_are_listed_and_shown(node: Node, sink: AnsweringSink) -> None:
    id = await buried(node, sink)
    text = await printed(node, "deadletters", "list", id)
    assert text.count("waiting") == 1
    assert text.count("dead") == 2
    found = await json_of(node, "deadletters", "list", id, "--limit", "1")
    shown = orjson.loads(await printed(node, "deadletters", "show", id, str(found[0]["number"])))
    assert (shown["subject"], shown["event"]["subject"]) == (A, A)
    assert "dead: 2, waiting: 1" in await printed(node, "show", id)


async def test_dead_letters_are_counted_and_delivered_by_cause(
    node: Node, sink: AnsweringSink
) -> None:
    id = await buried(node, sink)
    [first, behind] = await json_of(node, "deadletters", "list", id, "--causes")
    assert (first["dead"], behind["waiting"]) == (2, 1)
    assert first["reason"] in await printed(node, "deadletters", "list", id, "--causes")
    found = await json_of(node, "deadletters", "list", id, "--cause", behind["reason"])
    assert [each["state"] for each in found] == ["waiting"]
    sink.status = 204
    text = await printed(node, "deadletters", "redeliver", id, "--cause", first["reason"])
    assert text == "3 events delivered. "
    assert "no dead letters" in await printed(node, "deadletters", "list", id, "--causes")


async def test_a_subscription_is_tried_before_it_is_made(node: Node) -> None:
    await node.put("/messagegroups/tried")
    await node.changes()
    wanted = ("add", "--sink", "http://127.0.0.1:9/", "--dry-run")
    text = await printed(node, *wanted, "--type", "io.xregistry.group.created")
    assert "it would have sent 1 event." in text
    assert "/messagegroups/tried" in text
    assert (await json_of(node, *wanted, "--type", "none"))["events"] == 0
    assert "no subscriptions" in await printed(node, "list")


async def test_dead_letters_are_delivered_again_in_order(node: Node, sink: AnsweringSink) -> None:
    id = await buried(node, sink)
    [first, second, third] = await json_of(node, "deadletters", "list", id)
    sink.status = 204
    text = await printed(node, "deadletters", "redeliver", id, str(first["number"]))
    assert text == "2 events delivered. "
    assert [headers["ce-id"] for headers, _ in sink.events] == [first["eventid"], second["eventid"]]
    outcome = await json_of(node, "deadletters", "redeliver", id, "--since", third["at"])
    nothing = {"failed": 0, "waiting": 0, "due": 0, "state": "active"}
    assert outcome == {"accepted": 1, **nothing}
    assert "no dead letters" in await printed(node, "deadletters", "list", id)
    assert await json_of(node, "deadletters", "redeliver", id, "--all") == {
        "accepted": 0,
        **nothing,
    }


async def test_events_that_fail_again_are_counted(node: Node, sink: AnsweringSink) -> None:
    id = await buried(node, sink)
    text = await printed(node, "deadletters", "redeliver", id, "--all", code=1)
    assert text == "0 events delivered; 2 failed again, and 1 wait behind. "


async def test_nobody_waits_for_a_subscription_that_is_paused(
    node: Node, sink: AnsweringSink
) -> None:
    id = await buried(node, sink)
    await printed(node, "pause", id)
    text = await printed(node, "deadletters", "redeliver", id, "--all")
    assert text == (
        "3 events will be delivered again when the subscription is active; it is paused. "
    )
    assert sink.events == []
    sink.status = 204
    await printed(node, "resume", id)
    await until(lambda: len(sink.events) == 3)


async def test_whoever_does_not_want_to_wait_need_not(node: Node, sink: AnsweringSink) -> None:
    id = await buried(node, sink)
    sink.status = 204
    text = await printed(node, "deadletters", "redeliver", id, "--all", "--no-wait")
    assert text == "3 events will be delivered again. "
    await until(lambda: len(sink.events) == 3)


async def test_dead_letters_are_removed(node: Node) -> None:
    path = await subscribed(node)
    id = path.rpartition("/")[2]
    await printed(node, "pause", id)
    await bury(node, path, "a1", "b1", "c1")
    numbers = [str(each["number"]) for each in (await letters(node, path)).values()]
    assert await printed(node, "deadletters", "remove", id, *numbers[:2]) == "2 events removed. "
    assert await printed(node, "deadletters", "remove", id, "--all") == "1 event removed. "
    assert (await concord(node, "deadletters", "remove", id, numbers[2])).exit_code == 1


@pytest.mark.parametrize("name", ["redeliver", "remove"])
@pytest.mark.parametrize("chosen", [[], ["1", "--all"]])
async def test_dead_letters_are_chosen_in_one_way(node: Node, name: str, chosen: list[str]) -> None:
    result = await concord(node, "deadletters", name, "x", *chosen)
    assert result.exit_code == 2
    assert "numbers" in result.stderr


async def test_a_subscription_is_shown_readably_or_whole(node: Node, sink: AnsweringSink) -> None:
    path = await subscribed(node, sink.url, **WAITING)
    id = path.rpartition("/")[2]
    whole = await json_of(node, "show", id)
    status, shown = whole.pop("status"), await node.get(path)
    assert status.keys() == shown.pop("status").keys()
    assert whole == shown
    text = await printed(node, "show", id)
    assert "state active" in text
    assert "lag (changes) 0" in text
    assert "None" not in text


async def test_a_command_tells_that_the_consent_of_the_sink_comes_first(node: Node) -> None:
    path = await subscribed(node)
    await execute(node, "UPDATE subscriptions SET state = 'pending'")
    id = path.rpartition("/")[2]
    for name, done in (("pause", "is paused"), ("resume", "delivers")):
        shown = await printed(node, name, id)
        assert shown.strip() == f"Subscription {id} {done}. But first its sink has to consent."
