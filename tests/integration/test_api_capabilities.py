"""Clients choose what the node can do, and it obeys."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.integration.conftest import Answer, Node, assert_problem, shared_node, start_node

ALL = {
    "capabilities": {"mutable": True},
    "capabilitiesoffered": {"mutable": False},
    "entities": {"mutable": True},
    "export": {"mutable": False},
    "model": {"mutable": False},
    "modelsource": {"mutable": True},
}
JSON = {"Content-Type": "application/json"}


MODEL = {"groups": {"dirs": {"singular": "dir"}}}
# The capabilities of this node never change.
standing = shared_node(modelsource=MODEL)


@pytest.fixture
async def node(database_url: str) -> AsyncIterator[Node]:
    async with start_node(database_url, modelsource=MODEL) as running:
        yield running


async def patch(node: Node, **capabilities: Any) -> Answer:
    answer = await node.send("PATCH", "/capabilities", capabilities)
    assert answer.status == 200, answer.body
    return answer


def without(*kinds: str) -> dict[str, Any]:
    return {kind: value for kind, value in ALL.items() if kind not in kinds}


async def test_a_fresh_node_can_do_all_that_it_offers(node: Node) -> None:
    capabilities = await node.get("/capabilities")
    offered = await node.get("/capabilitiesoffered")
    assert {*capabilities} == {*offered}
    for name in ("flags", "formats", "ignores", "specversions", "versionmodes"):
        assert capabilities[name] == offered[name]["enum"]
    assert capabilities["available"] == ALL
    assert {"avro", "jsonschema"} <= {*capabilities["formats"]}
    assert capabilities["compatibilities"]["avro"]


async def test_a_put_replaces_all_capabilities_and_a_patch_some(node: Node) -> None:
    """core/http.md, "PATCH and PUT /capabilities"."""
    shown = await node.put("/capabilities", {"flags": ["inline"]})
    assert (shown["flags"], shown["ignores"], shown["pagination"]) == (["inline"], [], False)
    assert shown["available"] == without("capabilitiesoffered", "export", "modelsource")
    patched = (await patch(node, pagination=True)).json
    assert patched == {**shown, "pagination": True} == await node.get("/capabilities")


async def test_no_pattern_promises_rules_for_formats_without_any(node: Node) -> None:
    """core/spec.md, "compatibilities Capability": format and rule have to be offered together."""
    before = await node.get("/capabilities")
    assert "xsd/1.0" in before["formats"]
    for key in ("*", "x*", "*/1.0"):
        wanted = {"compatibilities": {key: ["backward"]}}
        problem = assert_problem(await node.send("PATCH", "/capabilities", wanted))
        assert problem["type"].endswith("#capability_error")
    assert await node.get("/capabilities") == before
    await patch(node, compatibilities={"jsonschema*": ["backward"]})


async def test_they_are_shown_inside_the_registry(node: Node) -> None:
    await patch(node, pagination=False)
    shown = await node.get("/?inline=capabilities")
    assert shown["capabilities"] == await node.get("/capabilities")


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
async def test_they_are_changed_with_the_registry(node: Node, method: str) -> None:
    """core/spec.md, "capabilities Attribute"."""
    everything = await node.get("/capabilities")
    answer = await node.send(
        method, "/?inline=capabilities", {"name": "N", "capabilities": {"flags": ["inline"]}}
    )
    shown = answer.json["capabilities"]
    assert shown["flags"] == ["inline"]
    assert shown["pagination"] is (method == "PATCH")
    assert answer.json["name"] == "N"
    reset = b'{"capabilities": null}'
    assert (await node.request(method, "/", body=reset, headers=JSON)).status == 200
    assert await node.get("/capabilities") == everything
    await node.send(method, "/", {"name": "M"})
    assert await node.get("/capabilities") == everything


async def test_they_are_there_after_a_restart(database_url: str, node: Node) -> None:
    await patch(node, flags=["inline"], pagination=False)
    shown = await node.get("/capabilities")
    async with start_node(database_url) as again:
        assert await again.get("/capabilities") == shown


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"", "missing_body"),
        (b"[]", "parsing_data"),
        (b"null", "parsing_data"),
        (b'{"nonsense": 1}', "capability_unknown"),
        (b'{"flags": ["nonsense"]}', "capability_value"),
        (b'{"flags": ["*", "inline"]}', "capability_wildcard"),
        (b'{"specversions": []}', "capability_missing_value"),
        (b'{"formats": ["cobol"]}', "capability_error"),
    ],
)
@pytest.mark.parametrize("method", ["PUT", "PATCH"])
@pytest.mark.asyncio(loop_scope="module")
async def test_what_is_not_offered_changes_nothing(
    standing: Node, method: str, body: bytes, error: str
) -> None:
    before = await standing.state(), await standing.get("/capabilities")
    answer = await standing.request(method, "/capabilities", body=body, headers=JSON)
    assert_problem(answer)
    assert answer.error == error
    assert (await standing.state(), await standing.get("/capabilities")) == before


async def test_version_modes_in_use_cannot_be_switched_off(node: Node) -> None:
    files = {"singular": "file", "versionmode": "semver", "singleversionroot": True}
    model = {"groups": {"dirs": {"singular": "dir", "resources": {"files": files}}}}
    assert (await node.send("PUT", "/modelsource", model)).status == 200
    answer = await node.send("PATCH", "/capabilities", {"versionmodes": ["manual"]})
    assert answer.error == "capability_error"
    await node.put("/modelsource", {})
    await patch(node, versionmodes=["manual"])
    assert (await node.send("PUT", "/modelsource", model)).error == "model_error"
    both = {"modelsource": model, "capabilities": {"versionmodes": ["*"]}}
    assert (await node.send("PATCH", "/", both)).status == 200


@pytest.mark.parametrize("kind", ["export", "modelsource", "capabilitiesoffered"])
async def test_what_is_not_available_is_nowhere(node: Node, kind: str) -> None:
    """core/spec.md, "available Capability"."""
    await patch(node, available=without(kind))
    answer = await node.send("GET", f"/{kind}")
    assert (answer.status, answer.error) == (400, "not_available")
    assert answer.json["subject"] == kind
    await patch(node, available=ALL)
    assert (await node.send("GET", f"/{kind}")).status == 200


async def test_a_source_that_is_not_available_is_not_inlined(node: Node) -> None:
    await patch(node, available=without("modelsource"))
    assert (await node.send("GET", "/?inline=modelsource")).error == "not_available"
    assert (await node.send("GET", "/export?inline=modelsource")).error == "not_available"
    assert "modelsource" not in await node.get("/export")
    assert (await node.send("PUT", "/modelsource", {})).error == "not_available"


async def test_entities_that_are_not_mutable_are_only_read(node: Node) -> None:
    await node.put("/dirs/d")
    await patch(node, available={**ALL, "entities": {"mutable": False}})
    for method, path in (
        ("PUT", "/"),
        ("PATCH", "/dirs/d"),
        ("POST", "/dirs"),
        ("DELETE", "/dirs/d"),
    ):
        answer = await node.send(method, path, {})
        assert (answer.status, answer.error) == (405, "action_not_supported")
        assert answer.headers["Allow"] == "GET, HEAD, OPTIONS"
    await node.get("/dirs/d")
    await patch(node, available=ALL)
    await node.put("/dirs/e")


async def test_a_source_that_is_not_mutable_is_not_changed_by_any_way(node: Node) -> None:
    await patch(node, available={**ALL, "modelsource": {"mutable": False}})
    answer = await node.send("PUT", "/modelsource", {})
    assert (answer.status, answer.error) == (405, "action_not_supported")
    answer = await node.send("PATCH", "/", {"modelsource": {}})
    assert answer.error == "invalid_attribute"
    assert (await node.get("/modelsource"))["groups"]


async def test_nobody_can_lock_everybody_out(node: Node) -> None:
    immutable = {**ALL, "capabilities": {"mutable": False}}
    answer = await node.send("PATCH", "/capabilities", {"available": immutable})
    assert (answer.status, answer.error) == (400, "capability_error")


async def test_a_change_takes_effect_after_its_request(node: Node) -> None:
    """core/http.md: the flags of the request itself are those that were supported before."""
    answer = await node.send(
        "PATCH", "/?inline=capabilities&specversion=1.0-rc4", {"capabilities": {"flags": []}}
    )
    assert answer.status == 200, answer.body
    assert answer.json["capabilities"]["flags"] == []
    assert (await node.send("GET", "/?specversion=0.1")).status == 200, "it is off, so ignored"


async def test_their_change_is_told_one_by_one(node: Node) -> None:
    await patch(node, flags=[], pagination=False)
    [entry] = await node.changes()
    assert entry.change.xid == "/"
    assert entry.change.changed == (
        *("capabilities", "capabilities.flags", "capabilities.pagination"),
        *("epoch", "modifiedat"),
    )


async def test_setting_what_is_set_already_only_touches_the_registry(node: Node) -> None:
    epoch = (await node.get("/"))["epoch"]
    await node.put("/capabilities", await node.get("/capabilities"))
    [entry] = await node.changes()
    assert entry.change.changed == ("epoch", "modifiedat")
    assert (await node.get("/"))["epoch"] == epoch + 1


@pytest.mark.parametrize("version", ["1.0-rc4", "1.0-RC4", "v1.0-rc4", "1.0.7-rc4"])
@pytest.mark.parametrize("path", ["/", "/dirs", "/model", "/capabilities", "/export"])
@pytest.mark.asyncio(loop_scope="module")
async def test_the_version_of_the_standard_that_is_spoken_is_supported(
    standing: Node, path: str, version: str
) -> None:
    """core/spec.md, "SpecVersion Flag"."""
    await standing.get(f"{path}?specversion={version}")


@pytest.mark.parametrize("version", ["1.0", "1.0-rc3", "1.1-rc4", "2.0-rc4", "", "x", "1.0-rc4-x"])
@pytest.mark.parametrize("path", ["/", "/dirs", "/model"])
@pytest.mark.asyncio(loop_scope="module")
async def test_another_version_of_the_standard_is_refused(
    standing: Node, path: str, version: str
) -> None:
    answer = await standing.send("GET", f"{path}?specversion={version}")
    problem = assert_problem(answer)
    assert (answer.status, answer.error) == (400, "unsupported_specversion")
    assert problem["args"]["list"] == "1.0-rc4"


async def test_a_version_is_asked_for_once(node: Node) -> None:
    twice = "/?specversion=1.0-rc4&specversion=1.0-rc4"
    assert (await node.send("GET", twice)).error == "bad_flag"
