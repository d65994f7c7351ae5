"""Every answer about replication fits its description, and each success described there comes."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import orjson
import pytest

from catalog.api.openapi.description import model_components
from catalog.http.route import Route
from replication.routes import routes
from replication.signing.signing import sign_once
from tests.integration.conftest import Answer, Node
from tests.integration.federation import databases, start_member, write_some
from tests.integration.test_openapi_subscriptions import DescribedApi

LINES = "application/x-ndjson"
LINKS, LINK = "/replication/links", "/replication/links/{id}"
ENTITIES, KEYS = "/replication/entities", "/replication/keys"
RECOVERY = "/replication/recovery"
HANDOVERS = "/replication/handovers"
TRUST, SIGNING = "/replication/trust", "/replication/signing"


@dataclass(slots=True)
class DescribedPeer(DescribedApi):
    """Some answers have several media types, and each line of some is a value."""

    def check_content(self, described: dict[str, Any], answer: Answer) -> None:
        if not answer.body:
            return
        media_type = answer.headers["Content-Type"].partition(";")[0]
        assert media_type in described, (media_type, answer.body)
        if media_type == "application/json":
            self.check(described[media_type]["schema"], answer.json)
        elif media_type == LINES:
            for line in answer.body.splitlines():
                self.check(described[media_type]["x-line-schema"], orjson.loads(line))

    async def push(self, sender: Node, query: str = "", body: bytes = b"") -> list[Any]:
        named = named_as(sender) | {"Content-Type": LINES}
        answer = await self.node.request("POST", f"{ENTITIES}{query}", body=body, headers=named)
        assert answer.status == 200, answer.body
        operation = self.description["paths"][ENTITIES]["post"]
        for line in body.splitlines():
            self.check(
                operation["requestBody"]["content"][LINES]["x-line-schema"], orjson.loads(line)
            )
        self.check_content(operation["responses"]["200"]["content"], answer)
        self.came.add(("POST", ENTITIES, "200"))
        return [orjson.loads(line) for line in answer.body.splitlines()]


async def described_peer(node: Node) -> DescribedPeer:
    """The API of a node, whose answers have no members but those that are described."""
    description = await node.get("/openapi.json")
    modelled = model_components(each for each in routes if isinstance(each, Route))
    for name, schema in description["components"]["schemas"].items():
        if name in modelled or name.startswith("replication."):
            for each in (schema, *schema.get("oneOf", ()), *schema.get("anyOf", ())):
                if "properties" in each:
                    each["additionalProperties"] = False
    return DescribedPeer(node, description)


def named_as(node: Node) -> dict[str, str]:
    identity = node.database.node
    return {"Concord-Authority": identity.authority, "Concord-Instance": str(identity.instance)}


@pytest.fixture
async def members(postgres_url: str, template: str) -> AsyncIterator[tuple[Node, Node]]:
    """A source that signs, with an entity of each kind and a deleted one, and another node."""
    async with (
        databases(postgres_url, template, 2) as (one, two),
        start_member(one) as source,
        start_member(two) as target,
    ):
        await source.put(SIGNING, {"on": True})
        await write_some(source, "g")
        await write_some(source, "gone")
        await source.send("DELETE", "/messagegroups/gone")
        while await sign_once(source.context):
            pass
        yield source, target


async def test_every_answer_fits_and_every_described_success_comes(
    members: tuple[Node, Node],
) -> None:
    source, target = members
    theirs, ours = await described_peer(source), await described_peer(target)
    lines = await reads(theirs)
    await keys(theirs, ours)
    await pushes(ours, source, lines)
    await links(ours, source)
    await handovers(theirs, ours)
    await recoveries(ours)
    await reconciliations(ours)
    expected = {
        (method.upper(), path, status)
        for path, operations in ours.description["paths"].items()
        if path.startswith(("/replication", "/notifications"))
        for method, operation in operations.items()
        if method != "parameters"
        for status in operation["responses"]
        if status.startswith("2") and status != "2XX"
    }
    # An event wakes a link of which a source was asked for events; another test has that.
    assert expected - theirs.came - ours.came == {("POST", "/notifications", "204")}


async def reads(api: DescribedPeer) -> bytes:
    """The reads of a catalog that follows this one; returns the lines of the snapshot."""
    await api.done("GET", "/replication", query="?count")
    snapshot = (await api.send("GET", "/replication/snapshot")).body
    copies = [orjson.loads(line) for line in snapshot.splitlines()]
    assert {"entity", "tombstone", "end"} == {
        "end" if "kind" not in c else "tombstone" if "deleted" in c else "entity" for c in copies
    }
    assert all("signature" in copy for copy in copies[:-1])
    assert any("document" in copy for copy in copies)
    cursor = quote(copies[-1]["cursor"])
    await api.send("GET", "/replication/changes", query=f"?after={cursor}&behind")
    for query in (
        "",
        "?bits=4&ranges=0-65536",
        "?format=authorities",
        "?format=schemaids",
        "?format=csv",
    ):
        await api.send("GET", "/replication/digests", query=query)
    signed = await api.send(
        "GET", "/replication/digests", query="?format=csv&signatures=true&verify=true"
    )
    header, *rows = signed.body.decode().splitlines()
    assert header.endswith(",intact,signature,signedby")
    assert len(rows) == len(copies) - 1
    stored = await api.send("GET", "/replication/digests", query="?format=csv&signatures=true")
    assert sorted(stored.body.decode().splitlines()[1:]) == sorted(rows)
    await api.refused(
        400, "GET", "/replication/digests", query="?format=csv&signatures=true&ranges=0-1"
    )
    await api.done("GET", "/replication/followers")
    arrivals = "/replication/arrivals"
    live = next(copy["xid"] for copy in copies if "attributes" in copy)
    await api.done("GET", arrivals, query=f"?of={live}")
    await api.refused(404, "GET", arrivals, query="?of=/messagegroups/none")
    await api.refused(400, "GET", arrivals)
    origin = {name: copies[0][name] for name in ("authority", "origin")}
    await api.send("POST", "/replication/fetch", {"origins": [origin]})
    await api.refused(410, "GET", "/replication/changes", query=f"?after={'0' * 8}{cursor[8:]}")
    return snapshot


async def keys(theirs: DescribedPeer, ours: DescribedPeer) -> None:
    authority = theirs.node.database.node.authority
    key = (await theirs.done("GET", SIGNING))["key"]
    await ours.done("POST", TRUST, {"authority": authority, "key": key})
    await theirs.done("POST", f"{SIGNING}/rotate", {})
    while await sign_once(theirs.node.context):
        pass
    await theirs.done("PUT", SIGNING, {"on": True})
    await ours.done("GET", TRUST)
    await theirs.done("GET", "/replication/signatures")
    await theirs.done("GET", KEYS)


async def pushes(api: DescribedPeer, sender: Node, lines: bytes) -> None:
    """A complete copy, then the question how far it came, by which a sender begins again."""
    told = await sender.get(KEYS)
    await api.refused(403, "POST", KEYS, told, headers=named_as(sender))
    authority = sender.database.node.authority
    body = {"mode": "accept", "authority": authority}
    accepted = await api.done("POST", LINKS, body)
    await api.done("POST", KEYS, told, headers=named_as(sender))
    await api.push(sender, "?begin&copies=3")
    *verdicts, end = await api.push(sender, body=lines)
    assert {each["verdict"] for each in verdicts} == {"applied"}
    assert (await api.push(sender))[-1]["cursor"] == end["cursor"]
    origins = [{"authority": authority, "origin": verdicts[0]["origin"]}]
    repaired = await api.done("POST", "/replication/repair", {"origins": origins})
    assert "it is pushed here" in repaired["unresolved"][0]["reason"]
    await api.done("DELETE", LINK, id=accepted["id"])
    other = await api.done("POST", LINKS, body | {"authority": "urn:other"})
    assert (await api.send("DELETE", LINK, query="?drop", id=other["id"])).status == 202


async def links(api: DescribedPeer, source: Node) -> None:
    authority = source.database.node.authority
    body = {"id": "in", "source": source.url, "mode": "pull", "authority": authority}
    body |= {"labels": ["a=b"]}
    assert (await api.done("POST", LINKS, body, query="?dryrun"))["isdecided"]
    await api.done("POST", LINKS, body)
    await api.done("GET", LINKS)
    named = {"id": "in"}
    await api.done("GET", LINK, **named)
    await api.done("PUT", LINK, body | {"labels": []}, **named)
    await api.done("PATCH", LINK, {"scope": ["/messagegroups/g"], "map": {}}, **named)
    await api.done("PATCH", LINK, {"paused": True, "reason": "x"}, **named)
    await api.done("PATCH", LINK, {"paused": False}, **named)
    await api.done("POST", f"{LINK}/run", **named)
    await api.done("POST", f"{LINK}/run", query="?dryrun", **named)
    await api.done("POST", f"{LINK}/reset", {"full": True}, **named)
    await api.done("PATCH", LINK, {"authority": "urn:another"}, **named)
    async with api.node.database.acquire() as connection:
        await connection.execute(
            "UPDATE links SET state = 'asking', "
            'question = \'{"deletions": 30, "of": 40, "digest": "d", "first": []}\''
        )
    await api.refused(409, "PATCH", LINK, {"allow": "another"}, **named)
    await api.done("PATCH", LINK, {"allow": "d"}, **named)
    await api.refused(400, "PATCH", LINK, {"allow": "d"}, **named)
    async with api.node.database.acquire() as connection:
        await connection.execute(
            "INSERT INTO conflicts (link, authority, origin, xid, epoch, verdict, detail, at) "
            "VALUES ('in', 'urn:a', '/messagegroups/x', '/messagegroups/x', 1, 'collided', 'y', "
            "now())"
        )
    assert len((await api.done("GET", f"{LINK}/conflicts", **named))["conflicts"]) == 1
    await api.done("GET", f"{LINK}/figures", **named)
    assert (await api.send("DELETE", LINK, query="?drop", **named)).status == 202
    await api.done("DELETE", LINK, **named)
    await api.refused(404, "GET", LINK, **named)
    await api.send("DELETE", TRUST, query=f"?authority={authority}")
    walked = {"id": "w", "mode": "walk", "source": "http://127.0.0.1:9", "authority": "urn:w"}
    await api.done("POST", LINKS, walked, query="?force")
    await api.refused(400, "POST", f"{LINK}/adopt", id="w")
    await api.done("PATCH", LINK, {"paused": True}, id="w")
    await api.done("POST", f"{LINK}/adopt", id="w")
    await api.done("DELETE", LINK, id="w")


async def handovers(giver: DescribedPeer, taker: DescribedPeer) -> None:
    """A group is offered and fetched; the taker's node is told by hand."""
    group, authority = "/messagegroups/given", giver.node.database.node.authority
    await giver.node.put(group, {})
    began = await taker.done("POST", HANDOVERS, {"group": group, "from": giver.node.url})
    asked = f"?group={group}&authority={quote(authority, safe='')}"
    await taker.done("GET", f"{HANDOVERS}/consent", query=asked)
    offered = await giver.done("POST", HANDOVERS, {"group": group, "to": taker.node.url})
    told = {"id": offered["id"], "group": group, "authority": authority}
    await taker.done("POST", f"{HANDOVERS}/offers", told)
    await giver.send("GET", f"{HANDOVERS}/{{id}}/copies", id=offered["id"])
    await giver.done("GET", HANDOVERS)
    await taker.done("GET", f"{HANDOVERS}/{{id}}", id=began["id"])
    for api, id in ((giver, offered["id"]), (taker, began["id"])):
        await api.done("DELETE", f"{HANDOVERS}/{{id}}", id=id)


