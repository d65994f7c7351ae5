"""Answers that are larger than what is held in memory, and what ends them."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest
from aiohttp import ClientPayloadError

from tests.integration.conftest import Node, assert_problem, start_node

FORMAT = "Text/1"


async def fill(node: Node, groups: int, messages: int) -> None:
    text = "x" * 300
    body = {"messages": {f"m{m:03}": {"description": text} for m in range(messages)}}
    for number in range(groups):
        await node.put(f"/messagegroups/g{number:02}", body)


async def test_a_large_answer_is_one_document_in_the_order_of_ids(node: Node) -> None:
    """core/spec.md, "Sort Flag": ascending ids, without regard to case."""
    await fill(node, 12, 70)
    await node.put("/messagegroups/G05b", {"messages": {"b": {}, "A": {}, "a-b": {}, "a.b": {}}})
    await node.put("/messagegroups/g05.a", {"messages": {"x": {"versions": {"B": {}, "a": {}}}}})
    await node.put("/messagegroups/empty")
    shown = await node.get("/?inline=*")
    assert [*shown["messagegroups"]] == sorted(shown["messagegroups"], key=str.lower)
    assert shown["messagegroupscount"] == 15
    assert shown["messagegroups"]["empty"]["messages"] == {}
    for id, group in shown["messagegroups"].items():
        assert group == await node.get(f"/messagegroups/{id}?inline=*")
        assert [*group["messages"]] == sorted(group["messages"], key=str.lower)
        assert group["messagescount"] == len(group["messages"])
    assert shown["messagegroups"] == await node.get("/messagegroups?inline=*")
    versions = shown["messagegroups"]["g05.a"]["messages"]["x"]["versions"]
    assert [*versions] == ["a", "B"]


@pytest.mark.parametrize(
    "inline",
    [
        "messagegroups",
        "messagegroups.messages",
        "messagegroups.messages.meta",
        "messagegroups.messages.versions",
        "schemagroups,endpoints.messages",
        "model",
    ],
)
async def test_narrower_answers_are_parts_of_the_whole_one(node: Node, inline: str) -> None:
    """core/spec.md, "Inline Flag": inlining only adds."""
    await fill(node, 8, 70)
    await node.put("/endpoints/e", {"usage": ["producer"], "messages": {"m": {}}})
    whole = await node.get("/?inline=*,model")
    assert is_part(await node.get(f"/?inline={inline}"), whole)


def is_part(part: Any, whole: Any) -> bool:
    if not isinstance(part, dict):
        return bool(part == whole)
    return all(name in whole and is_part(value, whole[name]) for name, value in part.items())


async def test_pages_of_inlined_collections_are_the_collection(node: Node) -> None:
    await fill(node, 9, 30)
    whole = await node.get("/messagegroups?inline=*")
    joined: dict[str, Any] = {}
    after = ""
    for _ in range(3):
        page = await node.get(f"/messagegroups?inline=*&limit=3{after}")
        joined |= page
        after = f"&after={[*page][-1]}"
    assert [*joined.items()] == [*whole.items()]


async def test_resources_with_many_versions_cross_the_bounds_of_chunks(node: Node) -> None:
    """However the rows of one resource are cut when they are read, it is shown once, whole."""
    for id, count in (("a", 499), ("b", 1), ("c", 1203), ("d", 2)):
        versions = {f"v{n:04}": {} for n in range(count)}
        await node.put("/messagegroups/g", {"messages": {}})
        answer = await node.send("PATCH", "/messagegroups/g/messages", {id: {"versions": versions}})
        assert answer.status == 200, answer.body
    shown = await node.get("/messagegroups/g?inline=*")
    assert {id: m["versionscount"] for id, m in shown["messages"].items()} == {
        "a": 499,
        "b": 1,
        "c": 1203,
        "d": 2,
    }
    for message in shown["messages"].values():
        assert len(message["versions"]) == message["versionscount"]


async def test_readers_may_be_slow_but_not_stand_still(database_url: str) -> None:
    """A request may take three seconds here; what progresses is not cut, what does not is."""
    async with start_node(database_url) as writer:
        await fill(writer, 60, 300)
    async with start_node(database_url, request_timeout_seconds=3, streams=1) as node:
        async with node.client.get("/?inline=*") as response:
            parts = [await response.content.read(64)]
            while part := await response.content.read(500_000):
                parts.append(part)
                await asyncio.sleep(0.05)  # the reader's pace, which is what is tested
        assert orjson.loads(b"".join(parts))["messagegroupscount"] == 60
        async with node.client.get("/?inline=*") as response:
            await response.content.read(10)
            # There is one stream at a time, so the second reader waits for the first's end.
            async with asyncio.timeout(20):
                while (await node.send("HEAD", "/?inline=*")).status != 200:
                    pass
            with pytest.raises(ClientPayloadError):
                await response.content.read()


async def test_a_large_answer_leaves_out_what_cannot_be_shown(node: Node) -> None:
    documents = {f"s{n}": {"format": FORMAT, "schema": "x" * 3000} for n in range(250)}
    for number in range(4):
        await node.put(f"/schemagroups/g{number}", {"schemas": documents})
    await lose_document(node, "/schemagroups/g3/schemas/s99/versions/1")
    shown = (await node.get("/?inline=*"))["schemagroups"]
    assert [len(shown[f"g{number}"]["schemas"]) for number in range(4)] == [250, 250, 250, 249]


async def lose_document(node: Node, xid: str) -> None:
    async with node.database.acquire() as connection:
        await connection.execute("DELETE FROM documents WHERE xid = $1", xid)


S = "/schemagroups/g/schemas/s"


@pytest.mark.parametrize(
    "path",
    [
        S,
        f"{S}/versions/1",
        f"{S}$details?inline=schema",
        f"{S}/versions/1$details?inline=schema",
    ],
)
async def test_a_document_whose_bytes_are_gone_is_an_error(node: Node, path: str) -> None:
    """core/spec.md, "data_retrieval_error"."""
    await node.put(f"{S}$details", {"format": FORMAT, "schema": {}})
    await lose_document(node, f"{S}/versions/1")
    answer = await node.send("GET", path)
    assert (answer.status, answer.error) == (500, "data_retrieval_error")
    assert f"{S}/versions/1" in answer.json["detail"]
    assert (await node.send("GET", f"{S}$details?inline=versions")).status == 200


async def test_a_version_without_a_document_is_none_whose_bytes_are_gone(node: Node) -> None:
    await node.put(f"{S}$details", {"format": FORMAT})
    answer = await node.send("GET", S)
    assert (answer.status, answer.body) == (200, b"")


async def test_readers_who_leave_give_their_connections_back(database_url: str) -> None:
    """More than may stream at a time begin a large answer, and hang up."""
    async with start_node(database_url, streams=1) as node:
        await fill(node, 60, 100)
        for _ in range(4):
            async with node.client.get("/?inline=*") as response:
                await response.content.read(10)
                response.close()
        async with asyncio.timeout(10):
            assert (await node.get("/"))["messagegroupscount"] == 60
            assert (await node.get("/?inline=*"))["messagegroupscount"] == 60


async def test_one_snapshot_is_shown_whatever_is_written_meanwhile(database_url: str) -> None:
    async with start_node(database_url) as node:
        await fill(node, 30, 100)
        before = await node.get("/?inline=*")
        async with node.client.get("/?inline=*") as response:
            first = await response.content.read(10)
            await node.send("DELETE", "/messagegroups/g29")
            await node.send("PATCH", "/messagegroups/g28", {"name": "new"})
            shown = orjson.loads(first + await response.content.read())
        assert shown == before


async def test_metadata_that_headers_cannot_carry_is_refused_with_a_hint(node: Node) -> None:
    """core/spec.md, "too_large"."""
    body = {"format": FORMAT, "schema": {}, "description": "ä" * 2000, "name": "n"}
    await node.put(f"{S}$details", body)
    for path in (S, f"{S}/versions/1"):
        answer = await node.send("GET", path)
        assert answer.status == 406
        assert answer.error == "too_large"
        assert f"{path}$details" in answer.json["detail"]
        assert "description" in answer.json["detail"]
        assert (await node.send("GET", f"{path}$details")).status == 200
    answer = await node.send("PUT", S, body="{}", Content_Type="application/json")
    assert answer.status == 200, "what was written is answered as well as it can be"
    assert "xRegistry-description" not in answer.headers
    assert answer.headers["xRegistry-name"] == "n"


async def test_many_small_headers_are_too_large_together(node: Node) -> None:
    labels = {f"label{n:03}": "x" * 300 for n in range(150)}
    await node.put(f"{S}$details", {"format": FORMAT, "schema": {}, "labels": labels})
    answer = await node.send("GET", S)
    assert (answer.status, answer.error) == (406, "too_large")
    assert "labels.label" in answer.json["detail"]


async def test_headers_are_encoded_so_that_they_can_be_read_back(node: Node) -> None:
    """core/http.md, "HTTP Header Values": its example; names that no header can have."""
    body = {
        "format": FORMAT,
        "schema": {},
        "name": 'Euro € 😀 100% "q"',
        "labels": {"a.b": "ü\r\nX: y", "no:token": "v"},
    }
    await node.put(f"{S}$details", body)
    answer = await node.send("GET", S)
    assert answer.status == 200
    expected = "Euro%20%E2%82%AC%20%F0%9F%98%80%20100%25%20%22q%22"
    assert answer.headers["xRegistry-name"] == expected
    assert answer.headers["xRegistry-labels.a.b"] == "%C3%BC%0D%0AX:%20y"
    assert not [name for name in answer.headers if "token" in name.lower()]


async def test_documents_too_large_to_inline_are_refused_before_anything_is_sent(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """core/spec.md, "Inline Flag": `too_large`."""
    monkeypatch.setattr("catalog.reading.tree.MOST_DOCUMENT_BYTES", 1000)
    monkeypatch.setattr("catalog.reading.entities.MOST_DOCUMENT_BYTES", 1000)
    async with start_node(database_url) as node:
        versions = {f"{n}": {"format": FORMAT, "schema": "x" * 400} for n in range(3)}
        await node.put(f"{S}$details", {"versions": versions})
        for path in (f"{S}$details?inline=*", "/export", f"{S}/versions?inline=schema"):
            answer = await node.send("GET", path)
            assert assert_problem(answer)["type"].endswith("#too_large"), path
            assert answer.status == 406


async def test_documents_are_loaded_a_few_at_a_time(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("catalog.reading.tree._DOCUMENT_BYTES_AT_ONCE", 1000)
    async with start_node(database_url) as node:
        schemas = {
            f"s{n}": {"versions": {v: {"format": FORMAT, "schema": v * 100 * n} for v in "abc"}}
            for n in range(1, 9)
        }
        await node.put("/schemagroups/g", {"schemas": schemas})
        shown = await node.get("/schemagroups/g?inline=*")
        for id, schema in shown["schemas"].items():
            assert schema == await node.get(f"/schemagroups/g/schemas/{id}$details?inline=*")
            assert schema["versions"]["b"]["schema"] == "b" * 100 * int(id[1:])
