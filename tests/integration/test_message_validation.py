"""Messages that are checked against their definitions over HTTP."""

from __future__ import annotations

import asyncio
import base64
import time
from pathlib import Path
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner

import catalog.demo
from catalog.cli import app
from tests.integration.confluent import Registry, record
from tests.integration.conftest import Node, assert_problem, shared_node, start_node

pytestmark = pytest.mark.asyncio(loop_scope="module")

DEMO = Path(catalog.demo.__file__).parent / "data"
DOCUMENTS = Path(__file__).parents[1] / "documents"
EVENT = "application/cloudevents+json"
JSON = "application/json"

PERSON = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}
PROTO = 'syntax = "proto3"; message A { string name = 1; } message B { int32 count = 1; }'
BASE = {
    "envelope": "CloudEvents/1.0",
    "envelopemetadata": {
        "type": {"value": "a.created"},
        "source": {"value": "https://{tenant}/things", "type": "uritemplate"},
        "subject": {"value": "{tenant}/{id}", "type": "uritemplate", "required": True},
    },
    "dataschemaformat": "JsonSchema/draft-07",
    "dataschema": PERSON,
}
EVENT_OF_BASE = {
    "specversion": "1.0",
    "id": "1",
    "type": "a.created",
    "source": "https://t.example/things",
    "subject": "t.example/7",
    "datacontenttype": JSON,
    "data": {"name": "x"},
}

node = shared_node()


async def define(node: Node, name: str, definition: dict[str, Any], *, group: str = "g") -> str:
    """The path of a definition that was put into the catalog."""
    path = f"/messagegroups/{group}/messages/{name}"
    await node.put(path, definition)
    return path


async def validate(node: Node, path: str, message: Any, contenttype: str = EVENT) -> Any:
    answer = await node.send("POST", f"/validate{path}", message, Content_Type=contenttype)
    assert answer.status == 200, answer.body
    return answer.json


def rules(answer: Any) -> list[tuple[str, str]]:
    """The places and the rules that a message breaks; of a payload, the place of the payload."""
    found = [(one["pointer"], one["rule"]) for one in answer["violations"]]
    places = ((f"/{place.split('/')[1]}" if rule == "payload" else place) for place, rule in found)
    return [(place, rule) for place, (_, rule) in zip(places, found, strict=True)]


async def test_an_event_that_conforms_is_answered_with_the_version_that_it_was_held_against(
    node: Node,
) -> None:
    path = await define(node, "conforming", BASE)
    assert await validate(node, path, EVENT_OF_BASE) == {
        "valid": True,
        "definition": f"{path}/versions/1",
        "violations": [],
        "unchecked": [],
    }


async def test_every_rule_that_an_event_breaks_is_named(node: Node) -> None:
    path = await define(node, "broken", BASE)
    broken = EVENT_OF_BASE | {"type": "a.deleted", "subject": "u.example/7", "data": {}}
    answer = await validate(node, path, broken)
    assert answer["valid"] is False
    assert rules(answer) == [("/type", "value"), ("/subject", "placeholder"), ("/data", "payload")]


async def test_a_version_is_what_a_message_is_held_against_if_it_is_named(node: Node) -> None:
    path = await define(node, "versioned", BASE)
    newer = BASE | {"envelopemetadata": {"type": {"value": "a.renamed"}}}
    await node.put(f"{path}/versions/2", newer)
    assert rules(await validate(node, f"{path}/versions/1", EVENT_OF_BASE)) == []
    newest = await validate(node, path, EVENT_OF_BASE)
    assert newest["definition"] == f"{path}/versions/2"
    assert rules(newest) == [("/type", "value")]


