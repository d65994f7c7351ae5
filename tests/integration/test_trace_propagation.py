"""A node passes on the trace of a request, and its log tells ids, whether or not it tells spans."""

from __future__ import annotations

import asyncio
import json
import sys

import pytest
import structlog
from aiohttp import web
from structlog.contextvars import bind_contextvars, clear_contextvars

from catalog import install_command
from catalog.http.route import reads
from catalog.model.tracecontext import TraceContext, current_trace
from catalog.telemetry.logs import configure_logs
from catalog.telemetry.tracing import Tracing, is_wanted, open_tracing
from replication.feed.feedlines import read_line
from tests.integration.conftest import Node, fresh_node
from tests.integration.federation import databases, eventually, running, start_member

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"
STATE = "shop=t61rcWkgMzE"
_log = structlog.get_logger()


async def _speak(_: web.Request) -> web.Response:
    _log.info("it was asked", subject="s")
    return web.Response()


node = fresh_node(routes=[reads("/faults/speak", _speak)])


async def traces(node: Node) -> set[TraceContext | None]:
    return {each.trace for each in await node.changes()}


async def test_the_changes_of_a_request_keep_its_trace(node: Node) -> None:
    before = await traces(node)
    assert before <= {None}
    await node.put("/messagegroups/plain")
    await node.put("/messagegroups/wrong", traceparent=PARENT + "0")
    assert await traces(node) == {None}
    await node.put("/messagegroups/g", traceparent=PARENT, tracestate=STATE)
    assert await traces(node) == {None, TraceContext.parse(PARENT, STATE)}
    # One that is larger is not part of a group commit.
    other = PARENT.replace("01", "00", 1).replace("b7", "c7")
    await node.put("/messagegroups/h", {"messages": {f"m{n}": {} for n in range(9)}})
    await node.send("DELETE", "/messagegroups/h", traceparent=other)
    assert TraceContext.parse(other) in await traces(node)


async def test_writes_at_once_keep_their_own_traces(node: Node) -> None:
    parents = [f"00-{number:032x}-b7ad6b7169203331-01" for number in range(1, 13)]

    async def write(number: int) -> None:
        headers = {"traceparent": parents[number]} if number % 3 else {}
        await node.put(f"/messagegroups/g{number}", **headers)

    await asyncio.gather(*(write(number) for number in range(12)))
    found = {
        each.change.xid: each.trace and each.trace.parent
        for each in await node.changes()
        if each.change.kind == "group"
    }
    assert found == {
        f"/messagegroups/g{number}": parents[number] if number % 3 else None for number in range(12)
    }


async def test_lines_of_a_request_tell_its_ids(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logs("info", "json")
    answer = await node.send(
        "GET",
        "/faults/speak",
        X_Request_ID="order-17",
        traceparent=PARENT,
        Authorization="Bearer x",
    )
    line = capsys.readouterr().err
    entry = json.loads(line)
    told = {name: entry[name] for name in ("event", "request", "trace", "subject")}
    assert told == {"event": "it was asked", "request": "order-17", "trace": TRACE, "subject": "s"}
    assert answer.headers["X-Request-ID"] == "order-17"
    assert "Bearer" not in line
    insane = await node.send("GET", "/faults/speak", X_Request_ID="a b\tc" + "x" * 200)
    entry = json.loads(capsys.readouterr().err)
    assert entry["request"] == insane.headers["X-Request-ID"] != "order-17"
    assert len(entry["request"]) == 16
    assert "trace" not in entry, "a request on the same connection does not inherit it"


def test_the_form_of_the_log_can_be_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    bind_contextvars(link="eu")
    try:
        configure_logs("info", "console")
        _log.info("it works")
        assert capsys.readouterr().err.split()[1:] == ["[info", "]", "it", "works", "link=eu"]
    finally:
        clear_contextvars()


async def test_a_copy_brings_the_trace_of_its_write(postgres_url: str, template: str) -> None:
    async with (
        databases(postgres_url, template, 3) as urls,
        start_member(urls[0]) as hub,
        start_member(urls[1]) as east,
        start_member(urls[2]) as west,
    ):
        # One pulls, the other one is pushed to.
        link = {"id": "hub", "source": hub.context.public_base, "mode": "pull"}
        assert (await east.send("POST", "/replication/links", link)).status == 201
        authority = hub.database.node.authority
        accepted = {"id": "hub", "mode": "accept", "authority": authority}
        answer = await west.send("POST", "/replication/links", accepted)
        assert answer.status == 201, answer.body
        link = {"id": "west", "target": west.context.public_base, "mode": "push"}
        answer = await hub.send("POST", "/replication/links", link)
        assert answer.status == 201, answer.body
        async with running(hub, east, west):
            for path in ("links/hub", "links/west"):
                at = east if path.endswith("hub") else hub

                async def is_current(at: Node = at, path: str = path) -> bool:
                    return bool((await at.get(f"/replication/{path}"))["state"] == "current")

                await eventually(is_current)
            await hub.put("/messagegroups/g", traceparent=PARENT, tracestate=STATE)
            for follower in (east, west):

                async def has_it(at: Node = follower) -> bool:
                    return (await at.send("GET", "/messagegroups/g")).status == 200

                await eventually(has_it)
        for follower in (east, west):
            groups = [e for e in await follower.changes() if e.change.kind == "group"]
            assert {e.trace for e in groups} == {TraceContext.parse(PARENT, STATE)}


def test_a_line_of_the_feed_with_a_malformed_trace_is_a_copy_all_the_same() -> None:
    line = {
        "xid": "/messagegroups/g",
        "kind": "group",
        "authority": "urn:a",
        "origin": "/messagegroups/g",
        "epoch": 1,
        "createdat": "2030-01-01T00:00:00Z",
        "modifiedat": "2030-01-01T00:00:00Z",
        "attributes": {},
        "digest": "00",
    }
    for parent, state in (("x", "y"), (7, {}), ({}, [])):
        read = read_line(json.dumps({**line, "traceparent": parent, "tracestate": state}).encode())
        assert getattr(read, "trace", "none") is None


def test_spans_are_told_only_if_a_collector_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_wanted({})
    assert not is_wanted({"OTEL_EXPORTER_OTLP_ENDPOINT": ""})
    named = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4318/v1/traces"}
    assert is_wanted(named)
    assert not is_wanted({**named, "OTEL_SDK_DISABLED": "TRUE"})
    assert not is_wanted({**named, "OTEL_TRACES_EXPORTER": "none"})
    for name in ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    assert type(open_tracing("x")) is Tracing


def test_who_lacks_opentelemetry_is_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")
    monkeypatch.setitem(sys.modules, "catalog.telemetry.otlptracing", None)
    configure_logs("info", "json")
    tracing = open_tracing("x")
    assert not tracing.is_told
    assert install_command("tracing") in json.loads(capsys.readouterr().err)["advice"]
    with tracing.spans_in("deliver", [TraceContext("a" * 32, "b" * 16)]) as spans:
        assert spans.goes_on(TraceContext("a" * 32, "b" * 16)).span == "b" * 16
        assert current_trace.get() == TraceContext("a" * 32, "b" * 16)
    assert current_trace.get() is None
