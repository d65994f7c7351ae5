"""Waits until a federation without faults has settled, and gathers the evidence."""

from __future__ import annotations

import asyncio
import csv
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import orjson

from catalog.client import Client, ClientError, DigestRow, Refused
from catalog.operations.links import LinkReset
from tests.faults.evidence import Evidence, LogRow, Restoration, Shown
from tests.faults.federation import LOOK_SECONDS, Federation
from tests.faults.writers import message_paths, schema_paths

if TYPE_CHECKING:
    from tests.faults.run import Run

SETTLE_SECONDS = 90.0
_NOTICES = frozenset({"another instance", "lost data", "resynchronise"})


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
        await _await(run, evidence, "a log without hidden changes", lambda: _are_readable(run))
        await _await(
            run,
            evidence,
            "a look at the restored node by every link",
            run.federation.have_all_looked,
        )
        await _look_at(run, restoration)
        await _recover(run, evidence, restoration)
    await _await(run, evidence, "agreement of all nodes", run.federation.agree)
    await _await(run, evidence, "every link current without conflicts", run.federation.are_current)
    if restoration is None:
        await _await(run, evidence, "the arrival of every event", lambda: _have_arrived(run))
    before = [len(log) for log in await _logs(run)]
    await _await(run, evidence, "another look by every link", run.federation.have_all_looked)
    if run.accident is not None:
        await run.accident(run)
    evidence.logs = [
        [*(list(life) for life in run.kept[number][:-1]), [*run.kept[number][-1], *log]]
        for number, log in enumerate(await _logs(run))
    ]
    evidence.grown = [len(log) - before[n] for n, log in enumerate(await _logs(run))]
    for number, lives in enumerate(evidence.logs):
        evidence.logs[number] = [_without_repetitions(log) for log in lives]
    await read_catalogs(run.federation, evidence)
    return evidence


async def _await(
    run: Run, evidence: Evidence, what: str, condition: Callable[[], Awaitable[bool]]
) -> None:
    """Wait until a condition is true; if it does not become true, that is evidence."""
    try:
        async with asyncio.timeout(SETTLE_SECONDS):
            while True:
                try:
                    if await condition():
                        return
                except ClientError:
                    pass  # A node is about to be back.
                await asyncio.sleep(LOOK_SECONDS)  # between two looks
    except TimeoutError:
        evidence.unsettled.append(f"{what} ({await run.federation.states()})")


async def _have_arrived(run: Run) -> bool:
    """Whether no subscription of the nodes has anything to deliver."""
    for node in run.nodes:
        async with node.client() as client:
            statuses = [each.status for each in await client.subscriptions()]
        if any(status.lag and status.state != "ended" for status in statuses):
            return False
    return True


async def _are_readable(run: Run) -> bool:
    return all([await run.databases.is_readable(node.database) for node in run.nodes])


async def _logs(run: Run) -> list[list[LogRow]]:
    return [await run.databases.read_log(node.database) for node in run.nodes]


def _without_repetitions(log: list[LogRow]) -> list[LogRow]:
    """The rows, where the newest of a log that was cut are there twice."""
    return list({(row.txid, row.seq): row for row in log}.values())


async def _look_at(run: Run, restoration: Restoration) -> None:
    """Note what links say of a restored source, and what their nodes have of it."""
    held = await run.federation.held()
    restoration.before = dict(enumerate(held))
    for link in run.plan.topology.links:
        if link.source != restoration.node:
            continue
        end = run.federation.incoming(link)
        history = (await end.shown()).history
        if link in restoration.followers:
            restoration.noticed[link] = any(event.event in _NOTICES for event in history)
        restoration.reported[link] = {c.origin: c.verdict for c in await end.conflicts()}


async def _recover(run: Run, evidence: Evidence, restoration: Restoration) -> None:
    """Drop what the restored node knows nothing of, as an operator does who gives it up."""
    author = restoration.node
    name = run.nodes[author].authority
    for wave in run.plan.topology.outwards(author):
        for link in wave:
            end = run.federation.incoming(link)
            async with end.node.client() as client:
                await client.reset_link(end.id, LinkReset(drop=True, authorities=[name]))
        for link in wave:
            run.note(f"{link} copies the entities of the restored node again")
            await _await(
                run,
                evidence,
                f"agreement of {link.target} with {author}",
                lambda link=link: run.federation.agrees(link.target, author),
            )


async def read_catalogs(federation: Federation, evidence: Evidence) -> None:
    """Note what nodes hold, what authorities show of what was written, and all conflicts."""
    for number, node in enumerate(federation.nodes):
        async with node.client() as client:
            answer = await client.request(
                "GET", "/replication/digests", params={"format": "csv", "verify": "true"}
            )
            evidence.held.append(_rows(answer.body))
            for path in message_paths(number):
                evidence.shown[path] = await _message(client, path)
            for path in schema_paths(number):
                evidence.shown[path] = await _schema(client, path)
    evidence.replicated = federation.replicated
    evidence.differences = await federation.differences()
    for link, ends in federation.ends.items():
        evidence.conflicts[link] = [
            f"{c.verdict} {c.origin} {c.detail}" for end in ends for c in await end.conflicts()
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
