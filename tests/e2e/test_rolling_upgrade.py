"""Two hosts behind one database go to a newer version, one after the other, while clients write."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import aiohttp
import asyncpg
import pytest

from catalog.demo.eventsink import open_sink
from catalog.operations.subscriptions import NewSubscription
from catalog.store.schemamigration import migrations
from tests.conftest import KEY_VARIABLE
from tests.e2e.nodes import NodeProcess, node_at, until

ROOT = Path(__file__).parents[2]
WRITERS = 4
# The newer version has what older processes do not know: columns of the tables that they read and
# write, a table and an index.
MIGRATION = """
ALTER TABLE entities ADD COLUMN note text NOT NULL DEFAULT '';
ALTER TABLE changes ADD COLUMN note text NOT NULL DEFAULT '';
ALTER TABLE subscriptions ADD COLUMN note text;
ALTER TABLE node ADD COLUMN note text;
CREATE TABLE notes (xid text COLLATE "C" PRIMARY KEY, note text NOT NULL);
CREATE INDEX entities_note ON entities (note) WHERE note <> '';
"""

pytestmark = pytest.mark.timeout(300)


@dataclass(slots=True)
class Hosts:
    """The hosts that clients are led to, as a balancer does it, and what clients wrote there."""

    in_service: list[NodeProcess]
    under_way: Counter[str] = field(default_factory=Counter)
    written: dict[str, str] = field(default_factory=dict)
    is_over: bool = False

    async def write(self, number: int) -> None:
        """Write one entity again and again, at one host after the other; no request may fail."""
        path = f"/messagegroups/g{number}/messages/m"
        async with aiohttp.ClientSession() as session:
            for round in count(number):
                if self.is_over:
                    return
                host = self.in_service[round % len(self.in_service)]
                self.under_way[host.url] += 1
                try:
                    text = str(round)
                    body = {"description": text}
                    async with session.put(f"{host.url}{path}", json=body) as answer:
                        assert answer.status in (200, 201), await answer.text()
                    self.written[path] = text
                    async with session.get(f"{host.url}{path}") as answer:
                        assert (await answer.json())["description"] == text
                finally:
                    self.under_way[host.url] -= 1

    async def go_on(self) -> None:
        """Wait until every writer has written again, at each host that is in service."""
        before = dict(self.written)
        await until(
            lambda: (
                len(self.written) == WRITERS
                and all(
                    int(text) >= int(before.get(path, 0)) + 4 for path, text in self.written.items()
                )
            ),
            what="further writes",
        )

    @asynccontextmanager
    async def without(self, host: NodeProcess) -> AsyncIterator[None]:
        """Lead clients elsewhere, and wait for what is under way."""
        self.in_service = [each for each in self.in_service if each is not host]
        await until(lambda: not self.under_way[host.url], what="the last answers")
        yield
        self.in_service = [*self.in_service, host]


def install_newer(directory: Path) -> Path:
    """Another installation of the program, with one more migration."""
    for package in ("catalog", "replication"):
        shutil.copytree(ROOT / package, directory / package)
    number = migrations()[-1].number + 1
    file = directory / f"catalog/store/migrations/{number:04}_notes.sql"
    file.write_text(MIGRATION)
    return directory


async def applied(database_url: str) -> int:
    connection = await asyncpg.connect(database_url)
    try:
        return int(await connection.fetchval("SELECT count(*) FROM migrations"))
    finally:
        await connection.close()


async def test_no_request_fails_and_no_write_is_lost(database_url: str, tmp_path: Path) -> None:
    newer = install_newer(tmp_path / "newer")
    shared = {
        "CONCORD_DATABASE_URL": database_url,
        "CONCORD_PUBLIC_URL": "https://hub.example.com",
        "CONCORD_ALLOW_PRIVATE_ADDRESSES": "true",
        "CONCORD_HOSTS": "*",
        "CONCORD_OPEN": "true",
        "PYTHONPATH": str(ROOT),
        # Not what is in the directory that it is started in.
        "PYTHONSAFEPATH": "1",
        KEY_VARIABLE: os.environ[KEY_VARIABLE],
    }
    told: set[str] = set()
    nodes = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        nodes.append(node_at(tmp_path / name, **shared))
    hosts = Hosts(nodes)
    async with open_sink(lambda event: told.add(str(event.get("subject")))) as sink:
        try:
            await asyncio.gather(*(node.start() for node in nodes))
            async with nodes[0].client() as client:
                await client.subscribe(NewSubscription(sink=sink, protocol="HTTP"))
            async with asyncio.TaskGroup() as tasks:
                for number in range(WRITERS):
                    tasks.create_task(hosts.write(number))
                await hosts.go_on()
                for node in nodes:
                    async with hosts.without(node):
                        assert await node.end(signal.SIGTERM) == 0
                        node.environment["PYTHONPATH"] = str(newer)
                        await node.start()
                    # The one that is left of the older version writes to what the newer one made.
                    assert await applied(database_url) == len(migrations()) + 1
                    await hosts.go_on()
                hosts.is_over = True
            for node in nodes:
                async with node.client() as client:
                    for path, text in hosts.written.items():
                        assert (await client.get(path))["description"] == text
            await until(lambda: told.issuperset(hosts.written), what="every event")
        finally:
            hosts.is_over = True
            await asyncio.gather(*(node.end(signal.SIGTERM) for node in nodes if node.process))
    assert not any("Traceback" in node.log.read_text() for node in nodes)