async def test_a_message_of_an_endpoint_is_checked_like_any_other(node: Node) -> None:
    await node.put("/endpoints/e", {"usage": ["producer"], "envelope": "CloudEvents/1.0"})
    await node.put("/endpoints/e/messages/m", {})
    answer = await validate(node, "/endpoints/e/messages/m", {"qos": 1, "protocol": "MQTT"}, JSON)
    assert answer["definition"] == "/endpoints/e/messages/m/versions/1"
    assert rules(answer) == [("", "envelope")]


async def test_a_cross_reference_is_checked_as_its_target(node: Node) -> None:
    target = await define(node, "target", BASE)
    await node.put("/messagegroups/other")
    path = "/messagegroups/other/messages/reference"
    await node.put(path, {"meta": {"xref": target}})
    answer = await validate(node, path, EVENT_OF_BASE | {"type": "b"})
    assert answer["definition"] == f"{path}/versions/1"
    assert rules(answer) == [("/type", "value")]


async def test_an_event_in_binary_mode_is_the_request_itself(node: Node) -> None:
    path = await define(node, "binary", BASE)
    headers = {
        "ce-specversion": "1.0",
        "ce-id": "1",
        "ce-type": "a.created",
        "ce-source": "https://t.example/things",
        "ce-subject": "t.example/%E2%82%AC%207",
        "Content-Type": JSON,
    }
    request = {"body": b'{"name": "x"}', "headers": headers}
    assert (await node.request("POST", f"/validate{path}", **request)).json["valid"]
    request = {"body": b'{"name": 5}', "headers": headers | {"ce-id": "", "CE-Type": "b"}}
    del request["headers"]["ce-type"]
    answer = (await node.request("POST", f"/validate{path}", **request)).json
    assert rules(answer) == [("/id", "value"), ("/type", "value"), ("/data", "payload")]


async def test_the_group_says_what_its_messages_do_not(node: Node) -> None:
    await node.put("/messagegroups/mqtt", {"protocol": "MQTT/5.0", "envelope": "CloudEvents/1.0"})
    path = await define(node, "m", {}, group="mqtt")
    assert rules(await validate(node, path, {"topic_name": "a"}, JSON)) == [("", "envelope")]
    refused = await node.send("POST", f"/validate{path}", {"key": "a"})
    assert "MQTT/5.0 has no key" in assert_problem(refused)["title"]


async def test_what_a_base_message_says_holds_unless_it_is_said_anew(node: Node) -> None:
    base = await define(node, "base", BASE)
    middle = await define(node, "middle", {"basemessage": f"{base}/versions/1"})
    own = {"protocol": "KAFKA", "protocoloptions": {"key": "{tenant}-{id}"}}
    path = await define(node, "derived", {"basemessageuri": f"#{middle}", **own})
    headers = {
        "ce_specversion": "1.0",
        "ce_id": "1",
        "ce_type": "a.created",
        "ce_source": "https://t.example/things",
        "ce_subject": "t.example/7",
        "content-type": "application/json; charset=utf-8",
    }
    message = {"key": "t.example-7", "headers": headers, "payload": {"name": "x"}}
    assert await validate(node, path, message, JSON) == {
        "valid": True,
        "definition": f"{path}/versions/1",
        "violations": [],
        "unchecked": [],
    }
    message |= {"key": "t.example-8"}
    assert rules(await validate(node, path, message, JSON)) == [("/key", "placeholder")]


async def test_bases_that_cannot_be_followed_are_reported_and_never_fetched(node: Node) -> None:
    elsewhere = "http://127.0.0.1:9/messagegroups/g/messages/m"
    for reference, reason in (
        (elsewhere, "it is kept elsewhere"),
        ("/messagegroups/g/messages/nowhere", "there is no such message"),
        ("/messagegroups/g/messages/circle", "it is among its own bases"),
    ):
        path = await define(node, "circle", BASE | {"basemessage": reference})
        answer = await validate(node, path, EVENT_OF_BASE)
        assert answer["valid"] is True
        expected = {"part": "basemessage", "reason": reason, "uri": reference}
        assert answer["unchecked"] == [expected]


