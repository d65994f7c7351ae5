"""The client for programs without asyncio, against a node that runs beside them."""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio

from catalog.client import ONCE, Client, ClientError, Refused, SyncClient, Unreachable
from catalog.operations.access import WHOAMI
from catalog.operations.events import EventsQuery
from catalog.operations.feed import CopyQuery
from replication.routes import routes
from tests.integration.conftest import Node, start_node
from tests.pages import ROOT

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.in_order]

MESSAGE = "/messagegroups/g/messages/m"


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def shared(shared_database_url: str) -> AsyncIterator[Node]:
    async with start_node(shared_database_url, routes=routes, page_size=2) as node:
        yield node


async def using(url: str, program: Callable[[SyncClient], Any]) -> Any:
    """What a program returns that runs in a thread of its own, with an open client."""

    def run() -> Any:
        with SyncClient.open(url) as client:
            client.delete("/messagegroups")
            return program(client)

    async with asyncio.timeout(30):
        return await asyncio.to_thread(run)


async def test_every_call_of_the_client_blocks_as_a_call_of_the_other() -> None:
    public = {name for name in dir(Client) if not name.startswith("_")} - {"at"}
    assert public <= {*dir(SyncClient)}
    for name in public - {"open"}:
        assert inspect.signature(getattr(SyncClient, name)) == inspect.signature(
            getattr(Client, name)
        ), name


async def test_entities_are_written_read_and_listed_over_several_pages(shared: Node) -> None:
    def program(client: SyncClient) -> tuple[Any, ...]:
        made = client.create(MESSAGE, {"name": "one"})
        changed = client.update(MESSAGE, {"name": "two"}, epoch=made["epoch"])
        for number in range(4):
            client.create(f"/messagegroups/g{number}", {})
        listed = [id for id, _ in client.items("/messagegroups", sort="messagegroupid")]
        return changed["name"], listed, bool(client.position), client.call(WHOAMI).name

    name, listed, has_position, _ = await using(shared.url, program)
    assert (name, listed, has_position) == ("two", ["g", "g0", "g1", "g2", "g3"], True)


async def test_an_iterator_that_is_left_reads_no_further(shared: Node) -> None:
    def program(client: SyncClient) -> str:
        for number in range(4):
            client.create(f"/messagegroups/g{number}", {})
        return next(id for id, _ in client.items("/messagegroups", sort="messagegroupid"))

    assert await using(shared.url, program) == "g0"


async def test_errors_are_those_of_the_client(shared: Node) -> None:
    def program(client: SyncClient) -> str:
        with pytest.raises(Refused) as caught:
            client.entity(MESSAGE)
        return caught.value.problem.name

    assert await using(shared.url, program) == "not_found"
    with pytest.raises(ClientError, match="is not the URL"), SyncClient.open("nowhere"):
        pass
    with SyncClient.open("http://127.0.0.1:9", retry=ONCE) as alone, pytest.raises(Unreachable):
        alone.get("/")


async def test_a_client_that_is_closed_says_so(shared: Node) -> None:
    client = await using(shared.url, lambda client: client)
    with pytest.raises(ClientError, match="closed"):
        client.entity("/")


async def test_an_iterator_that_outlives_its_client_can_be_closed(shared: Node) -> None:
    def program(client: SyncClient) -> Any:
        client.create("/messagegroups/g", {})
        groups = client.items("/messagegroups")
        next(groups)
        return groups

    groups = await using(shared.url, program)
    groups.close()


async def test_the_feed_waits_for_changes_and_selects_them(shared: Node) -> None:
    def program(client: SyncClient) -> set[str]:
        pages = client.follow(client.cursor(), selection=CopyQuery(type=["messagegroups/messages"]))
        client.create("/schemagroups/s", {})
        writing = threading.Timer(0.2, client.create, (MESSAGE, {}))
        writing.start()
        seen: set[str] = set()
        while MESSAGE not in seen:
            seen |= {copy["xid"] for copy in next(pages).copies}
        writing.join()
        client.delete("/schemagroups/s")
        return seen

    xids = await using(shared.url, program)
    assert xids <= {"/messagegroups/g", MESSAGE, f"{MESSAGE}/versions/1"}


async def test_events_are_an_iterator(shared: Node) -> None:
    def program(client: SyncClient) -> str:
        query = {"from": "earliest", "type": ["io.xregistry.group.created"]}
        client.create("/messagegroups/g", {})
        events = client.events(EventsQuery.model_validate(query))
        subjects = (str(event["subject"]) for event in events)
        return next(subject for subject in subjects if subject == "/messagegroups/g")

    assert await using(shared.url, program) == "/messagegroups/g"


async def test_a_call_that_waits_ends_with_the_client(shared: Node) -> None:
    ended: list[BaseException] = []

    def program(client: SyncClient) -> threading.Thread:
        cursor = client.cursor()
        begun = threading.Event()

        def wait() -> None:
            pages = client.follow(cursor)
            begun.set()
            try:
                next(pages)
            except BaseException as error:
                ended.append(error)

        waiting = threading.Thread(target=wait)
        waiting.start()
        begun.wait()
        return waiting

    waiting = await using(shared.url, program)
    await asyncio.to_thread(waiting.join, 10)
    assert not waiting.is_alive()
    assert ended


INTERRUPTED = """
import signal
import sys
from catalog.client import SyncClient
# Whoever starts programs in the background has them ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)

with SyncClient.open(sys.argv[1]) as client:
    pages = client.follow(client.cursor())
    try:
        print("waiting", flush=True)
        next(pages)
    except KeyboardInterrupt:
        print("interrupted", client.entity("/")["xid"])
"""


async def test_a_program_that_is_interrupted_can_go_on(shared: Node) -> None:
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", INTERRUPTED, shared.url),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    async with asyncio.timeout(60):
        assert program.stdout is not None
        assert await program.stdout.readline() == b"waiting\n"
        program.send_signal(signal.SIGINT)
        said, failed = await program.communicate()
    assert (said, failed, program.returncode) == (b"interrupted /\n", b"", 0)
