"""The receiver takes what a server delivers, and the suite finds what is wrong with copies."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import orjson
import pytest

from xregistry_conformance.copies import buckets_of, digest_of, faults_of
from xregistry_conformance.harness import Answer, check, check_delivery
from xregistry_conformance.receiver import Receiver

EVENT = {"Content-Type": "application/json", "ce-id": "1", "ce-subject": "/a"}


@pytest.fixture(scope="module")
def opened() -> Iterator[Receiver]:
    with Receiver.open("http://127.0.0.1") as receiver:
        yield receiver


@pytest.fixture
def sink(opened: Receiver) -> str:
    return opened.begin()


def send(url: str, method: str = "POST", body: Any = b"{}", **headers: str) -> tuple[int, Any]:
    parts = urlsplit(url)
    connection = HTTPConnection(parts.netloc, timeout=10)
    path = f"{parts.path}?{parts.query}" if parts.query else parts.path
    connection.request(method, path, body=body, headers={**EVENT, **headers})
    response = connection.getresponse()
    response.read()
    connection.close()
    return response.status, response.headers


def wanting(**want: Any) -> Any:
    return lambda delivery: check_delivery(want, delivery, {})


def test_a_delivery_is_taken_once(opened: Receiver, sink: str) -> None:
    assert send(sink)[0] == 204
    assert opened.take(wanting(headers={"ce-id": "1"}, body={}), 1) == []
    [late, *rest] = opened.take(wanting(headers={"ce-id": "1"}), 0.01)
    assert "did not come" in late
    assert rest == []


def test_a_delivery_that_is_awaited_is_noticed_as_it_comes(opened: Receiver, sink: str) -> None:
    threading.Timer(0.05, send, [sink]).start()
    assert opened.take(wanting(headers={"ce-subject": "/a"}), 10) == []


def test_what_came_in_its_place_is_told(opened: Receiver, sink: str) -> None:
    send(sink)
    assert "header ce-id is '1'" in opened.take(wanting(headers={"ce-id": "2"}), 0.01)[1]
    assert opened.absent(wanting(headers={"ce-id": "2"})) == []
    assert "it came" in opened.absent(wanting(headers={"ce-id": "1"}))[0]


def test_what_must_not_come_is_noticed_as_it_comes(opened: Receiver, sink: str) -> None:
    threading.Timer(0.05, send, [sink]).start()
    assert "it came" in opened.absent(wanting(headers={"ce-id": "1"}), 10)[0]


def test_answers_are_those_of_the_case_in_their_order(opened: Receiver, sink: str) -> None:
    opened.answer([{"status": 429, "headers": {"Retry-After": 2}}, {"status": 503}])
    status, headers = send(sink)
    assert (status, headers["Retry-After"]) == (429, "2")
    assert [send(sink)[0], send(sink)[0]] == [503, 204]
    assert send(sink, "OPTIONS", None)[1]["WebHook-Allowed-Origin"] == "*"
    opened.consent({"status": 405})
    assert send(sink, "OPTIONS", None)[0] == 405
    assert send(opened.begin().rpartition("/")[0] + "/other")[0] == 410


def test_a_delivery_that_comes_too_early_is_a_fault(opened: Receiver, sink: str) -> None:
    send(sink)
    assert opened.take(wanting(), 1) == []
    send(sink)
    assert "too early" in opened.take(wanting(), 1, after=60)[0]


def test_a_body_in_chunks_is_read(opened: Receiver, sink: str) -> None:
    send(sink, body=iter([b'{"a"', b": 1}"]))
    assert opened.take(wanting(body={"a": 1}), 1) == []


def test_the_query_and_the_method_are_compared(opened: Receiver, sink: str) -> None:
    send(f"{sink}?followed", "PUT")
    assert opened.absent(wanting(query="followed", method="PUT"))
    assert opened.absent(wanting(query="followed")) == []
    assert opened.absent(wanting(query="", method="PUT")) == []


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_a_receiver_is_reached_until_its_context_ends(host: str) -> None:
    with Receiver.open(f"http://{host}") as receiver:
        url = receiver.begin()
        assert send(url)[0] == 204
    began = time.monotonic()
    with pytest.raises(OSError, match="refused"):
        send(url)
    assert time.monotonic() - began < 10


def copy(origin: str, **members: Any) -> dict[str, Any]:
    made = {
        **{"authority": "urn:a", "origin": origin, "xid": origin, "kind": "group", "epoch": 1},
        **{"createdat": "2026-01-01T00:00:00Z", "modifiedat": "2026-01-01T00:00:00Z"},
        "attributes": {},
        **members,
    }
    return {"digest": digest_of(made), **made}


GROUP, RESOURCE = copy("/g/1"), copy("/g/1/r/2", kind="resource")
END = {"cursor": "c"}


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "cut"),
        ([GROUP], "cut"),
        ([GROUP, {"cursor": 5}], "the cursor is 5"),
        ([{**GROUP, "attributes": {"name": "forged"}}, END], "not that of its content"),
        ([{**GROUP, "xid": "/g/2"}, END], "the xid of /g/1 is /g/2"),
        ([{**GROUP, "kind": "groups"}, END], "the kind of /g/1 is groups"),
        ([RESOURCE, GROUP, END], "/g/1/r/2 comes before its parent"),
        ([{"origin": "/g/1"}, END], "lacks"),
    ],
)
def test_what_is_wrong_with_copies_is_found(lines: list[Any], said: str) -> None:
    assert said in faults_of(lines)[0]


def test_copies_that_are_right_have_no_faults() -> None:
    deleted = {"authority": "urn:a", "origin": "/g/3", "epoch": 2, "deleted": True}
    tombstone = {**deleted, "xid": "/g/3", "kind": "group", "deletedat": "2026-01-01T00:00:00Z"}
    tombstone["digest"] = digest_of(tombstone)
    assert faults_of([GROUP, RESOURCE, tombstone, {**END, "behind": 0}]) == []


def test_buckets_that_are_not_those_of_the_copies_are_found() -> None:
    saved = {"copies": [GROUP, RESOURCE, END]}
    right = {"bits": 8, "buckets": buckets_of([GROUP, RESOURCE], 8)}
    wrong = {"bits": 8, "buckets": buckets_of([GROUP], 8)}
    assert check({"buckets": "copies"}, _json(right), saved) == []
    assert "those of the copies" in check({"buckets": "copies"}, _json(wrong), saved)[0]


def _json(value: Any) -> Answer:
    return Answer(
        status=200, headers={"content-type": "application/json"}, body=orjson.dumps(value)
    )
