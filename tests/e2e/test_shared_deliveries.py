"""Two processes of one node share its deliveries, and one takes over when the other is killed."""

from __future__ import annotations

import signal
from collections import defaultdict
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from catalog.demo.eventsink import open_sink
from tests.e2e.nodes import node_at, running, until
from tests.integration.conftest import start_node

SUBSCRIPTIONS = 30
TAKEOVER_SECONDS = 10


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM])
async def test_the_other_process_takes_over(
    database_url: str, tmp_path: Path, how: signal.Signals
) -> None:
    """However a process leaves, each subscription gets every change, in order."""
    received: defaultdict[str, list[str]] = defaultdict(list)

    def take(event: dict[str, Any]) -> None:
        group = event["subject"].rpartition("/")[2]
        received[group].append(event["sequence"])

    nodes = [node_at(tmp_path / name, CONCORD_DATABASE_URL=database_url) for name in "ab"]
    for node in nodes:
        node.log.parent.mkdir()
    groups = [f"g{number}" for number in range(SUBSCRIPTIONS)]
    async with (
        start_node(database_url, allow_private_addresses=True) as writer,
        open_sink(lambda event: take(dict(event))) as sink,
        running(*nodes),
    ):
        for group in groups:
            asked = {"sink": sink, "protocol": "HTTP"}
            asked["filters"] = [{"exact": {"subject": f"/messagegroups/{group}"}}]
            answer = await writer.send("POST", "/subscriptions", asked)
            assert answer.status == 201, answer.body
        await until(lambda: _processes(database_url), what="an even share")
        for group in groups:
            await writer.put(f"/messagegroups/{group}")
        await until(lambda: len(received) == SUBSCRIPTIONS, what="the first change of each")
        nodes[0].process.send_signal(how)  # type: ignore[union-attr]
        for group in groups:
            await writer.put(f"/messagegroups/{group}", {"description": "again"})
        await until(
            lambda: all(len({*received[group]}) == 2 for group in groups),
            seconds=TAKEOVER_SECONDS,
            what="the second change of each",
        )
        if how is signal.SIGSTOP:
            nodes[0].process.send_signal(signal.SIGCONT)  # type: ignore[union-attr]
            await until(lambda: _processes(database_url), what="an even share again")
        logged = [each for each in await writer.changes() if each.change.kind == "group"]
    for group in groups:
        sent = [str(each.position) for each in logged if str(each.change.xid).endswith(f"/{group}")]
        assert [*dict.fromkeys(received[group])] == sent


async def _processes(database_url: str) -> bool:
    """Whether two processes have half of the leases each."""
    connection = await asyncpg.connect(database_url)
    try:
        rows = await connection.fetch(
            "SELECT count(*) FROM delivery_leases WHERE process NOTNULL GROUP BY process"
        )
    finally:
        await connection.close()
    return [row["count"] for row in rows] == [32, 32]
