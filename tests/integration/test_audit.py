"""The audit tells who changed what and who was refused, and never a secret."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from catalog.audit.auditlog import drop_once
from catalog.audit.audittrail import note_refused
from catalog.model.caller import Author
from catalog.model.refusals import MOST_KINDS
from replication.routes import routes as replication_routes
from tests.integration.auditing import Caller, as_role
from tests.integration.clockpoints import store_point
from tests.integration.conftest import Node, fresh_node, start_node
from tests.integration.federation import execute

CANARY = "canary0123456789"
KEY = {"authority": "urn:peer", "key": "ed25519:AAAA"}
SINK = {"protocol": "HTTP", "sink": f"http://127.0.0.1:9/hook?key={CANARY}"}
SIGNED = {**SINK, "protocolsettings": {"signature": "hmac-sha256"}}
TOKEN_SINK = {
    **SINK,
    "sinkcredential": {
        "credentialtype": "ACCESSTOKEN",
        "accesstoken": CANARY,
        "accesstokenexpiresutc": "2099-01-01T00:00:00Z",
        "accesstokentype": "bearer",
    },
}
LINK = {"id": "l", "source": "http://127.0.0.1:9", "authority": "urn:peer", "token": CANARY}
RULE = {"who": "anonymous", "role": "reader", "paths": ["/messagegroups/g"]}
COMPARED = {
    **{"run": str(UUID(int=1)), "outcome": "equal", "name": "a", "catalogs": ["a", "b"]},
    **{"startedat": "2026-01-01T00:00:00Z", "endedat": "2026-01-01T00:00:01Z"},
}
ASKED = {"role": "reader", "path": "/messagegroups/g", "reason": "r"}
FINDINGS = {"compared": [], "first": 0, "findings": []}
SERVICE = {"name": "s", "protocols": ["HTTP"]}

# Writes in their order, each with what the audit names that its path does not.
WRITES: list[tuple[str, str, Any, list[str]]] = [
    ("PUT", "/messagegroups/g", {"messages": {"m": {}}}, ["/messagegroups/g"]),
    ("PATCH", "/messagegroups/g", {"name": "n"}, ["/messagegroups/g"]),
    ("POST", "/messagegroups", {"h": {}}, ["/messagegroups/h"]),
    ("PUT", "/messagegroups/g/messages/m", {"name": "n"}, ["/messagegroups/g/messages/m"]),
    ("DELETE", "/messagegroups/h", None, ["/messagegroups/h"]),
    ("DELETE", "/-/revisions?of=/messagegroups/g", None, ["/messagegroups/g"]),
    ("PATCH", "/", {"name": "n"}, ["/"]),
    ("POST", "/apply?set=a", {"messagegroups": {"i": {}}}, ["/messagegroups/i"]),
    ("PUT", "/messagecatalog/c", {"format": "CloudEvents/1.0"}, ["/messagegroups/c"]),
    ("POST", "/registry/0.4/definitionGroups", {"id": "r", "format": "AMQP"}, ["/messagegroups/r"]),
    ("POST", "/services", [SERVICE], ["/endpoints/"]),
    ("PATCH", "/capabilities", {"shortself": True}, ["/"]),
    ("POST", "/access/tokens", {"name": "t", "grants": [{"role": "reader"}]}, ["/access/tokens/"]),
    ("DELETE", "/access/tokens/{token}", None, []),
    ("POST", "/access/rules", RULE, ["/access/rules/"]),
    ("PATCH", "/access/rules/{rule}", {"role": "writer"}, []),
    ("DELETE", "/access/rules/{rule}", None, []),
    ("POST", "/access/requests", ASKED, ["/access/requests/", "/messagegroups/g"]),
    ("POST", "/access/requests/{request}/grant", {"note": "n"}, ["/access/rules/"]),
    ("DELETE", "/access/requests/{request}", None, []),
    ("POST", "/access/requests", ASKED, ["/access/requests/"]),
    ("POST", "/access/requests/{request}/decline", {"note": "n"}, ["/messagegroups/g"]),
    ("POST", "/subscriptions", TOKEN_SINK, ["/subscriptions/"]),
    ("PUT", "/subscriptions/{subscription}", SIGNED, []),
    ("POST", "/subscriptions/{subscription}/signingkeys", {}, []),
    ("PATCH", "/subscriptions/{subscription}", {"paused": True, "reason": "r"}, []),
    ("DELETE", "/subscriptions/{subscription}/deadletters", None, []),
    ("DELETE", "/subscriptions/{subscription}", None, []),
    ("POST", "/replication/links?force", LINK, ["/replication/links/l"]),
    ("PATCH", "/replication/links/l", {"token": CANARY}, []),
    ("PATCH", "/replication/links/l", {"authority": "urn:other", "paused": True}, []),
    ("POST", "/replication/links/l/reset", {}, []),
    ("PUT", "/replication/links/l?force", LINK, []),
    ("DELETE", "/replication/links/l", None, []),
    ("PUT", "/replication/signing", {"on": True}, []),
    ("POST", "/replication/signing/rotate", {}, []),
    ("POST", "/replication/trust", {"authority": "urn:peer", "key": "{key}"}, ["urn:peer"]),
    ("DELETE", "/replication/trust?authority=urn:peer", None, ["urn:peer"]),
    ("POST", "/replication/reconciliations", COMPARED, []),
    ("POST", "/replication/reconciliations/{run}/findings", FINDINGS, []),
    ("PUT", "/modelsource", None, ["/"]),
    ("PUT", "/capabilities", {"flags": ["inline"]}, ["/"]),
    ("POST", "/replication/recovery?force", {"sources": ["http://127.0.0.1:9"]}, []),
    ("DELETE", "/replication/recovery", None, []),
]
# What else the routing table has: checks, commands that keep nothing, and what needs another node
# or an event that was not delivered.
OTHERS = {
    *("/validate", "/replication/fetch", "/replication/repair", "/notifications"),
    *("/replication/handovers", "/replication/keys", "/replication/entities"),
    *("/deadletters/", "/consent", "/test", "/signingkeys/", "/run", "/adopt"),
    # The routes of dialects are many, and all of them write interactions.
    *("/services/", "/messagecatalog/", "/registry/0.4/", "/confluent/"),
}

node = fresh_node(routes=replication_routes, open=False)


@pytest.fixture
async def admin(node: Node) -> Caller:
    return await as_role(node, "admin")


async def raw(node: Node) -> str:
    """All that the audit keeps, as text."""
    async with node.database.acquire() as connection:
        return "\n".join(row[0] for row in await connection.fetch("SELECT a::text FROM audit a"))


def filled(text: Any, names: dict[str, str]) -> Any:
    if isinstance(text, dict):
        return {name: filled(value, names) for name, value in text.items()}
    if isinstance(text, str) and "{" in text:
        return text.format(**names)
    return text


async def test_every_kind_of_write_leaves_its_entry_and_no_secret(
    node: Node, admin: Caller
) -> None:
    names = {"run": COMPARED["run"]}
    for method, path, body, targets in WRITES:
        sent, before = filled(path, names), len(await admin.audit("?limit=500"))
        # These paths refuse what they do not know.
        is_strict = path.startswith(("/apply", "/-/"))
        leak = "" if is_strict else f"{'&' if '?' in sent else '?'}leak={CANARY}"
        if path == "/modelsource":
            body = {**(await admin.send("GET", path)).json, "description": "new"}
        done = await admin.send(method, f"{sent}{leak}", filled(body, names))
        assert done.status < 300, (method, path, done.body)
        entries = await admin.audit("?limit=500")
        assert len(entries) == before + 1, (method, path, entries[: len(entries) - before])
        entry, about = entries[0], {each["path"] for each in entries[0]["targets"]}
        assert entry["identity"] == {"kind": "token", "name": admin.id}
        assert (entry["method"], entry["path"]) == (method, sent.partition("?")[0])
        assert (entry["address"], entry["agent"]) == ("127.0.0.1", "tester/1")
        assert all(any(each.startswith(wanted) for each in about) for wanted in targets), entry
        if path == "/access/tokens":
            names["token"] = done.json["id"]
            assert done.json["token"] not in await raw(node)
        if path == "/access/requests":
            names["request"] = done.json["id"]
        if path == "/access/rules":
            names["rule"] = done.json["id"]
        if path == "/subscriptions":
            names["subscription"] = done.json["id"]
        if path == "/replication/signing":
            names["key"] = done.json["keys"][0]["key"]
    kept = await raw(node)
    assert CANARY not in kept
    assert admin.text not in kept
    assert not [each for each in written_routes(node) if not is_covered(each)]


def written_routes(node: Node) -> set[str]:
    """The paths of the routing table that a method writes to."""
    reading = {"GET", "HEAD", "OPTIONS", "*"}
    return {
        resource.canonical
        for resource in node.client.app.router.resources()
        if {route.method for route in resource} - reading
    }


def is_covered(canonical: str) -> bool:
    written = {path.partition("?")[0] for _, path, _, _ in WRITES}
    ids = ("{subscription}", "{token}", "{rule}", "{request}", "l", "a")
    named = {canonical.replace("{id}", id) for id in ids}
    return bool(named & written) or any(part in canonical for part in OTHERS)


async def test_an_interaction_and_its_entry_are_one_and_name_each_other(
    node: Node, admin: Caller
) -> None:
    writers = [await as_role(node, "writer") for _ in range(4)]

    async def write(number: int) -> None:
        answer = await writers[number % 4].send("PUT", f"/messagegroups/g{number}", {})
        assert answer.status == 201

    # At once, so that interactions of several callers share transactions.
    await asyncio.gather(*map(write, range(24)))
    clash = await writers[0].send("PUT", "/messagegroups/g0", {"epoch": 7})
    assert clash.status == 400
    async with node.database.acquire() as connection:
        rows = await connection.fetch(
            """SELECT c.xid, a.name, a.txid = c.txid AS together FROM changes c
            JOIN audit a USING (interaction) WHERE c.kind = 'group'"""
        )
        alone = await connection.fetchval(
            """SELECT count(*) FROM changes c
            WHERE NOT EXISTS (SELECT FROM audit a WHERE a.interaction = c.interaction)"""
        )
    assert {row["xid"]: row["name"] for row in rows} == {
        f"/messagegroups/g{n}": writers[n % 4].id for n in range(24)
    }
    assert all(row["together"] for row in rows)
    assert alone == 0
    [found] = await admin.audit("?path=/messagegroups/g17")
    assert await admin.audit(f"?interaction={found['interaction']}") == [found]
    assert {"path": "/messagegroups/g17", "action": "created"} in found["targets"]


async def test_what_fails_or_only_reads_or_tries_leaves_no_entry(node: Node, admin: Caller) -> None:
    for method, path, body in (
        ("GET", "/messagegroups", None),
        ("PUT", "/messagegroups/g", {"epoch": 3, "messages": {"m": {"x y": 1}}}),
        ("POST", "/apply?dryrun", {"messagegroups": {"i": {}}}),
        ("POST", "/access/tokens", {"grants": [{"role": "king"}]}),
        ("DELETE", "/access/tokens/none", None),
        ("PUT", "/modelsource", {"groups": {"bad name": {}}}),
        ("POST", "/replication/links?force&dryrun", {**LINK, "id": "bad id"}),
        ("POST", "/notifications?link=none", {}),
        ("POST", "/replication/fetch", {"origins": []}),
    ):
        await admin.send(method, path, body)
    assert await admin.audit() == []


async def test_attempts_are_refused_in_few_entries_whoever_makes_how_many(
    node: Node, admin: Caller
) -> None:
    reader, wrong = await as_role(node, "reader"), f"concord_{CANARY:x<43}"
    for number in range(30):
        assert (await reader.send("PUT", f"/messagegroups/{number}", {})).status == 403
    stranger = Caller(node, "", wrong)
    for path in ("/access/tokens", f"/messagegroups/{wrong}", "/messagegroups/b"):
        assert (await stranger.send("POST", path, {}, Referer=CANARY)).status == 401
    assert (await node.send("GET", "/audit")).status == 401
    assert (await reader.send("GET", "/audit")).status == 403
    await note_refused(node.context)
    first = await admin.audit("?outcome=refused")
    assert sum(each["attempts"] for each in first) == len(first) == 5
    await note_refused(node.context, all=True)
    entries = await admin.audit("?outcome=refused")
    assert sum(each["attempts"] for each in entries) == 35
    assert len(entries) == 7
    [many] = [each for each in entries if each["attempts"] == 29]
    assert many["identity"] == {"kind": "token", "name": reader.id}
    assert (many["status"], many["reason"]) == (403, "forbidden")
    assert (many["method"], many["path"]) == ("PUT", "/messagegroups/1")
    strangers = await admin.audit("?identity=anonymous")
    assert {each["reason"] for each in strangers} == {"unauthenticated"}
    assert CANARY not in await raw(node)


async def test_nobody_fills_the_audit(node: Node, admin: Caller) -> None:
    for number in range(5):
        path, forwarded = f"/subscriptions/{number}", {"X-Forwarded-For": f"10.0.0.{number}"}
        await node.request("PUT", path, body=b"{}", headers=forwarded)
    await note_refused(node.context, all=True)
    # Nobody whom the node trusts has named these addresses, so they are one client's.
    assert {each["address"] for each in await admin.audit()} == {"127.0.0.1"}
    assert len(await admin.audit()) == 2


async def test_entries_are_bounded_though_each_attempt_has_another_address(
    database_url: str,
) -> None:
    settings: dict[str, Any] = {"open": False, "trusted_proxies": ["127.0.0.0/8"]}
    async with start_node(database_url, **settings) as node:
        admin = await as_role(node, "admin")
        for number in range(MOST_KINDS + 30):
            headers = {"X-Forwarded-For": f"10.0.{number // 250}.{number % 250}"}
            await node.request("GET", "/model", headers=headers)
        await note_refused(node.context, all=True)
        entries = await admin.audit("?limit=500")
        assert len(entries) == MOST_KINDS + 2
        assert sum(each["attempts"] for each in entries) == MOST_KINDS + 30
        assert len({each.get("address") for each in entries}) == MOST_KINDS + 1
        [others, _] = await admin.audit("?identity=others")
        assert (others["status"], others["attempts"]) == (401, 29)


async def test_texts_of_clients_are_bounded_and_harmless(node: Node, admin: Caller) -> None:
    # An agent that turns the direction of text, and a token where none belongs.
    agent = "\u202e" + "\u00e4" * 2000
    assert (await admin.send("PUT", "/messagegroups/g", {}, User_Agent=agent)).status == 201
    named = await admin.send("PUT", f"/messagegroups/g/messages/{admin.text}", {})
    assert named.status == 201, named.body
    second, first = await admin.audit()
    assert len(first["agent"]) == 200
    assert "\u202e" not in first["agent"]
    assert second["path"] == "/messagegroups/g/messages/***"
    assert len(Author(kind="jwt", name="n" * 10_000, path="/" * 10_000).path) == 1000


async def test_pages_and_conditions_choose(node: Node, admin: Caller) -> None:
    for number in range(7):
        await admin.send("PUT", f"/messagegroups/g{number}", {})
    whole = await admin.audit()
    pages, path = [], "/audit?limit=3&outcome=done"
    while path:
        answer = await admin.send("GET", path)
        pages.append(answer.json["audit"])
        links = [each for each in answer.headers.getall("Link") if "rel=next" in each]
        path = links[0][1 : links[0].index(">")].removeprefix(node.url) if links else ""
    assert [len(page) for page in pages] == [3, 3, 1]
    assert [each for page in pages for each in page] == whole
    assert [each["time"] for each in whole] == sorted((e["time"] for e in whole), reverse=True)
    middle = whole[3]["time"].replace("+", "%2B")
    assert await admin.audit(f"?since={middle}") == whole[:4]
    assert await admin.audit(f"?until={middle}") == whole[4:]
    assert await admin.audit(f"?identity=token:{admin.id}") == whole
    assert await admin.audit("?identity=operator") == []
    async with asyncio.timeout(20):
        # Older transactions of other databases of the server may hold entries back.
        while await admin.audit(f"?after={whole[2]['sequence']}") != [whole[1], whole[0]]:
            await asyncio.sleep(0.01)  # between two looks
    for query in ("after=x", "since=yesterday", "outcome=odd", "limit=0", "color=red", "path=%00"):
        assert (await admin.send("GET", f"/audit?{query}")).status == 400, query


@pytest.mark.parametrize("outcome", ["done", "refused"])
async def test_a_caller_pushes_none_out_that_have_fewer_entries(
    node: Node, admin: Caller, outcome: str
) -> None:
    """The quiet ones wrote first, and two others a lot; all are bounded together."""
    await execute(
        node,
        f"""INSERT INTO audit (at, outcome, kind, name, issuer, address, agent, method, path,
            targets, status, reason, attempts)
        SELECT now(), '{outcome}', 'jwt', CASE WHEN n < 10 THEN 'quiet' WHEN n < 15 THEN 'rare'
            WHEN n % 3 = 0 THEN 'busy' ELSE 'busiest' END,
            '', '', '', 'PUT', '/' || n, '{{}}', 401, 'x', 1
        FROM generate_series(0, 299) n ORDER BY n""",
    )
    at_most = node.context.settings.model_copy(update={"audit_entries": 40})
    while await drop_once(node.database, at_most, most_refused=40):
        pass
    kept = await admin.audit("?limit=500&identity=jwt")
    names = [each["identity"]["name"] for each in kept]
    counts = {name: names.count(name) for name in names}
    assert counts == {"quiet": 10, "rare": 5, "busy": 12, "busiest": 12}
    newest = [each["path"] for each in kept if each["identity"]["name"] == "busy"]
    assert newest == [f"/{n}" for n in range(297, 261, -3)]


async def test_old_entries_go_and_refusals_displace_no_others(node: Node, admin: Caller) -> None:
    await execute(
        node,
        """INSERT INTO audit (at, outcome, kind, name, issuer, address, agent, method, path,
            targets, status, reason, attempts)
        SELECT now() - n * interval '1 hour', CASE n % 2 WHEN 0 THEN 'done' ELSE 'refused' END,
            'token', '', '', '', '', 'PUT', '/' || n, '{}', 401, 'x', 1
        FROM generate_series(0, 99) n ORDER BY n DESC""",
    )
    settings = node.context.settings
    assert await drop_once(node.database, settings, most_refused=1000) == 0
    now = datetime.now(UTC)
    await store_point(node.database, now - timedelta(hours=80), timedelta(0))
    await store_point(node.database, now, timedelta(hours=80))
    at_most = settings.model_copy(update={"audit_entries": 40, "audit_days": 80 / 24})
    assert await drop_once(node.database, at_most, most_refused=5) > 0
    kept = await admin.audit("?limit=500")
    assert [each["path"] for each in kept if each["outcome"] == "refused"] == [
        f"/{n}" for n in range(1, 11, 2)
    ]
    assert [each["path"] for each in kept if each["outcome"] == "done"] == [
        f"/{n}" for n in range(0, 80, 2)
    ]
    assert await drop_once(node.database, at_most, most_refused=5) == 0
