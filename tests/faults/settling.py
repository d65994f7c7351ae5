"""Waits until a federation without faults has settled, and gathers the evidence."""

from __future__ import annotations

import asyncio
import csv
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import orjson

from catalog.client import Client, ClientError, DigestRow, Refused
from tests.faults.evidence import Evidence, LogRow, Restoration, Shown
from tests.faults.topologies import Follows
from tests.faults.writers import message_paths, schema_paths

if TYPE_CHECKING:
    from tests.faults.run import Run

SETTLE_SECONDS = 90.0
_LOOK_SECONDS = 0.1
_NOTICES = frozenset({"another instance", "resynchronise"})


async def settle(run: Run) -> Evidence:
    """End all faults, wait until nothing is to be done any more, and look at everything."""
    evidence = Evidence(
        topology=run.plan.topology,
        authorities=[node.authority for node in run.nodes],
        history=run.history,
        streams=run.streams,
        restoration=run.restoration,
        timeline=run.timeline,
    )
    for line in run.lines.values():
        line.mend()
    restoration = run.restoration
    if restoration is not None:
        await _await(
            evidence, "a look at the restored node by every link", lambda: _have_all_looked(run)
        )
        await _look_at(run, restoration)
        await _recover(run, evidence, restoration)
    await _await(evidence, "agreement of all nodes", lambda: _agree(run))
    await _await(evidence, "every link current without conflicts", lambda: _are_current(run))
    if restoration is None:
        await _await(evidence, "the arrival of every event", lambda: _have_arrived(run))
    before = [len(log) for log in await _logs(run)]
    await _await(evidence, "another look by every link", lambda: _have_all_looked(run))
    if run.accident is not None:
        await run.accident(run)
    evidence.logs = [
        [*(list(life) for life in run.kept[number][:-1]), [*run.kept[number][-1], *log]]
        for number, log in enumerate(await _logs(run))
    ]
    evidence.grown = [len(log) - before[n] for n, log in enumerate(await _logs(run))]
    for number, lives in enumerate(evidence.logs):
        evidence.logs[number] = [_without_repetitions(log) for log in lives]
    await _read_catalogs(run, evidence)
    return evidence


