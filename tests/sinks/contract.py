"""What every protocol has to hold, checked against its real server with another client."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

from cloudevents.core.v1.event import CloudEvent

from tests.integration.conftest import Node

GROUPS = ("/messagegroups/a", "/messagegroups/b", "/messagegroups/c")


class Broker(Protocol):
    """A real server, and a client of its protocol that is not the node's."""

    def subscription(self, topic: str, contentmode: str) -> dict[str, Any]:
        """The body that subscribes to all changes of groups, sent to a topic."""
        ...

    async def read(self, topic: str, count: int) -> Sequence[CloudEvent]:
        """All events that a topic has got so far, at least `count`, as the SDK reads them.

        Events of one subject are in the order in which the server has them.
        """
        ...

    async def kill(self) -> None:
        """End the server at once, as `kill -9` does; what it had acknowledged is kept."""
        ...

    async def start(self) -> None:
        """Start the server again at the same address."""
        ...


async def subscribe(node: Node, broker: Broker, topic: str, contentmode: str) -> str:
    """Create a subscription, and return its path."""
    answer = await node.send("POST", "/subscriptions", broker.subscription(topic, contentmode))
    assert answer.status in (201, 202), answer.body
    return f"/subscriptions/{answer.json['id']}"


async def check_content_mode(node: Node, broker: Broker, topic: str, contentmode: str) -> None:
    """An event arrives with all its attributes and its data."""
    await subscribe(node, broker, topic, contentmode)
    await node.put(GROUPS[0], {"name": "Zürich \N{BELL} 1"})
    [event, *_] = await broker.read(topic, 1)
    found = {**event.get_attributes()}
    assert event.get_type() == "io.xregistry.group.created"
    assert event.get_subject() == GROUPS[0]
    assert event.get_source() == node.context.public_base
    assert found["datacontenttype"] == "application/json"
    assert {"id", "time", "sequence", "epoch", "authority", "digest"} <= found.keys()
    assert event.get_data() == {}


async def check_restart(node: Node, broker: Broker, topic: str, *, changes: int = 30) -> None:
    """No event is lost and each subject keeps its order while the server is killed."""
    path = await subscribe(node, broker, topic, "structured")
    for number in range(changes):
        if number == changes // 3:
            await broker.kill()
        await node.put(GROUPS[number % len(GROUPS)], {"name": str(number)})
        if number == changes * 2 // 3:
            await until_failing(node, path)
            await broker.start()
    logged = [each for each in await node.changes() if each.change.xid in GROUPS]
    async with asyncio.timeout(60):
        while (await node.get(path))["status"]["lag"]:
            await asyncio.sleep(0.05)  # between two looks at the progress
    events = await broker.read(topic, len(logged))
    for xid in GROUPS:
        sent = [str(each.position) for each in logged if each.change.xid == xid]
        came = [
            event.get_attributes()["sequence"] for event in events if event.get_subject() == xid
        ]
        # Events may come again, in their order, but none is missing.
        assert [*dict.fromkeys(came)] == sent


async def until_failing(node: Node, path: str) -> None:
    """Wait until a subscription shows that its sink cannot be reached."""
    async with asyncio.timeout(60):
        while not (await node.get(path))["status"]["failures"]:
            await asyncio.sleep(0.05)  # between two looks at the progress