async def test_a_chain_of_bases_has_an_end(node: Node) -> None:
    await define(node, "chain0", BASE)
    for n in range(1, 30):
        base = f"/messagegroups/g/messages/chain{n - 1}"
        path = await define(node, f"chain{n}", {"basemessage": base})
    answer = await validate(node, path, EVENT_OF_BASE)
    assert [one["reason"] for one in answer["unchecked"]] == ["it has too many"]


@pytest.mark.parametrize(
    "reference",
    [
        {"dataschemaxid": "/schemagroups/s/schemas/person"},
        {"dataschemaxid": "/schemagroups/s/schemas/person/versions/1"},
        {"dataschemauri": "#/schemagroups/s/schemas/person"},
        {"dataschemauri": "/schemagroups/s/schemas/person/versions/1"},
        {"dataschemauri": "{url}/schemagroups/s/schemas/person/versions/1$details"},
    ],
)
async def test_a_schema_of_this_registry_is_found_by_any_of_its_names(
    node: Node, reference: dict[str, str]
) -> None:
    schema = {"format": "JsonSchema/draft-07", "versionid": "1", "schema": PERSON}
    await node.put("/schemagroups/s/schemas/person$details", schema)
    definition = {name: value.replace("{url}", node.url) for name, value in reference.items()}
    definition["dataschemaformat"] = "JsonSchema/draft-07"
    path = await define(node, "referring", definition)
    assert rules(await validate(node, path, {"payload": {"name": "x"}}, JSON)) == []
    answer = await validate(node, path, {"payload": {"name": 5}}, JSON)
    assert rules(answer) == [("/payload", "payload")]
    assert answer["violations"][0]["pointer"].endswith("/name")


@pytest.mark.parametrize(("suffix", "payload"), [("", "CgF4"), (":A", "CgF4"), (":B", "CAE=")])
async def test_a_protobuf_message_is_named_by_the_suffix_of_its_uri_or_is_the_first(
    node: Node, suffix: str, payload: str
) -> None:
    await node.put(
        "/schemagroups/s/schemas/proto$details", {"format": "Protobuf/3", "schema": PROTO}
    )
    reference = f"#/schemagroups/s/schemas/proto{suffix}"
    path = await define(
        node, "proto", {"dataschemauri": reference, "dataschemaformat": "Protobuf/3"}
    )
    assert rules(await validate(node, path, {"payload_base64": payload}, JSON)) == []
    other = base64.b64encode(b"\x10\x01\x0a\x01x" if suffix == ":B" else b"\x08\x01").decode()
    answer = await validate(node, path, {"payload_base64": other}, JSON)
    assert rules(answer) == [("/payload_base64", "payload")]


@pytest.mark.parametrize(
    ("definition", "reason"),
    [
        ({"dataschemauri": "http://127.0.0.1:9/s"}, "it is kept elsewhere"),
        ({"dataschemaxid": "/schemagroups/s/schemas/no"}, "there is no such schema"),
        ({"dataschemaxid": "/schemagroups/s/schemas/far"}, "its document is kept elsewhere"),
        ({"dataschemaxid": "/schemagroups/s/schemas/none"}, "it has no document"),
        ({"dataschema": {"type": "strin"}}, "the schema cannot be used"),
        ({"dataschema": {}, "dataschemaformat": "Smile/1"}, "the format Smile/1 is not checked"),
    ],
)
async def test_a_schema_that_is_not_at_hand_is_reported(
    node: Node, definition: dict[str, Any], reason: str
) -> None:
    far = {"format": "JsonSchema", "schemaurl": "http://127.0.0.1:9/s"}
    await node.put("/schemagroups/s/schemas/far$details", far)
    await node.put("/schemagroups/s/schemas/none$details", {"format": "Text/1"})
    path = await define(
        node, "schemaless", {"dataschemaformat": "JsonSchema/draft-07"} | definition
    )
    answer = await validate(node, path, {"payload": 1}, JSON)
    assert answer["valid"] is True
    assert [one["part"] for one in answer["unchecked"]] == ["dataschema"]
    assert answer["unchecked"][0]["reason"].startswith(reason)


