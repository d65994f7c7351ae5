"""Registries of the Confluent API are followed with everything that clients see of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from typer.testing import CliRunner

from catalog.cli import app
from catalog.client import ClientError
from replication.applying.deletionlimit import TooManyDeletions
from replication.routes import routes
from tests.integration.conftest import Node, start_node
from tests.integration.federation import databases
from tests.integration.schemaregistry import (
    KARAPACE,
    REDPANDA,
    ROOT,
    contents,
    delete,
    record,
    register,
    registry_of,
    settings,
)
from tests.integration.walking import Walker, replicas, walking

HERE = ".old"
NAMED = {"prefix": "old.", "map": {"schemagroups/default": "schemagroups/old"}}
OLDER = [pytest.param((), id="confluent 8"), pytest.param(KARAPACE, id="karapace")]
SERVERS = [*OLDER, pytest.param(REDPANDA, id="redpanda")]


@pytest.fixture
async def pair(postgres_url: str, template: str) -> AsyncIterator[tuple[Node, Node]]:
    async with (
        databases(postgres_url, template, 2) as (one, two),
        start_node(one) as source,
        start_node(two, routes=routes) as target,
    ):
        yield source, target


async def fill(source: Node) -> None:
    """Subjects of all types, with references, contracts, deletions, settings and odd names."""
    await register(source, "orders-value", record("Order", "id"))
    await register(source, "orders-value", record("Order", "id", "at"))
    await register(source, "orders-value", record("Order", "id", "at", "by"))
    await delete(source, "orders-value", 2)
    await register(source, "payments-value", record("Order", "id"))
    await register(source, "gone", record("Gone", "x"))
    await delete(source, "gone")
    await register(source, "never", record("Never", "x"))
    await delete(source, "never", permanent=True)
    await register(source, "a/b: c?", record("Odd", "x"))
    await register(source, "Case", record("Upper", "x"))
    await register(source, "case", record("Lower", "x"))
    address = record("Address", "street")
    await register(source, "address", address)
    person = '{"type":"record","name":"Person","fields":[{"name":"home","type":"Address"}]}'
    reference = {"name": "Address", "subject": "address", "version": 1}
    await register(source, "person", person, references=[reference])
    await register(source, "json", '{"type":"object"}', schemaType="JSON")
    proto = 'syntax = "proto3";\npackage p;\n\nmessage M {\n  string a = 1;\n}\n'
    await register(source, "proto", proto, schemaType="PROTOBUF")
    rules = {"domainRules": [{"name": "r", "kind": "CONDITION", "mode": "WRITE", "type": "CEL"}]}
    metadata = {"properties": {"owner": "me"}, "tags": {"x": ["PII"]}}
    await register(source, "contract", record("C", "x"), metadata=metadata, ruleSet=rules)
    await settings(source, "config", "", compatibility="FULL")
    await settings(source, "config", "orders-value", compatibility="FORWARD", normalize=True)
    await settings(source, "mode", "json", mode="READONLY")


async def walk_brings_nothing(walker: Walker) -> None:
    logged = await walker.node.logged()
    again = await walker.walk()
    assert (again.changes, again.deleted) == (0, 0)
    assert await walker.node.logged() == logged


def without(shown: dict[str, Any], *names: str) -> dict[str, Any]:
    return {
        key: {name: value for name, value in each.items() if name not in names}
        for key, each in shown.items()
    }


@pytest.mark.parametrize("hidden", SERVERS)
async def test_all_that_a_registry_shows_is_followed(
    pair: tuple[Node, Node], hidden: tuple[str, ...]
) -> None:
    source, target = pair
    await fill(source)
    async with (
        registry_of(source, hidden) as registry,
        walking(target, registry, dialect="confluent", **NAMED) as walker,
    ):
        await walker.walk()
        assert await walker.conflicts() == {}
        expected = await contents(source)
        assert len(expected) == 13
        assert expected["orders-value 2"]["deleted"] is True
        assert await contents(target, HERE) == expected
        # What clients ask for.
        for key, version in expected.items():
            subject = key.rpartition(" ")[0]
            path = f"{ROOT}/contexts/{HERE}/schemas/ids/{version['id']}"
            assert (await target.get(path))["schema"] == version["schema"], subject
        listed = f"/contexts/{HERE}/subjects"
        assert await target.get(ROOT + listed) == await source.get(f"{ROOT}/subjects")
        assert await target.get(f"{ROOT}/contexts/{HERE}/subjects/address/versions/1/referencedby")
        assert (await target.get(f"{ROOT}/config/:{HERE}:"))["compatibilityLevel"] == "FULL"
        own = await target.get(f"{ROOT}/config/:{HERE}:orders-value")
        assert own == await source.get(f"{ROOT}/config/orders-value")
        assert await target.get(f"{ROOT}/contexts") == [".", HERE]
        assert await target.get(f"{ROOT}/subjects?subjectPrefix=") == [], "only in its own context"
        await walk_brings_nothing(walker)
        await walker.begin_anew()
        await walk_brings_nothing(walker)


@pytest.mark.parametrize("hidden", SERVERS)
async def test_changes_come_with_the_next_walk(
    pair: tuple[Node, Node], hidden: tuple[str, ...]
) -> None:
    source, target = pair
    await fill(source)
    async with (
        registry_of(source, hidden) as registry,
        walking(target, registry, dialect="confluent", **NAMED) as walker,
    ):
        await walker.walk()
        await register(source, "payments-value", record("Order", "id", "at"))
        await register(source, "new", record("New", "x"))
        await delete(source, "orders-value", 1)
        await delete(source, "case")
        await delete(source, "a/b: c?", permanent=True)
        await settings(source, "config", "new", compatibility="NONE")
        walked = await walker.walk()
        assert await contents(target, HERE) == await contents(source)
        assert walked.deleted == 2, "the resource and its version"
        assert (await target.get(f"{ROOT}/config/:{HERE}:new"))["compatibilityLevel"] == "NONE"
        assert await walker.conflicts() == {}
        await walk_brings_nothing(walker)
        # A subject that begins anew has other texts under the same numbers.
        await delete(source, "payments-value", permanent=True)
        await register(source, "payments-value", record("Other", "x"))
        await register(source, "payments-value", record("Other", "x", "y"))
        await walker.walk()
        assert await contents(target, HERE) == await contents(source)
        await walk_brings_nothing(walker)


async def add(target: Node, source: str, **definition: Any) -> Any:
    return (await target.send("POST", "/replication/links", {"source": source, **definition})).json


async def test_the_api_is_found_below_a_url_and_the_host_names_the_context(
    pair: tuple[Node, Node],
) -> None:
    source, target = pair
    await register(source, "s", record("R", "x"))
    for below in ("", "/confluent", "/apis/ccompat/v7"):
        async with registry_of(source, KARAPACE, below=below) as registry:
            url = registry.url.removesuffix(below)
            found = await add(target, url, mode="walk")
            assert (found["dialect"], found["found"]["authority"]) == ("confluent", url)
            name = url.removeprefix("http://").replace(":", "-")
            assert found["prefix"] == f"{name}."
            assert found["map"] == {"schemagroups/default": f"schemagroups/{name}"}
            # Without a mode, a server that offers no replication is walked by what it has.
            assert (await add(target, url))["dialect"] == "confluent"
            own = await add(target, url, dialect="confluent", mode="walk", prefix="mine-")
            assert (own["prefix"], own["map"]) == ("mine-", {})
    # A Concord node is followed as a node unless the API is named.
    found = await add(target, source.url, mode="walk", dialect="confluent")
    assert "found" in found, found["title"]
    assert found["found"]["software"].startswith("Confluent API")
    context = await add(target, f"{source.url}{ROOT}/contexts/.a.b", mode="walk")
    assert context["prefix"].endswith("-a.b.")
    refused = await add(target, "http://127.0.0.1:9", mode="walk", dialect="confluent")
    assert refused["type"].endswith("source_unusable")


async def test_contexts_become_groups_with_the_references_between_them(
    pair: tuple[Node, Node],
) -> None:
    source, target = pair
    await register(source, "address", record("Address", "street"))
    await register(source, ":.team:address", record("Address", "city"))
    await register(source, ":.Team:x", record("X", "x"))
    await register(source, ":.default:x", record("X", "x"))
    person = '{"type":"record","name":"Person","fields":[{"name":"home","type":"Address"}]}'
    for subject, named in (
        ("own", "address"),
        (":.team:own", "address"),
        (":.team:others", ":.:address"),
        ("others", ":.team:address"),
    ):
        reference = {"name": "Address", "subject": named, "version": 1}
        await register(source, subject, person, references=[reference])
    await settings(source, "config", ":.team:", compatibility="NONE")
    await settings(source, "mode", ":.empty:", mode="READONLY")
    async with (
        registry_of(source) as registry,
        walking(target, registry, dialect="confluent", **NAMED) as walker,
    ):
        await walker.walk()
        assert await walker.conflicts() == {}
        contexts = await target.get(f"{ROOT}/contexts")
        assert {".", ".old", ".old.team", ".old.empty"} < set(contexts)
        assert len(contexts) == 6, "names that differ in case, and that of the default group"
        groups = await target.get("/schemagroups")
        by_source = {each["confluent"]["source"]["context"]: gid for gid, each in groups.items()}
        assert by_source.keys() == {".", ".team", ".Team", ".default", ".empty"}
        for name, gid in by_source.items():
            own = await contents(source, "" if name == "." else name)
            assert {key for key in own if not key.startswith(":")} == {
                *(await contents(target, f".{gid}"))
            }
            for key in [key for key in own if not key.startswith(":")]:
                subject = key.rpartition(" ")[0]
                path = f"{ROOT}/contexts/.{gid}/subjects/{subject}/versions/1?format=resolved"
                there = ROOT if name == "." else f"{ROOT}/contexts/{name}"
                wanted = await source.get(f"{there}/subjects/{subject}/versions/1?format=resolved")
                assert (await target.get(path))["schema"] == wanted["schema"]
        assert (await target.get(f"{ROOT}/config/:.old.team:"))["compatibilityLevel"] == "NONE"
        # A context that is gone is deleted.
        answer = await source.send("DELETE", f"{ROOT}/subjects/:.default:x")
        answer = await source.send("DELETE", f"{ROOT}/subjects/:.default:x?permanent=true")
        answer = await source.send("DELETE", f"{ROOT}/contexts/.default")
        assert answer.status == 204, answer.body
        await walker.walk()
        assert by_source[".default"] not in await target.get("/schemagroups")
        await walk_brings_nothing(walker)


async def test_two_registries_with_the_same_ids_live_side_by_side(
    postgres_url: str, template: str
) -> None:
    async with (
        databases(postgres_url, template, 3) as dsns,
        start_node(dsns[0], confluent_first_id=1) as one,
        start_node(dsns[1], confluent_first_id=1) as two,
        start_node(dsns[2], routes=routes) as target,
        registry_of(one) as first,
        registry_of(two) as second,
    ):
        assert await register(one, "s", record("One", "x")) == 1
        assert await register(two, "s", record("Two", "x")) == 1
        async with walking(target, first, dialect="confluent", **NAMED) as walker:
            await walker.walk()
        await target.send("DELETE", "/replication/links/foreign")
        names = {"prefix": "new.", "map": {"schemagroups/default": "schemagroups/new"}}
        async with walking(target, second, dialect="confluent", **names) as walker:
            await walker.walk()
            assert await walker.conflicts() == {}
        for context, name in ((".old", "One"), (".new", "Two")):
            found = await target.get(f"{ROOT}/contexts/{context}/schemas/ids/1")
            assert f'"name":"{name}"' in found["schema"]
            by_guid = await target.get(f"{ROOT}/schemas/guids/{found['guid']}/ids")
            assert by_guid == [{"context": context, "id": 1}]
        assert (await target.send("GET", f"{ROOT}/schemas/ids/1")).status == 404


@pytest.mark.parametrize("hidden", SERVERS)
async def test_texts_of_registries_without_guids_become_canonical(
    pair: tuple[Node, Node], hidden: tuple[str, ...]
) -> None:
    source, target = pair
    id = await register(source, "s", record("R", "x"))
    async with (
        registry_of(source, hidden) as registry,
        walking(target, registry, dialect="confluent", **NAMED) as walker,
    ):
        shown = (await source.get(f"{ROOT}/schemas?deleted=true"))[0]
        raw = {**shown, "schema": record("R", "x", space=" "), "guid": "f" * 32}
        raw = {name: value for name, value in raw.items() if name not in hidden}
        registry.spoilt = {"/schemas": [raw], "/subjects/s/versions/1": raw}
        await walker.walk()
        assert await walker.conflicts() == {}
        found = (await contents(target, HERE))["s 1"]
        assert (found["schema"], found["id"]) == (record("R", "x"), id)
        assert found["guid"] == shown["guid"], "it was computed here"
        # Producers register what they know at each start, and get the id.
        path = f"{ROOT}/contexts/{HERE}/subjects/s/versions"
        answer = await target.send("POST", path, {"schema": record("R", "x", space="  ")})
        assert (answer.status, answer.json["id"]) == (200, id)
        answer = await target.send("POST", path, {"schema": record("R", "x", "y")})
        assert answer.json["error_code"] == 42205
        assert registry.url in answer.json["message"]


async def test_a_guid_of_another_schema_is_not_believed(pair: tuple[Node, Node]) -> None:
    source, target = pair
    await register(target, "own", record("Own", "x"))
    own = await target.get(f"{ROOT}/subjects/own/versions/1")
    await register(source, "s", record("R", "x"))
    async with (
        registry_of(source) as registry,
        walking(target, registry, dialect="confluent", **NAMED) as walker,
    ):
        shown = (await source.get(f"{ROOT}/schemas"))[0]
        registry.spoilt = {"/schemas": [{**shown, "guid": own["guid"]}]}
        await walker.walk()
        found = (await contents(target, HERE))["s 1"]
        assert found["guid"] == shown["guid"]


@pytest.mark.parametrize("hidden", SERVERS)
async def test_what_is_no_version_is_a_conflict_and_the_rest_flows(
    pair: tuple[Node, Node], hidden: tuple[str, ...]
) -> None:
    source, target = pair
    for name in "ab":
        await register(source, name, record("R", "x"))
    shown = {each["subject"]: each for each in await source.get(f"{ROOT}/schemas")}
    async with (
        registry_of(source, hidden) as registry,
        walking(target, registry, dialect="confluent", **NAMED) as walker,
    ):
        for fault in (
            {"id": "1"},
            {"id": -1},
            {"id": 2**31},
            {"id": True},
            {"schema": None},
            {"schema": ["x"]},
            {"schemaType": "XML"},
            {"references": {"a": 1}},
            {"references": [1]},
            {"references": [{"name": "x", "subject": "y", "version": "z"}]},
            {"metadata": [1]},
            {"ruleSet": {"domainRules": 1}},
            {"metadata": {"properties": {"a": "\0"}}},
        ):
            spoilt = {**shown["a"], **fault}
            registry.spoilt = {
                "/schemas": [spoilt, shown["b"]],
                "/subjects/a/versions/1": spoilt,
            }
            await walker.begin_anew()
            await walker.walk()
            assert [*await walker.conflicts()] == ["/schemagroups/default/schemas/a/versions/1"], (
                fault
            )
            assert [*await contents(target, HERE)] == ["b 1"]
        registry.spoilt = {}
        await walker.walk()
        assert await walker.conflicts() == {}
        assert [*await contents(target, HERE)] == ["a 1", "b 1"]


async def test_lists_that_are_none_end_the_walk_and_delete_nothing(
    pair: tuple[Node, Node],
) -> None:
    source, target = pair
    await register(source, "s", record("R", "x"))
    async with (
        registry_of(source) as registry,
        walking(target, registry, dialect="confluent", **NAMED) as walker,
    ):
        await walker.walk()
        others: list[Any] = [{}, "x", None, 1]
        for spoilt in others:
            registry.spoilt = {"/subjects": spoilt}
            with pytest.raises(ClientError):
                await walker.walk()
        # A list that lacks a subject is no proof.
        registry.spoilt = {"/subjects": []}
        assert (await walker.walk()).deleted == 0
        # Members that are no names, and names that nobody can register.
        registry.spoilt = {"/subjects": [1, None, {}, "s", "", "__EMPTY", "a\nb", "x" * 2000]}
        await walker.begin_anew()
        await walker.walk()
        assert len(await walker.conflicts()) == 4
        assert [*await contents(target, HERE)] == ["s 1"]


async def test_settings_that_are_none_are_left_out(pair: tuple[Node, Node]) -> None:
    source, target = pair
    await register(source, "s", record("R", "x"))
    async with (
        registry_of(source) as registry,
        walking(target, registry, dialect="confluent", **NAMED) as walker,
    ):
        registry.spoilt = {
            "/config": {"compatibilityLevel": "FULL", "unknown": 1},
            "/config/s": {"compatibilityLevel": "SOMETHING"},
            "/mode": [1],
            "/mode/s": {"mode": 1},
        }
        await walker.walk()
        [[xid, reason]] = (await walker.conflicts()).items()
        assert xid == "/schemagroups/default/settings"
        assert "unknown here" in reason
        assert (await target.get(f"{ROOT}/config/:{HERE}:"))["compatibilityLevel"] == "FULL"
        assert [*await contents(target, HERE)] == ["s 1"]
        registry.spoilt = {}
        await walker.walk()
        assert await walker.conflicts() == {}


async def test_references_in_a_circle_end(pair: tuple[Node, Node]) -> None:
    source, target = pair
    await register(source, "a", record("A", "x"))
    shown = (await source.get(f"{ROOT}/schemas"))[0]
    reference = {"name": "b", "subject": "a", "version": 1}
    spoilt = {**shown, "references": [reference], "schema": '{ "type": "b" }'}
    async with (
        registry_of(source, KARAPACE) as registry,
        walking(target, registry, dialect="confluent", **NAMED) as walker,
    ):
        registry.spoilt = {"/schemas": [spoilt], "/subjects/a/versions/1": spoilt}
        await walker.walk()
        found = (await contents(target, HERE))["a 1"]
        assert (found["schema"], found["references"]) == (spoilt["schema"], [reference])


@pytest.mark.parametrize("hidden", SERVERS)
async def test_an_unchanged_registry_costs_few_requests(
    pair: tuple[Node, Node], hidden: tuple[str, ...]
) -> None:
    source, target = pair
    for number in range(30):
        await register(source, f"s{number}", record("R", "x"))
        await register(source, f"s{number}", record("R", "x", "y"))
    async with (
        registry_of(source, hidden) as registry,
        walking(target, registry, dialect="confluent", **NAMED) as walker,
    ):
        await walker.walk()
        assert len(await contents(target, HERE)) == 60
        registry.requests.clear()
        walked = await walker.walk()
        assert walked.entities == 1, "only the group is looked at"
        texts = {p: n for p, n in registry.requests.items() if "/versions/" in p}
        if hidden == REDPANDA:
            assert texts == {f"/subjects/s{n}/versions/latest": 1 for n in range(30)}
        else:
            assert texts == {}
            assert registry.requests["/schemas"] <= 4


async def test_large_lists_come_in_pages(
    pair: tuple[Node, Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = pair
    monkeypatch.setattr("replication.readers.confluentreader._LISTED", 7)
    monkeypatch.setattr("replication.readers.confluentreader._NAMED", 3)
    for number in range(10):
        for each in range(3):
            fields = [f"f{n}" for n in range(each + 1)]
            await register(source, f"s{number}", record("R", *fields))
    async with (
        registry_of(source) as registry,
        walking(target, registry, dialect="confluent", **NAMED) as walker,
    ):
        await walker.walk()
        assert await contents(target, HERE) == await contents(source)
        assert registry.requests["/schemas"] == 6
        await walk_brings_nothing(walker)


async def test_a_list_too_large_for_an_answer_is_read_in_smaller_parts(
    postgres_url: str, template: str
) -> None:
    async with (
        databases(postgres_url, template, 2) as (one, two),
        start_node(one) as source,
        start_node(two, routes=routes, max_body_bytes=64 * 1024) as target,
    ):
        for number in range(30):
            text = record("R", *(f"{'field' * 10}{number}_{each}" for each in range(60)))
            await register(source, f"s{number}", text)
        for hidden in ((), KARAPACE):
            names = {"prefix": f"h{len(hidden)}."}
            async with (
                registry_of(source, hidden) as registry,
                walking(target, registry, dialect="confluent", **names) as walker,
            ):
                await walker.walk()
                context = f".h{len(hidden)}.default"
                assert await contents(target, context) == await contents(source)
            await target.send("DELETE", "/replication/links/foreign")


async def test_a_scope_and_a_dry_run_hold(pair: tuple[Node, Node]) -> None:
    source, target = pair
    await fill(source)
    await register(source, ":.team:x", record("X", "x"))
    scope = ["/schemagroups/default/schemas/orders-value", "/schemagroups/team"]
    async with registry_of(source) as registry:
        body = {"source": registry.url, "mode": "walk", "scope": scope, "dialect": "confluent"}
        tried = (await target.send("POST", "/replication/links?dryrun", {**body, **NAMED})).json
        assert tried["isdecided"], tried
        assert tried["outcomes"]["created"]["number"] == 2 + 1 + 3 + 2
        async with walking(target, registry, dialect="confluent", scope=scope, **NAMED) as walker:
            await walker.walk()
            assert await walker.conflicts() == {}
            assert {*await contents(target, HERE)} == {f"orders-value {n}" for n in (1, 2, 3)}
            assert [*await contents(target, ".old.team")] == ["x 1"]
            path = "/replication/links/foreign/run?dryrun"
            tried = (await target.send("POST", path, {})).json
            assert (tried["differing"], tried["isdecided"]) == (0, True)
            await walk_brings_nothing(walker)


async def test_a_registry_that_lost_everything_is_asked_about(pair: tuple[Node, Node]) -> None:
    source, target = pair
    for number in range(120):
        await register(source, f"s{number}", record("R", "x"))
    async with (
        registry_of(source) as registry,
        walking(target, registry, dialect="confluent", **NAMED) as walker,
    ):
        await walker.walk()
        registry.hidden = ("/schemas", *registry.hidden)
        registry.spoilt = {"/subjects": []}
        registry.is_empty = True
        with pytest.raises(TooManyDeletions):
            await walker.walk()
        assert len(await contents(target, HERE)) == 120


async def test_what_was_followed_is_adopted_and_clients_go_on(pair: tuple[Node, Node]) -> None:
    source, target = pair
    await fill(source)
    await register(source, ":.team:x", record("X", "x"))
    await settings(source, "mode", "", mode="READONLY")
    link = "/replication/links/foreign"
    async with (
        registry_of(source) as registry,
        walking(target, registry, dialect="confluent", **NAMED) as walker,
    ):
        await walker.walk()
        expected = await contents(source)
        highest = max(each["id"] for each in expected.values())
        refused = await target.send("POST", f"{link}/adopt", {})
        assert "paused first" in refused.json["title"]
        await target.send("PATCH", link, {"paused": True})
        answer = await target.send("POST", f"{link}/adopt?default", {})
        assert answer.status == 200, answer.body
        assert answer.json["groups"] == ["/schemagroups/old", "/schemagroups/old.team"]
        # Once more, there is nothing left to adopt; the default context is there.
        assert (await target.send("POST", f"{link}/adopt", {})).json["groups"] == []
        again = await target.send("POST", f"{link}/adopt?default", {})
        assert again.error == "handover_refused"
        await target.send("DELETE", link)
    assert await contents(target) == expected
    assert [*await contents(target, ".old.team")] == ["x 1"]
    assert await target.get(f"{ROOT}/contexts") == [".", ".old.team"]
    resource = "/schemagroups/old/schemas/orders-value"
    assert (await target.get(f"{resource}/meta"))["readonly"] is False
    assert await replicas(target, registry.url) == {}, "digests of all rows are right"
    path = f"{ROOT}/subjects/orders-value/versions"
    answer = await target.send("POST", path, {"schema": record("Order", "id", "new")})
    assert answer.json["error_code"] == 42205, "the registry was made read-only"
    await settings(target, "mode", "", mode="READWRITE")
    for version in expected.values():
        if version.get("deleted"):
            continue
        found = await target.get(f"{ROOT}/schemas/ids/{version['id']}")
        assert found["schema"] == version["schema"]
    assert (
        await register(target, "orders-value", record("Order", "id", "at", "by"))
        == (expected["orders-value 3"]["id"])
    )
    new = await register(target, "orders-value", record("Order", "id", "at", "by", "more"))
    assert new not in {each["id"] for each in expected.values()}
    assert new != highest
    own = await target.get(f"{ROOT}/subjects/orders-value/versions")
    assert own == [1, 3, 4]
    reference = {"name": "Address", "subject": "address", "version": 1}
    other = '{"type":"record","name":"Other","fields":[{"name":"home","type":"Address"}]}'
    assert await register(target, "other", other, references=[reference])
    await delete(target, "other", permanent=True)


async def test_a_registry_that_asks_gets_a_token_or_a_password(pair: tuple[Node, Node]) -> None:
    source, target = pair
    await register(source, "s", record("R", "x"))
    for name, wants, credential in (
        ("bearer", "Bearer abc", {"token": "abc"}),
        ("basic", "Basic a2V5OnNlOmNyZXQ=", {"basic": {"user": "key", "password": "se:cret"}}),
    ):
        async with registry_of(source, KARAPACE) as registry:
            registry.wants = wants
            refused = await add(target, registry.url, mode="walk", dialect="confluent")
            assert refused["type"].endswith("source_unusable")
            names = {"map": {"schemagroups/default": f"schemagroups/{name}"}}
            async with walking(
                target, registry, dialect="confluent", credential=credential, **names
            ) as walker:
                await walker.walk()
                assert [*await contents(target, f".{name}")] == ["s 1"]
                shown = (await walker.link())["credential"]
                assert "abc" not in str(shown)
                assert "se:cret" not in str(shown)
                registry.wants = "Bearer another"
                with pytest.raises(ClientError):
                    await walker.walk()
            await target.send("DELETE", "/replication/links/foreign")
    both = {"token": "abc", "basic": {"user": "u", "password": "p"}}
    answer = await add(target, source.url, mode="walk", credential=both)
    assert answer["type"].endswith("invalid_attribute")
    for user in ("", "a:b", "\n"):
        wrong = {"basic": {"user": user, "password": "p"}}
        answer = await add(target, source.url, mode="walk", credential=wrong)
        assert answer["type"].endswith("invalid_attribute")


async def test_the_command_adds_and_adopts(pair: tuple[Node, Node]) -> None:
    source, target = pair
    await register(source, "s", record("R", "x"))

    async def concord(*words: str, **environment: str) -> str:
        done = await asyncio.to_thread(
            CliRunner().invoke, app, [*words, "--url", target.url], env=environment
        )
        return f"{done.exit_code} {' '.join(done.output.split())}"

    async with registry_of(source, KARAPACE) as registry:
        registry.wants = "Basic a2V5OnNlOmNyZXQ="
        add = ("link", "add", registry.url, "--id", "old", "--dialect", "confluent")
        shown = ("--context", ".legacy", "--user", "key", "--password-from", "SECRET")
        told = await concord(*add, *shown, SECRET="se:cret")
        assert told.startswith("0 Link old follows"), told
        assert "Confluent API" in told
        link = await target.get("/replication/links/old")
        assert link["prefix"] == "legacy."
        assert link["map"] == {"schemagroups/default": "schemagroups/legacy"}
        told = await concord("link", "add", registry.url, "--context", "x")
        assert told.startswith("2 "), told
        assert "--dialect confluent" in told
        assert (await concord("link", "adopt", "old"))[0] != "0"
        assert (await concord("link", "pause", "old"))[0] == "0"
        assert "nothing" in await concord("link", "adopt", "old", "--default")


async def test_a_subject_that_is_listed_twice_is_asked_for(pair: tuple[Node, Node]) -> None:
    source, target = pair
    await register(source, "s", record("R", "x"))
    await register(source, "s", record("R", "x", "y"))
    async with (
        registry_of(source) as registry,
        walking(target, registry, dialect="confluent", **NAMED) as walker,
    ):
        shown = await source.get(f"{ROOT}/schemas")
        others = [{**each, "id": each["id"] + 7, "schema": '"long"'} for each in shown]
        for listed in (shown + others, others + shown):
            registry.spoilt = {"/schemas": listed}
            await walker.begin_anew()
            await walker.walk()
            assert await contents(target, HERE) == await contents(source)
            await walk_brings_nothing(walker)


@pytest.mark.parametrize("hidden", SERVERS)
async def test_a_registry_with_deleted_subjects_alone_is_followed(
    pair: tuple[Node, Node], hidden: tuple[str, ...]
) -> None:
    source, target = pair
    await register(source, "s", record("R", "x"))
    await delete(source, "s")
    async with (
        registry_of(source, hidden) as registry,
        walking(target, registry, dialect="confluent", **NAMED) as walker,
    ):
        await walker.walk()
        assert (await contents(target, HERE))["s 1"]["deleted"] is True
        assert await target.get(f"{ROOT}/contexts/{HERE}/subjects") == []


async def test_a_subject_that_the_list_of_schemas_lacks_is_asked_for(
    pair: tuple[Node, Node],
) -> None:
    source, target = pair
    for name in "abc":
        await register(source, name, record("R", "x"))
    async with (
        registry_of(source) as registry,
        walking(target, registry, dialect="confluent", **NAMED) as walker,
    ):
        registry.spoilt = {"/schemas": (await source.get(f"{ROOT}/schemas"))[1:2]}
        await walker.walk()
        assert await contents(target, HERE) == await contents(source)
        await walk_brings_nothing(walker)