async def reconciliations(api: DescribedPeer) -> None:
    path = "/replication/reconciliations"
    time = "2030-01-01T00:00:00Z"
    result = {"run": str(uuid.uuid4()), "startedat": time, "endedat": time, "outcome": "different"}
    await api.done(
        "POST", path, {**result, "name": "a", "catalogs": ["a", "b"], "findings": {"stale": 1}}
    )
    await api.done("GET", path)
    await api.refused(400, "POST", path, result)
    findings, run = f"{path}/{{run}}/findings", result["run"]
    finding = {"finding": "stale", "catalog": "a", "authority": "urn:b", "origin": "/groups/g"}
    told = {
        "compared": [{"name": "b", "authority": "urn:b", "findings": {}}],
        "first": 0,
        "findings": [{**finding, "epoch": 1, "digest": "0" * 64, "reference": "b"}],
    }
    await api.done("POST", findings, told, run=run)
    await api.done("GET", findings, run=run)
    await api.done("GET", f"{findings}/{{number}}", run=run, number="0")
    await api.refused(404, "GET", f"{findings}/{{number}}", run=run, number="1")
    await api.refused(404, "POST", findings, told, run=str(uuid.uuid4()))


async def recoveries(api: DescribedPeer) -> None:
    await api.refused(404, "GET", RECOVERY)
    sources = {"sources": ["http://127.0.0.1:9"]}
    await api.done("POST", RECOVERY, sources, query="?force")
    await api.done("GET", RECOVERY)
    for state in ("taking", "burying"):
        async with api.node.database.acquire() as connection:
            await connection.execute("UPDATE recovery SET state = 'blocked'")
        await api.done("PATCH", RECOVERY, {"state": state})
    await api.done("GET", f"{RECOVERY}/findings")
    await api.done("DELETE", RECOVERY)
    await api.refused(409, "DELETE", RECOVERY)
