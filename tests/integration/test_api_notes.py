"""Notes on a write: rules of the domains that it breaks, though it is not refused."""

from __future__ import annotations

from typing import Any

import pytest

from catalog.http.responses import write_item
from tests.integration.conftest import Node

M = "/messagegroups/g/messages/m"
EVENT = {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": "t"}}}
BOTH_KEYS: dict[str, Any] = {
    "protocol": "KAFKA",
    "protocoloptions": {"key": "k", "key_base64": "aw=="},
}


async def test_a_write_that_breaks_a_rule_of_a_domain_is_done_and_carries_a_note(
    node: Node,
) -> None:
    answer = await node.send("PUT", M, BOTH_KEYS)
    assert answer.status == 201
    assert answer.headers["Concord-Notes"] == (
        f'key_exclusive;subject="{M}/versions/1";pointer="/protocoloptions/key_base64";'
        'detail="There is a key, too; keep one of both."'
    )
    again = await node.send("PUT", M, BOTH_KEYS)
    assert "Concord-Notes" in again.headers, "it is as wrong as before"
    assert "Concord-Notes" not in (await node.send("GET", M)).headers
    mended = await node.send("PATCH", M, {"protocoloptions": {"key": "k"}})
    assert mended.status == 200
    assert "Concord-Notes" not in mended.headers


async def test_a_write_of_many_entities_notes_each_with_its_xid(node: Node) -> None:
    endpoint = {"usage": ["producer"], "protocol": "KAFKA", "protocoloptions": {"acks": 7}}
    body = {"endpoints": {"e": endpoint}, "messagegroups": {"g": {"messages": {"m": BOTH_KEYS}}}}
    answer = await node.send("POST", "/", body)
    assert answer.status == 200
    assert 'acks_range;subject="/endpoints/e"' in answer.headers["Concord-Notes"]
    assert f'key_exclusive;subject="{M}/versions/1"' in answer.headers["Concord-Notes"]


async def test_what_a_write_only_touches_is_not_noted(node: Node) -> None:
    await node.send("PUT", "/endpoints/e", {"usage": []})
    answer = await node.send("PUT", "/endpoints/e/messages/m", {"name": "m"})
    assert answer.status == 201
    assert "Concord-Notes" not in answer.headers


async def test_notes_have_room_for_some_and_count_the_others(node: Node) -> None:
    messages = {f"m{number}": BOTH_KEYS for number in range(40)}
    answer = await node.send("POST", "/messagegroups/g/messages", messages)
    notes = answer.headers["Concord-Notes"]
    assert notes.count("key_exclusive;") == 16
    assert notes.endswith(", more;count=24")
    assert len(notes) < 8000


async def test_what_is_too_long_for_a_header_is_only_counted(node: Node) -> None:
    longest = {f"{'ü' * 100}_{number}": "x" * 500 for number in range(100)}
    body = {"endpoints": [{"uri": f"ftp://{value}{name}"} for name, value in longest.items()]}
    endpoint = {"usage": ["producer"], "protocol": "HTTP", "protocoloptions": body}
    answer = await node.send("PUT", f"/endpoints/{'e' * 128}", endpoint)
    assert answer.status == 201
    assert answer.headers["Concord-Notes"].startswith("address_scheme;")
    assert len(answer.headers["Concord-Notes"]) < 8000


async def test_the_write_that_closes_a_circle_of_bases_carries_a_note(node: Node) -> None:
    await node.send("PUT", M, {"basemessage": "/messagegroups/g/messages/b"})
    await node.send("PUT", "/messagegroups/g/messages/c", {"basemessage": M})
    closing = {"basemessage": f"{node.url}/messagegroups/g/messages/c"}
    answer = await node.send("PUT", "/messagegroups/g/messages/b", closing)
    assert answer.status == 201
    assert answer.headers["Concord-Notes"].startswith("basemessage_circular;")
    inner = await node.send("PUT", "/messagegroups/g/messages/d", {"basemessage": M})
    assert "Concord-Notes" not in inner.headers, "it leads into a circle, but is none of it"


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("plain", 'n;v="plain"'),
        ('a "b" \\', r'n;v="a \"b\" \\"'),
        ("für 100 %", 'n;v=%"f%c3%bcr 100 %25"'),
        ('"ü"\n', 'n;v=%"%22%c3%bc%22%0a"'),
        (3, "n;v=3"),
    ],
)
def test_a_note_is_written_as_a_structured_field(value: str | int, written: str) -> None:
    """RFC 9651, 4.1.3 to 4.1.11."""
    assert write_item("n", {"v": value}) == written


