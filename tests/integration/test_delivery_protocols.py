"""The delivery protocols of a node are told alike by its OpenAPI document and the command."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from jsonschema_rs import Draft202012Validator

from catalog import install_command
from catalog.subscriptions.sinks import protocols
from catalog.subscriptions.sinks.protocols import PROTOCOLS
from tests.integration.commandline import concord
from tests.integration.conftest import Node, assert_problem

MISSING = f"AMQP is not installed: {install_command('amqp')}"


@pytest.fixture
def _without_amqp(monkeypatch: pytest.MonkeyPatch) -> None:
    amqp = replace(PROTOCOLS["AMQP"], library="a_module_that_is_not_there")
    monkeypatch.setattr(protocols, "PROTOCOLS", PROTOCOLS)
    monkeypatch.setitem(PROTOCOLS, "AMQP", amqp)  # type: ignore[arg-type]


@pytest.mark.usefixtures("_without_amqp")
async def test_a_protocol_whose_extra_is_not_installed_is_told_and_refused(node: Node) -> None:
    body = {"protocol": "AMQP", "sink": "amqp://example.com/queue"}

    problem = assert_problem(await node.send("POST", "/subscriptions", body))

    assert MISSING in problem["title"]
    schemas = (await node.get("/openapi.json"))["components"]["schemas"]
    assert schemas["protocolsettings.AMQP"]["x-delivery-protocol"] == {
        "name": "AMQP",
        "installed": False,
        "schemes": ["amqp", "amqps"],
        "missing": MISSING,
    }


async def test_the_command_lists_them(node: Node) -> None:
    shown = await concord(node, "subscription", "protocols")
    assert shown.exit_code == 0, shown.stderr
    assert "amqp://, amqps://" in shown.stdout
    assert "sendersettlementmode" in shown.stdout

    listed = json.loads((await concord(node, "subscription", "protocols", "--json")).stdout)
    assert [each["name"] for each in listed] == [*PROTOCOLS]
    [http] = (each for each in listed if each["name"] == "HTTP")
    assert http["installed"]
    assert {
        "name": "method",
        "required": False,
        "default": "POST",
        "description": "Method of the requests",
    } in http["settings"]


@pytest.mark.usefixtures("_without_amqp")
async def test_the_command_says_how_to_install_what_is_missing(node: Node) -> None:
    assert MISSING in (await concord(node, "subscription", "protocols")).stdout


@pytest.mark.parametrize(
    ("sink", "settings", "protocol"),
    [
        ("http://127.0.0.1:9/", [], "HTTP"),
        ("kafka://127.0.0.1:9/t", [], "KAFKA"),
        ("mqtts://127.0.0.1:9", ["--setting", "topicname=t"], "MQTT5"),
        ("tls://127.0.0.1:9", ["--setting", "subject=t"], "NATS"),
    ],
)
async def test_the_scheme_of_a_sink_decides_its_protocol(
    node: Node, sink: str, settings: list[str], protocol: str
) -> None:
    made = await concord(node, "subscription", "add", "--sink", sink, *settings, "--json")
    assert made.exit_code == 0, made.stderr
    assert json.loads(made.stdout)["protocol"] == protocol


async def test_the_description_has_the_settings_of_every_protocol(node: Node) -> None:
    described = await node.get("/openapi.json")
    schemas = described["components"]["schemas"]

    for name, protocol in PROTOCOLS.items():
        schema = schemas[f"protocolsettings.{name}"]
        assert {*schema["properties"]} == {*protocol.settings.model_fields}
        assert all(each.get("description") for each in schema["properties"].values()), name
    taken = described["paths"]["/subscriptions"]["post"]["requestBody"]["content"]
    assert taken["application/json"]["schema"] == {"$ref": "#/components/schemas/NewSubscription"}


@pytest.mark.parametrize(
    ("protocol", "sink", "settings"),
    [
        ("HTTP", "http://127.0.0.1:9/", {}),
        ("KAFKA", "kafka://127.0.0.1:9/t", {}),
        ("MQTT5", "mqtt://127.0.0.1:9", {"topicname": "t"}),
        ("MQTT3", "mqtt://127.0.0.1:9", {"topicname": "t"}),
        ("NATS", "nats://127.0.0.1:9", {"subject": "t"}),
        ("AMQP", "amqp://127.0.0.1:9/t", {}),
    ],
)
async def test_settings_that_have_no_value_are_not_shown(
    node: Node, protocol: str, sink: str, settings: dict[str, Any]
) -> None:
    body = {"protocol": protocol, "sink": sink, "protocolsettings": settings}
    answer = await node.send("POST", "/subscriptions", body)
    assert answer.status == 201, answer.body
    shown = answer.json["protocolsettings"]
    assert None not in shown.values()
    assert shown.items() >= settings.items()
    # What a client reads it can write, and nothing changes.
    path = f"/subscriptions/{answer.json['id']}"
    again = await node.send("PUT", path, answer.json)
    assert (again.status, again.headers["ETag"]) == (200, answer.headers["ETag"])


@pytest.mark.parametrize(
    ("settings", "is_right"),
    [
        ({"address": "q", "sendersettlementmode": "settled"}, True),
        ({"address": "q", "sendersettlementmode": "mixed"}, False),
        ({"address": "q", "method": "PUT"}, False),
    ],
)
async def test_the_schema_of_a_subscription_says_what_the_node_accepts(
    node: Node, settings: dict[str, Any], is_right: bool
) -> None:
    described = await node.get("/openapi.json")
    schema = {"$ref": "#/components/schemas/NewSubscription", "components": described["components"]}
    body = {"protocol": "AMQP", "sink": "amqp://example.com", "protocolsettings": settings}

    assert Draft202012Validator(schema).is_valid(body) is is_right