@pytest.mark.parametrize(
    ("body", "contenttype", "error"),
    [
        (b"", JSON, "missing_body"),
        (b"[]", JSON, "parsing_data"),
        (b"{", EVENT, "parsing_data"),
        (b'{"payload": 1, "topic": "t"}', JSON, "parsing_data"),
        (b'{"specversion": "1.0", "data_base64": "?"}', EVENT, "parsing_data"),
        (b'{"specversion": "1.0", "data": 1, "data_base64": "MQ=="}', EVENT, "parsing_data"),
        (b'{"protocol": 5}', JSON, "parsing_data"),
        (b'{"protocol": "HTTP", "headers": 5}', JSON, "parsing_data"),
        (b'{"protocol": "HTTP", "headers": [5]}', JSON, "parsing_data"),
        (b'{"a":' * 2000 + b"1" + b"}" * 2000, EVENT, "parsing_data"),
        (b"<a/>", "application/xml", "unsupported_media_type"),
        (b"[]", "application/cloudevents-batch+json", "unsupported_media_type"),
    ],
)
async def test_what_is_no_message_is_refused(
    node: Node, body: bytes, contenttype: str, error: str
) -> None:
    path = await define(node, "any", {})
    answer = await node.send("POST", f"/validate{path}", body=body, Content_Type=contenttype)
    assert_problem(answer)
    assert answer.error == error


@pytest.mark.parametrize(
    "address",
    [
        "/confluent/subjects/orders%2Fnew-value/versions/1",
        "/confluent/subjects/orders%2Fnew-value/versions/latest/schema",
        "/confluent/contexts/.team/subjects/orders/versions/1",
        "/confluent/subjects/:.team:orders/versions/-1",
    ],
)
@pytest.mark.parametrize("is_absolute", [False, True])
async def test_a_schema_is_found_by_its_address_in_the_confluent_api(
    node: Node, address: str, is_absolute: bool
) -> None:
    registry = Registry(node)
    for subject in ("orders/new-value", ":.team:orders"):
        await registry.register(subject, record("id"))
    uri = node.url + address if is_absolute else address
    path = await define(node, "ordered", {"dataschemauri": uri, "dataschemaformat": "Avro"})
    event = {"protocol": "KAFKA", "payload": {"id": "7"}}
    answer = await validate(node, path, event, JSON)
    assert (answer["valid"], answer["unchecked"]) == (True, [])
    subject = "/orders/" if "team" in address else "/orders-new-value~"
    assert subject in answer["schema"].replace("/versions", "/")
    wrong = await validate(node, path, event | {"payload": {"id": 7}}, JSON)
    assert rules(wrong) == [("/payload", "payload")]


async def test_an_address_that_names_no_schema_is_reported(node: Node) -> None:
    for address, said in {
        "/confluent/subjects/none/versions/1": "not found",
        "/confluent/subjects/none/versions/x": "version",
        "/confluent/contexts/a:b/subjects/none/versions/1": "colon",
        "/confluent/none": "elsewhere",
    }.items():
        path = await define(node, "lost", {"dataschemauri": address})
        answer = await validate(node, path, EVENT_OF_BASE)
        [unchecked] = answer["unchecked"]
        assert said in unchecked["reason"], unchecked
        assert "schema" not in answer


