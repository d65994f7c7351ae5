"""Federations of every topology keep what replication promises, whatever happens to them.

`make soak` runs on with other seeds.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.brokers.kafka import KafkaBroker
from tests.faults import faultynode
from tests.faults.checker import violations
from tests.faults.databases import RunDatabases
from tests.faults.evidence import Evidence
from tests.faults.faultplan import FaultPlan
from tests.faults.run import Run
from tests.faults.soak import report, run_seed

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]
SECONDS = 6.0
SEED = 62
RUNS = [
    # seed, topology, whether a node is restored from a backup
    (1, "peers", False),
    (2, "hub", False),
    (3, "star", False),
    (4, "chain", False),
    (5, "ring", False),
    (6, "mesh", False),
    (7, "hub", True),
]


@pytest.mark.parametrize(("seed", "topology", "restores"), RUNS)
async def test_a_federation_under_faults_keeps_every_promise(
    databases: RunDatabases, tmp_path: Path, seed: int, topology: str, restores: bool
) -> None:
    plan = FaultPlan.of(seed, SECONDS, topology=topology, restores=restores)
    run = Run(plan=plan, databases=databases, directory=tmp_path, tell=lambda _: None)
    evidence = await run.carry_out()
    found = violations(evidence)
    assert not found, report(plan, evidence, found)
    _assert_written(evidence, plan)


async def test_a_chain_of_kafka_a_walk_and_writes_keeps_every_promise(
    databases: RunDatabases, tmp_path: Path, kafka: KafkaBroker
) -> None:
    modes = ("kafka", "walk", "write")
    plan = FaultPlan.of(SEED, SECONDS, topology="chain", restores=False, modes=modes)
    assert {"freeze broker", "lose topic"} <= {step.action for step in plan.steps}
    run = Run(plan=plan, databases=databases, directory=tmp_path, tell=lambda _: None, broker=kafka)
    evidence = await run.carry_out()
    found = violations(evidence)
    assert not found, report(plan, evidence, found)
    _assert_written(evidence, plan)


async def test_a_federation_that_does_not_start_in_time_breaks_no_promise(
    databases: RunDatabases,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(faultynode, "_START_SECONDS", 0.01)
    assert await run_seed(1, databases, tmp_path, None) is None
    assert "could not be set up in time" in capsys.readouterr().out
    assert not os.listdir(tmp_path)


def _assert_written(evidence: Evidence, plan: FaultPlan) -> None:
    acknowledged = evidence.history.count("acknowledged")
    assert acknowledged > SECONDS * plan.topology.nodes, "the writers hardly wrote"
