"""Documents whose checks never end delay nobody else's requests, not even others' checks."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

import aiohttp

from tests.e2e.nodes import NodeProcess
from tests.hostile.bystander import bystander
from tests.hostile.conftest import StartNode

# Other addresses are other clients.
ATTACKER, OTHER = "127.0.0.2", "127.0.0.3"
HEADERS = {"Content-Type": "application/xml", "xRegistry-format": "XSD/1.0"}
SCHEMAS = "/schemagroups/g/schemas"
CONNECTIONS = 12
SECONDS = 6.0


def bomb(name: str) -> str:
    """An XML schema whose check takes longer than the world is old."""
    return (
        '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:simpleType name="t">'
        '<xs:restriction base="xs:string"><xs:pattern value="(a+)+"/></xs:restriction>'
        '</xs:simpleType><xs:simpleType name="u"><xs:restriction base="t">'
        f'<xs:enumeration value="{"a" * 60}{name}!"/></xs:restriction></xs:simpleType></xs:schema>'
    )


@contextlib.asynccontextmanager
async def client(url: str, address: str) -> AsyncIterator[aiohttp.ClientSession]:
    connector = aiohttp.TCPConnector(local_addr=(address, 0), limit=0)
    async with aiohttp.ClientSession(url, connector=connector) as session:
        yield session


@contextlib.asynccontextmanager
async def attacked(url: str) -> AsyncIterator[list[int]]:
    """One client sends such schemas over many connections; yields the statuses that it got."""
    statuses: list[int] = []
    async with client(url, ATTACKER) as session:

        async def attack(connection: int) -> None:
            number = 0
            while True:
                number += 1
                path, body = f"{SCHEMAS}/a{connection}", bomb(f"{connection}.{number}")
                async with session.put(path, data=body, headers=HEADERS) as response:
                    statuses.append(response.status)

        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(attack(n)) for n in range(CONNECTIONS)]
            yield statuses
            for task in running:
                task.cancel()


async def seconds_of_quick_checks(url: str, seconds: float) -> list[float]:
    """The time of each PUT of a schema that is soon checked, by a client of its own."""
    taken: list[float] = []
    end = time.perf_counter() + seconds
    async with client(url, OTHER) as session:
        while (begun := time.perf_counter()) < end:
            document = {"type": "fixed", "name": "f", "size": len(taken) + 1}
            headers = {"xRegistry-format": "Avro/1.12"}
            async with session.put(f"{SCHEMAS}/q", json=document, headers=headers) as response:
                assert response.status in (200, 201), await response.text()
            taken.append(time.perf_counter() - begun)
            await asyncio.sleep(0.05)  # the pace of this client
    return taken


async def test_checks_that_never_end_delay_nobody_else(victim: NodeProcess) -> None:
    async with bystander(victim.url) as seen, attacked(victim.url) as statuses:
        taken = await seconds_of_quick_checks(victim.url, SECONDS)
    seen.assert_served()
    assert set(statuses) <= {400}
    # The first one waits for a process to start.
    later = sorted(taken[1:])
    assert len(later) > 5
    assert later[round(len(later) * 0.9)] < 1.0, later


async def test_a_request_with_many_such_documents_ends_soon(start_victim: StartNode) -> None:
    settings = {"CONCORD_CHECK_SECONDS": "0.5"}
    async with start_victim(**settings) as node, client(node.url, ATTACKER) as session:
        schemas = {f"s{n}": {"format": "XSD/1.0", "schema": bomb(f"{n}")} for n in range(100)}
        schemas |= {name: {**body, "contenttype": "text/plain"} for name, body in schemas.items()}
        async with bystander(node.url) as seen:
            begun = time.perf_counter()
            async with session.post("/schemagroups/g", json={"schemas": schemas}) as response:
                told = await response.json()
            taken = time.perf_counter() - begun
        seen.assert_served(least=2)
        assert response.status == 413, told
        assert told["args"]["things"] == "seconds of checks"
        assert taken < 20, "two at a time: 10 s of checks, where all documents would take 25 s"
