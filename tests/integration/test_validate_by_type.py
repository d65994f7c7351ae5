"""Messages that are checked without the name of their definition, which their type finds."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner

from catalog.access.owntokens import make_token
from catalog.cli import app
from catalog.model.roles import Grant
from tests.integration.auditing import as_role
from tests.integration.conftest import Node, assert_problem, shared_node
from tests.integration.test_message_validation import BASE, EVENT, EVENT_OF_BASE, define, rules

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.in_order]

node = shared_node(anonymous_role="writer")


async def validate(node: Node, message: Any, query: str = "", **headers: str) -> Any:
    answer = await node.send(
        "POST", f"/validate{query}", message, **{"Content-Type": EVENT, **headers}
    )
    assert answer.status == 200, answer.body
    return answer.json


async def test_the_type_finds_the_definition_and_violations_have_their_lines(node: Node) -> None:
    path = await define(node, "found", BASE, group="typed")
    assert (await validate(node, EVENT_OF_BASE))["definition"] == f"{path}/versions/1"
    text = orjson.dumps(EVENT_OF_BASE | {"data": {"name": 5}}, option=orjson.OPT_INDENT_2)
    caller = await as_role(node, "reader")
    headers = {"Authorization": f"Bearer {caller.text}", "Content-Type": EVENT}
    answer = await node.request("POST", "/validate", body=text, headers=headers)
    [violation] = answer.json["violations"]
    lines = text.decode().splitlines()
    assert violation["pointer"] == "/data/name"
    assert '"name": 5' in lines[violation["line"] - 1]
    assert answer.json["candidates"] == [
        {"definition": f"{path}/versions/1", "matches": True, "valid": False, "violations": []}
    ]


async def test_of_several_definitions_the_one_that_fits_is_used_and_all_say_why(
    node: Node,
) -> None:
    type = {"type": {"value": "shared.type"}}
    for name, source in (("north", "urn:north"), ("south", "urn:south")):
        metadata = {**type, "source": {"value": source}}
        await define(node, name, BASE | {"envelopemetadata": metadata}, group="shared")
    event = {"specversion": "1.0", "id": "1", "type": "shared.type", "source": "urn:south"}
    answer = await validate(node, event | {"data": {"name": "x"}})
    assert answer["valid"] is True
    used, other = answer["candidates"]
    assert (
        used["definition"]
        == answer["definition"]
        == ("/messagegroups/shared/messages/south/versions/1")
    )
    assert (used["matches"], other["matches"]) == (True, False)
    assert other["violations"] == [
        {
            "pointer": "/source",
            "rule": "value",
            "detail": "it must be urn:north, and is urn:south",
            "line": 1,
        }
    ]


async def test_a_template_is_a_definition_of_each_type_that_it_fits(node: Node) -> None:
    type = {"type": {"value": "tmpl.{thing}.made", "type": "uritemplate"}}
    path = await define(node, "template", BASE | {"envelopemetadata": type}, group="templates")
    event = {"specversion": "1.0", "id": "1", "type": "tmpl.chair.made", "source": "urn:s"}
    answer = await validate(node, event | {"data": {"name": "x"}})
    assert (answer["valid"], answer["definition"]) == (True, f"{path}/versions/1")


async def test_the_data_alone_is_checked_if_the_type_is_given(node: Node) -> None:
    await define(node, "data", BASE | {"envelopemetadata": {"type": {"value": "just.data"}}})
    answer = await validate(node, {"name": 1}, "?type=just.data", **{"Content-Type": "text/json"})
    assert rules(answer) == [("/name", "payload")]
    assert answer["unchecked"] == [
        {"part": "envelopemetadata", "reason": "only the data was given"}
    ]


async def test_a_message_without_a_definition_that_can_be_found_says_what_to_do(
    node: Node,
) -> None:
    caller = await as_role(node, "reader")
    unknown = await caller.send("POST", "/validate", EVENT_OF_BASE | {"type": "no.such"})
    assert assert_problem(unknown)["detail"].endswith("concord search no.such --type messages.")
    assert (unknown.status, unknown.error) == (404, "definition_unknown")
    others: list[Any] = [{"protocol": "KAFKA", "key": "k"}, {"specversion": "1.0", "id": "1"}, []]
    for message in others:
        answer = await caller.send("POST", "/validate", message)
        assert answer.status == 400, answer.body
    assert (await caller.send("POST", "/validate")).status == 400


async def test_a_definition_that_the_caller_may_not_see_is_not_found(node: Node) -> None:
    hidden = BASE | {"envelopemetadata": {"type": {"value": "seen.by.some"}}}
    await define(node, "m", hidden, group="hidden")
    await define(node, "m", hidden, group="open")
    grants = (Grant("reader", "/messagegroups/open"),)
    async with node.database.acquire() as connection:
        _, text = await make_token(connection, name="", grants=grants, expiresat=None)
    event = {"specversion": "1.0", "id": "1", "type": "seen.by.some", "source": "urn:s"}
    sent = {"Authorization": f"Bearer {text}", "Content-Type": EVENT}
    answer = await node.send("POST", "/validate", event, **sent)
    assert [each["definition"] for each in answer.json["candidates"]] == [
        "/messagegroups/open/messages/m/versions/1"
    ]


async def test_the_command_finds_the_definition(node: Node, tmp_path: Path) -> None:
    path = await define(
        node, "ordered", BASE | {"envelopemetadata": {"type": {"value": "by.command"}}}
    )
    (tmp_path / "data.json").write_text('{\n "name": 7\n}')
    caller = await as_role(node, "reader")
    arguments = ["validate", str(tmp_path / "data.json"), "--type", "by.command"]
    told = await asyncio.to_thread(
        CliRunner().invoke,
        app,
        [*arguments, "--url", node.url],
        env={"CONCORD_TOKEN": caller.text},
    )
    assert told.exit_code == 1, told.output
    assert f"{path}/versions/1" in told.output
    assert "/name (line 2)" in told.output
