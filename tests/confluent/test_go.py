"""The client of the registry in franz-go."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from tests.confluent.programs import golang
from tests.confluent.shop import AVRO_CUSTOMER, AVRO_ORDER, JSON_CUSTOMER

pytestmark = pytest.mark.timeout(400)  # the client is compiled with the first of them

Call = Callable[..., Any]


@pytest.fixture
def call(registry_url: str) -> Call:
    """Calls a method of the client, and answers what it does."""
    client = golang()

    def call(name: str, **wish: Any) -> Any:
        [answer] = client.ask(url=registry_url, wishes=[{"call": name, **wish}])["answers"]
        return answer

    return call


def _schema(text: Any, **members: Any) -> dict[str, Any]:
    return {"schema": json.dumps(text, separators=(",", ":")), **members}


def _record(name: str, *fields: dict[str, Any]) -> dict[str, Any]:
    return _schema({"type": "record", "name": name, "fields": list(fields)})


ID = {"name": "id", "type": "int"}
TEXT_ID = {"name": "id", "type": "string"}
NOTE = {"name": "note", "type": "string", "default": ""}


def test_a_schema_is_found_by_all_of_its_names(call: Call) -> None:
    """By subject and version, by id, by GUID, by its text and in lists."""
    subject, first, second = "go-found", _record("Found", ID), _record("Found", ID, NOTE)
    made = call("create", subject=subject, schema=first)
    assert (made["subject"], made["version"], made["schema"]) == (subject, 1, first["schema"])
    newer = call("create", subject=subject, schema=second)
    assert newer["version"] == 2
    assert call("create", subject=subject, schema=first) == made
    assert call("lookup", subject=subject, schema=first) == made
    assert call("schema", subject=subject, version=1) == made
    assert call("schema", subject=subject, version=-1) == newer
    assert call("text", subject=subject, version=1) == first["schema"]
    assert call("schemas", subject=subject) == [made, newer]
    assert call("versions", subject=subject) == [1, 2]
    assert subject in call("subjects")
    listed = call("all schemas", prefix=subject)
    assert sorted(listed, key=lambda each: each["version"]) == [made, newer]
    assert call("by id", id=made["id"])["schema"] == first["schema"]
    assert call("text by id", id=made["id"]) == first["schema"]
    assert call("subjects by id", id=made["id"]) == [subject]
    assert call("versions by id", id=made["id"]) == [{"subject": subject, "version": 1}]
    assert call("by guid", guid=made["guid"])["schema"] == first["schema"]
    assert call("ids by guid", guid=made["guid"]) == [{"context": ".", "id": made["id"]}]
    assert call("types") == ["AVRO", "PROTOBUF", "JSON"]


def test_references_lead_to_what_refers(call: Call) -> None:
    """The client reads the schemas of the ids that refer to a version."""
    call("create", subject="go-customer", schema=_schema(AVRO_CUSTOMER))
    reference = {"name": "shop.Customer", "subject": "go-customer", "version": 1}
    order = call("create", subject="go-order", schema=_schema(AVRO_ORDER, references=[reference]))
    assert order["references"] == [reference]
    assert call("references", subject="go-customer", version=1) == [order]
    assert call("delete", subject="go-customer") == {"status": 422, "code": 42206}


def test_compatibility_is_checked_and_set(call: Call) -> None:
    """With the reasons of an incompatibility, and what holds where a subject has no level."""
    subject, other = "go-compatible", _record("Compatible", TEXT_ID)
    call("create", subject=subject, schema=_record("Compatible", ID))
    good = call("check", subject=subject, version=-1, schema=_record("Compatible", ID, NOTE))
    assert good["is_compatible"] is True
    bad = call("check", subject=subject, version=1, schema=other)
    assert bad["is_compatible"] is False
    assert "TYPE_MISMATCH" in bad["messages"][0]
    assert call("create", subject=subject, schema=other) == {"status": 409, "code": 40901}
    assert call("level", subject=subject) == {"status": 404, "code": 40408}
    assert call("set level", subject=subject, level="NONE") == "NONE"
    assert call("level", subject=subject) == "NONE"
    assert call("create", subject=subject, schema=other)["version"] == 2
    # The client reads another member of the answer than the one that Confluent has the level in.
    assert call("reset level", subject=subject) == ""
    assert call("level", subject=subject) == {"status": 404, "code": 40408}
    assert call("level") == "BACKWARD"


def test_schemas_are_deleted_softly_and_permanently(call: Call) -> None:
    """First the one, then the other; the errors say in which order."""
    subject = "go-deleted"
    for fields in ((ID,), (ID, NOTE)):
        call("create", subject=subject, schema=_record("Deleted", *fields))
    permanently = {"version": 1, "hard": True}
    assert call("delete version", subject=subject, **permanently)["code"] == 40407
    assert call("delete version", subject=subject, version=1) is None
    assert call("delete version", subject=subject, version=1)["code"] == 40406
    assert call("delete version", subject=subject, **permanently) is None
    assert call("delete", subject=subject, hard=True)["code"] == 40405
    assert call("delete", subject=subject) == [2]
    assert call("delete", subject=subject)["code"] == 40404
    assert call("versions", subject=subject)["code"] == 40401
    assert call("versions", subject=subject, deleted=True) == [2]
    assert call("delete", subject=subject, hard=True) == [2]
    assert call("versions", subject=subject, deleted=True)["code"] == 40401


def test_a_context_takes_schemas_with_their_ids(call: Call) -> None:
    """In the mode for imports, which is that of a context that nobody writes to otherwise."""
    within = {"context": ".go-import"}
    schema = _record("Imported", ID)
    assert call("set mode", subject=":.go-import:", mode="IMPORT") == "IMPORT"
    made = call("import", subject="imported", schema=schema, id=7, version=3, **within)
    assert (made["id"], made["version"]) == (7, 3)
    assert ".go-import" in call("contexts")
    assert call("by id", id=7, **within)["schema"] == schema["schema"]
    assert call("versions", subject="imported", **within) == [3]
    assert call("subjects", prefix=":.go-import:") == [":.go-import:imported"]
    assert call("delete context", context=".go-import")["code"] == 42211
    for hard in (False, True):
        assert call("delete", subject="imported", hard=hard, **within) == [3]
    assert call("reset mode", subject=":.go-import:") == "IMPORT"
    assert call("delete context", context=".go-import") is None
    assert ".go-import" not in call("contexts")


def test_a_mode_is_set_and_taken_back(call: Call) -> None:
    """That of a subject; without one, the client is told so."""
    subject = "go-mode"
    call("create", subject=subject, schema=_record("Mode", ID))
    assert call("mode") == "READWRITE"
    assert call("mode", subject=subject) == {"status": 404, "code": 40409}
    assert call("set mode", subject=subject, mode="READONLY") == "READONLY"
    refused = call("create", subject=subject, schema=_record("Mode", ID, NOTE))
    assert refused == {"status": 422, "code": 42205}
    assert call("reset mode", subject=subject) == "READONLY"
    assert call("create", subject=subject, schema=_record("Mode", ID, NOTE))["version"] == 2


def test_messages_go_to_confluents_client_and_back(
    registry: SchemaRegistryClient, call: Call
) -> None:
    """JSON with the id of its schema before it, which both clients resolve."""
    text = json.dumps(JSON_CUSTOMER)
    value, context = {"name": "Ada"}, SerializationContext("go-json", MessageField.VALUE)
    written = JSONSerializer(text, registry)(value, context)
    read = call("decode", message=base64.b64encode(written).decode())
    assert read["value"] == value
    assert read["schema"]["schemaType"] == "JSON"
    encoded = base64.b64decode(call("encode", subject="go-json-value", value=value))
    assert encoded[:5] == written[:5]
    deserializer = JSONDeserializer(None, schema_registry_client=registry)
    assert deserializer(encoded, context) == value
