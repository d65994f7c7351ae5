"""Creating, replacing, patching and deleting entities; their epochs and their times."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.conftest import SPEC, Node, assert_problem

GROUP = "/messagegroups/g"
MESSAGE = f"{GROUP}/messages/m"
VERSION = f"{MESSAGE}/versions/1"


async def epochs(node: Node, *paths: str) -> list[int]:
    return [(await node.get(path))["epoch"] for path in paths]


async def test_a_fresh_registry_shows_itself_and_its_collections(node: Node) -> None:
    """core/http.md, "GET /"."""
    registry = await node.get("/")
    assert registry["specversion"] == "1.0-rc4"
    assert registry["registryid"] == "test"
    assert registry["self"] == f"{node.url}/"
    assert registry["xid"] == "/"
    assert registry["epoch"] == 1
    assert registry["createdat"] == registry["modifiedat"]
    assert registry["messagegroupsurl"] == f"{node.url}/messagegroups"
    assert registry["messagegroupscount"] == 0
    assert "messagegroups" not in registry


async def test_put_creates_with_201_and_location_and_updates_with_200(node: Node) -> None:
    """core/http.md, "Creating or Updating Entities"."""
    for path in (GROUP, MESSAGE, f"{MESSAGE}/versions/2"):
        created = await node.send("PUT", path, {"name": "one"})
        assert created.status == 201, path
        assert created.headers["Location"] == f"{node.url}{path}" == created.json["self"]
        assert created.json == await node.get(path)
        updated = await node.send("PUT", path, {"name": "two"})
        assert updated.status == 200, path
        assert "Location" not in updated.headers
        assert updated.json["name"] == "two"
        assert updated.json["epoch"] == created.json["epoch"] + 1
        assert updated.json == await node.get(path)


async def test_patch_creates_what_is_missing(node: Node) -> None:
    """core/http.md, "Creating or Updating Entities": PATCH may create."""
    answer = await node.send("PATCH", MESSAGE, {"name": "n"})
    assert answer.status == 201
    assert answer.headers["Content-Location"] == f"{node.url}{VERSION}"
    assert (await node.get(GROUP))["messagescount"] == 1


@pytest.mark.parametrize("path", ["/", GROUP, MESSAGE, VERSION, f"{MESSAGE}/meta"])
async def test_put_replaces_patch_merges_and_null_deletes(node: Node, path: str) -> None:
    """core/http.md, "Creating or Updating Entities": PUT and PATCH."""
    await node.put(MESSAGE)
    one = {"a": "1", "b": "2"}
    assert (await node.put(path, {"labels": one}))["labels"] == one
    patched = await node.send("PATCH", path, {})
    assert patched.json["labels"] == one
    patched = await node.send("PATCH", path, {"labels": {"c": "3"}})
    assert patched.json["labels"] == {"c": "3"}, "nested maps are replaced whole"
    patched = await node.send("PATCH", path, {"labels": None})
    assert "labels" not in patched.json
    await node.put(path, {"labels": one})
    assert "labels" not in await node.put(path, {})


async def test_what_a_get_showed_can_be_put_back(node: Node) -> None:
    """core/http.md, "Creating or Updating Entities": read-only attributes are ignored."""
    await node.put(MESSAGE, {"name": "n", "envelope": "CloudEvents/1.0"})
    await node.put(f"{MESSAGE}/versions/2", {"name": "n2"})
    for path in ("/", GROUP, MESSAGE, f"{MESSAGE}/meta", VERSION):
        shown = await node.get(path)
        again = await node.put(path, shown)
        changing = {"epoch", "modifiedat"}
        assert {k: v for k, v in again.items() if k not in changing} == {
            k: v for k, v in shown.items() if k not in changing
        }, path
        assert again["epoch"] == shown["epoch"] + 1, path


@pytest.mark.parametrize(
    ("path", "body", "singular"),
    [
        ("/", {"registryid": "x"}, "registry"),
        (GROUP, {"messagegroupid": "x"}, "messagegroup"),
        (MESSAGE, {"messageid": "x"}, "message"),
        (MESSAGE, {"versionid": "x"}, "version"),
        (f"{MESSAGE}/meta", {"messageid": "x"}, "message"),
        (VERSION, {"versionid": "x"}, "version"),
        (VERSION, {"messageid": "x"}, "message"),
        (GROUP, {"messagegroupid": "G"}, "messagegroup"),
        (GROUP, {"messagegroupid": 7}, "messagegroup"),
    ],
)
@pytest.mark.parametrize("method", ["PUT", "PATCH"])
async def test_an_id_that_differs_from_the_path_is_refused(
    node: Node, method: str, path: str, body: Any, singular: str
) -> None:
    """core/spec.md, "mismatched_id"."""
    await node.put(MESSAGE)
    before = await node.state()
    answer = await node.send(method, path, body)
    problem = assert_problem(answer)
    assert (answer.status, problem["type"]) == (400, f"{SPEC}mismatched_id")
    assert problem["args"]["singular"] == singular
    assert await node.state() == before


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
@pytest.mark.parametrize("path", ["/", GROUP, MESSAGE, f"{MESSAGE}/meta", VERSION])
async def test_an_epoch_that_is_not_current_is_refused(node: Node, method: str, path: str) -> None:
    """core/spec.md, "mismatched_epoch": the epoch of an update needs to be the current one."""
    await node.put(MESSAGE)
    epoch = (await node.get(path))["epoch"]
    before = await node.state()
    for wrong in (epoch - 1, epoch + 1):
        answer = await node.send(method, path, {"epoch": wrong})
        problem = assert_problem(answer)
        assert problem["type"] == f"{SPEC}mismatched_epoch"
        assert problem["args"] == {"bad_epoch": str(wrong), "epoch": str(epoch)}
    assert await node.state() == before
    assert (await node.send(method, path, {"epoch": epoch})).json["epoch"] == epoch + 1


async def test_the_epoch_of_a_new_entity_is_ignored(node: Node) -> None:
    """core/spec.md, "epoch Attribute"."""
    assert (await node.put(MESSAGE, {"epoch": 77}))["epoch"] == 1


@pytest.mark.parametrize("path", [GROUP, MESSAGE, VERSION])
async def test_delete_checks_the_epoch_flag(node: Node, path: str) -> None:
    """core/spec.md, "Epoch Flag"; a resource's epoch is its meta's."""
    await node.put(MESSAGE)
    await node.put(MESSAGE, {"name": "only the version's epoch rises"})
    if path == VERSION:
        await node.put(f"{MESSAGE}/versions/2")
    owner = f"{MESSAGE}/meta" if path == MESSAGE else path
    [epoch] = await epochs(node, owner)
    before = await node.state()
    answer = await node.send("DELETE", f"{path}?epoch={epoch + 1}")
    assert assert_problem(answer)["type"] == f"{SPEC}mismatched_epoch"
    for junk in ("-1", "x", "", "1.0", "9" * 30):
        answer = await node.send("DELETE", f"{path}?epoch={junk}")
        assert assert_problem(answer)["type"] == f"{SPEC}bad_flag", junk
    assert await node.state() == before
    answer = await node.send("DELETE", f"{path}?epoch={epoch}")
    assert (answer.status, answer.body) == (204, b"")
    gone = await node.send("GET", path)
    assert (gone.status, assert_problem(gone)["type"]) == (404, f"{SPEC}not_found")


async def test_a_map_of_deletes_may_check_epochs_and_skips_what_is_missing(node: Node) -> None:
    """core/spec.md, "Deleting Entities": the three shapes of the map."""
    await node.send("POST", "/messagegroups", {f"g{n}": {} for n in range(5)})
    answer = await node.send("DELETE", "/messagegroups", {})
    assert answer.status == 204
    assert (await node.get("/"))["messagegroupscount"] == 5, "an empty map deletes nothing"
    body: dict[str, Any] = {"g0": {}, "g1": {"epoch": 1, "name": 5}, "nowhere": {"epoch": 9}}
    assert (await node.send("DELETE", "/messagegroups", body)).status == 204
    assert {*await node.get("/messagegroups")} == {"g2", "g3", "g4"}
    before = await node.state()
    answer = await node.send("DELETE", "/messagegroups", {"g2": {"epoch": 1}, "g3": {"epoch": 5}})
    assert assert_problem(answer)["type"] == f"{SPEC}mismatched_epoch"
    answer = await node.send("DELETE", "/messagegroups", {"g2": {"messagegroupid": "g3"}})
    assert assert_problem(answer)["type"] == f"{SPEC}mismatched_id"
    assert await node.state() == before, "all or nothing"
    assert (await node.send("DELETE", "/messagegroups")).status == 204
    assert await node.get("/messagegroups") == {}


async def test_the_epoch_of_a_resource_to_delete_is_in_its_meta(node: Node) -> None:
    """core/spec.md, "misplaced_epoch"."""
    for name in "abc":
        await node.put(f"{GROUP}/messages/{name}")
    path = f"{GROUP}/messages"
    before = await node.state()
    answer = await node.send("DELETE", path, {"a": {}, "b": {"epoch": 1}})
    problem = assert_problem(answer)
    assert (problem["type"], problem["subject"]) == (
        f"{SPEC}misplaced_epoch",
        f"{GROUP}/messages/b",
    )
    answer = await node.send("DELETE", path, {"a": {"meta": {"epoch": 4}}})
    assert assert_problem(answer)["type"] == f"{SPEC}mismatched_epoch"
    assert await node.state() == before
    body = {"a": {"meta": {"epoch": 1}, "epoch": 99}, "b": {"meta": {}}}
    assert (await node.send("DELETE", path, body)).status == 204
    assert {*await node.get(path)} == {"c"}


async def test_post_writes_several_collections_and_shows_only_what_it_wrote(node: Node) -> None:
    """core/http.md, "POST /" and "POST /<GROUPS>/<GID>"."""
    await node.put("/messagegroups/old")
    start = await node.get("/")
    body = {"messagegroups": {"g": {"name": "n"}}, "schemagroups": {"s": {}}}
    answer = await node.send("POST", "/", body)
    assert answer.status == 200
    assert {kind: {*groups} for kind, groups in answer.json.items()} == {
        "messagegroups": {"g"},
        "schemagroups": {"s"},
    }
    assert answer.json["messagegroups"]["g"] == await node.get(GROUP)
    after = await node.get("/")
    assert (after["epoch"], after["messagegroupscount"]) == (start["epoch"] + 1, 2)
    answer = await node.send("POST", GROUP, {"messages": {"m": {"name": "m"}}})
    assert answer.json == {"messages": {"m": await node.get(MESSAGE)}}
    assert (await node.get(GROUP))["name"] == "n", "the owner's own attributes stay"


@pytest.mark.parametrize(
    ("path", "body", "error"),
    [
        ("/", {"name": "x"}, "groups_only"),
        ("/", {"messagegroups": {}, "junk": {}}, "groups_only"),
        (GROUP, {"name": "x"}, "resources_only"),
        (GROUP, {"schemas": {}}, "resources_only"),
    ],
)
async def test_post_to_an_owner_takes_collections_only(
    node: Node, path: str, body: Any, error: str
) -> None:
    """core/spec.md, "groups_only" and "resources_only"."""
    await node.put(MESSAGE)
    assert assert_problem(await node.send("POST", path, body))["type"] == SPEC + error


@pytest.mark.parametrize("method", ["POST", "PATCH"])
async def test_a_collection_is_written_by_id(node: Node, method: str) -> None:
    """core/http.md, "PATCH and POST /<GROUPS>" and the same of resources and versions."""
    for path in ("/messagegroups", f"{GROUP}/messages", f"{MESSAGE}/versions"):
        answer = await node.send(method, path, {"m": {"name": "one"}, "g": {"description": "d"}})
        assert answer.status == 200, answer.body
        assert answer.json == {id: (await node.get(path))[id] for id in ("m", "g")}
        answer = await node.send(method, path, {"m": {"description": "d"}})
        assert {*answer.json} == {"m"}
        assert ("name" in answer.json["m"]) == (method == "PATCH")


async def test_nested_collections_add_and_update_but_never_delete(node: Node) -> None:
    """core/spec.md, "Updating Nested Registry Collections"."""
    await node.put(f"{GROUP}/messages/kept")
    await node.put(GROUP, {"messages": {"m": {"versions": {"1": {"name": "v"}, "2": {}}}}})
    assert {*await node.get(f"{GROUP}/messages")} == {"kept", "m"}
    assert (await node.get(MESSAGE))["versionscount"] == 2
    assert (await node.get(f"{MESSAGE}/versions/1"))["name"] == "v"


async def test_extensions_are_kept_where_the_model_allows_them(node: Node) -> None:
    """core/spec.md, "Attributes and Extensions"; core/model.md, "attributes.*"."""
    shown = await node.put(GROUP, {"extra": {"deep": [1, {"x": None}]}, "n": 1.5, "t": True})
    assert shown["extra"] == {"deep": [1, {"x": None}]}
    assert (shown["n"], shown["t"]) == (1.5, True)
    within = {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"unheard": 1}}}
    problem = assert_problem(await node.send("PUT", MESSAGE, within))
    assert problem["type"] == f"{SPEC}unknown_attribute"
    assert problem["args"] == {"name": "envelopemetadata.type.unheard"}
