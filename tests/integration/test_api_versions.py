"""Versions: their ids, their ancestors, which one is default, and how many are kept."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.conftest import HTTP, SPEC, Node, assert_problem, fresh_node

FILES: dict[str, Any] = {
    "files": {"singular": "file", "hasdocument": False},
    "pairs": {"singular": "pair", "hasdocument": False, "maxversions": 2},
    "kinds": {
        "singular": "kind",
        "hasdocument": False,
        "attributes": {"sort": {"type": "string", "matchversions": True}},
    },
}
SOURCE = {"groups": {"dirs": {"singular": "dir", "resources": FILES}}}
FILE = "/dirs/d/files/f"

node = fresh_node(modelsource=SOURCE)


async def default_of(node: Node, path: str = FILE) -> tuple[str, bool]:
    meta = await node.get(f"{path}/meta")
    vid = meta["defaultversionid"]
    resource = await node.get(path)
    assert resource["versionid"] == vid
    assert resource["isdefault"] is True
    assert meta["defaultversionurl"] == f"{node.url}{path}/versions/{vid}"
    versions = await node.get(f"{path}/versions")
    assert [id for id, version in versions.items() if version["isdefault"]] == [vid]
    return vid, meta["defaultversionsticky"]


async def ancestors(node: Node, path: str = FILE) -> dict[str, str]:
    versions = await node.get(f"{path}/versions")
    return {vid: version["ancestorid"] for vid, version in versions.items()}


async def test_versions_that_come_together_follow_one_another_by_id(node: Node) -> None:
    """core/model.md, "versionmode": manual."""
    await node.send("POST", f"{FILE}/versions", {"c": {}, "A": {}, "b": {}})
    assert await ancestors(node) == {"A": "A", "b": "A", "c": "b"}
    assert await default_of(node) == ("c", False)


async def test_a_chosen_default_version_stays_until_another_is_chosen(node: Node) -> None:
    """core/spec.md, "defaultversionsticky Attribute"."""
    await node.send("POST", f"{FILE}/versions", {"1": {}, "2": {}})
    before = await node.get(f"{FILE}/versions")
    meta = await node.send("PATCH", f"{FILE}/meta", {"defaultversionid": "1"})
    assert (meta.json["defaultversionid"], meta.json["defaultversionsticky"]) == ("1", True)
    after = await node.get(f"{FILE}/versions")
    for vid in "12":
        for name in ("epoch", "modifiedat"):
            assert after[vid][name] == before[vid][name], "no version is touched by the choice"
    await node.put(f"{FILE}/versions/3")
    assert await default_of(node) == ("1", True)
    await node.put(f"{FILE}/meta", {"defaultversionid": "2", "defaultversionsticky": True})
    assert await default_of(node) == ("2", True)
    await node.send("PATCH", f"{FILE}/meta", {"defaultversionid": None})
    assert await default_of(node) == ("3", False)


@pytest.mark.parametrize(
    ("method", "body", "default"),
    [
        ("PUT", {}, ("3", False)),
        ("PUT", {"defaultversionsticky": True}, ("3", True)),
        ("PUT", {"defaultversionid": "2"}, ("3", False)),
        ("PUT", {"defaultversionid": "2", "defaultversionsticky": False}, ("3", False)),
        ("PUT", {"defaultversionid": "2", "defaultversionsticky": None}, ("3", False)),
        ("PUT", {"defaultversionid": "2", "defaultversionsticky": True}, ("2", True)),
        ("PUT", {"defaultversionid": None, "defaultversionsticky": True}, ("3", True)),
        ("PATCH", {}, ("1", True)),
        ("PATCH", {"defaultversionid": "2"}, ("2", True)),
        ("PATCH", {"defaultversionid": None}, ("3", False)),
        ("PATCH", {"defaultversionsticky": False}, ("3", False)),
        ("PATCH", {"defaultversionsticky": None}, ("3", False)),
        ("PATCH", {"defaultversionsticky": True}, ("1", True)),
        ("PATCH", {"defaultversionsticky": False, "defaultversionid": "2"}, ("3", False)),
    ],
)
async def test_what_a_write_of_the_meta_makes_of_a_sticky_default(
    node: Node, method: str, body: Any, default: tuple[str, bool]
) -> None:
    """core/spec.md, "defaultversionid Attribute": the default was version 1, sticky."""
    await node.send("POST", f"{FILE}/versions", {"1": {}, "2": {}, "3": {}})
    await node.send("PATCH", f"{FILE}/meta", {"defaultversionid": "1"})
    answer = await node.send(method, f"{FILE}/meta", body)
    assert answer.status == 200, answer.body
    assert answer.json == await node.get(f"{FILE}/meta")
    assert await default_of(node) == default


async def test_a_default_version_that_turns_sticky_without_a_choice_is_the_newest(
    node: Node,
) -> None:
    """core/spec.md, "defaultversionid Attribute": from false to true without an id."""
    await node.send("POST", f"{FILE}/versions", {"1": {}, "2": {}})
    await node.send("PATCH", f"{FILE}/meta", {"defaultversionsticky": True})
    await node.put(f"{FILE}/versions/3")
    assert await default_of(node) == ("2", True)


@pytest.mark.parametrize(
    ("versions", "error"),
    [
        ({"a": {"ancestorid": "b"}, "b": {"ancestorid": "a"}}, "ancestor_circular_reference"),
        (
            {"a": {"ancestorid": "c"}, "b": {"ancestorid": "a"}, "c": {"ancestorid": "b"}},
            "ancestor_circular_reference",
        ),
        ({"a": {"ancestorid": "nowhere"}}, "unknown_id"),
        ({"a": {"ancestorid": "A"}}, "unknown_id"),
        ({"a": {"ancestorid": 5}}, "invalid_attribute"),
    ],
)
async def test_ancestors_exist_and_form_no_circle(node: Node, versions: Any, error: str) -> None:
    """core/spec.md, "ancestorid Attribute"."""
    before = await node.state()
    answer = await node.send("POST", f"{FILE}/versions", versions)
    assert assert_problem(answer)["type"] == SPEC + error
    assert await node.state() == before


async def test_a_new_version_can_be_a_root_under_an_id_that_the_server_gives(node: Node) -> None:
    """core/spec.md, "ancestorid Attribute": `request` is the version itself."""
    await node.put(f"{FILE}/versions/1")
    answer = await node.send("POST", FILE, {"ancestorid": "request"})
    assert answer.status == 201
    assert (answer.json["versionid"], answer.json["ancestorid"]) == ("2", "2")
    assert answer.headers["Location"] == f"{node.url}{FILE}/versions/2"


@pytest.mark.parametrize("since", ["1999-01-01T00:00:00Z", "2999-01-01T00:00:00Z"])
async def test_clients_may_say_when_a_resource_began_but_not_which_ids_it_had(
    node: Node, since: str
) -> None:
    for _ in range(2):
        await node.put(FILE)
        await node.send("POST", FILE, {})
        await node.send("PATCH", f"{FILE}/meta", {"createdat": since})
        await node.send("DELETE", f"{FILE}/versions/2")
        await node.send("POST", FILE, {})
        assert [*await node.get(f"{FILE}/versions")] == ["1", "3"]
        await node.send("DELETE", FILE)


async def test_ids_that_the_server_gives_are_never_given_again(node: Node) -> None:
    """core/spec.md, "Version IDs"."""
    given = [(await node.send("POST", FILE, {})).json["versionid"] for _ in range(3)]
    assert given == ["1", "2", "3"]
    await node.send("DELETE", f"{FILE}/versions/3")
    await node.put(f"{FILE}/versions/5")
    given = [(await node.send("POST", FILE, {})).json["versionid"] for _ in range(2)]
    assert given == ["4", "6"]
    await node.send("DELETE", f"{FILE}/versions", {"1": {}, "6": {}})
    assert (await node.send("POST", FILE, {})).json["versionid"] == "7"
    await node.send("DELETE", FILE)
    given = [(await node.send("POST", FILE, {})).json["versionid"] for _ in range(2)]
    assert given == ["1", "2"], "another resource counts anew"


async def test_post_of_an_existing_version_updates_it(node: Node) -> None:
    """core/http.md, "POST /<GROUPS>/<GID>/<RESOURCES>/<RID>"."""
    await node.put(f"{FILE}/versions/1", {"name": "old"})
    answer = await node.send("POST", FILE, {"versionid": "1", "description": "d"})
    assert answer.status == 200
    assert "name" not in answer.json
    assert (await node.get(FILE))["versionscount"] == 1


@pytest.mark.parametrize("name", ["meta", "versions"])
async def test_a_post_of_a_version_refuses_content_of_the_resource(node: Node, name: str) -> None:
    await node.put(f"{FILE}/versions/1")
    answer = await node.send("POST", FILE, {"versionid": "2", name: {}})
    assert (answer.status, answer.error) == (400, "unknown_attribute")
    links = {"metaurl": "x", "versionsurl": "y", "versionscount": 7}
    assert (await node.send("POST", FILE, {"versionid": "2", **links})).status == 201


async def test_versions_beyond_the_limit_go_oldest_first_but_never_the_default(
    node: Node,
) -> None:
    """core/model.md, "maxversions"."""
    pair = "/dirs/d/pairs/p"
    for vid in "123":
        await node.put(f"{pair}/versions/{vid}")
    assert await ancestors(node, pair) == {"2": "2", "3": "2"}
    await node.send("PATCH", f"{pair}/meta", {"defaultversionid": "2"})
    await node.put(f"{pair}/versions/4")
    assert {*await ancestors(node, pair)} == {"2", "4"}
    assert await default_of(node, pair) == ("2", True)


async def test_attributes_that_match_must_be_equal_in_all_versions(node: Node) -> None:
    """core/model.md, "matchversions"; core/spec.md, "mismatched_version_attribute"."""
    kind = "/dirs/d/kinds/k"
    await node.put(f"{kind}/versions/1", {"sort": "a"})
    before = await node.state()
    answer = await node.send("PUT", f"{kind}/versions/2", {"sort": "b"})
    assert assert_problem(answer)["type"] == f"{SPEC}mismatched_version_attribute"
    assert await node.state() == before
    versions = {"1": {"sort": "b"}, "2": {"sort": "b"}}
    assert (await node.send("POST", f"{kind}/versions", versions)).status == 200


@pytest.mark.parametrize(
    ("path", "body", "error"),
    [
        (f"{FILE}/versions", {}, f"{HTTP}missing_versions"),
        (f"{FILE}/versions", {"null": {}}, f"{SPEC}malformed_id"),
        (f"{FILE}/versions", {"request": {}}, f"{SPEC}malformed_id"),
        (FILE, {"versionid": "request"}, f"{SPEC}malformed_id"),
        (FILE, {"versionid": 1}, f"{SPEC}invalid_attribute"),
        (f"{FILE}/versions", {"a": {"versionid": "b"}}, f"{SPEC}mismatched_id"),
        (f"{FILE}/versions", {"a": {}, "A": {}}, f"{SPEC}bad_request"),
    ],
)
async def test_versions_that_cannot_be(node: Node, path: str, body: Any, error: str) -> None:
    """core/http.md, "PATCH and POST …/versions"; core/spec.md, "versionid Attribute"."""
    before = await node.state()
    assert assert_problem(await node.send("POST", path, body))["type"] == error
    assert await node.state() == before
