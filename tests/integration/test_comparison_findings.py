"""A node keeps the single findings of comparisons within bounds, and shows both sides of each."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio

from tests.integration.conftest import Node
from tests.integration.federation import databases, link, link_is, running, start_member
from tests.integration.test_access_tokens import concord

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.in_order]
PATH = "/replication/reconciliations"
MOST = 7


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def members(postgres_url: str, template: str) -> AsyncIterator[tuple[Node, Node]]:
    """A source, and a follower with a paused link, which lacks a later change of the source."""
    async with (
        databases(postgres_url, template, 2) as (one, two),
        start_member(one) as source,
        start_member(two, comparison_findings=MOST) as follower,
    ):
        await source.put("/messagegroups/g", {"description": "before"})
        async with running(follower):
            id = (await link(follower, source))["id"]
            await link_is(follower, id, "current")
        await source.put("/messagegroups/g", {"description": "after"})
        yield source, follower


def finding(source: Node, number: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "finding": "stale",
        "catalog": "here",
        "authority": source.database.node.authority,
        "origin": f"/messagegroups/g{number or ''}",
        "epoch": 1,
        "reference": "there",
        "referenceepoch": 2,
        **more,
    }


async def tell(source: Node, follower: Node, *findings: dict[str, Any], first: int = 0) -> str:
    """Report a comparison with findings; returns its path."""
    run = str(uuid4())
    time = "2030-01-01T00:00:00Z"
    report = {"run": run, "startedat": time, "endedat": time, "outcome": "different"}
    named = {"name": "here", "catalogs": ["here", "there"], "findings": {"stale": 1}}
    answer = await follower.send("POST", PATH, report | named)
    assert answer.status == 204, answer.body
    there = {"name": "there", "authority": source.database.node.authority, "findings": {}}
    told = {"compared": [there], "first": first, "findings": [*findings]}
    answer = await follower.send("POST", f"{PATH}/{run}/findings", told)
    assert answer.status == 200, answer.body
    assert answer.json["kept"] + answer.json["wanted"] == MOST - first
    return f"{PATH}/{run}/findings"


async def test_a_finding_shows_both_sides_as_they_are_now(members: tuple[Node, Node]) -> None:
    source, follower = members
    path = await tell(source, follower, finding(source))
    shown = await follower.get(f"{path}/0?ask")
    assert shown["copied"]["ishere"]
    assert shown["copied"]["present"]["epoch"] == 1
    assert shown["reference"]["present"]["epoch"] == 2
    assert shown["reference"]["link"]
    assert (shown["isequal"], shown["isrepairable"]) == (False, True)
    values = {each["name"]: (each["copied"], each["reference"]) for each in shown["attributes"]}
    assert values["description"] == ('"before"', '"after"')


async def test_after_a_repair_both_sides_agree(members: tuple[Node, Node]) -> None:
    source, follower = members
    await source.put("/messagegroups/repaired", {"description": "new"})
    wrong = finding(source, finding="missing", origin="/messagegroups/repaired")
    path = await tell(source, follower, wrong)
    shown = await follower.get(f"{path}/0?ask")
    assert (shown["copied"]["isabsent"], shown["reference"]["present"]["epoch"]) == (True, 1)
    wanted = [{"authority": wrong["authority"], "origin": wrong["origin"]}]
    answer = await follower.send("POST", "/replication/repair", {"origins": wanted})
    assert answer.json == {"verdicts": {"applied": 1}, "unresolved": []}
    assert (await follower.get(f"{path}/0?ask"))["isequal"]


async def test_the_other_catalog_is_asked_only_if_wanted(members: tuple[Node, Node]) -> None:
    source, follower = members
    path = await tell(source, follower, finding(source))
    shown = await follower.get(f"{path}/0")
    assert shown["copied"]["present"]["epoch"] == 1
    assert (shown["reference"]["fault"], shown["attributes"]) == ("it was not asked", [])


async def test_a_catalog_that_no_link_leads_to_is_named_with_the_reason(
    members: tuple[Node, Node],
) -> None:
    source, follower = members
    path = await tell(source, follower, finding(source, reference="elsewhere"))
    shown = await follower.get(f"{path}/0?ask")
    assert "no link of this node leads there" in shown["reference"]["fault"]
    assert shown["copied"]["present"]["epoch"] == 1
    assert not shown["isequal"]


async def test_a_dead_catalog_is_named_with_the_reason(members: tuple[Node, Node]) -> None:
    source, follower = members
    dead = {"source": "http://127.0.0.1:9", "authority": "urn:dead", "mode": "pull"}
    answer = await follower.send("POST", "/replication/links?force", dead)
    assert answer.status == 201, answer.body
    path = await tell(source, follower, finding(source, reference="dead"))
    there = {"name": "dead", "authority": "urn:dead"}
    told = {"compared": [there], "first": 0, "findings": []}
    assert (await follower.send("POST", path, told)).status == 200
    shown = await follower.get(f"{path}/0?ask")
    assert shown["reference"]["link"] == answer.json["id"]
    assert "127.0.0.1:9" in shown["reference"]["fault"]


async def test_findings_are_kept_up_to_the_setting_and_once(members: tuple[Node, Node]) -> None:
    source, follower = members
    many = [finding(source, number) for number in range(1, MOST + 3)]
    path = await tell(source, follower, *many)
    again = {"compared": [], "first": 0, "findings": many[:2]}
    assert (await follower.send("POST", path, again)).json == {"kept": 2, "wanted": MOST - 2}
    beyond = {"compared": [], "first": MOST + 2, "findings": many[:1]}
    assert (await follower.send("POST", path, beyond)).json == {"kept": 0, "wanted": 0}
    found = await follower.get(path)
    assert [each["number"] for each in found["findings"]] == [*range(MOST)]
    assert found["count"] == MOST
    [report] = [each for each in (await reports(follower)) if each["run"] in path]
    assert report["kept"] == MOST


async def reports(node: Node) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await node.get(PATH))["reconciliations"]
    return found


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        ("finding=missing", [1]),
        ("catalog=there", [2]),
        ("path=/messagegroups/g1", [0, 3]),
        ("path=/messagegroups", [0, 1, 2, 3]),
        ("path=/messagegroups/g_", []),
        ("limit=2", [0, 1]),
        ("limit=2&after=1", [2, 3]),
    ],
)
async def test_findings_are_filtered_and_paged(
    members: tuple[Node, Node], query: str, numbers: list[int]
) -> None:
    source, follower = members
    path = await tell(
        source,
        follower,
        finding(source, 1),
        finding(source, 11, finding="missing"),
        finding(source, 2, catalog="there"),
        finding(source, 1, origin="/messagegroups/g1/messages/m"),
    )
    answer = await follower.send("GET", f"{path}?{query}")
    assert [each["number"] for each in answer.json["findings"]] == numbers
    following = [each for each in answer.headers.getall("Link", ()) if "rel=next" in each]
    assert bool(following) is (query == "limit=2")


@pytest.mark.parametrize(
    "more", [{"finding": "lost"}, {"origin": "g"}, {"digest": "0"}, {"epoch": -1}]
)
async def test_a_malformed_finding_is_refused(
    members: tuple[Node, Node], more: dict[str, Any]
) -> None:
    source, follower = members
    path = await tell(source, follower)
    told = {"compared": [], "first": 0, "findings": [finding(source, **more)]}
    assert (await follower.send("POST", path, told)).status == 400


@pytest.mark.parametrize(
    "at",
    [
        "no-uuid/findings/0",
        "00000000-0000-4000-8000-000000000000/findings",
        "{run}/x",
        "{run}/99",
    ],
)
async def test_what_was_not_told_is_not_there(members: tuple[Node, Node], at: str) -> None:
    path = await tell(*members)
    run = path.removeprefix(f"{PATH}/")
    assert (await members[1].send("GET", f"{PATH}/{at.replace('{run}', run)}")).status == 404


async def test_commands_show_the_findings_and_both_sides_of_one(
    members: tuple[Node, Node],
) -> None:
    source, follower = members
    path = await tell(source, follower, finding(source), finding(source, finding="ahead"))
    run, place = path.split("/")[-2], {"CONCORD_URL": follower.url}
    shown = await concord("reconcile", "findings", "--run", run, "--finding", "stale", **place)
    assert shown.stdout.split().count("/messagegroups/g") == 1, shown.output
    shown = await concord("reconcile", "findings", "0", "--run", run, **place)
    text = " ".join(shown.stdout.split())
    assert 'description: "before" instead of "after"' in text
    assert "here (this node): epoch 1" in text
    assert "there: epoch 2" in text
    missing = await concord("reconcile", "findings", "99", "--run", run, **place)
    assert missing.exit_code == 1
    wrong = await concord("reconcile", "findings", "--run", "latest", **place)
    assert "no id of a comparison" in wrong.stderr
