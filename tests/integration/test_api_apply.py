"""`POST /apply` makes a catalog equal to what documents say, and writes nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.conftest import Answer, Node, assert_problem

GROUP = "/messagegroups/g"
MESSAGE = f"{GROUP}/messages/m"
SCHEMA = "/schemagroups/s/schemas/x"
AVRO = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
DOCUMENT: dict[str, Any] = {
    "messagegroups": {
        "g": {
            "name": "Weather",
            "labels": {"team": "a"},
            "messages": {
                "m": {
                    "description": "old",
                    "envelope": "CloudEvents/1.0",
                    "envelopemetadata": {"subject": {"value": "/a", "type": "uritemplate"}},
                },
                "n": {"meta": {"xref": MESSAGE}},
            },
        }
    },
    "schemagroups": {
        "s": {
            "schemas": {
                "x": {
                    "meta": {"compatibility": "backward"},
                    "versions": {
                        "1": {"format": "Avro/1.12.0", "schema": AVRO, "epoch": 1},
                        "2": {"format": "Avro/1.12.0", "schema": AVRO, "name": "second"},
                    },
                }
            }
        }
    },
}


def changed(document: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A document in which what lies at a path is another value; `None` takes it away."""
    name, _, rest = path.partition("/")
    if rest:
        return {**document, name: changed(document[name], rest, value)}
    kept = {key: item for key, item in document.items() if key != name}
    return kept if value is None else {**kept, name: value}


async def apply(node: Node, document: dict[str, Any], flags: str = "") -> Any:
    answer = await node.send("POST", f"/apply{flags}", document)
    assert answer.status == 200, answer.body
    return answer.json


async def refused(node: Node, document: dict[str, Any], flags: str = "") -> Answer:
    answer = await node.send("POST", f"/apply{flags}", document)
    assert_problem(answer)
    return answer


def actions(answer: Any) -> dict[str, str]:
    return {change["xid"]: change["action"] for change in answer["changes"]}


async def epochs(node: Node, *paths: str) -> list[int]:
    return [(await node.get(path))["epoch"] for path in paths]


async def test_the_first_apply_creates_everything_and_says_so(node: Node) -> None:
    answer = await apply(node, DOCUMENT)
    assert actions(answer) == dict.fromkeys(
        [
            *(GROUP, MESSAGE, f"{MESSAGE}/versions/1", f"{GROUP}/messages/n"),
            *("/schemagroups/s", SCHEMA, f"{SCHEMA}/versions/1", f"{SCHEMA}/versions/2"),
        ],
        "created",
    )
    assert (answer["created"], answer["updated"], answer["deleted"]) == (8, 0, 0)


async def test_what_is_equal_is_not_written(node: Node) -> None:
    await apply(node, DOCUMENT)
    before = await node.state()
    answer = await apply(node, DOCUMENT)
    assert answer["changes"] == []
    assert await node.state() == before


async def test_an_export_applied_to_where_it_is_from_changes_nothing(node: Node) -> None:
    await apply(node, DOCUMENT)
    await node.send(
        "PUT", f"{SCHEMA}/versions/3", body=b'{ "type":  "string" }', xRegistry_format="Avro/1.12.0"
    )
    exported = await node.get("/export")
    groups = {name: exported[name] for name in ("endpoints", "messagegroups", "schemagroups")}
    before = await node.state()
    assert (await apply(node, groups, "?prune"))["changes"] == []
    assert await node.state() == before


async def test_one_change_writes_that_entity_and_what_the_standard_says_changes_with_it(
    node: Node,
) -> None:
    await apply(node, DOCUMENT)
    paths = ("/", GROUP, f"{MESSAGE}/meta", MESSAGE, f"{SCHEMA}/versions/1$details")
    before, logged = await epochs(node, *paths), await node.logged()
    path = "messagegroups/g/messages/m/envelopemetadata/subject/value"
    answer = await apply(node, changed(DOCUMENT, path, "/b"))
    assert answer["changes"] == [
        {
            "xid": f"{MESSAGE}/versions/1",
            "action": "updated",
            "changed": ["envelopemetadata"],
            "values": [{"path": path.split("/")[4:], "old": "/a", "new": "/b"}],
        }
    ]
    root, group, meta, version, schema = before
    assert await epochs(node, *paths) == [root, group, meta, version + 1, schema]
    # The version, and the resource that shows it.
    assert await node.logged() == logged + 2


