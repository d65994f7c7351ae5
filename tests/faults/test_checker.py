"""The checker finds each promise broken in evidence of a run that kept them all."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from catalog.client import DigestRow
from tests.faults.checker import violations
from tests.faults.databases import RunDatabases
from tests.faults.evidence import Evidence, LogRow, Restoration, Shown
from tests.faults.faultplan import FaultPlan
from tests.faults.history import History, WriteRecord
from tests.faults.run import Run
from tests.faults.topologies import Follows, Topology

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]
SEED, SECONDS = 11, 4.0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def kept(
    databases: RunDatabases, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Evidence]:
    """The evidence of a run of two nodes."""
    plan = FaultPlan.of(SEED, SECONDS, topology="peers", restores=False)
    directory = tmp_path_factory.mktemp("run")
    run = Run(plan=plan, databases=databases, directory=directory, tell=lambda _: None)
    yield await run.carry_out()


def alter_a_replica(evidence: Evidence) -> None:
    rows = evidence.held[1]
    number = next(n for n, row in enumerate(rows) if row.authority == evidence.authorities[0])
    rows[number] = rows[number]._replace(digest="0" * 64)


def lose_a_replica(evidence: Evidence) -> None:
    evidence.held[1].remove(
        next(row for row in evidence.held[1] if row.authority == evidence.authorities[0])
    )


def invent_a_replica(evidence: Evidence) -> None:
    row = next(row for row in evidence.held[1] if row.authority == evidence.authorities[0])
    evidence.held[1].append(row._replace(origin="/messagegroups/x", xid="/messagegroups/x"))


def lose_a_write(evidence: Evidence) -> None:
    """The newest acknowledged write of something that is there and that nobody deletes after it."""
    source = _source_of_a_shown_write(evidence)
    evidence.shown[source.path] = None
    evidence.history.records = [
        record
        for record in evidence.history.records
        if not (record.is_delete and source.path.startswith(record.path))
    ]


def go_back_to_an_earlier_write(evidence: Evidence) -> None:
    source = _source_of_a_shown_write(evidence)
    assert source.epoch is not None
    earlier = replace(source, token="earlier", epoch=source.epoch - 1)
    evidence.history.records.insert(0, earlier)
    evidence.shown[source.path] = Shown("earlier", source.epoch - 1)


def show_what_nobody_wrote(evidence: Evidence) -> None:
    source = _source_of_a_shown_write(evidence)
    evidence.shown[source.path] = Shown("forged", 1000)


def resurrect(evidence: Evidence) -> None:
    source = _source_of_a_shown_write(evidence)
    evidence.history.records.append(
        replace(source, token="", epoch=None, began=source.ended + 1, ended=source.ended + 2)
    )


def give_one_epoch_twice(evidence: Evidence) -> None:
    source = _source_of_a_shown_write(evidence)
    evidence.history.records.append(replace(source, token="another"))


def replace_unseen(evidence: Evidence) -> None:
    source = _source_of_a_shown_write(evidence)
    assert source.epoch is not None
    source.expected = source.epoch - 2


def let_an_epoch_go_back(evidence: Evidence) -> None:
    log, number = _log_with_a_version(evidence)
    log.append(replace(log[number], epoch=log[number].epoch - 1, txid=log[-1].txid + 1))


def apply_a_change_twice(evidence: Evidence) -> None:
    log, number = _log_with_a_version(evidence)
    log.append(replace(log[number], txid=log[-1].txid + 1))


def take_a_lie(evidence: Evidence) -> None:
    log, number = _log_with_a_version(evidence)
    log[number] = replace(log[number], digest="0" * 64)


def delete_by_absence(evidence: Evidence) -> None:
    log, number = _log_with_a_version(evidence)
    row = log[number]
    log.append(replace(row, action="deleted", epoch=row.epoch + 1000, txid=log[-1].txid + 1))


def write_again_after_settling(evidence: Evidence) -> None:
    evidence.grown[0] = 1


def lose_an_event(evidence: Evidence) -> None:
    evidence.streams[0].pop()


def swap_events(evidence: Evidence) -> None:
    stream = evidence.streams[0]
    subjects = [event.subject for event in stream]
    subject = max(subjects, key=subjects.count)
    first, second = [n for n, each in enumerate(subjects) if each == subject][:2]
    assert stream[first].epoch < stream[second].epoch
    stream[first], stream[second] = stream[second], stream[first]


def leave_a_conflict(evidence: Evidence) -> None:
    evidence.conflicts[evidence.topology.links[0]].append("invalid /messagegroups/g")


def fail_to_settle(evidence: Evidence) -> None:
    evidence.unsettled.append("agreement of all nodes")


BREAKS: dict[Callable[[Evidence], None], str] = {
    alter_a_replica: "every replica equals its authority in the end",
    lose_a_replica: "every replica equals its authority in the end",
    invent_a_replica: "every replica equals its authority in the end",
    lose_a_write: "no acknowledged write is lost",
    go_back_to_an_earlier_write: "no acknowledged write is lost",
    show_what_nobody_wrote: "nothing is there that nobody wrote",
    resurrect: "no deleted entity is resurrected",
    give_one_epoch_twice: "each write raises the epoch of its entity",
    replace_unseen: "a write on a condition replaces what its client saw",
    let_an_epoch_go_back: "the epochs of an origin ascend in every feed",
    apply_a_change_twice: "a change is applied once at each node",
    take_a_lie: "nothing is taken that its authority never said",
    delete_by_absence: "nothing is deleted that its authority did not delete",
    write_again_after_settling: "what has settled writes nothing more",
    lose_an_event: "a subscriber receives every change in order",
    swap_events: "a subscriber receives every change in order",
    leave_a_conflict: "no conflict stays that has no cause",
    fail_to_settle: "everything settles when faults end",
}


@pytest.mark.parametrize(
    ("reported", "promises"),
    [
        ({"/g/a": "ahead", "/g/a/v/1": "invalid"}, set()),
        ({"/g/a": "ahead"}, {"every replica equals its authority in the end"}),
        (
            {"/g/a/v/1": "invalid"},
            {
                "every replica equals its authority in the end",
                "a replica that is ahead is reported",
            },
        ),
    ],
)
async def test_a_replica_of_a_restored_node_may_wait_below_what_is_ahead(
    reported: dict[str, str], promises: set[str]
) -> None:
    def row(origin: str, epoch: int) -> DigestRow:
        return DigestRow("urn:a", origin, origin, epoch, is_deleted=False, digest="")

    link = Follows(target=1, source=0, relays=False)
    restoration = Restoration(
        node=0,
        backed_up=0.0,
        before={
            0: [row("/g/a", 3), row("/g/a/v/1", 9)],
            1: [row("/g/a", 5), row("/g/a/v/1", 8)],
        },
        reported={link: reported},
    )
    evidence = Evidence(
        topology=Topology("pair", 2, (link,)),
        authorities=["urn:a", "urn:b"],
        history=History(),
        restoration=restoration,
    )
    assert {violation.promise for violation in violations(evidence)} == promises


async def damage_databases(run: Run) -> None:
    """Alter a replica, lose a write and let an epoch go back, behind the backs of the nodes."""
    target, source = run.nodes[1].database, run.nodes[0].database
    authority = run.nodes[0].authority
    async with run.databases.connect(target) as connection:
        altered = await connection.execute(
            'UPDATE entities SET attributes = attributes || \'{"description": "altered"}\' '
            "WHERE authority = $1 AND kind = 'group'",
            authority,
        )
        lowered = await connection.execute(
            "UPDATE changes SET epoch = 0 WHERE (txid, seq) IN "
            "(SELECT max(txid), max(seq) FROM changes WHERE authority = $1 AND kind = 'version'"
            " GROUP BY origin HAVING count(*) > 1)",
            authority,
        )
    async with run.databases.connect(source) as connection:
        lost = await connection.execute("DELETE FROM entities WHERE xid LIKE '/%groups/%/%'")
    assert "UPDATE 0" not in (altered, lowered)
    assert lost != "DELETE 0"


async def test_damage_behind_the_backs_of_nodes_is_found(
    databases: RunDatabases, tmp_path: Path
) -> None:
    plan = FaultPlan.of(SEED + 1, SECONDS, topology="peers", restores=False)
    run = Run(
        plan=replace(plan, steps=()),
        databases=databases,
        directory=tmp_path,
        tell=lambda _: None,
        accident=damage_databases,
    )
    found = {violation.promise for violation in violations(await run.carry_out())}
    assert {
        "every replica equals its authority in the end",
        "no acknowledged write is lost",
        "the epochs of an origin ascend in every feed",
    } <= found


async def test_a_run_that_kept_every_promise_is_found_so(kept: Evidence) -> None:
    assert violations(kept) == []
    assert kept.history.count("acknowledged") > 5


@pytest.mark.parametrize("break_it", BREAKS, ids=lambda break_it: break_it.__name__)
async def test_a_broken_promise_is_found(
    kept: Evidence, break_it: Callable[[Evidence], None]
) -> None:
    broken = deepcopy(kept)
    break_it(broken)
    assert BREAKS[break_it] in {violation.promise for violation in violations(broken)}


def _source_of_a_shown_write(evidence: Evidence) -> WriteRecord:
    """An acknowledged write that is still there."""
    shown = {each.token for each in evidence.shown.values() if each is not None}
    return next(
        record
        for record in evidence.history.records
        if record.token in shown and record.outcome == "acknowledged" and (record.epoch or 0) > 1
    )


def _log_with_a_version(evidence: Evidence) -> tuple[list[LogRow], int]:
    """The log of a replica, with the place of its authority's last version in it."""
    log = evidence.logs[1][0]
    places = [
        number
        for number, row in enumerate(log)
        if row.kind == "version"
        and row.authority == evidence.authorities[0]
        and row.action != "deleted"
    ]
    return log, places[-1]
