"""What an operator of subscriptions does over HTTP, besides defining them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from catalog.subscriptions.stored.deadletters import FailedEvent, add
from catalog.subscriptions.stored.deliveryattempts import Attempt, add_attempts
from tests.integration.conftest import Answer, Node, fresh_node

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
BEYOND = 2**63
COUNTS = {"dead": 0, "waiting": 0, "due": 0}

node = fresh_node(allow_private_addresses=True, delivery_timeout_seconds=1, page_size=3)


class AnsweringSink:
    """A sink that remembers what it was sent, and answers as it is told."""

    def __init__(self) -> None:
        self.url = ""
        self.status = 204
        self.hangs = False
        self.events: list[Any] = []

    async def take(self, request: web.Request) -> web.Response:
        self.events.append((dict(request.headers), await request.json()))
        if self.hangs:
            await asyncio.Event().wait()
        return web.Response(status=self.status, text="a secret of the sink")


@pytest.fixture
async def sink() -> AsyncIterator[AnsweringSink]:
    sink = AnsweringSink()
    app = web.Application()
    app.add_routes([web.post("/", sink.take)])
    async with TestServer(app) as server:
        sink.url = str(server.make_url("/"))
        yield sink


async def subscribed(node: Node, sink: str = "http://127.0.0.1:9/", **changes: Any) -> str:
    """The path of a new subscription."""
    answer = await node.send("POST", "/subscriptions", definition(sink, **changes))
    assert answer.status == 201, answer.body
    return f"/subscriptions/{answer.json['id']}"


def definition(sink: str = "http://127.0.0.1:9/", **changes: Any) -> dict[str, Any]:
    return {"sink": sink, "protocol": "HTTP", **changes}


async def bury(
    node: Node, path: str, *names: str, at: datetime = NOW, reason: str = "the sink answered 400"
) -> None:
    """Add dead letters; the subject is the first letter, and later ones of it wait."""
    seen: set[str] = set()
    failed = []
    for name in names:
        failed.append(
            FailedEvent(
                event=b'{"id": "%s"}' % name.encode(),
                eventid=name,
                subject=name[0],
                at=at,
                attempts=int(name[0] not in seen),
                reason=reason,
                state="waiting" if name[0] in seen else "dead",
            )
        )
        seen.add(name[0])
    async with node.database.transaction() as connection:
        assert await add(connection, path.rpartition("/")[2], failed, most=100) == len(failed)


async def letters(node: Node, path: str) -> dict[str, dict[str, Any]]:
    """The dead letters of a subscription by the ids of their events."""
    found: list[Any] = []
    page = f"{path}/deadletters"
    while page:
        answer = await node.send("GET", page)
        assert answer.status == 200, answer.body
        found += answer.json
        page = next_of(answer)
    return {each["eventid"]: each for each in found}


def next_of(answer: Answer) -> str:
    links = ",".join(answer.headers.getall("Link"))
    found = re.search(r"<https?://[^/]+(/[^>]*)>;rel=next", links)
    return found[1] if found else ""


async def counts(node: Node, path: str) -> Any:
    return (await node.get(path))["status"]["deadletters"]


# Tags and conditions


async def test_a_tag_stands_for_the_definition_and_not_for_the_progress(node: Node) -> None:
    path = await subscribed(node)
    before = await node.send("GET", path)
    await bury(node, path, "a1")
    after = await node.send("GET", path, If_None_Match=before.headers["ETag"])
    assert after.status == 200, "the progress has changed, so a copy of the client is not current"
    assert after.headers["Cache-Control"] == "no-store"
    assert after.headers["ETag"] == before.headers["ETag"]
    assert after.json["status"] != before.json["status"]
    changed = await node.send("PUT", path, definition(types=["x"]))
    assert changed.headers["ETag"] != before.headers["ETag"]
    assert (await node.send("HEAD", path)).headers["ETag"] == changed.headers["ETag"]


@pytest.mark.parametrize("tag", ['"0"', "W/{tag}", "x", "", '"0", "-1"'])
async def test_a_write_under_another_tag_changes_nothing(node: Node, tag: str) -> None:
    path = await subscribed(node)
    before = await node.send("GET", path)
    for method, below, body in (
        ("PUT", "", definition(types=["x"])),
        ("DELETE", "", None),
        ("POST", "/deadletters/redeliver", None),
        ("DELETE", "/deadletters", None),
    ):
        given = tag.format(tag=before.headers["ETag"])
        answer = await node.send(method, path + below, body, If_Match=given)
        assert (answer.status, answer.error) == (412, "precondition_failed"), (method, answer.body)
    assert (await node.get(path)) == before.json


async def test_a_write_under_the_tag_is_done(node: Node) -> None:
    path = await subscribed(node)
    tag = (await node.send("GET", path)).headers["ETag"]
    replaced = await node.send("PUT", path, definition(types=["x"]), If_Match=f'"x", {tag}')
    assert replaced.status == 200
    refused = await node.send("DELETE", path, If_Match=tag)
    assert refused.status == 412
    deleted = await node.send("DELETE", path, If_Match=replaced.headers["ETag"])
    assert (deleted.status, deleted.json["types"]) == (200, ["x"])
    assert (await node.send("DELETE", path, If_Match="*")).status == 404


async def test_of_two_writes_under_one_tag_one_is_done(node: Node) -> None:
    path = await subscribed(node)
    tag = (await node.send("GET", path)).headers["ETag"]
    answers = await asyncio.gather(
        *(node.send("PUT", path, definition(types=[name]), If_Match=tag) for name in "abcd")
    )
    assert sorted(answer.status for answer in answers) == [200, 412, 412, 412]
    [done] = [answer for answer in answers if answer.status == 200]
    assert (await node.get(path))["types"] == done.json["types"]


async def test_a_definition_that_is_put_back_as_it_is_shown_changes_nothing(node: Node) -> None:
    given = definition(
        sinkcredential={"credentialtype": "PLAIN", "identifier": "me", "secret": "s"},
        filters=[{"exact": {"type": "x"}}],
    )
    path = await subscribed(node, **given)
    before = await node.send("GET", path)
    same = await node.send("PUT", path, before.json)
    assert (same.json, same.headers["ETag"]) == (before.json, before.headers["ETag"])
    other = {"credentialtype": "PLAIN", "identifier": "me", "secret": "t"}
    changed = await node.send("PUT", path, {**given, "sinkcredential": other})
    assert changed.headers["ETag"] != before.headers["ETag"]


@pytest.mark.parametrize(
    ("below", "allow"),
    [
        ("", "DELETE, GET, HEAD, OPTIONS, PATCH, PUT"),
        ("/test", "OPTIONS, POST"),
        ("/attempts", "GET, HEAD, OPTIONS"),
        ("/deadletters", "DELETE, GET, HEAD, OPTIONS"),
        ("/deadlettercauses", "GET, HEAD, OPTIONS"),
        ("/deadletters/redeliver", "OPTIONS, POST"),
        ("/deadletters/1", "DELETE, GET, HEAD, OPTIONS"),
    ],
)
async def test_every_path_tells_its_methods(node: Node, below: str, allow: str) -> None:
    path = await subscribed(node) + below
    answer = await node.send("OPTIONS", path)
    assert (answer.status, answer.headers["Allow"]) == (200, allow)
    refused = await node.send("PATCH" if "PUT" not in allow else "POST", path)
    assert (refused.status, refused.headers["Allow"]) == (405, allow)


async def test_subscriptions_come_in_pages(node: Node) -> None:
    paths = sorted([await subscribed(node) for _ in range(5)])
    found, page = [], "/subscriptions?limit=2"
    while page:
        answer = await node.send("GET", page)
        found.append([f"/subscriptions/{each['id']}" for each in answer.json])
        page = next_of(answer)
    assert found == [paths[:2], paths[2:4], paths[4:]]


# Tests of sinks


async def test_an_example_event_is_sent_now_and_the_answer_is_shown(
    node: Node, sink: AnsweringSink
) -> None:
    path = await subscribed(node, sink.url, types=["nothing"])
    answer = await node.send("POST", f"{path}/test")
    assert answer.status == 200
    shown = answer.json
    assert (shown["outcome"], shown["answer"]) == ("delivered", "204")
    assert 0 <= shown["milliseconds"] < 5000
    [(headers, data)] = sink.events
    assert (headers["ce-type"], headers["ce-subject"]) == ("concord.subscription.test", path)
    assert headers["ce-id"] == shown["event"]["id"]
    assert shown["event"]["source"] == f"{node.url}/subscriptions"
    assert data == shown["event"]["data"]


async def test_a_sink_that_refuses_an_example_leaves_the_subscription_as_it_is(
    node: Node, sink: AnsweringSink
) -> None:
    path = await subscribed(node, sink.url)
    before = await node.get(path)
    for status, outcome in ((500, "refused"), (410, "gone"), (302, "refused")):
        sink.status = status
        answer = await node.send("POST", f"{path}/test")
        assert (answer.status, answer.json["outcome"]) == (200, outcome)
        assert answer.json["answer"].startswith(f"the sink answered {status}")
        assert b"a secret" not in answer.body
    assert await node.get(path) == before


async def test_a_sink_that_never_answers_an_example_holds_no_request(
    node: Node, sink: AnsweringSink
) -> None:
    path = await subscribed(node, sink.url)
    sink.hangs = True
    async with asyncio.timeout(15):
        answer = await node.send("POST", f"{path}/test")
    assert (answer.json["outcome"], answer.json["answer"]) == (
        "refused",
        "the sink did not answer in time",
    )


async def test_a_client_has_few_examples_under_way(node: Node, sink: AnsweringSink) -> None:
    path = await subscribed(node, sink.url)
    sink.hangs = True
    answers = await asyncio.gather(*(node.send("POST", f"{path}/test") for _ in range(6)))
    assert sorted(answer.status for answer in answers) == [200] * 4 + [429] * 2
    sink.hangs = False
    assert (await node.send("POST", f"{path}/test")).json["outcome"] == "delivered"


async def test_an_example_tells_why_its_sink_cannot_be_reached(node: Node) -> None:
    path = await subscribed(node, "http://127.0.0.1:1/")
    answer = await node.send("POST", f"{path}/test")
    assert answer.json["outcome"] == "refused"
    assert answer.json["answer"] == "the sink cannot be reached: connection refused"
    assert b"127.0.0.1:1" not in answer.body


# Attempts


async def test_attempts_are_shown_in_pages_the_last_one_first(node: Node) -> None:
    path = await subscribed(node)
    id = path.rpartition("/")[2]
    made = [
        Attempt(
            subscription=id,
            at=NOW + number * HOUR,
            events=number,
            outcome="refused",
            reason="the sink answered 500",
            milliseconds=7,
        )
        for number in range(5)
    ]
    async with node.database.acquire() as connection:
        await add_attempts(connection, made, most=100)
    first = await node.send("GET", f"{path}/attempts")
    assert [each["events"] for each in first.json] == [4, 3, 2]
    assert first.json[0] == {
        "number": first.json[0]["number"],
        "at": "2026-03-01T16:00:00Z",
        "events": 4,
        "outcome": "refused",
        "reason": "the sink answered 500",
        "milliseconds": 7,
    }
    second = await node.send("GET", next_of(first))
    assert [each["events"] for each in second.json] == [1, 0]
    assert next_of(second) == ""


# Dead letters


async def test_dead_letters_are_shown_in_pages_and_each_with_its_event(node: Node) -> None:
    path = await subscribed(node)
    await bury(node, path, "a1", "a2", "b1", "c1")
    assert await counts(node, path) == COUNTS | {"dead": 3, "waiting": 1}
    page = await node.send("GET", f"{path}/deadletters?limit=2")
    assert [each["eventid"] for each in page.json] == ["a1", "a2"]
    assert page.json[0] == {
        "number": page.json[0]["number"],
        "eventid": "a1",
        "subject": "a",
        "at": "2026-03-01T12:00:00Z",
        "attempts": 1,
        "reason": "the sink answered 400",
        "state": "dead",
    }
    assert [*(await letters(node, path))] == ["a1", "a2", "b1", "c1"]
    one = await node.get(f"{path}/deadletters/{page.json[0]['number']}")
    assert one == page.json[0] | {"event": {"id": "a1"}}


async def test_a_dead_letter_is_due_with_what_waits_behind_it(node: Node) -> None:
    path = await subscribed(node)
    tag = (await node.send("GET", path)).headers["ETag"]
    await bury(node, path, "a1", "a2", "b1")
    found = await letters(node, path)
    redeliver = f"{path}/deadletters/redeliver"
    waiting = await node.send("POST", redeliver, {"number": found["a2"]["number"]})
    assert (waiting.status, waiting.error) == (409, "conflict")
    assert "earlier" in waiting.json["detail"]
    one = {"number": found["a1"]["number"]}
    answer = await node.send("POST", redeliver, one)
    due = COUNTS | {"dead": 1, "due": 2}
    assert (answer.status, answer.json) == (202, {"accepted": 2, "deadletters": due})
    # The process that delivers is told by the revision.
    after = (await node.send("GET", path)).headers["ETag"]
    assert after != tag
    again = await node.send("POST", redeliver, one)
    assert (again.status, again.json) == (202, {"accepted": 0, "deadletters": due})
    assert (await node.send("GET", path)).headers["ETag"] == after


async def test_all_dead_letters_or_those_since_a_time_are_due(node: Node) -> None:
    path = await subscribed(node)
    await bury(node, path, "a1", at=NOW - HOUR)
    await bury(node, path, "b1", "c1")
    since = {"since": "2026-03-01T13:00:00+01:00"}
    answer = await node.send("POST", f"{path}/deadletters/redeliver", since)
    assert answer.json["accepted"] == 2
    states = {name: each["state"] for name, each in (await letters(node, path)).items()}
    assert states == {"a1": "dead", "b1": "due", "c1": "due"}
    answer = await node.send("POST", f"{path}/deadletters/redeliver")
    assert answer.json == {"accepted": 1, "deadletters": COUNTS | {"due": 3}}


async def test_dead_letters_are_counted_shown_delivered_and_deleted_by_cause(node: Node) -> None:
    path, late, wrong = await subscribed(node), "the sink did not answer", "it answered 4_2 & %"
    await bury(node, path, "a1", "b1", reason=late, at=NOW - HOUR)
    await bury(node, path, "c1", "f1", reason=late)
    await bury(node, path, "d1", "d2", "e1", reason=wrong)
    times = {"last": "2026-03-01T12:00:00Z"}
    assert await node.get(f"{path}/deadlettercauses") == {
        "causes": [
            {
                **{"reason": late, "dead": 4, "waiting": 0, "due": 0},
                **times,
                "first": "2026-03-01T11:00:00Z",
            },
            {
                **{"reason": wrong, "dead": 2, "waiting": 1, "due": 0},
                **times,
                "first": times["last"],
            },
        ]
    }
    found: list[str] = []
    page = f"{path}/deadletters?{urlencode({'cause': wrong, 'limit': 2})}"
    while page:
        answer = await node.send("GET", page)
        found += [each["eventid"] for each in answer.json]
        page = next_of(answer)
    assert found == ["d1", "d2", "e1"]
    both = {"cause": late, "since": "2026-03-01T12:00:00Z"}
    answer = await node.send("POST", f"{path}/deadletters/redeliver", both)
    left = COUNTS | {"dead": 4, "waiting": 1, "due": 2}
    assert answer.json == {"accepted": 2, "deadletters": left}
    answer = await node.send("POST", f"{path}/deadletters/redeliver", {"cause": late, "number": 1})
    assert answer.status == 400
    deleted = await node.send("DELETE", f"{path}/deadletters?{urlencode({'cause': wrong})}")
    assert deleted.json == {"deleted": 3}
    assert {*await letters(node, path)} == {"a1", "b1", "c1", "f1"}


async def test_a_deleted_dead_letter_lets_the_next_of_its_subject_go(node: Node) -> None:
    path = await subscribed(node)
    await bury(node, path, "a1", "a2", "b1")
    one = f"{path}/deadletters/{(await letters(node, path))['a1']['number']}"
    deleted = await node.send("DELETE", one)
    assert (deleted.status, deleted.json["event"]) == (200, {"id": "a1"})
    assert (await node.send("DELETE", one)).status == 404
    assert await counts(node, path) == COUNTS | {"dead": 1, "due": 1}
    everything = await node.send("DELETE", f"{path}/deadletters")
    assert (everything.status, everything.json) == (200, {"deleted": 2})
    again = await node.send("DELETE", f"{path}/deadletters")
    assert (again.status, again.json) == (200, {"deleted": 0})


async def test_dead_letters_of_another_subscription_are_not_there(node: Node) -> None:
    path, other = await subscribed(node), await subscribed(node)
    await bury(node, path, "a1")
    number = (await letters(node, path))["a1"]["number"]
    one, several = f"{other}/deadletters/{number}", f"{other}/deadletters/redeliver"
    for method, asked, body in (
        ("GET", one, None),
        ("DELETE", one, None),
        ("POST", several, {"number": number}),
    ):
        assert (await node.send(method, asked, body)).status == 404
    assert await counts(node, path) == COUNTS | {"dead": 1}


async def test_nothing_is_redelivered_by_a_subscription_that_is_over(node: Node) -> None:
    path = await subscribed(node)
    await bury(node, path, "a1")
    async with node.database.acquire() as connection:
        await connection.execute("UPDATE subscriptions SET state = 'ended'")
    answer = await node.send("POST", f"{path}/deadletters/redeliver")
    assert (answer.status, answer.error) == (409, "conflict")
    assert "PUT" in answer.json["detail"]
    assert (await node.send("PUT", path, definition())).json["status"]["state"] == "active"
    assert (await node.send("POST", f"{path}/deadletters/redeliver")).status == 202


@pytest.mark.parametrize(
    ("protocol", "sink", "settings"),
    [
        ("KAFKA", "kafka://127.0.0.1:9092,127.0.0.1:9093/t", {}),
        ("KAFKA", "kafka://[::1]:9092,[::1]:9093/t", {}),
        ("NATS", "nats://127.0.0.1", {"subject": "a"}),
    ],
)
async def test_a_subscription_by_any_protocol_is_replaced(
    node: Node, protocol: str, sink: str, settings: Any
) -> None:
    body = {"protocol": protocol, "protocolsettings": settings}
    path = await subscribed(node, sink, **body)
    replaced = await node.put(path, definition(sink, **body, types=["x"]))
    assert (replaced["sink"], replaced["types"]) == (sink, ["x"])
    # Of its former sink nothing is known, nor kept, where there is another protocol.
    replaced = await node.put(path, definition())
    assert replaced["protocol"] == "HTTP"


# Hostile values


@pytest.mark.parametrize("sink", ["amqp://[::1", "amqp://[", "amqp://a:x/q", "amqp://\u2100.com/q"])
async def test_a_sink_that_is_no_url_is_refused(node: Node, sink: str) -> None:
    answer = await node.send("POST", "/subscriptions", {"protocol": "AMQP", "sink": sink})
    assert (answer.status, answer.error) == (400, "invalid_attribute")
    assert answer.json["args"]["name"] == "sink"


UNKNOWN = ["x", "%00", "%ff", "a" * 300, "..%2f..", "%F0%9F%92%A9"]
READS = ["", "/attempts", "/deadletters", "/deadlettercauses", "/deadletters/1"]
WRITES = ["/test", "/deadletters/redeliver"]


@pytest.mark.parametrize("id", UNKNOWN)
async def test_an_unknown_subscription_is_not_there(node: Node, id: str) -> None:
    expected = {400, 404} if "%" in id else {404}
    for method, paths in (("GET", READS), ("POST", WRITES)):
        for below in paths:
            answer = await node.send(method, f"/subscriptions/{id}{below}")
            assert answer.status in expected, (below, answer.body)


@pytest.mark.parametrize(
    "number",
    ["0", "-1", "1.5", "x", str(BEYOND), "9" * 400, "%D9%A3", "1_0", "%201", "1e3", "²"],
)
async def test_an_impossible_number_is_not_there(node: Node, number: str) -> None:
    path = f"{await subscribed(node)}/deadletters/{number}"
    for method in ("GET", "DELETE"):
        answer = await node.send(method, path)
        assert answer.status == 404, answer.body


@pytest.mark.parametrize("below", ["/attempts", "/deadletters"])
@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=-1",
        "limit=x",
        "limit=" + "9" * 30,
        "after=x",
        f"after={BEYOND}",
        "after=%00",
        "after=-1",
        "after=%D9%A3",
        "limit=%00",
    ],
)
async def test_an_impossible_page_is_refused(node: Node, below: str, query: str) -> None:
    answer = await node.send("GET", f"{await subscribed(node)}{below}?{query}")
    assert answer.status == 400, answer.body


@pytest.mark.parametrize(
    "body",
    [
        {"since": "yesterday"},
        {"since": "2026-03-01T00:00:00" + "0" * 200},
        {"since": 7},
        {"since": ["2026-03-01T00:00:00Z"]},
        {"since": "0001-01-01T00:00:00+14:00"},
        {"since": "2026-03-01T00:00:00Z\u0000"},
        {"until": "2026-03-01T00:00:00Z"},
        {"number": -1},
        {"number": "1"},
        {"number": BEYOND},
        {"number": 1, "since": "2026-03-01T00:00:00Z"},
        {"\u0000": 1},
        [],
        "all",
    ],
)
async def test_a_body_that_a_command_cannot_use_is_refused(node: Node, body: Any) -> None:
    path = await subscribed(node)
    await bury(node, path, "a1")
    answer = await node.send("POST", f"{path}/deadletters/redeliver", body)
    assert answer.status == 400, answer.body
    assert await counts(node, path) == COUNTS | {"dead": 1}


@pytest.mark.parametrize("since", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"])
async def test_the_first_and_the_last_time_can_be_named(node: Node, since: str) -> None:
    path = await subscribed(node)
    await bury(node, path, "a1")
    answer = await node.send("POST", f"{path}/deadletters/redeliver", {"since": since})
    assert (answer.status, answer.json["accepted"]) == (202, int(since < "2026"))