async def test_messages_of_a_topic_are_held_to_the_subject_of_the_topic(
    node: Node, tmp_path: Path
) -> None:
    """Serializers register the schema of a topic's values as `TOPIC-value`."""
    registry = Registry(node)
    inline = {"dataschema": PERSON, "dataschemaformat": "JsonSchema/draft-07"}
    await node.put(
        "/endpoints/shop",
        {
            "usage": ["producer"],
            "protocol": "KAFKA",
            "protocoloptions": {"topic": "shop"},
            "messages": {"sold": {}, "returned": inline},
            "messagegroups": ["/messagegroups/store"],
        },
    )
    named = {"protocol": "KAFKA", "protocoloptions": {"topic": "shop"}}
    paths = [
        "/endpoints/shop/messages/sold",
        await define(node, "sold", named),
        await define(node, "sold", {}, group="store"),
    ]
    record_of = {"protocol": "KAFKA", "topic": "shop"}
    right, wrong = (record_of | {"payload": {"id": id}} for id in ("7", 7))
    for path in paths:
        answer = await validate(node, path, wrong, JSON)
        assert (answer["valid"], answer["unchecked"], "schema" in answer) == (True, [], False)
    await registry.register("shop-value", record("id"))
    for path in paths:
        answer = await validate(node, path, right, JSON)
        assert (answer["valid"], answer["unchecked"]) == (True, [])
        assert answer["schema"].endswith("/schemas/shop-value/versions/1")
        assert rules(await validate(node, path, wrong, JSON)) == [("/payload", "payload")]
        # A record without value tells that its key is gone.
        assert rules(await validate(node, path, record_of | {"key": "k"}, JSON)) == []
    own = await validate(node, "/endpoints/shop/messages/returned", right, JSON)
    assert rules(own) == [("/payload", "payload")]
    file = tmp_path / "sold.json"
    file.write_bytes(orjson.dumps(right))
    arguments = ["validate", str(file), "--message", paths[0], "--url", node.url]
    shown = await asyncio.to_thread(CliRunner().invoke, app, arguments)
    assert (shown.exit_code, "shop-value" in shown.output) == (0, True), shown.output


async def test_a_header_that_is_no_utf_8_is_refused(node: Node) -> None:
    path = await define(node, "any", {})
    headers = {"ce-specversion": "1.0", "ce-id": "%C0%A0"}
    assert (await node.request("POST", f"/validate{path}", headers=headers)).error == "parsing_data"


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("/messagegroups/g/messages/nowhere", "not_found"),
        ("/messagegroups/nowhere/messages/m", "not_found"),
        ("/messagegroups/g/messages/any/versions/nowhere", "not_found"),
        ("/messagegroups/g/messages/!", "malformed_id"),
    ],
)
async def test_there_must_be_a_definition(node: Node, path: str, error: str) -> None:
    await define(node, "any", {})
    answer = await node.send("POST", f"/validate{path}", EVENT_OF_BASE)
    assert_problem(answer)
    assert answer.error == error


async def test_messages_are_sent_by_post_only(node: Node) -> None:
    path = await define(node, "any", {})
    answer = await node.send("GET", f"/validate{path}")
    assert answer.status == 405
    assert answer.headers["Allow"] == "OPTIONS, POST"


async def test_a_model_without_messages_has_nothing_to_check_by(database_url: str) -> None:
    async with start_node(database_url, modelsource={}) as bare:
        answer = await bare.send("POST", "/validate/messagegroups/g/messages/m", EVENT_OF_BASE)
        assert_problem(answer)
        assert answer.status == 404


async def test_hostile_templates_and_texts_are_answered_in_bounded_time(node: Node) -> None:
    bomb = "".join(f"{{v{n % 9}}}" for n in range(60))
    metadata = {"subject": {"value": bomb}, "source": {"value": "{v1}a{v2}a{v1}"}}
    definition = {"envelope": "CloudEvents/1.0", "envelopemetadata": metadata}
    path = await define(node, "bomb", definition)
    event = EVENT_OF_BASE | {"subject": "a" * 100_000, "source": "a" * 100_000 + "b"}
    began = time.monotonic()
    answer = await validate(node, path, event)
    assert time.monotonic() - began < 5
    assert answer["valid"] is True, "many divisions of the texts among the placeholders fit"


