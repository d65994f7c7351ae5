"""Settings, contexts and data contracts of the Confluent API."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.integration.confluent import Registry, assert_error, new_name, record
from tests.integration.conftest import start_node

pytestmark = pytest.mark.asyncio(loop_scope="module")
RULE: dict[str, Any] = {
    "name": "check",
    "kind": "CONDITION",
    "mode": "WRITE",
    "type": "CEL",
    "expr": "size(message.a) > 0",
    "disabled": False,
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def registry(shared_database_url: str) -> AsyncIterator[Registry]:
    async with start_node(shared_database_url) as running:
        yield Registry(running)


async def test_a_subject_has_the_settings_of_the_nearest(registry: Registry) -> None:
    subject = new_name()
    assert await registry.get("/config") == {"compatibilityLevel": "BACKWARD"}
    assert_error(await registry.send("GET", f"/config/{subject}"), 40408)
    shown = await registry.get(f"/config/{subject}?defaultToGlobal=true")
    assert shown == {"compatibilityLevel": "BACKWARD"}
    assert await registry.put("/config", {"compatibility": "full"}) == {"compatibility": "FULL"}
    shown = await registry.get(f"/config/{subject}?defaultToGlobal=true")
    assert shown == {"compatibilityLevel": "FULL"}
    await registry.put(f"/config/{subject}", {"compatibilityLevel": "FORWARD"})
    assert await registry.get(f"/config/{subject}") == {"compatibilityLevel": "FORWARD"}
    assert await registry.delete(f"/config/{subject}") == {"compatibilityLevel": "FORWARD"}
    assert_error(await registry.send("GET", f"/config/{subject}"), 40408)
    assert await registry.delete("/config") == {"compatibilityLevel": "FULL"}
    assert await registry.get("/config") == {"compatibilityLevel": "BACKWARD"}


async def test_an_update_changes_what_it_names(registry: Registry) -> None:
    subject = new_name()
    await registry.put(f"/config/{subject}", {"compatibility": "FULL", "normalize": True})
    await registry.put(f"/config/{subject}", {"compatibilityGroup": "major"})
    shown = {"normalize": True, "compatibilityLevel": "FULL", "compatibilityGroup": "major"}
    assert await registry.get(f"/config/{subject}") == shown
    await registry.put(f"/config/{subject}", {"compatibilityGroup": None})
    del shown["compatibilityGroup"]
    assert await registry.get(f"/config/{subject}") == shown
    await registry.put(f"/config/{subject}", {})
    assert await registry.get(f"/config/{subject}") == shown


async def test_an_update_is_answered_with_all_settings(registry: Registry) -> None:
    path = f"/config/{new_name()}"
    answer = await registry.put(path, {"compatibility": "full"})
    assert answer == {"compatibility": "FULL"}
    answer = await registry.put(path, {"normalize": True})
    assert answer == {"compatibility": "FULL", "normalize": True}
    answer = await registry.put(path, {"compatibilityGroup": "major", "normalize": None})
    assert answer == {"compatibility": "FULL", "compatibilityGroup": "major"}
    answer = await registry.put(path, {})
    assert answer == {"compatibility": "FULL", "compatibilityGroup": "major"}


async def test_settings_end_with_the_last_version(registry: Registry) -> None:
    one, all = new_name(), new_name()
    for subject, path in ((one, f"/subjects/{one}/versions/1"), (all, f"/subjects/{all}")):
        await registry.register(subject, record("a"))
        await registry.register(subject, record("a", "b", defaults=True))
        await registry.put(f"/config/{subject}", {"compatibility": "FULL"})
        await registry.put(f"/mode/{subject}", {"mode": "READWRITE"})
        await registry.delete(f"/subjects/{subject}")
        if subject == one:
            await registry.delete(f"/subjects/{subject}/versions/2?permanent=true")
        # A version is left.
        assert await registry.get(f"/config/{subject}") == {"compatibilityLevel": "FULL"}
        assert await registry.get(f"/mode/{subject}") == {"mode": "READWRITE"}
        await registry.delete(f"{path}?permanent=true")
        assert_error(await registry.send("GET", f"/config/{subject}"), 40408)
        assert_error(await registry.send("GET", f"/mode/{subject}"), 40409)


async def test_an_alias_means_another_subject(registry: Registry) -> None:
    subject, alias = new_name(), new_name("alias")
    id = await registry.register(subject, record("a"))
    assert await registry.put(f"/config/{alias}", {"alias": subject}) == {"alias": subject}
    assert await registry.get(f"/config/{alias}") == {"alias": subject}
    shown = await registry.get(f"/subjects/{alias}/versions/latest")
    assert (shown["subject"], shown["id"]) == (subject, id)
    assert await registry.get(f"/subjects/{alias}/versions") == [1]
    found = await registry.send("POST", f"/subjects/{alias}", {"schema": record("a")})
    assert found.json == shown
    assert await registry.register(alias, record("a")) == id
    path = f"/compatibility/subjects/{alias}/versions/latest"
    checked = await registry.send("POST", path, {"schema": record("a", "b")})
    assert checked.json == {"is_compatible": False}
    assert_error(await registry.try_register(alias, record("a", "b")), 40901)
    await registry.register(alias, record("a", "b", defaults=True))
    assert await registry.get(f"/subjects/{subject}/versions") == [1, 2]
    assert alias not in await registry.get("/subjects?deleted=true")
    # Settings are those of the name itself.
    await registry.put(f"/config/{alias}", {"compatibility": "NONE"})
    assert_error(await registry.send("GET", f"/config/{subject}"), 40408)
    assert await registry.delete(f"/subjects/{alias}/versions/1") == 1
    assert await registry.delete(f"/subjects/{alias}") == [2]
    assert_error(await registry.send("GET", f"/subjects/{subject}/versions"), 40401)
    await registry.put(f"/config/{alias}", {"alias": None})
    await registry.register(alias, record("z"))
    assert alias in await registry.get("/subjects")


async def test_an_alias_may_lead_to_another_context(registry: Registry) -> None:
    target, alias = new_name(), new_name("alias")
    id = await registry.register(f":.aliased:{target}", record("a"))
    await registry.put(f"/config/{alias}", {"alias": f":.aliased:{target}"})
    shown = await registry.get(f"/subjects/{alias}/versions/1")
    assert (shown["subject"], shown["id"]) == (f":.aliased:{target}", id)
    assert await registry.register(alias, record("a", "b", defaults=True)) == id + 1
    # A plain name is one of the alias's own context.
    await registry.put(f"/config/:.aliased:{alias}", {"alias": target})
    shown = await registry.get(f"/subjects/:.aliased:{alias}/versions/2")
    assert (shown["subject"], shown["id"]) == (f":.aliased:{target}", id + 1)


async def test_versions_of_another_compatibility_group_are_not_compared(
    registry: Registry,
) -> None:
    subject = new_name()
    await registry.put(f"/config/{subject}", {"compatibilityGroup": "major"})

    async def register(text: str, major: str) -> int:
        metadata = {"properties": {"major": major}}
        answer = await registry.try_register(subject, text, metadata=metadata)
        return answer.status

    assert await register(record("a"), "1") == 200
    assert await register(record("b"), "2") == 200
    assert await register(record("c"), "2") == 409
    assert await register(record("a", "c", defaults=True), "1") == 200


@pytest.mark.parametrize(
    ("level", "texts", "status"),
    [
        ("NONE", ["ab", "c"], 200),
        ("BACKWARD", ["ab", "a"], 200),
        ("BACKWARD", ["a", "ab"], 409),
        ("FORWARD", ["a", "ab"], 200),
        ("FORWARD", ["ab", "a"], 409),
        ("FULL", ["a", "ab"], 409),
    ],
)
async def test_levels_compare_in_their_direction(
    registry: Registry, level: str, texts: list[str], status: int
) -> None:
    subject = new_name()
    await registry.put(f"/config/{subject}", {"compatibility": level})
    first, second = (record(*fields) for fields in texts)
    await registry.register(subject, first)
    assert (await registry.try_register(subject, second)).status == status


async def test_a_transitive_level_compares_with_all_versions(registry: Registry) -> None:
    texts = [record("a"), record("a", "b", defaults=True), record("a", "b")]
    for level, status in (("BACKWARD", 200), ("BACKWARD_TRANSITIVE", 409)):
        subject = new_name()
        await registry.put(f"/config/{subject}", {"compatibility": level})
        await registry.register(subject, texts[0])
        await registry.register(subject, texts[1])
        assert (await registry.try_register(subject, texts[2])).status == status, level


async def test_modes_say_who_may_register(registry: Registry) -> None:
    subject = new_name()
    assert await registry.get("/mode") == {"mode": "READWRITE"}
    await registry.put(f"/mode/{subject}", {"mode": "READONLY"})
    assert_error(await registry.try_register(subject, record("a")), 42205, "read-only mode")
    assert await registry.delete(f"/mode/{subject}") == {"mode": "READONLY"}
    await registry.register(subject, record("a"))
    assert_error(await registry.send("PUT", f"/mode/{subject}", {"mode": "IMPORT"}), 42205)
    await registry.put(f"/mode/{subject}?force=true", {"mode": "IMPORT"})
    assert_error(await registry.try_register(subject, record("b")), 42205, "read-write")
    assert await registry.register(subject, record("b"), id=4711, version=9) == 4711
    assert await registry.get(f"/subjects/{subject}/versions") == [1, 9]


async def test_a_known_text_is_answered_in_modes_that_register_nothing(
    registry: Registry,
) -> None:
    subject = new_name()
    id = await registry.register(subject, record("a"))
    for mode in ("READONLY", "READONLY_OVERRIDE", "FORWARD", "IMPORT"):
        await registry.put(f"/mode/{subject}?force=true", {"mode": mode})
        refused = await registry.try_register(subject, record("a", "b", defaults=True))
        assert_error(refused, 42205)
        if mode == "IMPORT":
            assert_error(
                await registry.try_register(subject, record("a")), 42205, "read-write mode"
            )
        else:
            assert await registry.register(subject, record("a")) == id, mode
    assert await registry.get(f"/subjects/{subject}/versions") == [1]


async def test_a_known_text_may_come_with_its_own_id_and_number(registry: Registry) -> None:
    subject, text = new_name(), record("own")
    id = await registry.register(subject, text)
    for own in ({"id": id}, {"id": id, "version": 1}, {"id": -1}, {"version": -1}, {"version": 0}):
        assert await registry.register(subject, text, **own) == id, own
    for other in ({"id": id + 1}, {"id": id, "version": 2}, {"id": id + 1, "version": 1}):
        answer = await registry.try_register(subject, text, **other)
        assert_error(answer, 42205, "is not in import mode")
    assert await registry.get(f"/subjects/{subject}/versions") == [1]


async def test_the_mode_forward_takes_over_versions_as_import_does(registry: Registry) -> None:
    subject = new_name()
    await registry.register(subject, record("a"))
    # Unlike IMPORT, it may begin where there are schemas.
    assert await registry.put(f"/mode/{subject}", {"mode": "forward"}) == {"mode": "FORWARD"}
    assert_error(await registry.try_register(subject, record("b")), 42205, "read-write mode")
    # The other registry has compared the versions.
    assert await registry.register(subject, record("b"), id=8001, version=5) == 8001
    assert await registry.register(subject, record("b"), id=8001, version=5) == 8001
    assert_error(await registry.try_register(subject, record("c"), id=8001), 42205, "Overwrite")
    assert await registry.get(f"/subjects/{subject}/versions") == [1, 5]


async def test_settings_are_not_changed_in_read_only_modes(registry: Registry) -> None:
    subject = new_name()
    await registry.put(f"/config/{subject}", {"compatibility": "FULL"})
    for mode in ("READONLY", "READONLY_OVERRIDE"):
        await registry.put(f"/mode/{subject}", {"mode": mode})
        put = await registry.send("PUT", f"/config/{subject}", {"compatibility": "NONE"})
        assert_error(put, 42205, "read-only mode")
        assert_error(await registry.send("DELETE", f"/config/{subject}"), 42205, "read-only mode")
    assert await registry.get(f"/config/{subject}") == {"compatibilityLevel": "FULL"}
    await registry.put(f"/mode/{subject}", {"mode": "READWRITE"})
    await registry.put(f"/config/{subject}", {"compatibility": "NONE"})
    await registry.put("/mode/:.closed:", {"mode": "READONLY"})
    put = await registry.send("PUT", "/config/:.closed:", {"compatibility": "NONE"})
    assert_error(put, 42205)
    put = await registry.send("PUT", f"/config/:.closed:{subject}", {"compatibility": "NONE"})
    assert_error(put, 42205)


async def test_the_mode_null_removes_a_mode(registry: Registry) -> None:
    subject = new_name()
    await registry.put(f"/mode/{subject}", {"mode": "READONLY"})
    assert await registry.put(f"/mode/{subject}", {"mode": None}) == {"mode": "READONLY"}
    assert_error(await registry.send("GET", f"/mode/{subject}"), 40409)
    assert await registry.get(f"/mode/{subject}?defaultToGlobal=true") == {"mode": "READWRITE"}
    await registry.register(subject, record("a"))
    await registry.put("/mode", {"mode": "READONLY"})
    await registry.put("/mode", {"mode": None})
    assert await registry.get("/mode") == {"mode": "READWRITE"}


async def test_an_override_of_the_mode_is_shown_and_holds_everywhere(registry: Registry) -> None:
    subject, inner = new_name(), f":.overridden:{new_name()}"
    for name in (subject, inner):
        await registry.register(name, record("a"))
        await registry.put(f"/mode/{name}", {"mode": "READWRITE"})
    override = {"mode": "READONLY_OVERRIDE"}
    try:
        assert await registry.put("/mode", override) == override
        for path in ("", f"/{subject}", f"/{inner}", f"/{new_name()}", "/:.overridden:"):
            assert await registry.get(f"/mode{path}") == override, path
        for name in (subject, inner):
            refused = await registry.try_register(name, record("a", "b", defaults=True))
            assert_error(refused, 42205, "read-only mode")
            assert_error(await registry.send("DELETE", f"/subjects/{name}"), 42205)
            put = await registry.send("PUT", f"/config/{name}", {"compatibility": "NONE"})
            assert_error(put, 42205)
    finally:
        assert await registry.delete("/mode") == override
    for name in (subject, inner):
        assert await registry.get(f"/mode/{name}") == {"mode": "READWRITE"}
        await registry.register(name, record("a", "b", defaults=True))


async def test_imports_keep_ids_and_never_give_one_two_texts(registry: Registry) -> None:
    first, second = new_name(), new_name()
    for subject in (first, second):
        await registry.put(f"/mode/{subject}", {"mode": "IMPORT"})
    assert await registry.register(first, record("a"), id=100, version=3) == 100
    assert await registry.register(first, record("a"), id=100, version=3) == 100
    assert await registry.register(second, record("a"), id=100) == 100
    assert_error(await registry.try_register(second, record("x"), id=100), 42205, "Overwrite")
    assert_error(await registry.try_register(first, record("x"), id=101, version=3), 42205)
    assert await registry.register(first, record("x"), id=101, version=1) == 101
    assert await registry.get(f"/subjects/{first}/versions") == [1, 3]
    assert (await registry.get("/schemas/ids/100"))["schema"] == record("a")
    for subject in (first, second):
        await registry.put(f"/mode/{subject}", {"mode": "READWRITE"})
    # Registrations go on in the node's own range.
    assert await registry.register(first, record("a", "y", defaults=True)) >= 2**20


async def test_contexts_have_ids_subjects_and_settings_of_their_own(registry: Registry) -> None:
    subject, text = new_name(), record("a")
    await registry.register(subject, text)
    assert await registry.register(f":.team:{subject}", text) == 1
    other = registry.within(".team")
    assert await other.register(subject, record("a", "b", defaults=True)) == 2
    assert (await registry.get("/contexts"))[0] == "."
    assert await registry.get("/contexts?contextPrefix=.team") == [".team"]
    assert await other.get("/subjects") == [subject]
    assert await registry.get("/subjects?subjectPrefix=:.team:") == [f":.team:{subject}"]
    assert f":.team:{subject}" in await registry.get("/subjects")
    assert await registry.get("/subjects?subjectPrefix=") == [
        name for name in await registry.get("/subjects") if not name.startswith(":")
    ]
    assert (await registry.get(f"/subjects/:.team:{subject}/versions/2"))["id"] == 2
    assert (await other.get("/schemas/ids/1"))["schema"] == text
    assert_error(await registry.send("GET", "/schemas/ids/1"), 40403)
    assert (await registry.get(f"/schemas/ids/1?subject=:.team:{subject}"))["schema"] == text
    await registry.put("/config/:.team:", {"compatibility": "NONE"})
    assert await other.get("/config") == {"compatibilityLevel": "NONE"}
    assert await registry.get("/config") == {"compatibilityLevel": "BACKWARD"}
    await registry.put("/config/:.__GLOBAL:", {"compatibility": "FULL"})
    shown = await registry.get(f"/config/:.other:{subject}?defaultToGlobal=true")
    assert shown == {"compatibilityLevel": "FULL"}
    await registry.delete("/config/:.__GLOBAL:")
    assert_error(await registry.try_register(":.__GLOBAL:x", text), 400)
    assert_error(await registry.send("DELETE", "/contexts/.team"), 42211)
    await registry.delete(f"/subjects/:.team:{subject}")
    await registry.delete(f"/subjects/:.team:{subject}?permanent=true")
    assert (await registry.send("DELETE", "/contexts/.team")).status == 204
    assert ".team" not in await registry.get("/contexts")


async def test_a_contract_is_kept_merged_and_inherited(registry: Registry) -> None:
    subject = new_name()
    await registry.put(
        f"/config/{subject}",
        {
            "compatibility": "NONE",
            "defaultMetadata": {"properties": {"team": "a", "tier": "1"}},
            "overrideMetadata": {"properties": {"tier": "9"}},
            "defaultRuleSet": {"domainRules": [RULE]},
        },
    )
    metadata = {"properties": {"tier": "2", "owner": "me"}, "sensitive": ["owner"]}
    answer = await registry.try_register(subject, record("a"), metadata=metadata)
    merged = {
        "properties": {"team": "a", "tier": "9", "owner": "me"},
        "sensitive": ["owner"],
    }
    assert answer.json["metadata"] == merged
    shown = await registry.get(f"/subjects/{subject}/versions/1")
    assert shown["metadata"] == merged
    assert shown["ruleSet"] == {"domainRules": [RULE]}
    await registry.register(subject, record("b"))
    assert (await registry.get(f"/subjects/{subject}/versions/2"))["metadata"] == merged
    # The same text is found with the contract that a registration would give it.
    found = await registry.send("POST", f"/subjects/{subject}", {"schema": record("b")})
    assert found.json["version"] == 2
    query = "key=owner&value=me&key=tier&value=9"
    assert (await registry.get(f"/subjects/{subject}/metadata?{query}"))["version"] == 2
    missing = await registry.send("GET", f"/subjects/{subject}/metadata?key=owner&value=you")
    assert_error(missing, 40403)


async def test_another_contract_is_another_schema(registry: Registry) -> None:
    subject, text = new_name(), record("a")
    ids = {
        await registry.register(subject, text, metadata={"properties": {"n": str(number)}})
        for number in range(3)
    }
    assert len(ids) == 3
    assert await registry.get(f"/subjects/{subject}/versions") == [1, 2, 3]


@pytest.mark.parametrize(
    "changed",
    [{"name": ""}, {"name": "1x"}, {"kind": "SOME"}, {"mode": "UPGRADE"}, {"type": ""}],
)
async def test_rules_that_nobody_could_apply_are_refused(
    registry: Registry, changed: dict[str, str]
) -> None:
    rules = {"domainRules": [{**RULE, **changed}]}
    assert_error(await registry.try_register(new_name(), record("a"), ruleSet=rules), 42210)
    answer = await registry.send("PUT", "/config/x", {"overrideRuleSet": rules})
    assert_error(answer, 42210)


async def test_rules_have_a_kind_and_a_mode_by_default(registry: Registry) -> None:
    subject = new_name()
    bare = {"name": "check", "type": "CEL"}
    full = {**bare, "kind": "TRANSFORM", "mode": "WRITEREAD", "disabled": False}
    answer = await registry.try_register(
        subject, record("a"), ruleSet={"domainRules": [bare, {**bare, "name": "b", "kind": None}]}
    )
    shown = {"domainRules": [full, {**full, "name": "b"}]}
    assert (await registry.get(f"/subjects/{subject}/versions/1"))["ruleSet"] == shown
    again = await registry.try_register(subject, record("a"), ruleSet=shown)
    assert again.json["id"] == answer.json["id"]
    config = await registry.put(f"/config/{subject}", {"defaultRuleSet": {"encodingRules": [bare]}})
    assert config == {"defaultRuleSet": {"encodingRules": [full]}}


async def test_the_property_of_the_version_follows_the_version(registry: Registry) -> None:
    subject = new_name()
    await registry.put(f"/config/{subject}", {"compatibility": "NONE"})
    metadata = {"properties": {"confluent:version": "7"}}
    await registry.register(subject, record("a"), metadata=metadata)
    shown = await registry.get(f"/subjects/{subject}/versions/1")
    assert shown["metadata"]["properties"] == {"confluent:version": "1"}
    await registry.register(subject, record("b"))
    shown = await registry.get(f"/subjects/{subject}/versions/2")
    assert shown["metadata"]["properties"] == {"confluent:version": "2"}


async def test_normalized_texts_are_equal(registry: Registry) -> None:
    subject = new_name()
    id = await registry.register(subject, '{"type":"object","title":"T"}', schemaType="JSON")
    other = '{"title":"T","type":"object"}'
    path = f"/subjects/{subject}/versions?normalize=true"
    body = {"schema": other, "schemaType": "JSON"}
    normal = (await registry.send("POST", path, body)).json["id"]
    again = {**body, "schema": '{"type":"object","title":"T"}'}
    assert (await registry.send("POST", path, again)).json["id"] == normal
    assert normal in (id, id + 1)
