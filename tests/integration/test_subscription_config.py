"""What a subscription's `config` can say, and how it is stored and shown."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from catalog.model.errors import InvalidAttribute
from catalog.store.changes import find_position
from tests.integration.conftest import Node

SINK = {"sink": "http://127.0.0.1:9/", "protocol": "HTTP"}
FULL = {
    "from": "earliest",
    "startsAt": "2030-01-01T00:00:00Z",
    "expiresAt": "2031-01-01T00:00:00Z",
    "maxEvents": 100,
    "batch": {"count": 10, "bytes": 1000, "wait": 1.5},
    "retry": {"attempts": 3, "seconds": 60.0},
    "order": "wait",
}


async def subscribe(node: Node, **config: Any) -> dict[str, Any]:
    answer = await node.send("POST", "/subscriptions", {**SINK, "config": config})
    assert answer.status == 201, answer.body
    shown: dict[str, Any] = answer.json
    return shown


async def cursor_of(node: Node, id: str) -> tuple[int, int]:
    async with node.database.acquire() as connection:
        row = await connection.fetchrow("SELECT txid, seq FROM subscriptions WHERE id = $1", id)
    return row["txid"], row["seq"]


async def test_a_config_is_shown_as_it_was_given(node: Node) -> None:
    shown = await subscribe(node, **FULL)
    assert shown["config"] == FULL
    read = await node.get(f"/subscriptions/{shown['id']}")
    assert read["config"] == FULL
    assert read["status"]["reason"] == "it begins to deliver at 2030-01-01T00:00:00Z"
    answer = await node.send("PUT", f"/subscriptions/{shown['id']}", read)
    assert (answer.status, answer.json["config"]) == (200, FULL)


async def test_a_subscription_begins_where_it_asks_to(node: Node) -> None:
    for name in ("a", "b", "c"):
        await node.put(f"/messagegroups/{name}", {})
    changes = await node.changes()
    [b] = [each for each in changes if each.change.xid == "/messagegroups/b"]
    everything = await subscribe(node, **{"from": "earliest"})
    rest = await subscribe(node, **{"from": str(b.position)})
    since = await subscribe(node, **{"from": b.at.isoformat()})
    nothing = await subscribe(node, **{"from": "now"})
    lags = [each["status"]["lag"] for each in (everything, rest, since, nothing)]
    is_after = [each.position > b.position for each in changes]
    is_since = [each.at >= b.at for each in changes]
    assert lags == [len(changes), sum(is_after), sum(is_since), 0]
    assert await cursor_of(node, rest["id"]) == (b.position.txid, b.position.seq)
    first = min(each.at for each in changes)
    assert datetime.fromisoformat(everything["status"]["oldestundelivered"]) == first
    assert everything["status"]["lagseconds"] > 0


async def test_a_place_that_the_log_has_no_more_is_refused(node: Node) -> None:
    for name in ("a", "b", "c"):
        await node.put(f"/messagegroups/{name}", {})
    changes = await node.changes()
    middle = changes[len(changes) // 2]
    async with node.database.acquire() as connection:
        place = (middle.position.txid, middle.position.seq)
        await connection.execute("UPDATE node SET dropped_txid = $1, dropped_seq = $2", *place)
        await connection.execute("DELETE FROM changes WHERE (txid, seq) <= ($1, $2)", *place)
        for text in (str(changes[0].position), "2020-01-01T00:00:00Z"):
            with pytest.raises(InvalidAttribute, match=f"after {middle.position} up to"):
                await find_position(connection, text)
        later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
        with pytest.raises(InvalidAttribute, match=r'invalid "config\.from"'):
            await find_position(connection, later)
        assert await find_position(connection, "earliest") == middle.position
        assert await find_position(connection, str(middle.position)) == middle.position


async def test_what_becomes_of_subscriptions_is_logged(node: Node) -> None:
    """A command on a subscription is told once, and one that changes nothing is not told."""
    shown = await subscribe(node)
    path = f"/subscriptions/{shown['id']}"
    await node.send("PUT", path, SINK)
    await node.send("PUT", path, {**SINK, "config": {"maxEvents": 5}})
    await node.send("DELETE", path)
    async with node.database.acquire() as connection:
        rows = await connection.fetch("SELECT * FROM subscription_events ORDER BY txid, seq")
    assert [row["action"] for row in rows] == ["started", "updated", "ended"]
    assert {row["subscription"] for row in rows} == {shown["id"]}
    assert "sink.example" not in str([dict(row) for row in rows])
