"""The Discovery API over HTTP."""

from __future__ import annotations

import re
import sys
import unicodedata
import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import given as given_by_hypothesis
from hypothesis import strategies as st

from catalog.dialects.discovery.translate import NAMESPACE
from catalog.model.caller import Author
from catalog.model.entity import Entity
from catalog.store.discoveryservices import fold
from catalog.store.writes import Write, write
from tests.integration.conftest import Node, assert_problem, start_node
from tests.unit.test_discovery_services import services

WIDGETS: dict[str, Any] = {
    "id": "cbdd62e8-c095-11ea-b3de-0242ac130004",
    "epoch": 1,
    "url": "https://example.com/services/cbdd62e8-c095-11ea-b3de-0242ac130004",
    "name": "widgets",
    "specversions": ["1.0"],
    "subscriptionurl": "https://events.example.com",
    "protocols": ["HTTP"],
    "events": [{"type": "com.example.widget.create"}, {"type": "com.example.widget.delete"}],
}
STORAGE: dict[str, Any] = {
    "id": "3db60532-e839-417e-8644-e255f338776a",
    "epoch": 1,
    "url": "https://storage.example.com/services/3db60532-e839-417e-8644-e255f338776a",
    "name": "storage",
    "description": "Blob storage in the cloud",
    "protocols": ["HTTP"],
    "subscriptionurl": "https://cloud.example.com/docs/storage",
    "events": [
        {
            "type": "com.example.storage.object.create",
            "specversions": ["1.x-wip"],
            "datacontenttype": "application/json",
            "dataschema": "https://schemas.example.com/download/com.example.storage.create.json",
            "sourcetemplate": "https://storage.example.com/service/storage/{objectID}",
        }
    ],
}


def service(name: str, **attributes: Any) -> dict[str, Any]:
    return {"name": name, "protocols": ["HTTP"], **attributes}


def given(shown: dict[str, Any]) -> dict[str, Any]:
    """What of a service is not the server's to decide."""
    return {name: value for name, value in shown.items() if name not in ("id", "epoch", "url")}


async def add(node: Node, *wanted: dict[str, Any], flag: str = "") -> list[str]:
    answer = await node.send("POST", f"/services{flag}", [*wanted])
    assert answer.status == 201, answer.body
    return [each["id"] for each in answer.json]


async def names(node: Node) -> set[str]:
    return {each["name"] for each in await node.get("/services")}


@pytest.mark.parametrize("example", [WIDGETS, STORAGE], ids=lambda one: str(one["name"]))
@pytest.mark.parametrize("flag", ["", "?import"])
async def test_an_example_reads_back(node: Node, example: dict[str, Any], flag: str) -> None:
    [id] = await add(node, example, flag=flag)
    shown = await node.get(f"/services/{id}")
    assert given(shown) == given(example)
    assert shown["url"] == f"{node.url}/services/{id}"
    assert await node.get("/services") == [shown]
    assert await node.get(f"/services?name={example['name'].upper()}") == shown


async def test_the_server_chooses_ids_and_epochs_of_what_is_added(node: Node) -> None:
    [id] = await add(node, {**WIDGETS, "epoch": 40, "id": "not looked at"})
    assert uuid.UUID(id)
    assert id != WIDGETS["id"]
    assert (await node.get(f"/services/{id}"))["epoch"] == 1


async def test_only_a_single_new_service_has_a_location(node: Node) -> None:
    one = await node.send("POST", "/services", [service("one")])
    assert one.status == 201
    assert one.headers["Location"] == f"{node.url}/services/{one.json[0]['id']}"
    two = await node.send("POST", "/services", [service("two"), service("three")])
    assert (two.status, len(two.json)) == (201, 2)
    assert "Location" not in two.headers
    shown = [await node.get(f"/services/{each['id']}") for each in two.json]
    assert [each["name"] for each in shown] == ["two", "three"]
    none = await node.send("POST", "/services", [])
    assert (none.status, none.json) == (201, [])
    assert "Location" not in none.headers


