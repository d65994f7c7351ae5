"""A fault of the node itself is answered with an error document, and one line of the log."""

from __future__ import annotations

import contextlib
import json

import pytest
from aiohttp import web

from catalog.http.route import writes
from catalog.telemetry.logs import configure_logs
from tests.integration.conftest import HTTP, SPEC, Answer, Node, shared_node
from tests.integration.test_api_hostile import raw

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def fail(_: web.Request) -> web.Response:
    raise ValueError(f"it is\nbroken with {'x' * 3000}")


async def fail_deep(request: web.Request) -> web.Response:
    try:
        return await fail(request)
    except ValueError as error:
        raise ExceptionGroup("several", [error]) from error


async def answer_what_cannot_be_sent(_: web.Request) -> web.Response:
    return web.Response(headers={"X-Odd": "a\nb"})


async def stream_what_cannot_be_sent(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"X-Odd": "a\nb"})
    await response.prepare(request)
    return response


async def raise_of_the_framework(_: web.Request) -> web.Response:
    raise web.HTTPConflict


async def break_off(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(b"begun")
    raise ValueError("it is broken")


HANDLERS = (
    fail,
    fail_deep,
    answer_what_cannot_be_sent,
    stream_what_cannot_be_sent,
    raise_of_the_framework,
)
ROUTES = [writes("POST", f"/faults/{each.__name__}", each) for each in (*HANDLERS, break_off)]

node = shared_node(routes=ROUTES)


def logged(capsys: pytest.CaptureFixture[str], answer: Answer) -> None:
    """The answer is a problem whose id is in the one line that was logged."""
    problem = answer.json
    assert (answer.status, problem["type"]) == (500, f"{SPEC}server_error")
    assert answer.headers["Content-Type"].startswith("application/json")
    line = capsys.readouterr().err
    assert line.count("\n") == 1, line
    assert len(line) < 1200
    entry = json.loads(line)
    assert problem["instance"] == f"urn:uuid:{entry['instance']}"
    assert entry["event"] == "request failed"
    assert ".py:" in entry["at"]


@pytest.mark.parametrize("handler", HANDLERS)
async def test_a_fault_has_an_id_that_answer_and_log_share(
    node: Node, handler: object, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logs("info")
    answer = await node.send("POST", f"/faults/{handler.__name__}", {})  # type: ignore[attr-defined]
    logged(capsys, answer)
    assert (await node.send("GET", "/")).status == 200


async def test_a_fault_while_an_answer_is_completed_has_an_id_too(
    node: Node, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    configure_logs("info")
    calls = iter(range(10))

    def break_once(*_: object) -> None:
        if next(calls) == 0:
            raise ValueError("it is broken")

    monkeypatch.setattr("catalog.web.door.share_with_origins", break_once)
    logged(capsys, await node.send("GET", "/"))


async def test_a_fault_outside_of_all_handlers_has_an_id_too(
    node: Node, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    configure_logs("info")

    def break_down(_: web.Request) -> str:
        raise ValueError("it is broken")

    monkeypatch.setattr("catalog.web.door.client_address", break_down)
    logged(capsys, await node.send("GET", "/"))


async def test_the_whole_traceback_is_logged_at_the_level_debug(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logs("debug")
    await node.send("POST", "/faults/fail", {})
    assert "Traceback (most recent call last)" in capsys.readouterr().err


async def test_an_answer_that_has_begun_is_cut_short(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logs("info")
    with contextlib.suppress(Exception):
        await node.send("POST", "/faults/break_off", {})
    line = capsys.readouterr().err
    assert line.count("\n") == 1, line
    assert "an answer was cut short" in line


async def test_an_expectation_that_is_not_met_is_a_problem(node: Node) -> None:
    head = "PUT /messagegroups/g HTTP/1.1\r\nHost: localhost\r\nExpect: miracles\r\n"
    status, _, body = await raw(node, f"{head}Content-Length: 0\r\n\r\n".encode())
    assert status == 417
    assert json.loads(body)["type"] == "urn:concord:error:expectation_failed"


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET http://localhost/ HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        b"GET http://u:p@localhost/ HTTP/1.1\r\nHost: u:p@localhost\r\n\r\n",
        b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost:80\r\n\r\n",
        b"CONNECT evil.example:80 HTTP/1.1\r\nHost: localhost:80\r\n\r\n",
        b"GET * HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET ?a HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: \xff\r\n\r\n",
        b"PUT /messagegroups/g HTTP/1.1\r\nHost: \xc3\xa9\r\nContent-Length: 2\r\n\r\n{}",
        b"PUT /messagegroups/g HTTP/1.1\r\nHost: a\xffb\r\nContent-Length: 2\r\n\r\n{}",
    ],
)
async def test_a_request_that_cannot_be_is_the_client_s_fault(
    node: Node, request_bytes: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    before = await node.state()
    configure_logs("info")
    status, head, body = await raw(node, request_bytes)
    assert 400 <= status < 500, (head, body)
    assert json.loads(body)["type"].startswith((SPEC, HTTP, "urn:concord:error:"))
    assert capsys.readouterr().err == ""
    assert await node.state() == before


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET / HTTP/1.0\r\n\r\n",
        b"GET http://localhost:81/ HTTP/1.1\r\nHost: localhost:81\r\n\r\n",
        b"GET http://[::1]:81/ HTTP/1.1\r\nHost: [::1]:81\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: \xff\xfe\r\n\r\n",
    ],
)
async def test_unusual_requests_that_are_well_formed_are_answered(
    node: Node, request_bytes: bytes
) -> None:
    status, head, _ = await raw(node, request_bytes)
    assert status == 200, head


@pytest.mark.parametrize("kilobytes", [66, 130, 500])
@pytest.mark.parametrize("lines", ["a line", "lines of 1 KB", "lines of 10 bytes", "the path"])
async def test_a_header_beyond_the_limits_is_413_however_large_it_is(
    node: Node, kilobytes: int, lines: str
) -> None:
    path, size = "/", kilobytes * 1000
    if lines == "a line":
        fields = [f"A: {'x' * size}"]
    elif lines == "the path":
        path, fields = f"/?x={'x' * size}", []
    else:
        length = 1000 if lines == "lines of 1 KB" else 10
        fields = [f"A{n}: ".ljust(length, "x") for n in range(size // length)]
    sent = "\r\n".join([f"GET {path} HTTP/1.1", "Host: localhost", *fields, "", ""]).encode()
    status, _, body = await raw(node, sent)
    assert status == 413
    assert json.loads(body)["type"] == "urn:concord:error:limit_exceeded"