async def test_an_apply_and_its_dry_run_answer_with_the_notes(node: Node) -> None:
    groups = {"endpoints": {"e": {"usage": ["producer"], "protocol": "KAFKA", **options(acks=5)}}}
    for path in ("/apply?dryrun", "/apply"):
        answer = await node.send("POST", path, groups)
        assert answer.status == 200, answer.body
        notes = {note["rule"]: note for note in answer.json["notes"]}
        assert len(notes) == answer.json["notescount"]
        note = notes["acks_range"]
        assert (note["subject"], note["pointer"]) == ("/endpoints/e", "/protocoloptions/acks")
        assert note["detail"].startswith("5 is none of")
    again = await node.send("POST", "/apply", groups)
    assert again.json["notes"] == []


def options(**values: Any) -> dict[str, Any]:
    return {"protocoloptions": {"endpoints": [{"uri": "kafka://k:9092"}], "topic": "t", **values}}


async def test_an_authority_or_origin_that_is_not_kept_is_noted(node: Node) -> None:
    claim = {"authority": "https://elsewhere.example", "origin": "https://elsewhere.example/e"}
    endpoint = {"usage": ["producer"], "envelope": "CloudEvents/1.0", **claim}
    answer = await node.send("PUT", "/endpoints/e", endpoint)
    assert answer.status == 201
    notes = answer.headers["Concord-Notes"]
    for name in claim:
        assert f'provenance_ignored;subject="/endpoints/e";pointer="/{name}"' in notes
    message = {"versions": {"1": {"origin": claim["origin"]}}}
    answer = await node.send("PUT", M, message)
    assert f'subject="{M}/versions/1";pointer="/origin"' in answer.headers["Concord-Notes"]


async def test_an_embedded_schema_that_is_none_is_noted(node: Node) -> None:
    message = {**EVENT, "dataschemaformat": "JsonSchema/draft-07", "dataschema": {"type": "no"}}
    answer = await node.send("PUT", M, message)
    assert answer.status == 201
    assert "dataschema_invalid;" in answer.headers["Concord-Notes"]
    schemas: dict[str, Any] = {
        "JsonSchema/draft-07": {"type": "object"},
        "Avro/1.11": "string",
        "Protobuf/3": 'syntax = "proto3"; message A { string name = 1; }',
    }
    for format, schema in schemas.items():
        answer = await node.send(
            "PUT", M, {**EVENT, "dataschemaformat": format, "dataschema": schema}
        )
        assert "Concord-Notes" not in answer.headers, format


async def test_writes_through_every_dialect_carry_notes(node: Node) -> None:
    """The rules are those of the entities; each note names them natively."""
    await node.put("/messagecatalog/c", {"format": "MQTT"})
    wildcard = {"id": "m", "definition": {"publish": {"contenttype": "json"}}}
    answer = await node.send("POST", "/messagecatalog/c/messagedefinitions", wildcard)
    assert answer.status == 201, answer.body
    subject = "/messagegroups/c/messages/m/versions/1"
    assert f'contenttype_malformed;subject="{subject}"' in answer.headers["Concord-Notes"]
    endpoint = {"config": {"protocol": "KAFKA", "options": {"acks": "7"}}, "usage": "producer"}
    answer = await node.send("POST", "/registry/0.4/endpoints", {"id": "e", **endpoint})
    assert answer.status == 201, answer.body
    assert 'acks_range;subject="/endpoints/e"' in answer.headers["Concord-Notes"]
    assert "Concord-Notes" not in (await node.send("GET", "/registry/0.4/endpoints/e")).headers
    id = "3db60532-de34-4e00-8a9d-6a6a4b5b1f6f"
    await node.put(f"/endpoints/{id}", {"usage": ["subscriber"], "channel": ""})
    service = {"id": id, "name": "s", "protocols": ["HTTP"]}
    answer = await node.send("PUT", f"/services/{id}", service)
    assert answer.status == 200, answer.body
    assert f'channel_empty;subject="/endpoints/{id}"' in answer.headers["Concord-Notes"]
