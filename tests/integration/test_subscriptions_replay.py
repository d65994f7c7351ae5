"""A replay, as a sink sees it."""

from __future__ import annotations

import pytest

from catalog.store.changes import Position
from tests.integration.conftest import Node
from tests.integration.test_subscriptions_course import (
    change,
    delivering,
    node,
    subjects,
    until,
)
from tests.integration.test_subscriptions_life import AnsweringSink, sink, subscribed

__all__ = ["delivering", "node", "sink"]


@pytest.mark.parametrize("how", ["earliest", "position", "time"])
async def test_events_are_delivered_again_from_a_place_in_the_log(
    delivering: Node, sink: AnsweringSink, how: str
) -> None:
    node = delivering
    for name in ("a", "b"):
        await node.put(f"/messagegroups/{name}")
    await node.changes()
    path = await subscribed(node, sink.url, filters=[{"suffix": {"subject": "/b"}}])
    logged = [each for each in await node.changes() if each.change.xid == "/messagegroups/b"]
    start = {
        "earliest": "earliest",
        "position": str(Position(logged[0].position.txid, 0)),
        "time": logged[0].at.isoformat(),
    }[how]
    shown = await change(node, path, cursor=start)
    assert shown["id"] == path.rpartition("/")[2]
    await until(lambda: subjects(sink) == ["/messagegroups/b"])
    await change(node, path, cursor=start)
    await until(lambda: subjects(sink) == ["/messagegroups/b"] * 2)
