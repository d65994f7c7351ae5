"""Many clients at once: no update is lost, and nobody waits for ever."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.integration.conftest import Answer, Node

WRITERS = 32
GROUP = "/messagegroups/g"
MESSAGE = f"{GROUP}/messages/m"


async def all_of(*requests: Any) -> list[Answer]:
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(request) for request in requests]
    return [task.result() for task in running]


@pytest.mark.parametrize("path", ["/", GROUP, f"{MESSAGE}/meta", f"{MESSAGE}/versions/1"])
async def test_every_write_of_one_entity_is_counted(node: Node, path: str) -> None:
    """core/spec.md, "epoch Attribute": it rises with each successful write."""
    await node.put(MESSAGE)
    epoch = (await node.get(path))["epoch"]
    answers = await all_of(
        *(node.send("PATCH", path, {"labels": {"n": str(n)}}) for n in range(WRITERS))
    )
    assert {answer.status for answer in answers} == {200}
    shown = sorted(answer.json["epoch"] for answer in answers)
    assert shown == [epoch + n + 1 for n in range(WRITERS)]
    assert (await node.get(path))["epoch"] == epoch + WRITERS


@pytest.mark.parametrize("path", [GROUP, f"{MESSAGE}/meta", f"{MESSAGE}/versions/1"])
async def test_of_writers_that_expect_the_same_epoch_one_wins(node: Node, path: str) -> None:
    """core/spec.md, "mismatched_epoch"."""
    await node.put(MESSAGE)
    for _ in range(3):
        epoch = (await node.get(path))["epoch"]
        answers = await all_of(
            *(
                node.send("PATCH", path, {"epoch": epoch, "labels": {"n": str(n)}})
                for n in range(WRITERS)
            )
        )
        winners = [answer for answer in answers if answer.status == 200]
        assert len(winners) == 1
        assert {answer.error for answer in answers if answer.status != 200} == {"mismatched_epoch"}
        shown = await node.get(path)
        assert shown["epoch"] == epoch + 1
        assert shown["labels"] == winners[0].json["labels"]


async def test_different_children_of_one_parent_are_all_counted(node: Node) -> None:
    """core/spec.md, "epoch Attribute": a parent is touched by each child that comes."""
    await node.put(GROUP)
    before = await node.get(GROUP)
    answers = await all_of(
        *(node.send("PUT", f"{GROUP}/messages/m{n}", {"name": "n"}) for n in range(WRITERS))
    )
    assert {answer.status for answer in answers} == {201}
    after = await node.get(GROUP)
    assert after["messagescount"] == WRITERS
    assert after["epoch"] == before["epoch"] + WRITERS


async def test_the_same_missing_entities_are_created_once(node: Node) -> None:
    """All clients begin with an empty catalog; the group and resource are implied."""
    answers = await all_of(
        *(node.send("PUT", f"{MESSAGE}/versions/v{n}", {}) for n in range(WRITERS))
    )
    assert {answer.status for answer in answers} == {201}
    assert (await node.get("/"))["epoch"] == 2
    assert (await node.get(GROUP))["epoch"] == 1
    assert (await node.get(f"{MESSAGE}/meta"))["epoch"] == WRITERS
    assert (await node.get(MESSAGE))["versionscount"] == WRITERS
    created = [
        change.change.xid for change in await node.changes() if change.change.action == "created"
    ]
    assert len(created) == len({*created})


async def test_ids_that_the_server_gives_are_given_once(node: Node) -> None:
    """core/spec.md, "Version IDs"."""
    answers = await all_of(*(node.send("POST", MESSAGE, {}) for _ in range(WRITERS)))
    assert {answer.status for answer in answers} == {201}
    ids = sorted(int(answer.json["versionid"]) for answer in answers)
    assert ids == [*range(1, WRITERS + 1)]


async def test_a_mix_of_writers_over_the_whole_tree_comes_to_an_end(node: Node) -> None:
    """No two writers wait for each other, whatever they touch and in whatever order."""
    requests = []
    for n in range(WRITERS * 4):
        group = f"/messagegroups/g{n % 3}"
        message = f"{group}/messages/m{n % 5}"
        match n % 8:
            case 0:
                requests.append(node.send("DELETE", group))
            case 1:
                requests.append(node.send("PUT", f"{message}/versions/{n % 4}", {}))
            case 2:
                requests.append(node.send("DELETE", f"{message}/versions/{n % 4}"))
            case 3:
                requests.append(node.send("PATCH", "/", {"name": str(n)}))
            case 4:
                body = {f"g{k}": {"messages": {f"m{k}": {}}} for k in range(3)}
                requests.append(node.send("POST", "/messagegroups", body))
            case 5:
                requests.append(node.send("PATCH", group, {"name": str(n)}))
            case 6:
                requests.append(node.send("POST", message, {}))
            case _:
                requests.append(node.send("DELETE", f"{group}/messages", {"m1": {}, "m2": {}}))
    answers = await all_of(*requests)
    assert {answer.status for answer in answers} <= {200, 201, 204, 404}
    await check_counts(node)


async def check_counts(node: Node) -> None:
    shown = await node.get("/?inline=*")
    assert shown["messagegroupscount"] == len(shown["messagegroups"])
    for group in shown["messagegroups"].values():
        assert group["messagescount"] == len(group["messages"])
        for message in group["messages"].values():
            assert message["versionscount"] == len(message["versions"]) > 0
            assert message["meta"]["defaultversionid"] in message["versions"]
            ancestors = {version["ancestorid"] for version in message["versions"].values()}
            assert ancestors <= {*message["versions"]}
