"""Subscribers of the message catalog hear of its changes in its own terms."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import pytest

from catalog.store.changes import read_newest
from tests.integration.conftest import Node, start_node
from tests.integration.test_dispatcher import Sink, delivering, readable

EVENT = {"id": "e", "definition": {"attributes": {"type": {"value": "e"}}}}
SEED = "application/cloudevents-subscription+json"


@pytest.fixture
async def node(database_url: str) -> AsyncIterator[Node]:
    async with (
        start_node(database_url, allow_private_addresses=True, validate_sinks=False) as running,
        delivering(running.context),
    ):
        yield running


@pytest.fixture
async def sink() -> AsyncIterator[Sink]:
    async with Sink() as sink:
        yield sink


async def subscribe(node: Node, **definition: Any) -> dict[str, Any]:
    """Subscribe to what comes after the changes so far."""
    async with node.context.database.acquire() as connection:
        newest = await read_newest(connection)
    await readable(node.context, newest)
    answer = await node.send(
        "POST", "/subscriptions", {"protocol": "HTTP", **definition}, Content_Type=SEED
    )
    assert answer.status == 201, answer.body
    shown = answer.json
    assert isinstance(shown, dict)
    return shown


async def write_definition(node: Node, group: str = "5") -> dict[str, Any]:
    await node.put(f"/messagecatalog/{group}", {"format": "CloudEvents"})
    answer = await node.send("POST", f"/messagecatalog/{group}/messagedefinitions", EVENT)
    assert answer.status == 201
    shown = answer.json
    assert isinstance(shown, dict)
    return shown


async def test_a_subscriber_of_the_catalog_is_told_of_every_change_in_it(
    node: Node, sink: Sink
) -> None:
    source = f"{node.url}/messagecatalog"
    await subscribe(node, source=source, sink=sink.url)
    shown = await write_definition(node)
    await node.put("/schemagroups/s")
    assert (await node.send("DELETE", "/messagegroups/5/messages/e")).status == 204
    events = await sink.received(7)
    heard = [(one.get_type().split(".")[3], one.get_subject()) for one in events]
    definition = "/messagecatalog/5/messagedefinitions/e"
    assert heard == [
        ("updated", "/messagecatalog/5"),
        ("updated", "/messagecatalog/5"),
        ("updated", definition),
        ("updated", f"{definition}/versions/1"),
        ("updated", "/messagecatalog/5"),
        ("deleted", definition),
        ("deleted", f"{definition}/versions/1"),
    ]
    assert {event.get_source() for event in events} == {source}
    assert events[3].get_time() == datetime.fromisoformat(shown["createdtimeutc"])
    assert len({event.get_id() for event in events}) == 7
    assert not any(event.get_data() for event in events)


async def test_a_version_that_was_changed_natively_has_the_time_of_the_change(
    node: Node, sink: Sink
) -> None:
    written = await write_definition(node)
    await subscribe(node, source=f"{node.url}/messagecatalog", sink=sink.url)
    path = "/messagegroups/5/messages/e"
    assert (await node.send("PATCH", path, {"description": "changed"})).status == 200
    definition = "/messagecatalog/5/messagedefinitions/e"
    shown = await node.get(definition)
    assert shown["description"] == "changed"
    assert shown["createdtimeutc"] == written["createdtimeutc"]
    assert shown["updatedtimeutc"] > written["updatedtimeutc"]
    events = await sink.received(2)
    assert [each.get_subject() for each in events] == [definition, f"{definition}/versions/1"]
    assert {each.get_time() for each in events} == {datetime.fromisoformat(shown["updatedtimeutc"])}


async def test_the_time_of_an_event_is_the_one_on_record(node: Node, sink: Sink) -> None:
    await subscribe(node, source=f"{node.url}/messagecatalog", sink=sink.url)
    time = "2020-10-30T17:31:00Z"
    await node.put("/messagegroups/g", {"createdat": time, "modifiedat": time})
    [event] = await sink.received(1)
    assert event.get_time() == datetime.fromisoformat(time)
    assert (await node.get("/messagecatalog/g"))["updatedtimeutc"] == time


async def test_the_published_request_is_accepted_as_it_stands(node: Node) -> None:
    request = {
        "source": node.url,
        "protocol": "HTTPS",
        "sink": "https://target.example.com/notifications",
        "filter": {"prefix": {"subject": "/messagecatalog/5"}},
    }
    shown = await subscribe(node, **request)
    assert shown["filters"] == [request["filter"]]
    assert {name: shown[name] for name in ("source", "protocol", "sink")} == {
        name: request[name] for name in ("source", "protocol", "sink")
    }


async def test_a_filter_by_a_path_of_the_catalog_is_about_the_catalog(
    node: Node, sink: Sink
) -> None:
    filter = {"prefix": {"subject": "/messagecatalog/5"}}
    await subscribe(node, source=node.url, sink=sink.url, filter=filter)
    await write_definition(node, "6")
    await write_definition(node, "5")
    events = await sink.received(4)
    assert [event.get_subject() for event in events] == [
        "/messagecatalog/5",
        "/messagecatalog/5",
        "/messagecatalog/5/messagedefinitions/e",
        "/messagecatalog/5/messagedefinitions/e/versions/1",
    ]
    assert {event.get_source() for event in events} == {node.url}


async def test_subscribers_in_other_terms_are_served_beside_it(node: Node, sink: Sink) -> None:
    async with Sink() as native:
        await subscribe(node, source=f"{node.url}/messagecatalog", sink=sink.url)
        await subscribe(node, source=node.url, sink=native.url)
        await node.put("/messagecatalog/5", {"format": "NATS"})
        [event] = await sink.received(1)
        created, *_ = [
            one for one in await native.received(2) if one.get_subject() == "/messagegroups/5"
        ]
    assert event.get_type() == "io.cloudevents.messagecatalog.updated.v1"
    assert created.get_type() == "io.xregistry.group.created"


@pytest.mark.parametrize(
    "changes",
    [
        {"protocol": "HTTPS", "sink": "http://target.example.com"},
        {"filter": {"xpath": "TRUE"}},
        {"filter": [{"prefix": {"subject": "/a"}}]},
    ],
)
async def test_a_request_that_cannot_be_served_is_refused(
    node: Node, changes: dict[str, Any]
) -> None:
    body = {"protocol": "HTTP", "sink": "https://target.example.com", **changes}
    answer = await node.send("POST", "/subscriptions", body)
    assert answer.status == 400