async def test_a_new_child_updates_its_parent_and_not_its_siblings(node: Node) -> None:
    await apply(node, DOCUMENT)
    before = await epochs(node, "/", GROUP, MESSAGE)
    answer = await apply(node, changed(DOCUMENT, "messagegroups/g/messages/o", {}))
    added = f"{GROUP}/messages/o"
    assert actions(answer) == {added: "created", f"{added}/versions/1": "created"}
    root, group, message = before
    assert await epochs(node, "/", GROUP, MESSAGE) == [root, group + 1, message]


async def test_a_dry_run_decides_everything_and_writes_nothing(node: Node) -> None:
    await apply(node, DOCUMENT)
    before = await node.state()
    other = changed(DOCUMENT, "messagegroups/g/name", "Rain")
    other = changed(other, "messagegroups/g/messages/n", None)
    foretold = await apply(node, other, "?dryrun&prune")
    assert actions(foretold) == {GROUP: "updated", f"{GROUP}/messages/n": "deleted"}
    assert await node.state() == before
    done = await apply(node, other, "?prune")
    assert {name: value for name, value in done.items() if name != "interaction"} == foretold
    bad = changed(DOCUMENT, "messagegroups/g/messages/m/envelope", 1)
    assert (await refused(node, bad, "?dryrun")).error == "invalid_attribute"


async def test_the_epoch_in_a_document_is_checked_only_where_it_would_write(node: Node) -> None:
    await apply(node, DOCUMENT)
    await node.send("PATCH", f"{SCHEMA}/versions/1$details", {"name": "touched"})
    await node.send("PATCH", f"{SCHEMA}/versions/1$details", {"name": None})
    assert (await apply(node, DOCUMENT))["changes"] == []
    other = changed(DOCUMENT, "schemagroups/s/schemas/x/versions/1/name", "other")
    assert (await refused(node, other)).error == "mismatched_epoch"
    answer = await apply(node, other, "?ignore=epoch")
    assert actions(answer) == {f"{SCHEMA}/versions/1": "updated"}


async def test_a_refusal_lists_every_violation(node: Node) -> None:
    bad = changed(DOCUMENT, "messagegroups/g/messages/m/envelope", 1)
    bad = changed(bad, "schemagroups/s/schemas/x/versions/1/format", None)
    bad = changed(bad, "nonsense", {})
    found = [
        each["type"].rpartition("#")[2] for each in (await refused(node, bad)).json["violations"]
    ]
    assert sorted(found) == [
        "groups_only",
        "invalid_attribute",
        "mismatched_version_attribute",
        "required_attribute_missing",
    ]
    assert (await node.send("GET", GROUP)).status == 404


async def test_a_later_time_in_a_document_is_taken_over_and_an_older_one_is_no_change(
    node: Node,
) -> None:
    def dated(time: str, name: str = "n") -> dict[str, Any]:
        return {"messagegroups": {"g": {"name": name, "modifiedat": time}}}

    await apply(node, dated("2001-01-01T00:00:00Z"))
    assert (await node.get(GROUP))["modifiedat"] == "2001-01-01T00:00:00Z"
    later = await apply(node, dated("2002-01-01T00:00:00Z"))
    assert [change["changed"] for change in later["changes"]] == [["modifiedat"]]
    assert (await apply(node, dated("2001-01-01T00:00:00Z")))["changes"] == []
    await apply(node, dated("2001-01-01T00:00:00Z", "other"))
    assert (await node.get(GROUP))["modifiedat"] > "2026"
    assert (await apply(node, dated("2002-01-01T00:00:00Z", "other")))["changes"] == []


async def test_true_is_not_one_and_layout_is_not_content(node: Node) -> None:
    def versions(value: Any, schema: Any) -> dict[str, Any]:
        version = {"format": "Avro/1.12.0", "schema": schema, "labels": {"a": "b"}, "flag": value}
        return {"schemagroups": {"s": {"schemas": {"x": {"versions": {"1": version}}}}}}

    await apply(node, versions(1, AVRO))
    other_order = dict(reversed(AVRO.items()))
    assert (await apply(node, versions(1, other_order)))["changes"] == []
    [change] = (await apply(node, versions(True, AVRO)))["changes"]
    assert change["changed"] == ["flag"]
    [change] = (await apply(node, versions(True, {"type": "string"})))["changes"]
    assert (change["changed"], change["values"]) == (["schema"], [])


