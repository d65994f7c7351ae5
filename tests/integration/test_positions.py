"""Every write of every API answers with its position in the change log."""

from __future__ import annotations

from typing import Any

import pytest

from catalog.store.changes import LogCursor, Position
from tests.integration.conftest import Answer, Node, assert_problem

WRITES: list[tuple[str, str, Any]] = [
    ("PUT", "/messagegroups/g", {}),
    ("PATCH", "/messagegroups/g", {"name": "G"}),
    ("POST", "/messagegroups/g", {"messages": {"m": {}, "n": {}}}),
    ("POST", "/messagegroups/g/messages/m$details", {"description": "second"}),
    ("PATCH", "/messagegroups/g/messages/m/meta", {"defaultversionid": "1"}),
    ("POST", "/", {"messagegroups": {"h": {"messages": {"m": {}}}}}),
    ("POST", "/apply", {"messagegroups": {"h": {"messages": {"o": {}}}}}),
    ("PATCH", "/capabilities", {"pagination": False}),
    ("DELETE", "/messagegroups/g/messages/m/versions/2", None),
    ("DELETE", "/messagegroups/g/messages", {"n": {}}),
    ("DELETE", "/messagegroups", None),
    ("PUT", "/messagecatalog/c", {"format": "CloudEvents"}),
    ("DELETE", "/messagecatalog/c", None),
    ("POST", "/services", [{"name": "one", "url": "http://h", "protocols": ["HTTP"]}]),
    ("POST", "/registry/0.4/schemaGroups", {"id": "s", "format": "text"}),
    ("DELETE", "/registry/0.4/schemaGroups/s", None),
]


async def newest(node: Node) -> str:
    """The position of the last change, which may not be readable yet."""
    async with node.database.acquire() as connection:
        row = await connection.fetchrow(
            "SELECT txid, seq FROM changes ORDER BY txid DESC, seq DESC LIMIT 1"
        )
    return str(LogCursor.at(node.database.node.instance, Position(row["txid"], row["seq"])))


async def test_the_position_of_a_write_is_that_of_its_last_change(node: Node) -> None:
    before = ""
    for method, path, body in WRITES:
        answer = await node.send(method, path, body)
        assert answer.status < 300, (method, path, answer.body)
        position = answer.headers["Concord-Position"]
        assert position == await newest(node), (method, path)
        assert position > before, (method, path)
        before = position


async def test_a_change_of_the_model_that_adapts_entities_comes_after_all_of_them(
    node: Node,
) -> None:
    await node.put("/messagegroups/g")
    source = await node.get("/modelsource")
    group = source["groups"]["messagegroups"]
    group.setdefault("attributes", {})["grade"] = {
        "name": "grade",
        "type": "string",
        "required": True,
        "default": "a",
    }
    answer = await node.send("PUT", "/modelsource", source)
    assert answer.status == 200, answer.body
    assert (await node.get("/messagegroups/g"))["grade"] == "a"
    assert answer.headers["Concord-Position"] == await newest(node)


async def test_a_write_that_changes_nothing_has_the_position_of_what_it_saw(node: Node) -> None:
    written = await node.send("PUT", "/messagegroups/g", {})
    unchanged = await node.send("POST", "/apply", {"messagegroups": {"g": {}}})
    assert unchanged.json["changes"] == []
    assert unchanged.headers["Concord-Position"] == written.headers["Concord-Position"]


async def test_an_answer_that_comes_later_has_the_position_of_its_write(node: Node) -> None:
    service = {"name": "one", "url": "http://h", "protocols": ["HTTP"]}
    accepted = await node.send("POST", "/services", [service], Prefer="respond-async")
    assert accepted.status == 202
    status = accepted.headers["Location"].removeprefix(node.url)
    answer = await node.send("GET", status)
    while answer.status == 202:
        answer = await node.send("GET", status)
    assert answer.headers["Concord-Position"] == await newest(node)


async def waiting(node: Node, path: str, position: str, seconds: str = "0") -> Answer:
    return await node.send(
        "GET", path, Concord_Wait_For=position, Prefer=f"respond-async, wait={seconds}"
    )


async def test_a_position_of_the_node_itself_is_reached(node: Node) -> None:
    answer = await node.send("PUT", "/messagegroups/g", {})
    position = answer.headers["Concord-Position"]
    read = await waiting(node, "/messagegroups/g", position)
    assert read.status == 200
    assert read.headers["Concord-Position"] == position


async def test_an_answer_without_wait_has_no_position(node: Node) -> None:
    assert "Concord-Position" not in (await node.send("GET", "/")).headers


@pytest.mark.parametrize("text", ["", "now", "01234567.1", ",", "x" * 5000])
async def test_what_is_no_position_is_refused(node: Node, text: str) -> None:
    answer = await waiting(node, "/", text)
    assert (answer.status, answer.error) == (400, "bad_request")
    assert_problem(answer)


async def test_too_many_positions_are_refused(node: Node) -> None:
    position = (await node.send("PUT", "/messagegroups/g", {})).headers["Concord-Position"]
    many = ", ".join([position] * 10)
    assert (await waiting(node, "/", many)).status == 200
    assert (await waiting(node, "/", f"{many}, {position}")).status == 400


async def test_a_position_that_the_log_does_not_have_is_refused(node: Node) -> None:
    ahead = LogCursor.at(node.database.node.instance, Position(2**62, 1))
    answer = await waiting(node, "/", str(ahead))
    assert (answer.status, answer.error) == (400, "unknown_position")
    assert_problem(answer)


async def test_a_position_of_a_catalog_that_nobody_follows_is_refused(node: Node) -> None:
    answer = await waiting(node, "/", "01234567.1.1")
    assert (answer.status, answer.error) == (400, "unknown_position")
    assert "follows" in assert_problem(answer)["title"]


async def test_a_write_ignores_the_position_that_it_names(node: Node) -> None:
    answer = await node.send("PUT", "/messagegroups/g", {}, Concord_Wait_For="nonsense")
    assert answer.status == 201
