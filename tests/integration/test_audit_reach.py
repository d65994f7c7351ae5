"""The audit tells of links and of operators, and can be read as a stream of events."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner, Result

from catalog.audit.audittrail import note_refused, run_refusal_notes
from catalog.cli import app
from catalog.client import Client
from catalog.commands.audit import follow_audit
from catalog.model.caller import node_caller
from catalog.operations.audit import AuditQuery
from catalog.store.changes import Position
from catalog.store.database import Database
from catalog.subscriptions.delivery.dispatcher import run_deliveries
from replication.routes import routes as replication_routes
from tests.integration.auditing import Caller, as_role
from tests.integration.conftest import Node, start_node
from tests.integration.federation import databases, eventually, execute, link, link_is, running
from tests.integration.webhooksink import WebHookSink

QUICK = {"backoff_initial_seconds": 0.05, "backoff_cap_seconds": 0.2}


@pytest.fixture
async def node(database_url: str) -> AsyncIterator[Node]:
    async with start_node(database_url, open=False, **QUICK) as running_node:
        yield running_node


@pytest.fixture
async def admin(node: Node) -> Caller:
    return await as_role(node, "admin")


@contextlib.asynccontextmanager
async def delivering(node: Node) -> AsyncIterator[None]:
    """Deliver until the end, which is as sudden as losing the process."""
    task = asyncio.create_task(run_deliveries(node.context))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait((task,))


def told(sink: WebHookSink) -> dict[str, dict[str, Any]]:
    """The events that came, by their ids: any may come twice."""
    found = [orjson.loads(each.body) for each in sink.events]
    return {event["id"]: event for event in found}


async def test_an_admin_gets_the_audit_as_events_and_a_crash_loses_none(
    node: Node, admin: Caller
) -> None:
    writer = await as_role(node, "writer")
    async with WebHookSink() as sink:
        wanted = {
            "source": f"{node.url}/audit",
            "protocol": "HTTP",
            "sink": sink.url,
            "protocolsettings": {"contentmode": "structured"},
        }
        assert (await writer.send("POST", "/subscriptions", wanted)).status == 403
        by_type = {**wanted, "types": ["concord.audit.done"]}
        del by_type["source"]
        assert (await writer.send("POST", "/subscriptions", by_type)).status == 403
        made = await admin.send("POST", "/subscriptions", wanted)
        assert made.status in (201, 202), made.body
        path = f"/subscriptions/{made.json['id']}"
        for method, below in (("GET", ""), ("PUT", ""), ("DELETE", ""), ("GET", "/attempts")):
            body = {"protocol": "HTTP", "sink": sink.url} if method == "PUT" else None
            assert (await writer.send(method, path + below, body)).status == 403, (method, below)
        async with delivering(node):
            await writer.send("PUT", "/messagegroups/a", {})
            await sink.has(
                lambda s: any(e["subject"] == "/messagegroups/a" for e in told(s).values())
            )
        await asyncio.gather(*(writer.send("PUT", f"/messagegroups/b{n}", {}) for n in range(8)))
        await note_refused(node.context, all=True)
        async with delivering(node):
            done, refused = [
                {each["sequence"] for each in await admin.audit(f"?outcome={outcome}&limit=500")}
                for outcome in ("done", "refused")
            ]
            # The subscription begins with its own entry or after it.
            [own] = await admin.audit("?path=/subscriptions&outcome=done")
            await sink.has(lambda s: (done | refused) - {own["sequence"]} <= told(s).keys())
        events = told(sink)
    [event] = [each for each in events.values() if each["subject"] == "/messagegroups/b3"]
    assert event["type"] == "concord.audit.done"
    assert event["source"] == f"{node.url}/audit"
    assert event["data"]["identity"] == {"kind": "token", "name": writer.id}
    assert {events[id]["type"] for id in refused} == {"concord.audit.refused"}


async def test_copies_are_told_as_a_links_and_pushes_as_the_pushers(
    postgres_url: str, template: str
) -> None:
    async with databases(postgres_url, template, 3) as urls, contextlib.AsyncExitStack() as stack:
        source, target, accepting = [
            await stack.enter_async_context(start_node(url, routes=replication_routes, **QUICK))
            for url in urls
        ]
        await source.put("/messagegroups/g", {"messages": {"m": {}}})
        made = await link(target, source)
        async with running(target):
            await link_is(target, made["id"], "current")
        entries = (await target.get("/audit?identity=link"))["audit"]
        assert entries
        for entry in entries:
            assert entry["identity"] == {"kind": "link", "name": made["id"]}
            assert entry["address"] == "127.0.0.1"
            assert entry["path"] == f"/replication/links/{made['id']}"
        targets = {each["path"] for entry in entries for each in entry["targets"]}
        assert "/messagegroups/g/messages/m" in targets
        async with target.database.acquire() as connection:
            assert not await connection.fetchval(
                """SELECT count(*) FROM changes c
                WHERE NOT EXISTS (SELECT FROM audit a WHERE a.interaction = c.interaction)"""
            )
        accepted = {"id": "a", "mode": "accept"}
        accepted |= {"authority": source.database.node.authority}
        await accepting.send("POST", "/replication/links", accepted)
        body = {"target": accepting.url, "mode": "push"}
        assert (await source.send("POST", "/replication/links", body)).status == 201
        await source.put("/messagegroups/pushed")

        async def has_come() -> bool:
            found = (await accepting.get("/audit?path=/messagegroups/pushed"))["audit"]
            return bool(found) and found[0]["path"] == "/replication/entities"

        async with running(source):
            await eventually(has_come)


async def concord(*arguments: str, **environment: str) -> Result:
    """Run a command in a thread, as it runs an event loop of its own."""
    return await asyncio.to_thread(CliRunner().invoke, app, arguments, env=environment)


async def test_operators_and_commands_are_told_and_shown(
    node: Node, admin: Caller, database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    here = {"CONCORD_DATABASE_URL": database_url}
    made = await concord("token", "add", "--role", "writer", **here)
    token = made.stdout.strip()
    assert made.exit_code == 0, made.output
    assert (await concord("token", "remove", "none", **here)).exit_code == 1
    [entry] = await admin.audit("?identity=operator")
    assert entry["identity"] == {"kind": "operator", "name": getpass.getuser()}
    assert entry["path"] == "concord token add"
    assert entry["targets"][0]["path"].startswith("/access/tokens/")
    await Caller(node, "", token).send("PUT", "/messagegroups/g", {})
    await Caller(node, "", token).send("PUT", "/modelsource", {})
    await note_refused(node.context)
    asked = {"CONCORD_URL": node.url, "CONCORD_TOKEN": admin.text}
    shown = await concord("audit", **asked)
    assert shown.exit_code == 0, shown.output
    # Rich folds long texts.
    told = "".join(shown.stdout.split())
    assert "forbidden" in told
    assert "created" in told
    assert token not in shown.output
    as_json = await concord("audit", "--path", "/messagegroups", "--json", **asked)
    assert [each["path"] for each in orjson.loads(as_json.stdout)] == ["/messagegroups/g"]
    assert (await concord("audit", **{**asked, "CONCORD_TOKEN": token})).exit_code == 1
    capsys.readouterr()
    lines = ""
    async with Client.open(node.url, token=admin.text) as client:
        following = asyncio.create_task(follow_audit(client, AuditQuery(limit=500), as_json=True))
        async with asyncio.timeout(30):
            await admin.send("PUT", "/messagegroups/later", {})
            while "later" not in lines:
                await asyncio.sleep(0.02)  # between two looks at what was printed
                lines += capsys.readouterr().out
        following.cancel()
    entries = [orjson.loads(line) for line in lines.splitlines()]
    assert entries == (await admin.audit())[::-1]


async def test_the_last_refusals_are_written_when_a_node_stops(
    node: Node, admin: Caller, database_url: str
) -> None:
    task = asyncio.create_task(run_refusal_notes(node.context))

    async def is_told() -> bool:
        return len(await admin.audit()) == 1

    await node.send("PUT", "/messagegroups/a")
    await eventually(is_told)
    task.cancel()
    async with start_node(database_url, open=False) as other:
        for _ in range(4):
            await other.send("PUT", "/messagegroups/a")
    assert sorted(each["attempts"] for each in await admin.audit()) == [1, 1, 3]


async def test_the_audit_of_a_restored_database_stays_and_comes_before_all_that_follows(
    node: Node, admin: Caller, database_url: str
) -> None:
    for number in range(3):
        await admin.send("PUT", f"/messagegroups/g{number}", {})
    await execute(node, "UPDATE audit SET txid = txid + $1", 2**40)
    async with Database.open(database_url, node_caller(), modelsource={}):
        pass
    await admin.send("PUT", "/messagegroups/g3", {})
    entries = await admin.audit()
    assert [each["path"] for each in entries] == [f"/messagegroups/g{n}" for n in (3, 2, 1, 0)]
    assert Position.parse(entries[1]["sequence"]).txid == 0
