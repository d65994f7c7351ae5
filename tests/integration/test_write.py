"""Links that write to servers of other software: here other nodes, by the standard API alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from catalog.client import Client
from catalog.commands.documentfile import read_document
from catalog.commands.import_.importing import import_document
from tests.integration.conftest import Node, start_node
from tests.integration.federation import (
    databases,
    drop_log,
    eventually,
    link_history_is,
    link_is,
    running,
    start_member,
    write_some,
)
from tests.integration.foreigntarget import (
    ForeignTarget,
    conflicts,
    foreign,
    has_written_all,
    problem,
    write_to,
)

DOCUMENTS = Path(__file__).parents[1] / "documents"
REAL = (
    "spec/lightbulb-avro.xreg.json",
    "spec/inkjet-proto3.xreg.json",
    "spec/smartoven-xsd.xreg.json",
    "codegen/kafka-producer-endpoint.xreg.json",
    "spec/windgenerator-kafka-avro.xreg.json",
)
# What a server sets of its own, and the mark of the link.
SET_BY_SERVER = {"epoch", "modifiedat", "labels"}


@pytest.fixture
async def pair(postgres_url: str, template: str) -> AsyncIterator[tuple[Node, ForeignTarget]]:
    """A node with links, and a server without any replication API."""
    async with (
        databases(postgres_url, template, 2) as (one, two),
        start_member(one, pull_interval_seconds=0.3) as source,
        start_node(two) as other,
        foreign(other) as target,
    ):
        yield source, target


async def bring_real(source: Node) -> None:
    async with Client.open(source.url) as client:
        for name in REAL:
            document = read_document(DOCUMENTS / name)
            assert (await import_document(client, document, keep_going=False)).is_imported, name


def plain(shown: Any) -> Any:
    """What a client reads, without what each server sets."""
    if isinstance(shown, dict):
        kept = {n: plain(v) for n, v in shown.items() if n not in SET_BY_SERVER}
        labels = {n: v for n, v in (shown.get("labels") or {}).items() if n != "concord.link"}
        return {**kept, **({"labels": labels} if labels else {})}
    return shown


async def groups_of(node: Node) -> dict[str, Any]:
    shown = await node.get("/export")
    return {name: plain(shown[name]) for name in ("endpoints", "messagegroups", "schemagroups")}


async def test_all_that_is_here_and_every_change_is_at_the_server(
    pair: tuple[Node, ForeignTarget],
) -> None:
    source, target = pair
    await bring_real(source)
    versions = {"1": {"name": "one"}, "2": {"ancestorid": "1", "labels": {"team": "b"}}}
    meta = {"defaultversionid": "1", "defaultversionsticky": True, "deprecated": {}}
    await source.put(
        "/messagegroups/g", {"messages": {"m": {"versions": versions, "meta": meta}}, "own": "ext"}
    )
    await source.put(
        "/messagegroups/g/messages/x", {"meta": {"xref": "/messagegroups/g/messages/m"}}
    )
    made = await write_to(source, target.url)
    assert made["found"]["software"].startswith("xRegistry 1.0")
    async with running(source):
        await has_written_all(source)
        assert await conflicts(source) == {}
        assert await groups_of(target.node) == await groups_of(source)
        for name in ("own", "other"):
            await source.put("/messagegroups/g", {name: "changed"})
        await source.put("/messagegroups/g/messages/m/versions/2", {"name": "two"})
        await source.put("/messagegroups/g/messages/m/versions/3", {"ancestorid": "2"})
        await source.send("PATCH", "/messagegroups/g/messages/m/meta", {"defaultversionid": None})
        for gone in ("messages/x", "messages/m/versions/1"):
            assert (await source.send("DELETE", f"/messagegroups/g/{gone}")).status == 204
        gid = next(iter(await source.get("/schemagroups")))
        assert (await source.send("DELETE", f"/schemagroups/{gid}")).status == 204
        await has_written_all(source)
        assert await conflicts(source) == {}
        sent = await source.get("/replication/links/out")
        assert sent["bytes"] > 1000
        assert sent["rate"] > 0
    assert await groups_of(target.node) == await groups_of(source)
    group = await target.node.get("/messagegroups/g")
    assert group["labels"]["concord.link"] == f"out of {source.database.node.authority}"
    for gid, schemas in (await groups_of(source))["schemagroups"].items():
        for rid, schema in schemas["schemas"].items():
            for vid in schema["versions"]:
                path = f"/schemagroups/{gid}/schemas/{rid}/versions/{vid}"
                expected, found = (
                    await source.send("GET", path),
                    await target.node.send("GET", path),
                )
                assert (found.status, found.body) == (200, expected.body)
                assert found.headers["Content-Type"] == expected.headers["Content-Type"]


async def test_what_others_have_there_is_neither_overwritten_nor_deleted(
    pair: tuple[Node, ForeignTarget],
) -> None:
    source, target = pair
    there = target.node
    await source.put("/messagegroups/mine", {"messages": {"m": {}}})
    await source.put("/messagegroups/taken", {"name": "ours", "messages": {"m": {}}})
    await source.put("/messagegroups/same", {"name": "same", "messages": {"m": {"name": "M"}}})
    await source.put("/messagegroups/same/messages/other", {"name": "ours"})
    await there.put("/messagegroups/taken", {"name": "theirs"})
    await there.put("/messagegroups/same", {"name": "same", "messages": {"m": {"name": "M"}}})
    await there.put("/messagegroups/same/messages/other", {"name": "theirs"})
    await there.put("/messagegroups/theirs", {"messages": {"t": {}}})
    await write_to(source, target.url)
    async with running(source):
        await has_written_all(source)
        found = await conflicts(source)
        assert {xid: verdict for xid, (verdict, _) in found.items()} == {
            "/messagegroups/taken": "collided",
            "/messagegroups/taken/messages/m": "refused",
            "/messagegroups/taken/messages/m/versions/1": "refused",
            "/messagegroups/same/messages/other": "collided",
            "/messagegroups/same/messages/other/versions/1": "collided",
        }
        assert (await there.get("/messagegroups/taken"))["name"] == "theirs"
        # What was equal is kept equal from now on; what somebody adds to ours keeps our group.
        await source.put("/messagegroups/same/messages/m", {"name": "changed"})
        await there.put("/messagegroups/mine/messages/added", {})
        await has_written_all(source)
        assert (await there.get("/messagegroups/same/messages/m"))["name"] == "changed"
        for gid in ("mine", "same", "taken"):
            assert (await source.send("DELETE", f"/messagegroups/{gid}")).status == 204
        await has_written_all(source)
        ids = {
            gid: {*(await there.get(f"/messagegroups/{gid}/messages"))}
            for gid in await there.get("/messagegroups")
        }
        assert ids == {
            "mine": {"added"},
            "taken": set(),
            "same": {"m", "other"},
            "theirs": {"t"},
            "last": set(),
        }
        found = await conflicts(source)
        assert [*found] == ["/messagegroups/mine"]
        assert '"messages" that this link did not bring' in found["/messagegroups/mine"][1]
        assert (await there.send("DELETE", "/messagegroups/mine/messages/added")).status == 204
        assert (await source.send("POST", "/replication/links/out/run")).status == 200

        async def is_gone() -> bool:
            return (await there.send("GET", "/messagegroups/mine")).status == 404

        await eventually(is_gone)


async def test_what_the_server_refuses_is_a_conflict_and_the_rest_flows(
    pair: tuple[Node, ForeignTarget],
) -> None:
    source, target = pair
    model = await target.node.get("/modelsource")
    del model["groups"]["schemagroups"]
    del model["groups"]["messagegroups"]["attributes"]["*"]
    await target.node.put("/modelsource", model)
    await write_some(source, "g")
    await source.put("/messagegroups/odd", {"shape": "round", "messages": {"m": {}}})
    await source.put("/messagegroups/sick", {})

    def fault(request: web.Request) -> web.Response | None:
        if request.method == "GET" or request.path != "/messagegroups/sick":
            return None
        return problem(500, "This one always fails.")

    target.fault = fault
    await write_to(source, target.url)
    async with running(source):
        await has_written_all(source)
        found = await conflicts(source)
        no_type = ("invalid", 'the model of the server has no groups "schemagroups"')
        assert found.pop("/schemagroups/g") == found.pop("/schemagroups/g/schemas/s") == no_type
        assert found.pop("/schemagroups/g/schemas/s/versions/1") == no_type
        verdict, detail = found.pop("/messagegroups/odd")
        assert verdict == "refused"
        assert detail.startswith("400: ")
        assert '"shape"' in detail or "(shape)" in detail or "shape" in detail
        assert found.pop("/messagegroups/odd/messages/m")[0] == "refused"
        assert found.pop("/messagegroups/odd/messages/m/versions/1")[0] == "refused"
        assert found.pop("/messagegroups/sick") == ("refused", "500: This one always fails.")
        assert found == {}
        await target.node.get("/messagegroups/g/messages/m1")
        # It is tried again when it changes, and when an operator asks for it.
        await source.put("/messagegroups/odd", {"name": "odd"})
        await has_written_all(source)
        assert (await target.node.get("/messagegroups/odd"))["name"] == "odd"
        target.fault = None
        assert (await source.send("POST", "/replication/links/out/run")).status == 200

        async def only_types() -> bool:
            return {xid.split("/")[1] for xid in await conflicts(source)} == {"schemagroups"}

        await eventually(only_types)
        await target.node.get("/messagegroups/odd/messages/m")
        await target.node.get("/messagegroups/sick")


async def test_a_server_that_is_busy_is_asked_later_and_nothing_is_lost(
    pair: tuple[Node, ForeignTarget],
) -> None:
    source, target = pair
    await write_some(source, "g", messages=4)
    answers = [
        problem(429, "Slow down.", Retry_After="1"),
        problem(503, "Restarting."),
        problem(502, "No upstream."),
    ]
    lost = {"/messagegroups/g", "/messagegroups/g/messages"}

    def fault(request: web.Request) -> web.Response | None:
        return answers.pop() if answers and request.method == "POST" else None

    def loses(request: web.Request) -> bool:
        if request.method == "GET" or request.path not in lost:
            return False
        lost.remove(request.path)
        return True

    target.fault, target.loses = fault, loses
    await write_to(source, target.url)
    async with running(source):
        await has_written_all(source)
        assert await conflicts(source) == {}
    assert (answers, lost) == ([], set())
    assert await groups_of(target.node) == await groups_of(source)
    # What was sent twice is the link's all the same.
    assert (await source.send("DELETE", "/messagegroups/g")).status == 204
    async with running(source):
        await has_written_all(source)
    assert [*(await groups_of(target.node))["messagegroups"]] == ["last"]


async def test_a_reset_writes_only_what_differs(pair: tuple[Node, ForeignTarget]) -> None:
    source, target = pair
    await bring_real(source)
    await write_some(source, "g", messages=3)
    await write_to(source, target.url)
    async with running(source):
        await has_written_all(source)
        expected = await groups_of(source)
        await target.node.put("/messagegroups/g/messages/m0", {"description": "by somebody else"})
        assert (await target.node.send("DELETE", "/messagegroups/g/messages/m1")).status == 204
        answer = await target.node.send(
            "PUT", "/schemagroups/g/schemas/s", body=b"{}", Content_Type="application/json"
        )
        assert answer.status == 200, answer.body
        target.requests.clear()
        assert (await source.send("POST", "/replication/links/out/reset", {})).status == 200
        await link_history_is(source, "out", "compared", "compared")
        await link_is(source, "out", "current")
        assert await groups_of(target.node) == expected
        assert sorted(target.writes) == [
            ("PUT", "/messagegroups/g/messages/m0/versions/1"),
            ("PUT", "/messagegroups/g/messages/m1/meta"),
            # It was to be changed only, and since the server has lost it, is created.
            *[("PUT", "/messagegroups/g/messages/m1/versions/1")] * 2,
            ("PUT", "/schemagroups/g/schemas/s/versions/1$details"),
        ]
        document = await target.node.send("GET", "/schemagroups/g/schemas/s")
        assert document.body == b'{"type": "object"}'
    # A log that no longer reaches back is compared as well, and what was deleted goes.
    assert (await source.send("DELETE", "/messagegroups/g/messages/m2")).status == 204
    await drop_log(source)
    target.requests.clear()
    async with running(source):
        await has_written_all(source)
    assert ("DELETE", "/messagegroups/g/messages/m2") in target.writes
    assert [each for each in target.writes if each[1] != "/messagegroups/last"] == [
        ("DELETE", "/messagegroups/g/messages/m2")
    ]


async def test_a_link_deletes_what_this_node_deletes_and_takes_all_back_when_it_is_removed(
    pair: tuple[Node, ForeignTarget],
) -> None:
    source, target = pair
    for number in range(30):
        await source.put(f"/messagegroups/g{number}", {})
    await target.node.put("/messagegroups/theirs", {})
    await write_to(source, target.url)
    async with running(source):
        await has_written_all(source)
        # Again with another id: what another link has brought is not this one's.
        other = await write_to(source, target.url, id="second", scope=["/messagegroups/g0"])
        await link_is(source, other["id"], "current")
        await source.put("/messagegroups/g0", {"name": "changed"})
        for number in range(1, 26):
            assert (await source.send("DELETE", f"/messagegroups/g{number}")).status == 204
        left = {"g0", "g26", "g27", "g28", "g29", "theirs", "last"}

        async def is_so() -> bool:
            return {*await target.node.get("/messagegroups")} == left

        await eventually(is_so)
        assert (await source.send("DELETE", "/replication/links/out?drop")).status == 202

        async def is_removed() -> bool:
            return (await source.send("GET", "/replication/links/out")).status == 404

        await eventually(is_removed)
    assert [*await target.node.get("/messagegroups")] == ["theirs"]


async def test_changes_that_arrive_late_bring_nothing_back(
    pair: tuple[Node, ForeignTarget],
) -> None:
    source, target = pair
    path = "/messagegroups/g/messages/m"
    await source.put("/messagegroups/g", {"messages": {"m": {"versions": {"1": {}}}}})
    await write_to(source, target.url)
    async with running(source):
        await has_written_all(source)
        target.carried.clear()
        await source.put("/messagegroups/g", {"name": "changed"})
        await source.put(f"{path}/versions/1", {"name": "changed"})
        await source.send("PATCH", f"{path}/meta", {"deprecated": {}})
        await has_written_all(source)
        assert (await source.send("DELETE", "/messagegroups/g")).status == 204
        await has_written_all(source)
        assert (await target.carry_again("PUT")).count(412) == 3
        assert await conflicts(source) == {}
    assert [*await target.node.get("/messagegroups")] == ["last"]


async def test_what_the_server_has_lost_is_written_again_when_it_changes(
    pair: tuple[Node, ForeignTarget],
) -> None:
    source, target = pair
    path = "/messagegroups/g/messages/m"
    await source.put("/messagegroups/g", {"messages": {"m": {"versions": {"1": {}}}}})
    await write_to(source, target.url)
    async with running(source):
        await has_written_all(source)
        assert (await target.node.send("DELETE", path)).status == 204
        await source.put(f"{path}/versions/1", {"name": "changed"})
        await has_written_all(source)
        assert await conflicts(source) == {}
    assert (await target.node.get(f"{path}/versions/1"))["name"] == "changed"


@pytest.mark.parametrize(
    ("definition", "error"),
    [
        ({"target": "http://127.0.0.1:9/", "mode": "write"}, "target_unusable"),
        ({"source": "http://127.0.0.1:9/", "mode": "write"}, "invalid_attribute"),
        ({"target": "http://a", "mode": "write", "authority": "urn:x"}, "invalid_attribute"),
        ({"target": "http://a", "mode": "write", "dialect": "soap"}, "invalid_attribute"),
        ({"target": "http://a", "mode": "push", "dialect": "discovery"}, "invalid_attribute"),
    ],
)
async def test_a_link_that_cannot_write_is_refused(
    pair: tuple[Node, ForeignTarget], definition: dict[str, Any], error: str
) -> None:
    source, _ = pair
    answer = await source.send("POST", "/replication/links", definition)
    assert (answer.status, answer.error) == (400, error), answer.body


async def test_resources_whose_versions_come_with_another_page_are_whole(
    pair: tuple[Node, ForeignTarget],
) -> None:
    source, target = pair
    await write_to(source, target.url)
    messages = {f"m{number}": {"name": f"message {number}"} for number in range(600)}
    async with running(source):
        await link_is(source, "out", "current")
        await source.put("/messagegroups/g", {"messages": messages})
        await has_written_all(source)
        assert await conflicts(source) == {}
    assert await groups_of(target.node) == await groups_of(source)
    # Many are created by one request, and none is looked for by a request of its own.
    assert len(target.requests) < 100
