"""What can be done at a path, and which pages may do it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.conftest import Node, shared_node, start_node

pytestmark = pytest.mark.asyncio(loop_scope="module")

READING = "GET, HEAD, OPTIONS"
MESSAGE = "/messagegroups/g/messages/m"
SCHEMA = "/schemagroups/g/schemas/s"


node = shared_node()


def methods(text: str) -> str:
    return ", ".join(sorted((*READING.split(", "), *text.split())))


@pytest.mark.parametrize(
    ("path", "also"),
    [
        ("/", "PATCH POST PUT"),
        ("/capabilities", "PATCH PUT"),
        ("/capabilitiesoffered", ""),
        ("/export", ""),
        ("/model", ""),
        ("/modelsource", "PUT"),
        ("/.xregistry", ""),
        ("/messagegroups", "DELETE PATCH POST"),
        ("/messagegroups/g", "DELETE PATCH POST PUT"),
        ("/messagegroups/g/messages", "DELETE PATCH POST"),
        (MESSAGE, "DELETE PATCH POST PUT"),
        (f"{MESSAGE}/meta", "PATCH PUT"),
        (f"{MESSAGE}/versions", "DELETE PATCH POST"),
        (f"{MESSAGE}/versions/1", "DELETE PATCH PUT"),
        (SCHEMA, "DELETE POST PUT"),
        (f"{SCHEMA}$details", "DELETE PATCH POST PUT"),
        (f"{SCHEMA}/versions/1", "DELETE PUT"),
    ],
)
async def test_every_path_says_which_methods_it_takes(node: Node, path: str, also: str) -> None:
    """core/http.md, "HTTP OPTIONS Method"."""
    before = await node.state()
    answer = await node.send("OPTIONS", path)
    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["Allow"] == methods(also)
    assert answer.headers["Access-Control-Allow-Methods"] == answer.headers["Allow"]
    assert await node.state() == before


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", "/model"),
        ("POST", "/modelsource"),
        ("DELETE", "/"),
        ("PUT", "/messagegroups"),
        ("POST", f"{MESSAGE}/meta"),
        ("TRACE", MESSAGE),
        ("PROPFIND", "/export"),
    ],
)
async def test_a_refused_method_is_answered_with_the_same_list(
    node: Node, method: str, path: str
) -> None:
    allow = (await node.send("OPTIONS", path)).headers["Allow"]
    answer = await node.send(method, path, {} if method != "TRACE" else None)
    assert (answer.status, answer.error) == (405, "action_not_supported")
    assert answer.headers["Allow"] == allow
    assert method not in allow.split(", ")


async def test_a_document_is_patched_at_its_details_only(node: Node) -> None:
    assert (await node.send("PATCH", SCHEMA, {})).error == "details_required"


async def test_options_say_what_the_capabilities_allow(database_url: str) -> None:
    async with start_node(database_url) as node:
        available = (await node.get("/capabilities"))["available"]
        del available["export"]
        available["entities"]["mutable"] = available["modelsource"]["mutable"] = False
        assert (await node.send("PATCH", "/capabilities", {"available": available})).status == 200
        for path, allow in (
            ("/", READING),
            (MESSAGE, READING),
            ("/modelsource", READING),
            ("/export", "OPTIONS"),
            ("/capabilities", methods("PATCH PUT")),
        ):
            assert (await node.send("OPTIONS", path)).headers["Allow"] == allow


@pytest.mark.parametrize(
    "path", ["/nowhere", "/messagegroups/g/nothing", f"{MESSAGE}/versions/1/x"]
)
async def test_a_path_that_cannot_be_takes_no_method(node: Node, path: str) -> None:
    assert (await node.send("OPTIONS", path)).status in (400, 404)


PAGE = "https://page.example"
PREFLIGHT = {"Origin": PAGE, "Access-Control-Request-Method": "PUT"}


def shared(headers: Any) -> set[str]:
    return {
        name.lower()
        for name in headers
        if name.lower().startswith("access-control-") and "methods" not in name.lower()
    }


async def test_no_page_may_use_the_api_unless_the_operator_says_so(node: Node) -> None:
    for method, headers in (("GET", {"Origin": PAGE}), ("OPTIONS", PREFLIGHT)):
        answer = await node.request(method, "/", headers=headers)
        assert not shared(answer.headers)
        assert "Origin" not in answer.headers.getall("Vary", [])


@pytest.mark.parametrize("allowed", ["*", f"https://other.example,{PAGE}"])
async def test_pages_of_allowed_origins_may_use_the_api(database_url: str, allowed: str) -> None:
    async with start_node(database_url, cors_origins=allowed) as node:
        origin = "*" if allowed == "*" else PAGE
        wanted = {**PREFLIGHT, "Access-Control-Request-Headers": "xregistry-name, content-type"}
        answer = await node.request("OPTIONS", SCHEMA, headers=wanted)
        assert answer.status == 200
        assert answer.headers["Access-Control-Allow-Origin"] == origin
        assert "PUT" in answer.headers["Access-Control-Allow-Methods"]
        assert answer.headers["Access-Control-Allow-Headers"] == "xregistry-name, content-type"
        assert int(answer.headers["Access-Control-Max-Age"]) > 0
        assert "Access-Control-Request-Headers" in answer.headers.getall("Vary")
        put = await node.request(
            "PUT", SCHEMA, body=b"{}", headers={"Origin": PAGE, "xRegistry-format": "Text/1.0"}
        )
        exposed = put.headers["Access-Control-Expose-Headers"].lower().split(", ")
        assert {"location", "concord-position", "xregistry-xregcorrelationid"} <= {*exposed}
        assert put.headers["Access-Control-Allow-Origin"] == origin
        assert ("Origin" in put.headers.getall("Vary", [])) is (allowed != "*")


async def test_pages_of_allowed_origins_may_read_errors_and_others_nothing(
    database_url: str,
) -> None:
    async with start_node(database_url, cors_origins=PAGE) as node:
        answer = await node.request("GET", "/nowhere", headers={"Origin": PAGE})
        assert answer.status == 400
        assert answer.headers["Access-Control-Allow-Origin"] == PAGE
        for origin in (f"{PAGE}.evil.example", "null", "http://page.example", None):
            answer = await node.request("GET", "/", headers={"Origin": origin} if origin else {})
            assert not shared(answer.headers), origin
            assert "Origin" in answer.headers.getall("Vary"), origin
