"""What `concord import` does where a catalog has something already."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from catalog.client import Client
from catalog.commands.documentfile import read_document
from catalog.commands.import_.importing import import_document
from tests.integration.conftest import Node, start_node


async def test_what_has_another_epoch_is_replaced_only_if_that_is_asked_for(
    node: Node, tmp_path: Path
) -> None:
    path = tmp_path / "old.xreg.json"
    group = {"epoch": 0, "name": "from elsewhere", "messages": {"m": {}}}
    path.write_bytes(orjson.dumps({"messagegroups": {"g": group}}))
    document = read_document(path)
    async with Client.open(node.url) as client:
        assert (await import_document(client, document, keep_going=False)).is_imported
        group["name"] = "from there"
        path.write_bytes(orjson.dumps({"messagegroups": {"g": group}}))
        document = read_document(path)
        again = await import_document(client, document, keep_going=False)
        assert [v.type.rpartition("#")[2] for v in again.violations] == ["mismatched_epoch"]
        forced = await import_document(client, document, keep_going=False, overwrite=True)
        assert forced.is_imported
    assert (await node.get("/messagegroups/g"))["epoch"] == 2


async def test_what_is_there_as_the_document_says_is_not_written(
    node: Node, tmp_path: Path
) -> None:
    path = tmp_path / "d.xreg.json"
    versions = {"1": {"name": "one"}, "2": {"name": "two"}}
    groups = {"messagegroups": {"g": {"messages": {"m": {"versions": versions}}}}}
    path.write_bytes(orjson.dumps(groups))
    async with Client.open(node.url) as client:
        first = await import_document(client, read_document(path))
        before = await node.state()
        again = await import_document(client, read_document(path))
        assert await node.state() == before
        assert (first.written, again.written) == (4, 0)
        assert again.counts == first.counts == {"messagegroups": 1, "messages": 1}


async def test_what_would_be_lost_and_what_the_node_refuses_are_told_together(
    node: Node, tmp_path: Path
) -> None:
    path = tmp_path / "d.xreg.json"
    messages = {"m": {"name": "N", "versions": {"1": {}}}, "n": {"x-y": 1}, "o": {}}
    path.write_bytes(orjson.dumps({"messagegroups": {"g": {"messages": messages}}}))
    before = await node.state()
    async with Client.open(node.url) as client:
        result = await import_document(client, read_document(path), keep_going=True)
    assert not result.is_imported
    assert [loss.pointer for loss in result.document.losses] == ["/messagegroups/g/messages/m/name"]
    assert [v.subject for v in result.violations] == ["/messagegroups/g/messages/n/versions/1"]
    assert await node.state() == before


async def test_a_document_that_is_too_large_for_a_request_is_checked_whole_and_sent_in_several(
    database_url: str, tmp_path: Path
) -> None:
    path = tmp_path / "large.xreg.json"
    messages: dict[str, Any] = {f"m{n}": {"description": "x" * 900} for n in range(8)}
    messages["m7"]["x-y"] = 1
    path.write_bytes(orjson.dumps({"messagegroups": {"g": {"name": "G", "messages": messages}}}))
    document = read_document(path)
    async with (
        start_node(database_url, max_body_bytes=3000) as node,
        Client.open(node.url) as client,
    ):
        before = await node.state()
        refused = await import_document(client, document)
        assert not refused.is_imported
        [violation] = refused.violations
        assert violation.subject == "/messagegroups/g/messages/m7/versions/1"
        assert await node.state() == before
        result = await import_document(client, document, keep_going=True)
        assert (result.is_imported, result.written) == (True, 15)
        assert result.left_out == ("/messagegroups/g/messages/m7",)
        assert result.counts == {"messagegroups": 1, "messages": 7}
        assert (await node.get("/messagegroups/g"))["messagescount"] == 7
        assert (await import_document(client, document, keep_going=True)).written == 0


def test_nothing_is_said_of_what_a_catalog_assigns_in_whatever_case(tmp_path: Path) -> None:
    path = tmp_path / "old.cereg"
    said = {"specVersion": "0.4-wip", "endpointsURL": "#", "endpointsCount": 0, "description": "x"}
    path.write_bytes(orjson.dumps({**said, "schemaGroups": {"g": {}}}))
    assert read_document(path, migrate=True).not_sent == ("description",)


async def test_an_entity_with_the_only_xid_that_leads_nowhere_is_left_out_if_that_is_wanted(
    node: Node, tmp_path: Path
) -> None:
    path = tmp_path / "d.xreg.json"
    will = {"protocol": "MQTT/5.0", "protocoloptions": {"willmessage": "/nowhere/x"}}
    path.write_bytes(orjson.dumps({"endpoints": {"bad": will, "good": {"protocol": "HTTP"}}}))
    async with Client.open(node.url) as client:
        refused = await import_document(client, read_document(path))
        assert [(v.type.rpartition("#")[2], v.subject) for v in refused.violations] == [
            ("malformed_xid", "/endpoints/bad")
        ]
        result = await import_document(client, read_document(path), keep_going=True)
    assert (result.is_imported, result.left_out) == (True, ("/endpoints/bad",))
    assert [*(await node.get("/endpoints"))] == ["good"]


REFUSED = {
    "protocol": "MQTT/5.0",
    "usage": "both",
    "protocoloptions": {
        "endpoints": [{"uri": "mqtt://a"}, {"uri": "a b"}],
        "qos": "often",
        "willmessage": "/messagegroups/g",
    },
}
UNKNOWN = {
    "protocol": "KAFKA",
    "protocoloptions": {"compression": {"level": 2**60}, "topic": "t"},
    "envelope": "CloudEvents/1.0",
    "envelopemetadata": {"time": {"required": "yes", "type": "timestamp"}},
}


async def test_whatever_the_model_refuses_is_kept_aside_if_that_is_wanted(
    node: Node, tmp_path: Path
) -> None:
    path = tmp_path / "d.xreg.json"
    messages = {"m": UNKNOWN, "n": {"versions": {"1": UNKNOWN, "2": {}}}}
    path.write_bytes(
        orjson.dumps({"endpoints": {"e": REFUSED}, "messagegroups": {"g": {"messages": messages}}})
    )
    async with Client.open(node.url) as client:
        assert not (await import_document(client, read_document(path, migrate=True))).is_imported
        document = read_document(path, migrate=True, keep_unknown=True)
        result = await import_document(client, document)
    assert (result.is_imported, result.violations, result.left_out) == (True, (), ())
    assert "/endpoints/e/protocoloptions/willmessage" in {
        left.pointer for left in document.migrated.left_out if left.is_kept
    }
    assert {each.pointer for each in result.set_aside} == {
        "/endpoints/e/usage",
        "/endpoints/e/protocoloptions/endpoints",
        "/endpoints/e/protocoloptions/qos",
        *(
            f"/messagegroups/g/messages/{place}/{name}"
            for place in ("m", "n/versions/1")
            for name in ("protocoloptions/compression", "envelopemetadata/time/required")
        ),
    }
    endpoint = await node.get("/endpoints/e")
    assert endpoint["older"]["usage"] == ["both"]
    assert endpoint["older"]["protocoloptions"]["qos"] == "often"
    for path_ in ("m", "n/versions/1"):
        found = await node.get(f"/messagegroups/g/messages/{path_}")
        assert found["protocoloptions"] == {"topic": "t"}
        assert found["older"] == {
            "protocoloptions": {"compression": {"level": str(2**60)}},
            "envelopemetadata": {"time": {"required": "yes"}},
        }


async def test_what_a_model_has_no_extension_for_is_refused_all_the_same(
    node: Node, tmp_path: Path
) -> None:
    path = tmp_path / "d.xreg.json"
    path.write_bytes(orjson.dumps({"dirs": {"d": {"files": {"f": {"mine": 1}}}}}))
    resources = {"files": {"singular": "file", "hasdocument": False, "attributes": {}}}
    groups = {"dirs": {"singular": "dir", "resources": resources}}
    assert (await node.send("PUT", "/modelsource", {"groups": groups})).status == 200
    async with Client.open(node.url) as client:
        document = read_document(path, migrate=True, keep_unknown=True)
        result = await import_document(client, document)
    assert not result.is_imported
    assert {v.type.rpartition("#")[2] for v in result.violations} == {"unknown_attribute"}


async def test_the_examples_of_the_oldest_edition_are_imported_and_hold_messages_to_their_types(
    node: Node, tmp_path: Path
) -> None:
    path = tmp_path / "d.cereg"
    metadata = {
        "type": {"value": "com.example.myevent"},
        "source": {"value": "https://{tenant}/{module}/myevent", "type": "uritemplate"},
        "subject": {"type": "urireference"},
        "time": {"required": True},
    }
    event = {"format": "CloudEvents/1.0", "metadata": {"attributes": metadata}}
    options = {"topic": "t", "will-message": "#/definitionGroup/g/definitions/m"}
    endpoint = {"usage": "producer", "config": {"protocol": "MQTT/5.0", "options": options}}
    groups = {
        "definitionGroups": {"g": {"definitions": {"m": event}}},
        "endpoints": {"e": endpoint},
    }
    path.write_bytes(orjson.dumps({"specversion": "0.4-wip", **groups}))
    async with Client.open(node.url) as client:
        result = await import_document(client, read_document(path, migrate=True, keep_unknown=True))
    assert result.is_imported, result.violations
    pointer = "/definitionGroups/g/definitions/m/metadata/attributes/subject/type"
    rewrites = result.document.migrated.rewrites
    assert [(r.old, r.new) for r in rewrites if r.pointer == pointer] == [
        ("urireference", "string")
    ]
    will = (await node.get("/endpoints/e"))["protocoloptions"]["willmessage"]
    assert will == "/messagegroups/g/messages/m"
    sent = {
        "specversion": "1.0",
        "id": "1",
        "type": "com.example.myevent",
        "source": "https://t/m/myevent",
        "time": "2030-01-01T00:00:00Z",
    }
    for subject, is_valid in (("a/b", True), ("a b <>", False)):
        answer = await node.send(
            "POST",
            "/validate/messagegroups/g/messages/m",
            sent | {"subject": subject},
            Content_Type="application/cloudevents+json",
        )
        assert (answer.status, answer.json["valid"]) == (200, is_valid), answer.body