@pytest.mark.parametrize("flag", ["", "?import"])
async def test_a_name_is_given_once_whatever_its_case_and_else_nothing_is_added(
    node: Node, flag: str
) -> None:
    await add(node, service("\u00c4pfel"))
    [street] = await add(node, service("Stra\u00dfe"))
    state = await node.state()
    for wanted in (
        [service("new"), service("\u00e4PFEL")],
        [service("new"), service("STRASSE")],
        [service("new"), service("NEW")],
    ):
        answer = await node.send("POST", f"/services{flag}", wanted)
        assert answer.status == 409
        assert answer.error == "service_name_taken"
        assert assert_problem(answer)["args"] == {"name": wanted[1]["name"]}
    assert await node.state() == state
    assert (await node.get("/services?name=strasse"))["id"] == street


async def test_a_name_that_is_taken_is_refused_on_behalf_of_who_has_it(node: Node) -> None:
    [id] = await add(node, service("taken"))
    [other] = await add(node, service("other"))
    added = await node.send("POST", "/services", [service("TAKEN")])
    put = await node.send("PUT", f"/services/{other}", {**service("TAKEN"), "id": other})
    for answer in (added, put):
        assert answer.status == 409
        assert assert_problem(answer)["subject"] == f"/endpoints/{id}"


async def test_names_are_folded_as_unicode_folds_case(node: Node) -> None:
    # What this version of Unicode has, without the ideographs and syllables: they have no case.
    without_case = {"Cn", "Co", "Cs", "Lo"}
    known = [
        character
        for character in map(chr, range(1, sys.maxunicode + 1))
        if unicodedata.category(character) not in without_case
    ]
    # Folding knows no context, so many characters make one name.
    texts = ["".join(known[start : start + 250]) for start in range(0, len(known), 250)]
    async with node.database.acquire() as connection:
        folded = await fold(connection, texts)
    assert folded == {text: text.casefold() for text in texts}