async def test_pruning_deletes_what_the_documents_groups_have_and_the_documents_do_not(
    node: Node,
) -> None:
    await apply(node, DOCUMENT)
    await node.put("/messagegroups/other/messages/mine")
    await node.put(f"{MESSAGE}/versions/2", {"description": "newer"})
    smaller = changed(DOCUMENT, "messagegroups/g/messages/n", None)
    smaller = changed(smaller, "schemagroups/s/schemas/x/versions/2", None)
    answer = await apply(node, smaller, "?prune")
    # Versions of m stay: the document lists none of it.
    assert {xid: action for xid, action in actions(answer).items() if action == "deleted"} == {
        f"{GROUP}/messages/n": "deleted",
        f"{SCHEMA}/versions/2": "deleted",
    }
    assert (await node.get(f"{SCHEMA}/meta"))["defaultversionid"] == "1"
    assert await node.get("/messagegroups/other/messages/mine")
    assert (await apply(node, smaller, "?prune"))["changes"] == []


async def test_versions_that_a_document_lists_leave_the_default_one_alone(node: Node) -> None:
    await apply(node, DOCUMENT)
    only_first = changed(DOCUMENT, "schemagroups/s/schemas/x/versions/2", None)
    assert (await apply(node, only_first))["changes"] == []
    assert (await node.get(f"{SCHEMA}/versions/2$details"))["name"] == "second"


async def test_a_document_cannot_build_on_versions_that_it_does_not_list(node: Node) -> None:
    listed = {"1": {}, "2": {"ancestorid": "1"}}
    document = {"messagegroups": {"g": {"messages": {"m": {"versions": listed}}}}}
    await apply(node, document)
    without = changed(document, "messagegroups/g/messages/m/versions/1", None)
    assert (await refused(node, without, "?prune")).error == "unknown_id"
    sticky = {"defaultversionid": "1", "defaultversionsticky": True}
    wrong = changed(without, "messagegroups/g/messages/m/versions/2", {})
    wrong = changed(wrong, "messagegroups/g/messages/m/meta", sticky)
    assert (await refused(node, wrong, "?prune")).error == "unknown_id"


async def test_a_scope_is_pruned_whole_and_nothing_beside_it(node: Node) -> None:
    await apply(node, DOCUMENT)
    await node.put("/messagegroups/other/messages/mine")
    rest = {"schemagroups": changed(DOCUMENT, "schemagroups/s/schemas", {})["schemagroups"]}
    answer = await apply(node, rest, f"?prune&scope={GROUP}")
    assert actions(answer)[GROUP] == "deleted"
    assert {*actions(answer)} == {GROUP, MESSAGE, f"{GROUP}/messages/n", f"{MESSAGE}/versions/1"}
    assert await node.get(f"{SCHEMA}$details")
    assert await node.get("/messagegroups/other/messages/mine")


async def test_a_set_owns_what_its_applies_brought(node: Node) -> None:
    await apply(node, DOCUMENT, "?set=a")
    await node.put(f"{GROUP}/messages/foreign")
    await node.send("DELETE", f"{GROUP}/messages/n")
    await node.put(f"{GROUP}/messages/n")
    rest = {"schemagroups": DOCUMENT["schemagroups"]}
    answer = await apply(node, rest, "?set=a&prune")
    # The group has a message of others now, and n was created again by others.
    assert actions(answer) == {MESSAGE: "deleted", f"{MESSAGE}/versions/1": "deleted"}
    assert answer["kept"] == [GROUP]
    assert (await apply(node, rest, "?set=a&prune"))["changes"] == []
    assert {*actions(await apply(node, {}, "?set=a&prune&allowempty"))} > {SCHEMA}


async def test_what_two_sets_brought_is_deleted_by_the_last(node: Node) -> None:
    await apply(node, DOCUMENT, "?set=a")
    await apply(node, DOCUMENT, "?set=b")
    assert (await apply(node, {}, "?set=a&prune&allowempty"))["changes"] == []
    emptied = await apply(node, {}, "?set=b&prune&allowempty")
    assert {GROUP, "/schemagroups/s"} <= {*actions(emptied)}
    assert set(actions(emptied).values()) == {"deleted"}


