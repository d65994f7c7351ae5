"""Former contents of entities are kept, shown, compared and purged."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
import pytest_asyncio

from catalog.subscriptions.delivery.retention import (
    drop_once,
    passed_time_for,
    retention_from,
)
from tests.integration.commandline import concord
from tests.integration.conftest import Node, start_node
from tests.integration.test_openapi_subscriptions import DescribedApi

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.in_order]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(shared_database_url: str) -> AsyncIterator[Node]:
    async with start_node(shared_database_url) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api(node: Node) -> DescribedApi:
    return DescribedApi(node, await node.get("/openapi.json"))


def record(*names: str) -> dict[str, Any]:
    fields = [{"name": name, "type": "string"} for name in names]
    return {"type": "record", "name": "Order", "fields": fields}


async def test_each_content_of_an_entity_can_be_read_while_it_is_kept(
    node: Node, api: DescribedApi
) -> None:
    message = "/messagegroups/kept/messages/m"
    await node.put(message, {"description": "one"})
    await node.put(message, {"description": "two"})
    await node.put(message, {"description": "three"})
    await node.send("DELETE", message)
    await node.put(message, {"description": "again"})
    found = await api.done("GET", "/-/revisions", query=f"?of={message}")
    version = f"{message}/versions/1"
    assert found["of"] == version
    assert [(e["action"], e["epoch"], e.get("content")) for e in found["revisions"]] == [
        ("created", 5, "kept"),
        ("deleted", 4, None),
        ("updated", 3, "kept"),
        ("updated", 2, "kept"),
        ("created", 1, "kept"),
    ]
    for epoch, text in ((1, "one"), (2, "two"), (3, "three"), (5, "again")):
        got = await api.done("GET", "/-/revisions/{epoch}", epoch=epoch, query=f"?of={version}")
        assert got["attributes"]["description"] == text
        assert got["change"]["epoch"] == epoch


async def test_documents_are_kept_once_however_often_the_attributes_change(
    node: Node, api: DescribedApi
) -> None:
    schema = "/schemagroups/kept/schemas/order"
    version = f"{schema}/versions/1"
    for document, text in ((record("a"), "one"), (record("a"), "two"), (record("b"), "three")):
        body = {"format": "Avro/1.12.0", "schema": document, "description": text}
        await node.put(f"{version}$details", body)
    for epoch, name in ((1, "a"), (2, "a"), (3, "b")):
        got = await api.done("GET", "/-/revisions/{epoch}", epoch=epoch, query=f"?of={schema}")
        assert orjson.loads(got["document"])["fields"][0]["name"] == name
    async with node.database.acquire() as connection:
        kept = await connection.fetch(
            "SELECT document IS NOT NULL AS has_document FROM revisions WHERE xid = $1 ORDER BY 1",
            version,
        )
    assert [row["has_document"] for row in kept] == [False, True]
    found = await api.done("GET", "/-/diff", query=f"?of={version}&ofepoch=1&toepoch=3")
    assert {"path": "b", "new": "string"} in found["fields"]
    assert {"path": ["description"], "old": "one", "new": "three"} in found["values"]
    assert found["backward"]["compatible"] is False
    assert (found["ofepoch"], found["toepoch"]) == (1, 3)
    # Without an epoch it is the present content.
    assert (await node.get(f"/-/diff?of={version}&ofepoch=3"))["changed"] == []


async def test_a_write_of_children_keeps_no_content_of_their_parents(node: Node) -> None:
    await node.put("/messagegroups/many", {"messages": {f"m{n}": {} for n in range(30)}})
    for number in range(3):
        await node.put(f"/messagegroups/many/messages/n{number}")
    async with node.database.acquire() as connection:
        kept = await connection.fetchval(
            "SELECT count(*) FROM revisions WHERE xid LIKE '/messagegroups/many%' OR xid = '/'"
        )
    assert kept == 0
    # The contents of the parents are known nevertheless.
    listed = (await node.get("/-/revisions?of=/messagegroups/many"))["revisions"]
    assert [each["content"] for each in listed] == ["kept"] * 4


async def test_changes_are_told_newest_first_by_path_time_and_authority(
    node: Node, api: DescribedApi
) -> None:
    await node.put("/messagegroups/told", {"messages": {"a": {}, "ab": {}}})
    await node.put("/messagegroups/told/messages/a", {"name": "n"})
    found = (await api.done("GET", "/-/changes", query="?path=/messagegroups/told/messages/a"))[
        "changes"
    ]
    assert [(each["xid"], each["action"]) for each in found] == [
        ("/messagegroups/told/messages/a/versions/1", "updated"),
        ("/messagegroups/told/messages/a/versions/1", "created"),
        ("/messagegroups/told/messages/a", "created"),
    ]
    assert found[0]["changed"] == ["epoch", "modifiedat", "name"]
    assert found[0]["who"] == {"kind": "anonymous"}
    middle = found[0]["time"].replace("+", "%2B")
    of_group = "/-/changes?path=/messagegroups/told"
    assert len((await node.get(f"{of_group}&since={middle}"))["changes"]) == 1
    assert len((await node.get(f"{of_group}&until={middle}"))["changes"]) == 5
    # The resource shows what its default version has.
    assert len((await node.get(f"{of_group}&since={middle}&parents"))["changes"]) == 2
    assert (await node.get(f"{of_group}&authority=urn:other"))["changes"] == []
    assert (await node.get(f"{of_group}&who=token"))["changes"] == []
    one = (await node.get(f"{of_group}&interaction={found[0]['interaction']}"))["changes"]
    assert one == found[:1]
    whole = (await node.get(f"{of_group}&limit=500"))["changes"]
    pages, path = [], f"{of_group}&limit=4&who=anonymous"
    while path:
        answer = await node.send("GET", path)
        pages.append(answer.json["changes"])
        header = answer.headers.get("Link", "")
        path = header[1 : header.index(">")].removeprefix(node.url) if header else ""
    assert [len(page) for page in pages] == [4, 2]
    assert [each for page in pages for each in page] == whole
    for query in ("path=x", "before=x", "since=x", "limit=0", "color=red"):
        assert (await node.send("GET", f"/-/changes?{query}")).status == 400, query


async def test_one_change_shows_what_was_before_and_after_it(node: Node, api: DescribedApi) -> None:
    message = "/messagegroups/told/messages/one"
    await node.put(message, {"description": "long " * 60})
    await node.put(message, {"description": "longer " * 60, "labels": {"a": "b"}})
    await node.send("DELETE", message)
    listed = (await node.get(f"/-/changes?path={message}/versions"))["changes"]
    deleted, updated, created = [
        await api.done("GET", "/-/changes/{sequence}", sequence=each["sequence"]) for each in listed
    ]
    assert updated["change"] == listed[1]
    assert {"path": ["labels"], "new": {"a": "b"}} in updated["difference"]["values"]
    signs = {
        line["text"].strip().split(":")[0]: line["sign"] for line in updated["difference"]["text"]
    }
    assert signs['"description"'] == "+"
    assert created["difference"]["ofepoch"] == 0
    assert {line["sign"] for line in created["difference"]["text"]} == {"+"}
    assert {line["sign"] for line in deleted["difference"]["text"]} == {"-"}
    await api.refused(404, "GET", "/-/changes/{sequence}", sequence=f"{1:019d}.{1:019d}")
    await api.refused(400, "GET", "/-/changes/{sequence}", sequence="x")


async def test_a_purge_empties_what_was_below_and_leaves_the_present(
    node: Node, api: DescribedApi
) -> None:
    group, secret = "/messagegroups/leak", "hunter2secret"
    message, schema = f"{group}/messages/m", "/schemagroups/leak/schemas/s"
    await node.put(message, {"description": secret})
    await node.put(message, {"description": "clean"})
    for document in (record(secret), record("clean")):
        await node.put(
            f"{schema}/versions/1$details", {"format": "Avro/1.12.0", "schema": document}
        )
    for path in (group, schema):
        done = await api.done("DELETE", "/-/revisions", query=f"?of={path}")
        assert (done["purged"], done["isheld"]) == (1, True)
        assert done["unreached"]
        assert (await node.get(f"/audit?path={path}&limit=1"))["audit"][0]["method"] == "DELETE"
    for of in (message, schema):
        listed = (await node.get(f"/-/revisions?of={of}"))["revisions"]
        assert [each["content"] for each in listed] == ["kept", "purged"]
        await api.refused(404, "GET", "/-/revisions/{epoch}", epoch=1, query=f"?of={of}")
        shown = await node.get(f"/-/changes/{listed[0]['sequence']}")
        assert "difference" not in shown
    assert (await node.get(f"/-/search?q={secret}"))["hits"] == []
    async with node.database.acquire() as connection:
        for table in ("entities", "revisions", "documents", "changes", "search_index", "audit"):
            held = f"SELECT count(*) FROM {table} t WHERE t::text LIKE '%{secret}%'"
            in_bytes = (
                f"SELECT count(*) FROM {table} t WHERE t::text LIKE '%{secret.encode().hex()}%'"
            )
            assert (
                table,
                await connection.fetchval(held),
                await connection.fetchval(in_bytes),
            ) == (
                table,
                0,
                0,
            )


async def test_commands_tell_what_changed_and_what_was_before(node: Node) -> None:
    message = "/messagegroups/cli/messages/m"
    await node.put(message, {"description": "first text"})
    await node.put(message, {"description": "second text"})
    told = await concord(node, "changes", message, "--since", "1h")
    refused = await concord(node, "changes", "--since", "yesterday")
    assert refused.exit_code == 2
    assert "an age: 12h, 7d, 2w" in refused.stderr
    assert told.exit_code == 0, told.output
    assert "description" in told.stdout
    assert "anonymous" in told.stdout
    [sequence] = [
        line.split()[-1] for line in told.stdout.splitlines() if "updated" in line.split()
    ]
    shown = await concord(node, "changes", "--show", sequence)
    assert "second text" in shown.stdout, shown.output
    listed = await concord(node, "revisions", "list", message, "--json")
    assert [each["epoch"] for each in orjson.loads(listed.stdout)["revisions"]] == [2, 1]
    assert "first text" in (await concord(node, "revisions", "show", message, "1")).stdout
    compared = await concord(node, "compare", message, "--from-epoch", "1")
    assert compared.exit_code == 1, compared.output
    assert "first text" in compared.stdout
    refused = await concord(node, "revisions", "purge", message)
    assert refused.exit_code == 2
    purged = await concord(node, "revisions", "purge", message, "--yes")
    assert "Emptied 1 " in purged.stdout, purged.output
    gone = await concord(node, "revisions", "show", message, "1")
    assert (gone.exit_code, "purged" in gone.output) == (1, True)
    assert (await concord(node, "changes", "nowhere")).exit_code == 1


async def dropped(node: Node, most_bytes: int) -> None:
    """Let retention keep contents up to a number of bytes; its first look may only switch."""
    settings = node.context.settings.model_copy(update={"revision_bytes": most_bytes})
    for _ in range(2):
        passed = passed_time_for(settings)
        await drop_once(node.database, retention_from(settings), passed)


async def contents(node: Node, of: str) -> list[str]:
    return [each["content"] for each in (await node.get(f"/-/revisions?of={of}"))["revisions"]]


async def test_contents_beyond_the_bytes_are_told_to_be_gone(node: Node) -> None:
    message = "/messagegroups/bounded/messages/m"
    for number in range(6):
        await node.put(message, {"description": f"{number} {secrets.token_hex(2000)}"})
    await dropped(node, 9000)
    kept = await contents(node, message)
    assert kept[0] == "kept"
    assert kept == sorted(kept, reverse=True)
    assert 1 < kept.count("kept") < 6
    # What is left is right, and what is gone is not mistaken for what came later.
    for number, content in zip(range(5, -1, -1), kept, strict=True):
        answer = await node.send("GET", f"/-/revisions/{number + 1}?of={message}")
        assert answer.status == (200 if content == "kept" else 404)
        if content == "kept":
            assert answer.json["attributes"]["description"].startswith(f"{number} ")
    await dropped(node, 0)
    assert await contents(node, message) == ["kept", *["gone"] * 5]
    await node.put(message, {"description": "while none are kept"})
    await dropped(node, 1024**3)
    await node.put(message, {"description": "while contents are kept again"})
    assert (await contents(node, message))[:3] == ["kept", "kept", "gone"]
    before = await node.get(f"/-/revisions/7?of={message}")
    assert before["attributes"]["description"] == "while none are kept"
