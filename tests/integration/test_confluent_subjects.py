"""Subjects of the Confluent API: registration, look-ups, versions, references and deletions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from hashlib import md5
from urllib.parse import quote
from uuid import UUID

import orjson
import pytest
import pytest_asyncio

from tests.integration.confluent import Registry, assert_error, new_name, record
from tests.integration.conftest import start_node

pytestmark = pytest.mark.asyncio(loop_scope="module")
PROTO = 'syntax = "proto3";\n\nmessage Order {\n  string a = 1;\n}\n'
OBJECT = '{"type":"object","properties":{"a":{"type":"string"}}}'


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def registry(shared_database_url: str) -> AsyncIterator[Registry]:
    async with start_node(shared_database_url) as running:
        yield Registry(running)


async def test_a_schema_is_registered_once_and_read_in_every_way(registry: Registry) -> None:
    subject, text = new_name(), record("a", name="ReadInEveryWay")
    id = await registry.register(subject, text.replace(":", " : "))
    assert await registry.register(subject, text) == id
    shown = await registry.get(f"/subjects/{subject}/versions/1")
    assert {**shown, "ts": 0} == {
        "subject": subject,
        "version": 1,
        "id": id,
        # The MD5 of a text without references, metadata and rules.
        "guid": str(UUID(bytes=md5(text.encode()).digest())),
        "schemaType": "AVRO",
        "schema": text,
        "ts": 0,
        "deleted": False,
    }
    assert await registry.get(f"/subjects/{subject}/versions/latest") == shown
    assert await registry.get(f"/subjects/{subject}/versions/-1") == shown
    assert await registry.get(f"/subjects/{subject}/versions") == [1]
    raw = await registry.send("GET", f"/subjects/{subject}/versions/1/schema")
    assert raw.body == text.encode()
    found = await registry.send("POST", f"/subjects/{subject}", {"schema": text})
    assert found.json == shown
    by_id = await registry.get(f"/schemas/ids/{id}")
    hidden = ("subject", "version", "id")
    assert by_id == {name: value for name, value in shown.items() if name not in hidden}
    assert (await registry.send("GET", f"/schemas/ids/{id}/schema")).body == text.encode()
    assert await registry.get(f"/schemas/ids/{id}/subjects") == [subject]
    assert await registry.get(f"/schemas/ids/{id}/versions") == [{"subject": subject, "version": 1}]
    assert await registry.get(f"/schemas/guids/{shown['guid']}") == by_id
    assert await registry.get(f"/schemas/guids/{shown['guid']}/ids") == [{"context": ".", "id": id}]


async def test_one_text_has_one_id_under_all_subjects(registry: Registry) -> None:
    first, second, text = new_name(), new_name(), record("shared")
    id = await registry.register(first, text)
    assert await registry.register(second, text) == id
    assert await registry.get(f"/schemas/ids/{id}/subjects") == sorted([first, second])


async def test_ids_grow_by_one(registry: Registry) -> None:
    subject = new_name()
    ids = [
        await registry.register(subject, record("grow", *more, defaults=True))
        for more in ((), ("b",), ("b", "c"))
    ]
    assert ids == [ids[0], ids[0] + 1, ids[0] + 2]


async def test_an_incompatible_schema_is_refused_with_its_reasons(registry: Registry) -> None:
    subject = new_name()
    await registry.register(subject, record("a"))
    refused = await registry.try_register(subject, record("a", "b"))
    assert_error(refused, 40901, "READER_FIELD_MISSING_DEFAULT_VALUE")
    assert "{oldSchemaVersion: 1}" in refused.json["message"]
    path = f"/compatibility/subjects/{subject}/versions"
    body = {"schema": record("a", "b")}
    for where in (f"{path}/latest", f"{path}/1", path):
        assert (await registry.send("POST", where, body)).json == {"is_compatible": False}
        told = (await registry.send("POST", f"{where}?verbose=true", body)).json
        assert told["messages"][0].startswith("{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE'")
        assert "in the new schema has no default value" in told["messages"][0]
        assert told["messages"][-1] == "{validateFields: 'false', compatibility: 'BACKWARD'}"
    fine = {"schema": record("a", "b", defaults=True)}
    assert (await registry.send("POST", f"{path}/1", fine)).json == {"is_compatible": True}
    assert_error(await registry.send("POST", f"{path}/9", body), 40402)
    assert (
        await registry.send("POST", f"/compatibility/subjects/{new_name()}/versions/latest", body)
    ).json == {"is_compatible": True}


async def test_a_verbose_check_tells_why_a_schema_is_invalid(registry: Registry) -> None:
    subject = new_name()
    await registry.register(subject, record("a"))
    path = f"/compatibility/subjects/{subject}/versions"
    for body in ({"schema": "nonsense"}, {"schema": ""}):
        for where in (path, f"{path}/latest", f"{path}/1"):
            assert_error(await registry.send("POST", where, body), 42201)
            told = await registry.send("POST", f"{where}?verbose=true", body)
            assert (told.status, told.json["is_compatible"]) == (200, False)
            [message] = told.json["messages"]
            assert message.startswith("Invalid schema" if body["schema"] else "Empty schema")


async def test_a_subject_may_mix_types_and_the_standard_sees_one_format(
    registry: Registry,
) -> None:
    subject = new_name()
    await registry.put(f"/config/{subject}", {"compatibility": "NONE"})
    await registry.register(subject, record("a"))
    await registry.register(subject, OBJECT, schemaType="JSON")
    await registry.register(subject, PROTO, schemaType="PROTOBUF")
    types = [
        (await registry.get(f"/subjects/{subject}/versions/{number}"))["schemaType"]
        for number in (1, 2, 3)
    ]
    assert types == ["AVRO", "JSON", "PROTOBUF"]
    home = await _home(registry)
    native = await registry.node.get(f"{home}/schemas/{subject}/versions")
    assert {each["format"] for each in native.values()} == {"mixed"}


async def _home(registry: Registry) -> str:
    groups = await registry.node.get("/schemagroups")
    [home] = [xid for xid, group in groups.items() if group["confluent"].get("home")]
    return f"/schemagroups/{home}"


async def test_references_are_resolved_listed_and_kept_from_deletion(registry: Registry) -> None:
    base, subject = new_name("address"), new_name()
    await registry.register(base, record("street", name="Address"))
    text = '{"type":"record","name":"Person","fields":[{"name":"home","type":"Address"}]}'
    references = [{"name": "Address", "subject": base, "version": 1}]
    assert_error(await registry.try_register(subject, text), 42201)
    id = await registry.register(subject, text, references=references)
    shown = await registry.get(f"/subjects/{subject}/versions/1")
    assert (shown["schema"], shown["references"]) == (text, references)
    assert (await registry.get(f"/schemas/ids/{id}"))["references"] == references
    assert await registry.get(f"/subjects/{base}/versions/1/referencedby") == [id]
    refused = await registry.send("DELETE", f"/subjects/{base}/versions/1")
    assert_error(refused, 42206)
    assert_error(await registry.send("DELETE", f"/subjects/{base}"), 42206)
    missing = [{"name": "Address", "subject": base, "version": 7}]
    assert_error(await registry.try_register(subject, text, references=missing), 42201)
    resolved = await registry.get(f"/schemas/ids/{id}?format=resolved")
    assert '"street"' in resolved["schema"]
    await registry.delete(f"/subjects/{subject}")
    assert await registry.delete(f"/subjects/{base}") == [1]


async def test_references_are_shown_with_their_contexts_if_asked(registry: Registry) -> None:
    base, subject = new_name("address"), new_name()
    await registry.register(f":.refs:{base}", record("street", name="Address"))
    given = {"name": "Address", "subject": base, "version": 1}
    text = '{"type":"record","name":"Home","fields":[{"name":"at","type":"Address"}]}'
    id = await registry.register(f":.refs:{subject}", text, references=[given])
    qualified = {**given, "subject": f":.refs:{base}"}
    for path in (
        f"/subjects/:.refs:{subject}/versions/1?",
        f"/subjects/{subject}/versions/1?",
        f"/contexts/.refs/subjects/{subject}/versions/1?",
        f"/schemas/ids/{id}?subject=:.refs:{subject}&",
        f"/schemas/ids/{id}?subject={subject}&",
        f"/contexts/.refs/schemas/ids/{id}?",
    ):
        shown = await registry.get(path)
        assert shown["references"] == [given], path
        shown = await registry.get(f"{path}referenceFormat=qualified")
        assert shown["references"] == [qualified], path
    # References of the default context have their names alone.
    await registry.register(base, record("street", name="Address"))
    await registry.register(subject, text, references=[given])
    shown = await registry.get(f"/subjects/{subject}/versions/1?referenceFormat=QUALIFIED")
    assert shown["references"] == [given]


async def test_a_new_schema_refers_to_no_deleted_version(registry: Registry) -> None:
    base, subject = new_name("address"), new_name()
    await registry.register(base, record("street", name="Address"))
    text = '{"type":"record","name":"Office","fields":[{"name":"at","type":"Address"}]}'
    references = [{"name": "Address", "subject": base, "version": 1}]
    id = await registry.register(subject, text, references=references)
    for deleted in (subject, base):
        await registry.delete(f"/subjects/{deleted}")
    for refused in (subject, new_name()):
        answer = await registry.try_register(refused, text, references=references)
        assert_error(answer, 42201, f'No schema reference found for subject "{base}" and version 1')
    latest = [{**references[0], "version": -1}]
    assert_error(await registry.try_register(subject, text, references=latest), 42201)
    # What was registered before is found and read.
    body = {"schema": text, "references": references}
    found = await registry.send("POST", f"/subjects/{subject}?deleted=true", body)
    assert (found.status, found.json["id"]) == (200, id)
    assert '"street"' in (await registry.get(f"/schemas/ids/{id}?format=resolved"))["schema"]


async def test_a_reference_to_the_latest_version_gets_its_number(registry: Registry) -> None:
    base, subject = new_name("address"), new_name()
    await registry.register(base, record("street", name="Address"))
    await registry.register(base, record("street", "town", name="Address", defaults=True))
    text = '{"type":"record","name":"Shop","fields":[{"name":"at","type":"Address"}]}'
    latest = [{"name": "Address", "subject": base, "version": -1}]
    answer = await registry.try_register(subject, text, references=latest)
    second = [{"name": "Address", "subject": base, "version": 2}]
    assert (await registry.get(f"/subjects/{subject}/versions/1"))["references"] == second
    assert await registry.register(subject, text, references=second) == answer.json["id"]
    more = record("street", "town", "zip", name="Address", defaults=True)
    await registry.register(base, more)
    assert await registry.register(subject, text, references=latest) != answer.json["id"]
    shown = await registry.get(f"/subjects/{subject}/versions/2")
    assert shown["references"] == [{**second[0], "version": 3}]
    assert await registry.get(f"/subjects/{base}/versions/2/referencedby") == [answer.json["id"]]


async def test_normalized_references_are_in_the_order_of_their_names(registry: Registry) -> None:
    names = {name: new_name(name.lower()) for name in ("Alpha", "Beta")}
    for name, base in names.items():
        await registry.register(base, record("a", name=name))
    fields = [{"name": name.lower(), "type": name} for name in names]
    text = orjson.dumps({"type": "record", "name": "Both", "fields": fields}).decode()
    alpha, beta = ({"name": name, "subject": base, "version": 1} for name, base in names.items())

    async def register(references: list[dict[str, object]], query: str = "") -> tuple[int, object]:
        body = {"schema": text, "references": references}
        answer = await registry.send("POST", f"/subjects/{new_name()}/versions{query}", body)
        assert answer.status == 200, answer.body
        id = answer.json["id"]
        return id, (await registry.get(f"/schemas/ids/{id}"))["references"]

    normal, shown = await register([beta, alpha], "?normalize=true")
    assert shown == [alpha, beta]
    assert await register([alpha, beta], "?normalize=true") == (normal, [alpha, beta])
    assert await register([alpha, beta]) == (normal, [alpha, beta])
    other, shown = await register([beta, alpha])
    assert (other != normal, shown) == (True, [beta, alpha])


async def test_protobuf_refers_by_import_and_comes_serialized(registry: Registry) -> None:
    base, subject = new_name("base"), new_name()
    await registry.register(base, PROTO, schemaType="PROTOBUF")
    text = 'syntax = "proto3"; import "order.proto"; message Page { repeated Order orders = 1; }'
    references = [{"name": "order.proto", "subject": base, "version": 1}]
    id = await registry.register(subject, text, schemaType="PROTOBUF", references=references)
    plain = (await registry.get(f"/schemas/ids/{id}"))["schema"]
    assert plain.startswith('syntax = "proto3";\n')
    serialized = (await registry.get(f"/schemas/ids/{id}?format=serialized"))["schema"]
    body = {"schemaType": "PROTOBUF", "references": references}
    ids = set()
    for given in (plain, serialized):
        path = f"/subjects/{subject}/versions?normalize=true"
        ids.add((await registry.send("POST", path, {**body, "schema": given})).json["id"])
    assert len(ids) == 1


async def test_a_deletion_is_soft_first_and_then_for_good(registry: Registry) -> None:
    subject = new_name()
    await registry.register(subject, record("a"))
    await registry.register(subject, record("a", "b", defaults=True))
    path = f"/subjects/{subject}"
    assert_error(await registry.send("DELETE", f"{path}/versions/1?permanent=true"), 40407)
    assert_error(await registry.send("DELETE", f"{path}?permanent=true"), 40405)
    assert await registry.delete(f"{path}/versions/1") == 1
    assert_error(await registry.send("DELETE", f"{path}/versions/1"), 40406)
    assert_error(await registry.send("GET", f"{path}/versions/1"), 40402)
    assert (await registry.get(f"{path}/versions/1?deleted=true"))["deleted"] is True
    assert await registry.get(f"{path}/versions") == [2]
    assert await registry.get(f"{path}/versions?deleted=true") == [1, 2]
    assert await registry.get(f"{path}/versions?deletedOnly=true") == [1]
    assert await registry.delete(path) == [2]
    assert_error(await registry.send("DELETE", path), 40404)
    assert_error(await registry.send("GET", f"{path}/versions"), 40401)
    assert subject not in await registry.get("/subjects")
    assert subject in await registry.get("/subjects?deleted=true")
    assert subject in await registry.get("/subjects?deletedOnly=true")
    assert await registry.delete(f"{path}/versions/1?permanent=true") == 1
    assert await registry.delete(f"{path}?permanent=true") == [2]
    assert_error(await registry.send("DELETE", path), 40401)
    assert subject not in await registry.get("/subjects?deleted=true")


async def test_deleted_versions_are_listed_as_negative_numbers(registry: Registry) -> None:
    subject = new_name()
    await registry.put(f"/config/{subject}", {"compatibility": "NONE"})
    for field in "abc":
        await registry.register(subject, record(field))
    await registry.delete(f"/subjects/{subject}/versions/2")
    path = f"/subjects/{subject}/versions?deletedAsNegative=true"
    assert await registry.get(path) == [1, -2, 3]
    assert await registry.get(f"{path}&offset=1&limit=1") == [-2]
    await registry.delete(f"/subjects/{subject}")
    assert await registry.get(path) == [-1, -2, -3]
    await registry.delete(f"/subjects/{subject}?permanent=true")
    assert_error(await registry.send("GET", path), 40401)


async def test_version_minus_one_is_the_latest_in_every_path(registry: Registry) -> None:
    subject, texts = new_name(), [record("m"), record("m", "n", defaults=True)]
    ids = [await registry.register(subject, text) for text in texts]
    path = f"/subjects/{subject}/versions/-1"
    assert (await registry.get(path))["id"] == ids[1]
    assert (await registry.send("GET", f"{path}/schema")).body == texts[1].encode()
    referring = await registry.register(
        new_name(), '["null"]', references=[{"name": "x", "subject": subject, "version": 2}]
    )
    assert await registry.get(f"{path}/referencedby") == [referring]
    # The first version could read what the third one writes, but the second one could not.
    body = {"schema": record("m", "o")}
    shown = await registry.send("POST", f"/compatibility{path}?verbose=true", body)
    assert "{oldSchemaVersion: 2}" in shown.json["messages"]
    assert_error(await registry.send("DELETE", path), 42206)
    [subject_of_it] = await registry.get(f"/schemas/ids/{referring}/subjects")
    await registry.delete(f"/subjects/{subject_of_it}")
    assert await registry.delete(path) == 2
    assert (await registry.get(path))["id"] == ids[0]
    assert await registry.delete(path) == 1
    assert_error(await registry.send("GET", path), 40401)


async def test_a_deleted_text_keeps_its_readers_and_its_id(registry: Registry) -> None:
    subject, text = new_name(), record("kept")
    id = await registry.register(subject, text)
    await registry.delete(f"/subjects/{subject}")
    assert (await registry.get(f"/schemas/ids/{id}"))["schema"] == text
    assert await registry.register(subject, text) == id
    assert await registry.get(f"/subjects/{subject}/versions?deleted=true") == [2]


async def test_versions_begin_again_after_a_permanent_deletion_but_ids_do_not(
    registry: Registry,
) -> None:
    subject = new_name()
    id = await registry.register(subject, record("first"))
    await registry.delete(f"/subjects/{subject}")
    await registry.delete(f"/subjects/{subject}?permanent=true")
    assert_error(await registry.send("GET", f"/schemas/ids/{id}"), 40403)
    assert await registry.register(subject, record("second")) == id + 1
    assert await registry.get(f"/subjects/{subject}/versions") == [1]


@pytest.mark.parametrize("name", ["a/b", "a:b", "ä ö", "-x", "100%", "x" * 300, "a?b#c", "%2F"])
async def test_any_name_is_the_name_of_a_subject(registry: Registry, name: str) -> None:
    subject = new_name() + name
    id = await registry.register(subject, record("a", name=f"N{abs(hash(name))}"))
    path = f"/subjects/{quote(subject, safe='')}"
    assert (await registry.get(f"{path}/versions/1"))["subject"] == subject
    assert subject in await registry.get("/subjects")
    assert await registry.get(f"/schemas/ids/{id}/subjects") == [subject]
    await registry.put(f"/config/{quote(subject, safe='')}", {"compatibility": "NONE"})
    assert await registry.delete(path) == [1]


async def test_names_that_differ_in_case_are_two_subjects(registry: Registry) -> None:
    lower = new_name("case")
    upper = lower.upper()
    first = await registry.register(lower, record("lower"))
    second = await registry.register(upper, record("upper"))
    assert first != second
    assert (await registry.get(f"/subjects/{lower}/versions/1"))["id"] == first
    assert (await registry.get(f"/subjects/{upper}/versions/1"))["id"] == second


async def test_lists_have_pages_and_prefixes(registry: Registry) -> None:
    names = [new_name("page") for _ in range(5)]
    for name in names:
        await registry.register(name, record(name.replace("-", "_")))
    assert await registry.get("/subjects?subjectPrefix=page-") == sorted(names)
    assert (
        await registry.get("/subjects?subjectPrefix=page-&offset=1&limit=2") == sorted(names)[1:3]
    )
    listed = await registry.get("/schemas?subjectPrefix=page-&latestOnly=true&limit=3")
    assert [each["subject"] for each in listed] == sorted(names)[:3]
    assert all(each["schema"] and each["id"] for each in listed)


async def test_what_has_an_id_is_listed_in_pages(registry: Registry) -> None:
    names, text = sorted(new_name("many") for _ in range(4)), record("paged")
    ids = {await registry.register(name, text) for name in names}
    path = f"/schemas/ids/{ids.pop()}"
    assert not ids
    versions = [{"subject": name, "version": 1} for name in names]
    for query, part in (
        ("", slice(0, 4)),
        ("?offset=1&limit=2", slice(1, 3)),
        ("?offset=3", slice(3, 4)),
        ("?limit=1", slice(0, 1)),
        ("?offset=4&limit=4", slice(0, 0)),
    ):
        assert await registry.get(f"{path}/subjects{query}") == names[part]
        assert await registry.get(f"{path}/versions{query}") == versions[part]
    assert_error(await registry.send("GET", f"{path}/subjects?limit=x"), 400)
    await registry.delete(f"/subjects/{names[0]}")
    assert await registry.get(f"{path}/subjects?limit=1") == names[1:2]
    assert await registry.get(f"{path}/subjects?limit=1&deleted=true") == names[:1]
    assert await registry.get(f"{path}/versions?limit=1&deleted=true") == versions[:1]


async def test_a_plain_name_reads_the_subject_of_another_context(registry: Registry) -> None:
    subject, text = new_name(), record("elsewhere")
    id = await registry.register(f":.elsewhere:{subject}", text)
    shown = await registry.get(f"/subjects/{subject}/versions/1")
    assert (shown["subject"], shown["id"]) == (f":.elsewhere:{subject}", id)
    assert await registry.get(f"/subjects/{subject}/versions/latest") == shown
    raw = await registry.send("GET", f"/subjects/{subject}/versions/1/schema")
    assert raw.body == text.encode()
    found = await registry.send("POST", f"/subjects/{subject}", {"schema": text})
    assert found.json == shown
    by_id = await registry.get(f"/schemas/ids/{id}?subject={subject}")
    assert (by_id["subject"], by_id["schema"]) == (f":.elsewhere:{subject}", text)
    # Writes mean the default context, whose subject comes first from then on.
    assert_error(await registry.send("DELETE", f"/subjects/{subject}"), 40401)
    own = await registry.register(subject, record("here"))
    assert own != id
    shown = await registry.get(f"/subjects/{subject}/versions/1")
    assert (shown["subject"], shown["id"]) == (subject, own)
    assert_error(
        await registry.within(".third").send("GET", f"/subjects/{subject}/versions/1"), 40401
    )


@pytest.mark.parametrize(
    ("method", "path", "body", "code"),
    [
        ("GET", "/subjects/nobody/versions", None, 40401),
        ("GET", "/subjects/nobody/versions/1", None, 40401),
        ("DELETE", "/subjects/nobody", None, 40401),
        ("POST", "/subjects/nobody", {"schema": '"string"'}, 40401),
        ("GET", "/schemas/ids/1", None, 40403),
        ("GET", "/schemas/guids/00000000-0000-0000-0000-000000000000", None, 40403),
        ("GET", "/schemas/guids/nonsense", None, 40403),
        ("GET", "/subjects/nobody/versions/0", None, 42202),
        ("GET", "/subjects/nobody/versions/x", None, 42202),
        ("POST", "/subjects/s/versions", {"schema": "nonsense"}, 42201),
        ("POST", "/subjects/s/versions", {"schema": ""}, 42201),
        ("POST", "/subjects/s/versions", {"schema": "{}", "schemaType": "avro"}, 42201),
        ("POST", "/subjects/s/versions", {"schema": '"int"', "id": 7}, 42205),
        ("POST", "/subjects/__GLOBAL/versions", {"schema": '"int"'}, 42208),
        ("POST", "/subjects/s/versions", {"schema": 7}, 422),
        ("POST", "/subjects/s/versions", [], 422),
        ("PUT", "/config", {"compatibility": "SOME"}, 42203),
        ("PUT", "/mode", {"mode": "SOME"}, 42204),
        ("GET", "/config/nobody", None, 40408),
        ("GET", "/mode/nobody", None, 40409),
        ("DELETE", "/config/nobody", None, 40401),
        ("GET", "/nowhere", None, 404),
        ("POST", "/nowhere", {}, 404),
        ("GET", "/dek-registry/v1/keks", None, 404),
        ("PUT", "/subjects", {}, 405),
    ],
)
async def test_errors_have_the_codes_of_the_api(
    registry: Registry, method: str, path: str, body: object, code: int
) -> None:
    assert_error(await registry.send(method, path, body), code)


async def test_malformed_requests_are_refused_in_the_form_of_the_api(registry: Registry) -> None:
    answer = await registry.node.send(
        "POST", "/confluent/subjects/s/versions", body=b"{", Content_Type="application/json"
    )
    assert_error(answer, 400)
    answer = await registry.node.send(
        "POST", "/confluent/subjects/s/versions", body=b"<x/>", Content_Type="application/xml"
    )
    assert_error(answer, 415)
    deep = '{"schema":' + "[" * 200 + "]" * 200 + "}"
    answer = await registry.node.send(
        "POST", "/confluent/subjects/s/versions", body=deep, Content_Type="application/json"
    )
    assert answer.status in (400, 422)


async def test_the_server_tells_what_it_is(registry: Registry) -> None:
    assert await registry.get("") == {}
    assert await registry.get("/") == {}
    assert sorted(await registry.get("/schemas/types")) == ["AVRO", "JSON", "PROTOBUF"]
    assert (await registry.get("/v1/metadata/version"))["version"]
    authority = registry.node.database.node.authority
    assert authority in str(await registry.get("/v1/metadata/id"))