async def test_what_is_kept_by_name_is_not_pruned(node: Node) -> None:
    await apply(node, DOCUMENT)
    kept = [GROUP, MESSAGE, "/schemagroups/s", SCHEMA, f"{SCHEMA}/versions/1"]
    answer = await apply(node, {"$keep": kept}, "?prune")
    assert actions(answer) == {
        f"{GROUP}/messages/n": "deleted",
        f"{SCHEMA}/versions/2": "deleted",
    } | {xid: a for xid, a in actions(answer).items() if a == "updated"}


async def test_a_flag_that_is_unknown_or_has_no_meaning_writes_nothing(node: Node) -> None:
    for flags in ("?dry_run", "?dryrun=yes", "?ignore=all", "?set=", "?set=a&set=b"):
        assert (await refused(node, DOCUMENT, flags)).error == "bad_flag", flags
    assert (await refused(node, DOCUMENT, "?prune&set=a&scope=/")).error == "bad_flag"
    assert (await refused(node, DOCUMENT, "?prune&scope=nonsense")).error == "malformed_xid"
    assert (await refused(node, {"$keep": [1]}, "?prune")).error == "bad_request"
    assert (await refused(node, {}, "?prune")).error == "bad_request"
    assert (await refused(node, {}, "?prune&scope=/")).error == "bad_request"
    assert (await node.send("GET", GROUP)).status == 404


async def test_more_versions_than_are_kept_are_refused(node: Node) -> None:
    source = await node.get("/modelsource")
    source["groups"]["messagegroups"]["resources"]["messages"]["maxversions"] = 2
    await node.put("/modelsource", source)
    versions = {str(number): {} for number in range(1, 4)}
    document = {"messagegroups": {"g": {"messages": {"m": {"versions": versions}}}}}
    assert (await refused(node, document)).error == "bad_request"


async def test_a_body_limit_can_be_asked_for(node: Node) -> None:
    assert (await node.get("/apply"))["maxbodybytes"] == node.context.settings.max_body_bytes


@pytest.mark.parametrize("flags", ["", "?dryrun"])
async def test_what_cannot_be_written_cannot_be_applied(node: Node, flags: str) -> None:
    able = await node.get("/capabilities")
    able["available"]["entities"]["mutable"] = False
    await node.put("/capabilities", able)
    answer = await node.send("POST", f"/apply{flags}", DOCUMENT)
    assert (answer.status, answer.error) == (405, "action_not_supported")


async def make_replica(node: Node, place: str) -> None:
    """Let everything at or below a place belong to another catalog."""
    statement = "UPDATE entities SET authority = 'https://elsewhere.example' WHERE xid LIKE $1"
    async with node.database.acquire() as connection:
        await connection.execute(statement, f"{place}%")


async def test_a_replica_that_is_equal_needs_no_write_and_one_that_differs_is_left_alone(
    node: Node,
) -> None:
    await apply(node, DOCUMENT)
    await make_replica(node, GROUP)
    before = await node.state()
    assert (await apply(node, DOCUMENT))["changes"] == []
    other = changed(DOCUMENT, "messagegroups/g/messages/m/description", "other")
    assert (await refused(node, other)).error == "readonly"
    answer = await apply(node, other, "?ignore=readonly")
    assert (answer["changes"], answer["leftalone"]) == ([], [GROUP])
    assert await node.state() == before


async def test_nothing_of_another_authority_is_pruned(node: Node) -> None:
    await apply(node, DOCUMENT, "?set=a")
    await make_replica(node, f"{GROUP}/messages/n")
    smaller = changed(DOCUMENT, "messagegroups/g/messages", {})
    answer = await apply(node, smaller, "?prune")
    assert actions(answer)[MESSAGE] == "deleted"
    assert answer["leftalone"] == [f"{GROUP}/messages/n"]
    rest = {"schemagroups": DOCUMENT["schemagroups"]}
    for flags in (f"?prune&scope={GROUP}", "?prune&set=a"):
        answer = await apply(node, rest, flags)
        assert answer["changes"] == []
        assert answer["leftalone"] == [f"{GROUP}/messages/n"]
        assert answer["kept"] == [GROUP]


async def test_an_empty_document_is_no_change_where_there_is_none(node: Node) -> None:
    """A catalog's own documents show it so."""
    await node.put(f"{SCHEMA}$details", {"format": "Other/1"})
    groups = (await node.get("/export"))["schemagroups"]
    assert groups["s"]["schemas"]["x"]["versions"]["1"]["schemabase64"] == ""
    assert actions(await apply(node, {"schemagroups": groups})) == {}