async def _await(evidence: Evidence, what: str, condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until a condition is true; if it does not become true, that is evidence."""
    try:
        async with asyncio.timeout(SETTLE_SECONDS):
            while True:
                try:
                    if await condition():
                        return
                except ClientError:
                    pass  # A node is about to be back.
                await asyncio.sleep(_LOOK_SECONDS)  # between two looks
    except TimeoutError:
        evidence.unsettled.append(what)


async def _held(run: Run) -> list[list[DigestRow]]:
    found = []
    for node in run.nodes:
        async with node.client() as client:
            found.append(await client.digest_rows())
    return found


async def _agree(run: Run) -> bool:
    held = [_by_authority(rows) for rows in await _held(run)]
    names = [node.authority for node in run.nodes]
    return all(
        held[target].get(names[author], set()) == held[author].get(names[author], set())
        for target, author in run.plan.topology.carried()
    )


def _by_authority(rows: list[DigestRow]) -> dict[str, set[DigestRow]]:
    found: dict[str, set[DigestRow]] = {}
    for row in rows:
        if row.xid != "/":
            found.setdefault(row.authority, set()).add(row)
    return found


async def _link(run: Run, link: Follows) -> dict[str, Any]:
    async with run.nodes[link.target].client() as client:
        return await client.link(f"from{link.source}")


async def _are_current(run: Run) -> bool:
    shown = [await _link(run, link) for link in run.plan.topology.links]
    return all(link["state"] == "current" and not link["conflicts"] for link in shown)


async def _have_all_looked(run: Run) -> bool:
    """Whether every link has found its source without news since this was asked first."""
    links = run.plan.topology.links
    first = {link: (await _link(run, link))["currentat"] for link in links}
    for _ in range(2):
        waiting = set(links)
        while waiting:
            for link in list(waiting):
                shown = await _link(run, link)
                if shown["state"] == "current" and shown["currentat"] != first[link]:
                    first[link] = shown["currentat"]
                    waiting.discard(link)
            await asyncio.sleep(_LOOK_SECONDS)  # between two looks
    return True


async def _have_arrived(run: Run) -> bool:
    """Whether no subscription of the nodes has anything to deliver."""
    for node in run.nodes:
        async with node.client() as client:
            statuses = [each["status"] for each in await client.subscriptions()]
        if any(status["lag"] and status["state"] != "ended" for status in statuses):
            return False
    return True


async def _logs(run: Run) -> list[list[LogRow]]:
    return [await run.databases.read_log(node.database) for node in run.nodes]


def _without_repetitions(log: list[LogRow]) -> list[LogRow]:
    """The rows, where the newest of a log that was cut are there twice."""
    return list({(row.txid, row.seq): row for row in log}.values())


async def _look_at(run: Run, restoration: Restoration) -> None:
    """Note what links say of a restored source, and what their nodes have of it."""
    held = await _held(run)
    restoration.before = dict(enumerate(held))
    for link in run.plan.topology.links:
        if link.source != restoration.node:
            continue
        shown = await _link(run, link)
        restoration.noticed[link] = any(e["event"] in _NOTICES for e in shown["history"])
        async with run.nodes[link.target].client() as client:
            conflicts = await client.conflicts(f"from{link.source}")
        restoration.ahead[link] = {c["origin"] for c in conflicts if c["verdict"] == "ahead"}


async def _recover(run: Run, evidence: Evidence, restoration: Restoration) -> None:
    """Drop what the restored node knows nothing of, as an operator does who gives it up."""
    author = restoration.node
    name = run.nodes[author].authority
    for wave in run.plan.topology.outwards(author):
        for link in wave:
            async with run.nodes[link.target].client() as client:
                await client.reset_link(f"from{link.source}", drop=True, authorities=[name])
        for link in wave:
            run.note(f"{link} copies the entities of the restored node again")
            await _await(
                evidence,
                f"agreement of {link.target} with {author}",
                lambda link=link: _agrees(run, link.target, author),
            )


async def _agrees(run: Run, target: int, author: int) -> bool:
    held, name = await _held(run), run.nodes[author].authority
    ours, theirs = (_by_authority(held[number]).get(name, set()) for number in (target, author))
    return ours == theirs


async def _read_catalogs(run: Run, evidence: Evidence) -> None:
    evidence.held = []
    for node in run.nodes:
        async with node.client() as client:
            answer = await client.request(
                "GET", "/replication/digests", params={"format": "csv", "verify": "true"}
            )
            evidence.held.append(_rows(answer.body))
            for path in message_paths(node.number):
                evidence.shown[path] = await _message(client, path)
            for path in schema_paths(node.number):
                evidence.shown[path] = await _schema(client, path)
    for link in run.plan.topology.links:
        async with run.nodes[link.target].client() as client:
            conflicts = await client.conflicts(f"from{link.source}")
        evidence.conflicts[link] = [
            f"{c['verdict']} {c['origin']} {c['detail']}" for c in conflicts
        ]


def _rows(body: bytes) -> list[DigestRow]:
    return [
        DigestRow(
            authority=row["authority"],
            origin=row["origin"],
            xid=row["xid"],
            epoch=int(row["epoch"]),
            is_deleted=row["deleted"] == "true",
            digest=row["digest"],
        )
        for row in csv.DictReader(body.decode().splitlines())
    ]


async def _message(client: Client, path: str) -> Shown | None:
    try:
        shown = await client.get(path)
    except Refused as error:
        return _nothing(error)
    return Shown(shown["description"], shown["epoch"])


async def _schema(client: Client, path: str) -> Shown | None:
    try:
        answer = await client.request("GET", path)
    except Refused as error:
        return _nothing(error)
    return Shown(orjson.loads(answer.body)["title"], int(answer.headers["xRegistry-epoch"]))


def _nothing(error: Refused) -> None:
    if error.problem.status != 404:
        raise error
