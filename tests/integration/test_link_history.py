"""The ordinary history of a repository of definitions passes all links by itself, with defaults."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest

from tests.brokers.kafka import KafkaBroker
from tests.integration.conftest import Node
from tests.integration.federation import (
    accept,
    carries,
    databases,
    digest_rows,
    eventually,
    link,
    link_is,
    push,
    running,
    start_member,
)

DOCUMENTS = Path(__file__).parent.parent / "documents"
FILES = (
    "feeds/digitraffic_road.xreg.json",
    "feeds/cap-alerts.xreg.json",
    "codegen/inkjet-protocol-variants.xreg.json",
    "codegen/test-contoso-erp.xreg.json",
    "spec/mqtt-sparkplugB.xreg.json",
)
COMMITS = 300
Groups = dict[str, dict[str, Any]]


class Repository:
    """The message groups of real documents, and a made history of them.

    Each commit is applied as a whole: what it does not have any more is deleted with it.
    """

    def __init__(self, node: Node, random: Random) -> None:
        self.node = node
        self.deleted = 0
        self._random = random
        self._groups: Groups = {}
        for name in FILES:
            document = orjson.loads((DOCUMENTS / name).read_bytes())
            self._groups |= _plain(document["messagegroups"])
        self._taken: list[Groups] = []

    async def commit(self, number: int) -> None:
        before = {(group, id) for group in self._groups for id in self._messages(group)}
        if number % 100 == 99:
            self._clean_up()
        elif number % 100 == 49:
            self._put_back()
        elif number % 15 == 7:
            self._rename()
        elif number % 15 == 13:
            self._move()
        else:
            await self._edit(number)
            return
        self.deleted += len(before - {(g, id) for g in self._groups for id in self._messages(g)})
        await self.apply()

    async def apply(self) -> None:
        body = {"messagegroups": self._groups}
        answer = await self.node.send("POST", "/apply?prune&set=repository", body)
        assert answer.status == 200, answer.body

    def _messages(self, group: str) -> dict[str, Any]:
        messages: dict[str, Any] = self._groups[group].setdefault("messages", {})
        return messages

    def _any_group(self) -> str:
        return self._random.choice([id for id in sorted(self._groups) if self._messages(id)])

    async def _edit(self, number: int) -> None:
        group = self._any_group()
        id = self._random.choice(sorted(self._messages(group)))
        self._messages(group)[id]["description"] = text = f"As of commit {number}."
        path = f"/messagegroups/{group}/messages/{id}"
        answer = await self.node.send("PATCH", path, {"description": text})
        assert answer.status == 200, answer.body

    def _rename(self) -> None:
        """Give a group another name, with all that is in it."""
        group = self._any_group()
        base = group.removesuffix(".renamed")
        self._groups[base if base != group else f"{group}.renamed"] = self._groups.pop(group)

    def _move(self) -> None:
        """Move the messages of a group to another one."""
        source, target = self._any_group(), self._any_group()
        if source != target:
            moved = self._groups.pop(source)["messages"]
            self._messages(target).update(moved)

    def _clean_up(self) -> None:
        """Remove a fifth of all messages, and the groups that are left empty."""
        named = [(group, id) for group in sorted(self._groups) for id in self._messages(group)]
        taken: Groups = {}
        for group, id in self._random.sample(named, len(named) // 5):
            messages = taken.setdefault(group, {"messages": {}})["messages"]
            messages[id] = self._messages(group).pop(id)
        self._groups = {id: group for id, group in self._groups.items() if group["messages"]}
        self._taken.append(taken)

    def _put_back(self) -> None:
        for taken in self._taken:
            for group, content in taken.items():
                self._groups.setdefault(group, {"messages": {}})
                self._messages(group).update(deepcopy(content["messages"]))
        self._taken.clear()


def _plain(groups: Groups) -> Groups:
    """Groups with what a message says of itself, without references to other files."""
    kept = ("description", "envelope", "protocol", "dataschemaformat", "labels")
    return {
        id: {
            "messages": {
                name: {key: message[key] for key in kept if key in message}
                for name, message in group.get("messages", {}).items()
            }
        }
        for id, group in groups.items()
    }


@pytest.fixture
async def urls(postgres_url: str, template: str) -> AsyncIterator[list[str]]:
    async with databases(postgres_url, template, 3) as names:
        yield names


async def asked(*nodes: Node) -> list[str]:
    """The events by which links of these nodes have asked."""
    found = [each for node in nodes for each in (await node.get("/replication/links"))["links"]]
    events = [event for each in found for event in each["history"]]
    return [event["detail"] for event in events if event["event"] == "asked"]


async def test_a_history_of_renames_moves_and_clean_ups_passes_a_push_and_a_relay(
    urls: list[str],
) -> None:
    async with (
        start_member(urls[0]) as author,
        start_member(urls[1]) as hub,
        start_member(urls[2]) as leaf,
    ):
        repository = Repository(author, Random(23))
        await repository.apply()
        await accept(hub, author)
        await push(author, hub)
        relay = await link(leaf, hub, authorities=["*"])
        async with running(author, hub, leaf):
            await eventually(lambda: carries(leaf, author), 60)
            for number in range(COMMITS):
                await repository.commit(number)
                if number % 50 == 49:
                    # So that much of the history is deleted while the links are current.
                    await eventually(lambda: carries(leaf, author), 60)
            await eventually(lambda: carries(leaf, author), 60)
            await link_is(leaf, relay["id"], "current")
            assert await carries(hub, author)
        assert await asked(author, hub, leaf) == []
    assert repository.deleted > 100


@pytest.mark.xdist_group("sinks")
async def test_clean_ups_in_a_star_of_three_pass_by_events_push_and_topic(
    urls: list[str], kafka: KafkaBroker
) -> None:
    """Both leaves push to the hub. One follows it by events, the other over a topic."""
    topic = f"kafka://{kafka.address}/star-{secrets.token_hex(4)}"
    quick = {"pull_interval_seconds": 0.5}
    async with (
        start_member(urls[0], **quick) as hub,
        start_member(urls[1], **quick) as east,
        start_member(urls[2], **quick) as west,
    ):
        nodes = [hub, east, west]
        for number, node in enumerate(nodes):
            await write_messages(node, f"g{number}")
        for leaf in (east, west):
            await accept(hub, leaf)
            await push(leaf, hub)
        await link(east, hub, mode="events", authorities=["*"])
        body = {"target": topic, "mode": "publish", "authorities": ["*"]}
        assert (await hub.send("POST", "/replication/links", body)).status == 201
        body = {"source": topic, "mode": "kafka", "authorities": ["*"]}
        assert (await west.send("POST", "/replication/links?force", body)).status == 201
        async with running(*nodes, deliveries=True):
            await eventually(lambda: are_equal(nodes), 60)
            for number, node in enumerate(nodes):
                await clean_up(node, f"g{number}")
                await eventually(lambda: are_equal(nodes), 60)
            for node in nodes:
                for each in (await node.get("/replication/links"))["links"]:
                    await link_is(node, each["id"], "current")
        assert await asked(*nodes) == []


async def write_messages(node: Node, group: str) -> None:
    messages: dict[str, Any] = {f"m{number}": {} for number in range(60)}
    body = {"messagegroups": {group: {"messages": messages}}}
    answer = await node.send("POST", "/", body)
    assert answer.status == 200, answer.body


async def clean_up(node: Node, group: str) -> None:
    """Delete half of the messages of a group, and give it another name."""
    messages: dict[str, Any] = {f"m{number}": {} for number in range(30)}
    body = {"messagegroups": {f"{group}.renamed": {"messages": messages}}}
    assert (await node.send("POST", "/", body)).status == 200
    assert (await node.send("DELETE", f"/messagegroups/{group}")).status == 204


async def are_equal(nodes: list[Node]) -> bool:
    rows = [await digest_rows(node) for node in nodes]
    return all(each == rows[0] for each in rows) and len(rows[0]) > 0