async def test_a_constraint_that_is_broken_is_named_and_nothing_is_added(node: Node) -> None:
    state = await node.state()
    wanted = [service("good"), service("bad", events=[{"type": "", "datacontenttype": "x"}])]
    answer = await node.send("POST", "/services", wanted)
    assert answer.status == 400
    found = [each["args"]["name"] for each in assert_problem(answer)["violations"]]
    assert found == ["[1].events[0].type", "[1].events[0].datacontenttype"]
    assert await node.state() == state


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[1]", b"[{", b"5", b"null", b'[{"name":"n","protocols":["\\u0000"]}]']
)
async def test_what_is_no_array_of_services_is_refused(node: Node, body: bytes) -> None:
    for method in ("POST", "DELETE"):
        answer = await node.send(method, "/services", body=body, Content_Type="application/json")
        assert answer.status == 400, answer.body
        assert_problem(answer)


async def test_an_import_keeps_ids_and_goes_above_both_epochs(node: Node) -> None:
    path = f"/services/{WIDGETS['id']}"
    for epoch, expected in ((41, 42), (5, 43), (None, 44), (44, 45), (100, 101)):
        assert await add(node, {**WIDGETS, "epoch": epoch}, flag="?import") == [WIDGETS["id"]]
        assert (await node.get(path))["epoch"] == expected
    answer = await node.send("PUT", f"{path}?import", {**WIDGETS, "epoch": 3})
    assert (answer.status, answer.json["epoch"]) == (200, 102)
    [id] = await add(node, service("no id"), flag="?import")
    assert (await node.get(f"/services/{id}"))["epoch"] == 1


async def test_an_id_that_is_imported_again_is_above_what_it_was_when_it_was_deleted(
    node: Node,
) -> None:
    await add(node, {**WIDGETS, "epoch": 9}, flag="?import")
    assert (await node.send("DELETE", f"/services/{WIDGETS['id']}")).status == 200
    await add(node, WIDGETS, flag="?import")
    assert (await node.get(f"/services/{WIDGETS['id']}"))["epoch"] > 10


async def test_an_import_of_one_service_twice_goes_above_every_epoch_in_turn(node: Node) -> None:
    path, held = f"/services/{WIDGETS['id']}", {**WIDGETS, "epoch": 8}
    twice = [{**WIDGETS, "epoch": 100}, {**WIDGETS, "epoch": 5}]
    await add(node, held, flag="?import")
    assert (await node.get(path))["epoch"] == 9
    await add(node, *twice, flag="?import")
    assert (await node.get(path))["epoch"] == 102
    assert (await node.send("DELETE", path)).status == 200
    await add(node, *twice, flag="?import")
    assert (await node.get(path))["epoch"] == 105


async def test_a_name_that_a_former_service_of_an_import_gave_up_is_free(node: Node) -> None:
    [mine] = await add(node, service("MyService"))
    state = await node.state()
    renamed = {**service("YourService"), "id": mine}
    wrong = await node.send("POST", "/services?import", [service("myservice"), renamed])
    assert wrong.status == 409
    assert await node.state() == state
    [_, other] = await add(node, renamed, service("myservice"), flag="?import")
    assert (await node.get("/services?name=MYSERVICE"))["id"] == other
    assert (await node.get("/services?name=yourservice"))["id"] == mine


async def test_a_service_can_be_imported_twice_by_one_request(node: Node) -> None:
    first = {**service("first", description="gone"), "id": WIDGETS["id"], "epoch": 70}
    last = {**service("last"), "id": WIDGETS["id"].upper(), "epoch": 3}
    ids = await add(node, first, last, service("first"), flag="?import")
    assert [id.lower() for id in ids[:2]] == [WIDGETS["id"]] * 2
    shown = await node.get(f"/services/{WIDGETS['id']}")
    assert (shown["name"], shown["epoch"], "description" in shown) == ("last", 72, False)


async def test_an_import_counts_on_from_an_epoch_that_is_a_time(node: Node) -> None:
    path = f"/services/{WIDGETS['id']}"
    for epoch in (1_764_000_000_000, 2**52):
        await add(node, {**WIDGETS, "epoch": epoch}, flag="?import")
        assert (await node.get(path))["epoch"] == epoch + 1


@pytest.mark.parametrize(
    ("part", "name"),
    [
        ({"id": "x"}, "id"),
        ({"id": 5}, "id"),
        ({"epoch": -1}, "epoch"),
        ({"epoch": "1"}, "epoch"),
        ({"epoch": 2**52 + 1}, "epoch"),
        ({"epoch": True}, "epoch"),
    ],
)
async def test_an_import_needs_ids_and_epochs_of_their_form(
    node: Node, part: dict[str, Any], name: str
) -> None:
    answer = await node.send("POST", "/services?import", [{**WIDGETS, **part}])
    assert answer.status == 400
    assert assert_problem(answer)["args"]["name"] == f"[0].{name}"


async def test_a_put_replaces_the_service_and_raises_its_epoch(node: Node) -> None:
    [id] = await add(node, WIDGETS)
    wanted = {**service("gadgets"), "id": id, "subscriptionurl": "https://example.com/s"}
    answer = await node.send("PUT", f"/services/{id}", {**wanted, "epoch": 1})
    assert answer.status == 200
    assert "Location" not in answer.headers
    assert answer.json == {**wanted, "epoch": 2, "url": f"{node.url}/services/{id}"}
    assert await node.get(f"/services/{id}") == answer.json
    again = await node.send("PUT", f"/services/{id}", wanted)
    assert again.json["epoch"] == 3


async def test_a_put_needs_the_current_epoch_if_it_names_one(node: Node) -> None:
    [id] = await add(node, service("one"))
    state = await node.state()
    for epoch in (0, 2):
        answer = await node.send(
            "PUT", f"/services/{id}", {**service("x"), "id": id, "epoch": epoch}
        )
        assert (answer.status, answer.error) == (400, "mismatched_epoch")
    assert await node.state() == state


async def test_a_put_is_for_a_service_that_there_is_and_names_its_id(node: Node) -> None:
    path = f"/services/{WIDGETS['id']}"
    missing = await node.send("PUT", path, WIDGETS)
    assert missing.status == 404
    assert await node.get("/services") == []
    await add(node, WIDGETS, flag="?import")
    without = await node.send("PUT", path, service("x"))
    assert (without.status, assert_problem(without)["args"]) == (400, {"list": "id"})
    other = await node.send("PUT", path, {**WIDGETS, "id": STORAGE["id"]})
    assert (other.status, assert_problem(other)["args"]["name"]) == (400, "id")
    assert (await node.send("PUT", "/services/5", {**WIDGETS, "id": "5"})).status == 404


async def test_a_put_cannot_take_anothers_name(node: Node) -> None:
    await add(node, service("taken"))
    [id] = await add(node, service("mine"))
    answer = await node.send("PUT", f"/services/{id}", {**service("TAKEN"), "id": id})
    assert answer.status == 409
    same = await node.send("PUT", f"/services/{id}", {**service("MINE"), "id": id})
    assert same.status == 200


async def test_a_put_that_imports_creates_what_is_missing(node: Node) -> None:
    path = f"/services/{WIDGETS['id']}"
    created = await node.send("PUT", f"{path}?import", WIDGETS)
    assert created.status == 201
    assert created.headers["Location"] == node.url + path
    assert created.json == {**WIDGETS, "epoch": 2, "url": node.url + path}
    updated = await node.send("PUT", f"{path}?import", service("new", id=WIDGETS["id"]))
    assert (updated.status, updated.json["epoch"]) == (200, 3)
    assert "Location" not in updated.headers
    for flag in ("?import=yes", "?import&import"):
        assert (await node.send("PUT", f"{path}{flag}", WIDGETS)).status == 400


async def test_a_deleted_service_is_gone_and_was_shown_a_last_time(node: Node) -> None:
    [id] = await add(node, WIDGETS)
    shown = await node.get(f"/services/{id}")
    wrong = await node.send("DELETE", f"/services/{id}?epoch=7")
    assert (wrong.status, wrong.error) == (400, "mismatched_epoch")
    answer = await node.send("DELETE", f"/services/{id}?epoch=1")
    assert (answer.status, answer.json) == (200, shown)
    assert (await node.send("GET", f"/services/{id}")).status == 404
    assert (await node.send("DELETE", f"/services/{id}")).status == 404
    assert await node.get("/endpoints") == {}


async def test_listed_services_are_deleted_all_or_none(node: Node) -> None:
    one, two, three = await add(node, service("1"), service("2"), service("3"))
    for rest in ({"id": WIDGETS["id"]}, {"id": one}, {"id": two, "epoch": 9}):
        answer = await node.send("DELETE", "/services", [{"id": one}, rest])
        assert answer.status in (400, 404)
        assert await names(node) == {"1", "2", "3"}
    answer = await node.send("DELETE", "/services", [{"id": three}, {"id": one, "epoch": 1}])
    assert answer.status == 200
    assert [each["name"] for each in answer.json] == ["3", "1"]
    assert await names(node) == {"2"}


@pytest.mark.parametrize("path", ["?name=nobody", "?name=", f"/{WIDGETS['id']}"])
async def test_what_is_not_there_is_not_found(node: Node, path: str) -> None:
    await add(node, service("one"))
    answer = await node.send("GET", f"/services{path}")
    assert answer.status == 404
    assert_problem(answer)


async def test_pages_have_every_service_once(node: Node) -> None:
    added = {*await add(node, *(service(f"service {number}") for number in range(7)))}
    await node.put("/endpoints/m", {"usage": ["subscriber"]})
    await node.put("/endpoints/other", {"usage": ["producer"]})
    path, found, sizes = "/services?limit=3", [], []
    while path:
        answer = await node.send("GET", path)
        found += [each["id"] for each in answer.json]
        sizes.append(len(answer.json))
        link = re.search(r"<([^>]*)>;rel=next", ",".join(answer.headers.getall("Link")))
        path = link[1].removeprefix(node.url) if link else ""
    assert sizes == [3, 3, 2]
    assert len({*found}) == 8
    assert added < {*found}
    assert (await node.send("GET", "/services?limit=0")).status == 400


async def test_reads_are_conditional_and_other_methods_refused(node: Node) -> None:
    [id] = await add(node, WIDGETS)
    for path in ("/services", f"/services/{id}"):
        answer = await node.send("GET", path)
        same = await node.send("GET", path, If_None_Match=answer.headers["ETag"])
        assert same.status == 304
        assert (await node.send("HEAD", path)).headers["ETag"] == answer.headers["ETag"]
        refused = await node.send("PATCH", path, {})
        assert refused.status == 405
        assert "DELETE" in refused.headers["Allow"]
        options = await node.send("OPTIONS", path)
        assert "DELETE" in options.headers["Allow"]


async def test_a_native_endpoint_is_a_service_of_an_id_that_stays(node: Node) -> None:
    await node.put(
        "/endpoints/weather",
        {
            "usage": ["subscriber"],
            "description": "Native",
            "documentation": "https://example.com/docs",
            "envelope": "CloudEvents/1.0",
            "protocol": "MQTT/5.0",
            "messages": {
                "m": {
                    "envelope": "CloudEvents/1.0",
                    "envelopemetadata": {"type": {"value": "com.example.rain"}},
                    "datacontenttype": "text/plain",
                },
                "no-event": {"envelope": "Other/1"},
            },
        },
    )
    await node.put("/endpoints/producer", {"usage": ["producer"]})
    [shown] = await node.get("/services")
    id = str(uuid.uuid5(NAMESPACE, f"{node.database.node.authority}\n/endpoints/weather"))
    assert shown == {
        "id": id,
        "epoch": 1,
        "url": f"{node.url}/services/{id}",
        "name": "weather",
        "description": "Native",
        "docsurl": "https://example.com/docs",
        "specversions": ["1.0"],
        "subscriptionurl": f"{node.url}/subscriptions",
        "protocols": ["MQTT5"],
        "events": [{"type": "com.example.rain", "datacontenttype": "text/plain"}],
    }
    await node.send("PATCH", "/endpoints/weather", {"name": "Rain"})
    assert (await node.get("/services?name=rain"))["id"] == id
    assert (await node.get(f"/services/{id.upper()}"))["name"] == "Rain"
    taken = await node.send("POST", "/services", [service("RAIN")])
    assert taken.status == 409


async def test_a_service_that_is_replaced_keeps_what_no_service_can_say(node: Node) -> None:
    await node.put(
        "/endpoints/e",
        {
            "usage": ["consumer", "subscriber"],
            "channel": "c",
            "protocol": "KAFKA",
            "protocoloptions": {"topic": "t"},
            "messages": {
                "m": {
                    "envelope": "CloudEvents/1.0",
                    "envelopemetadata": {"subject": {"required": True}},
                    "protocol": "KAFKA",
                },
                "other": {"envelope": "Other/1"},
            },
        },
    )
    [shown] = await node.get("/services")
    events = [{"type": "m", "description": "New"}]
    wanted = {**shown, "name": "new", "events": events}
    await node.put(f"/services/{shown['id']}", wanted)
    endpoint = await node.get("/endpoints/e?inline=messages")
    assert (endpoint["name"], endpoint["channel"]) == ("new", "c")
    assert endpoint["usage"] == ["consumer", "subscriber"]
    assert endpoint["protocoloptions"]["topic"] == "t"
    assert "subscriptionurl" not in endpoint
    message = endpoint["messages"]["m"]
    assert (message["description"], message["protocol"]) == ("New", "KAFKA")
    assert message["envelopemetadata"]["subject"]["required"] is True
    assert (endpoint["messages"]["other"]["epoch"], message["epoch"]) == (1, 2)


async def test_an_endpoint_that_an_import_names_becomes_a_service(node: Node) -> None:
    await node.put(f"/endpoints/{WIDGETS['id']}", {"usage": ["producer"]})
    assert (await node.send("GET", f"/services/{WIDGETS['id']}")).status == 404
    answer = await node.send("PUT", f"/services/{WIDGETS['id']}?import", WIDGETS)
    assert answer.status == 201
    endpoint = await node.get(f"/endpoints/{WIDGETS['id']}")
    assert endpoint["usage"] == ["producer", "subscriber"]


async def test_events_of_message_groups_and_cross_references_are_shown(node: Node) -> None:
    event = {
        "envelope": "CloudEvents/1.0",
        "envelopemetadata": {"type": {"value": "com.example.rain"}},
        "dataschemauri": "/schemagroups/g/schemas/s",
    }
    await node.put("/messagegroups/g", {"messages": {"rain": event, "other": event}})
    reference = {"meta": {"xref": "/messagegroups/g/messages/rain"}}
    await node.put("/endpoints/x", {"usage": ["subscriber"], "messages": {"r": reference}})
    await node.put("/endpoints/y", {"usage": ["subscriber"], "messagegroups": ["/messagegroups/g"]})
    shown = {"type": "com.example.rain", "dataschema": f"{node.url}/schemagroups/g/schemas/s"}
    x, y = await node.get("/services")
    assert x["events"] == [shown]
    assert y["events"] == [shown, shown]
    await node.put(f"/services/{x['id']}", {**x, "protocols": ["HTTP"]})
    after = await node.put(f"/services/{y['id']}", {**y, "protocols": ["HTTP"], "events": []})
    assert after["events"] == []
    assert (await node.get("/messagegroups/g"))["messagescount"] == 2
    assert (await node.get("/endpoints/x/messages/r/meta"))["xref"]


async def put_replica(node: Node, xid: str, **attributes: Any) -> None:
    now = datetime.now(UTC)
    replica = Entity(
        xid=xid,
        kind="group",
        authority="urn:theirs",
        origin="/endpoints/e",
        epoch=5,
        attributes={"usage": ["subscriber"], **attributes},
        createdat=now,
        modifiedat=now,
    ).sealed()
    async with node.database.transaction() as connection:
        await write(
            connection,
            Write(author=Author(kind="node"), interaction="i", at=now, entities=[replica]),
        )


async def test_a_replica_has_the_id_of_its_origin_and_cannot_be_written(node: Node) -> None:
    await put_replica(node, "/endpoints/theirs-e", protocol="KAFKA")
    [shown] = await node.get("/services")
    assert shown["id"] == str(uuid.uuid5(NAMESPACE, "urn:theirs\n/endpoints/e"))
    assert "subscriptionurl" not in shown
    answer = await node.send("PUT", f"/services/{shown['id']}", shown)
    assert (answer.status, answer.error) == (400, "readonly")
    answer = await node.send("DELETE", f"/services/{shown['id']}")
    assert (answer.status, answer.error) == (400, "readonly")


async def test_without_endpoints_in_the_model_nothing_is_found(database_url: str) -> None:
    async with start_node(database_url, modelsource={}) as node:
        for method, path in (
            ("GET", "/services"),
            ("POST", "/services"),
            ("PUT", f"/services/{WIDGETS['id']}"),
        ):
            answer = await node.send(method, path, [] if method == "POST" else None)
            assert answer.status == 404
            assert "endpoints" in assert_problem(answer)["detail"]


async def test_without_messages_in_the_model_events_are_refused(database_url: str) -> None:
    usage = {"type": "array", "item": {"type": "string"}}
    kind = {"singular": "endpoint", "attributes": {"usage": usage, "*": {"type": "any"}}}
    async with start_node(database_url, modelsource={"groups": {"endpoints": kind}}) as node:
        refused = await node.send("POST", "/services", [WIDGETS])
        assert assert_problem(refused)["args"]["name"] == "events"
        await add(node, service("one"))
        assert await names(node) == {"one"}


@given_by_hypothesis(data=st.data())
@settings(
    max_examples=12,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
async def test_a_service_reads_back_whatever_it_was_before(node: Node, data: st.DataObject) -> None:
    wanted = {**data.draw(services), "id": WIDGETS["id"]}
    wanted.setdefault("subscriptionurl", "https://example.com/s")
    answer = await node.send("PUT", f"/services/{WIDGETS['id']}?import", wanted)
    assert answer.status in (200, 201), answer.body
    shown = await node.get(f"/services/{WIDGETS['id']}")
    assert given(shown) == given(wanted)