async def test_an_event_with_too_much_that_is_wrong_is_answered(node: Node) -> None:
    path = await define(node, "many", BASE)
    for count in (900, 1000, 1100):
        wrong = {f"BAD{n}": "x" for n in range(count)}
        answer = await validate(node, path, EVENT_OF_BASE | wrong | {"data": {}})
        assert answer["valid"] is False
        last = ("/data", "payload") if count < 1000 else ("", "size")
        assert rules(answer)[-1] == (last if count != 1000 else ("/BAD999", "name"))


async def test_a_huge_payload_is_answered(node: Node) -> None:
    path = await define(node, "huge", BASE)
    event = EVENT_OF_BASE | {"data": {"name": "x", "more": "y" * 900_000}}
    assert (await validate(node, path, event))["valid"] is True


async def imported(node: Node, path: Path) -> None:
    document = _read(path)
    groups = ("messagegroups", "schemagroups")
    body = {name: document[name] for name in groups if name in document}
    answer = await node.send("POST", "/", body)
    assert answer.status == 200, answer.body


def _read(path: Path) -> Any:
    return orjson.loads(path.read_bytes())


BUOY = {
    "station_id": "46042",
    "latitude": 36.8,
    "longitude": -122.4,
    "timestamp": "2030-01-01T00:00:00Z",
    "wave_height": None,
}
NDBC = "Microsoft.OpenData.US.NOAA.NDBC"
BUOY_EVENT = {
    "specversion": "1.0",
    "id": "46042-1",
    "type": f"{NDBC}.BuoyObservation",
    "source": "https://www.ndbc.noaa.gov",
    "subject": "46042",
    "data": BUOY,
}


async def test_a_published_definition_accepts_what_its_feed_sends(node: Node) -> None:
    await imported(node, DEMO / "us" / "noaa-ndbc.xreg.json")
    path = f"/messagegroups/{NDBC}/messages/{NDBC}.BuoyObservation"
    assert rules(await validate(node, path, BUOY_EVENT)) == []
    wrong = BUOY_EVENT | {"source": "https://weather.example", "data": BUOY | {"latitude": "36N"}}
    assert rules(await validate(node, path, wrong)) == [("/source", "value"), ("/data", "payload")]


async def test_a_published_definition_for_a_protocol_inherits_the_event(node: Node) -> None:
    await imported(node, DEMO / "us" / "noaa-ndbc.xreg.json")
    path = f"/messagegroups/{NDBC}.mqtt/messages/{NDBC}.mqtt.BuoyObservation"
    attributes = {name: value for name, value in BUOY_EVENT.items() if name != "data"}
    message = {
        "topic_name": "maritime/us/noaa/noaa-ndbc/pacific/46042/observation",
        "qos": 1,
        "retain": True,
        "content_type": JSON,
        "user_properties": [{"name": name, "value": text} for name, text in attributes.items()],
        "payload": BUOY,
    }
    assert rules(await validate(node, path, message, JSON)) == []
    topic = "maritime/us/noaa/noaa-ndbc/pacific/46041/observation"
    other = message | {"qos": 0, "topic_name": topic}
    found = rules(await validate(node, path, other, JSON))
    assert sorted(found) == [("/qos", "value"), ("/topic_name", "placeholder")]


LIGHT = {
    "tenantid": "t",
    "deviceid": "d",
    "switchSource": "AppSwitch",
    "brightness": 800,
    "color": "#ffffff",
    "colorTemperature": 2700,
    "powerConsumption": 9,
}
PRINT = {"tenantid": "t", "deviceid": "d", "jobId": "7", "documentName": "x", "startTime": "now"}
MOTION = {
    "tenantid": "t",
    "deviceid": "d",
    "motionid": "m",
    "location": "door",
    "time": 1,
    "imageUrl": "https://a.example/1.png",
    "motionType": "slow",
}


@pytest.mark.parametrize(
    ("file", "group", "name", "data", "wrong"),
    [
        ("lightbulb-avro", "Fabrikam.Lumen", "TurnedOn", LIGHT, {"switchSource": "Cat"}),
        ("inkjet-proto3", "Fabrikam.InkJetPrinter", "PrintJobStarted", PRINT, {"job": "7"}),
        ("watchkam-jsons07", "Fabrikam.Watchkam", "MotionDetected", MOTION, {"time": "noon"}),
    ],
)
async def test_published_schemas_of_each_format_tell_payloads_apart(
    node: Node, file: str, group: str, name: str, data: dict[str, Any], wrong: dict[str, Any]
) -> None:
    await imported(node, DOCUMENTS / "spec" / f"{file}.xreg.json")
    event = {
        "specversion": "1.0",
        "id": "1",
        "type": f"{group}.{name}",
        "source": "t/d",
        "subject": "s",
        "time": "2030-01-01T00:00:00Z",
        "datacontenttype": JSON,
        "data": data,
    }
    path = f"/messagegroups/{group}/messages/{group}.{name}"
    assert rules(await validate(node, path, event)) == []
    assert rules(await validate(node, path, event | {"data": data | wrong})) == [
        ("/data", "payload")
    ]


async def concord(node: Node, *arguments: str, given: bytes = b"") -> Any:
    """What the command says, run beside the node."""
    command = ["validate", *arguments, "--url", node.url]
    return await asyncio.to_thread(CliRunner().invoke, app, command, given)


async def test_the_command_tells_people_and_scripts_the_same(node: Node, tmp_path: Path) -> None:
    path = await define(node, "commanded", BASE | {"dataschema": None, "basemessage": "urn:a"})
    (tmp_path / "good.json").write_bytes(orjson.dumps(EVENT_OF_BASE))
    good = await concord(node, str(tmp_path / "good.json"), "--message", path)
    assert good.exit_code == 0, good.output
    assert f"The message conforms to {path}/versions/1." in good.output
    assert "Not checked: basemessage (urn:a): it is kept elsewhere" in good.output
    bad = orjson.dumps(EVENT_OF_BASE | {"type": "[b]"})
    told = await concord(node, "-", "--message", path, given=bad)
    assert told.exit_code == 1
    assert "/type" in told.output
    assert "it must be a.created, and is [b]" in told.output
    scripted = await concord(node, "-", "--json", "--message", path, given=bad)
    assert scripted.exit_code == 1
    assert rules(orjson.loads(scripted.stdout)) == [("/type", "value")]


@pytest.mark.parametrize(
    ("arguments", "given", "says"),
    [
        (["-", "--message", "/messagegroups/g/messages/nowhere"], b"{}", "nowhere"),
        (["-", "--message", "nowhere"], b"{}", "is no xid"),
        (["-", "--message", "/messagegroups/g/messages/any"], b"{", "is no JSON"),
        (["-", "--message", "/messagegroups/g/messages/any"], b"[]", "JSON object"),
        (["nowhere.json", "--message", "/messagegroups/g/messages/any"], b"", "cannot be read"),
    ],
)
async def test_the_command_says_why_it_could_not_find_out(
    node: Node, arguments: list[str], given: bytes, says: str
) -> None:
    await define(node, "any", {})
    ended = await concord(node, *arguments, given=given)
    assert ended.exit_code == 2
    assert says in ended.output


async def test_the_command_needs_a_node(tmp_path: Path) -> None:
    arguments = ["validate", "-", "--message", "/messagegroups/g/messages/m"]
    command = [*arguments, "--url", "http://127.0.0.1:9"]
    ended = await asyncio.to_thread(CliRunner().invoke, app, command, b"{}")
    assert ended.exit_code == 2
    assert "cannot be reached: connection refused" in ended.output
