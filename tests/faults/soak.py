"""Runs plans of new seeds for a while: `python -m tests.faults.soak [--minutes 60] [--seed N]`.

Each seed is printed before its run begins, and replayed with `--seed`. The files of a run that
broke a promise are kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import shutil
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from tests.brokers.kafka import KafkaBroker, NoKafka, running_kafka
from tests.faults.checker import Violation, violations
from tests.faults.databases import RunDatabases
from tests.faults.evidence import Evidence
from tests.faults.faultplan import FaultPlan
from tests.faults.faultynode import FAKETIME
from tests.faults.linkmodes import MODES
from tests.faults.run import NotSetUp, Run

RUN_SECONDS = 15.0


async def run_seed(
    seed: int,
    databases: RunDatabases,
    directory: Path,
    broker: KafkaBroker | None,
    *,
    is_verbose: bool = False,
) -> list[Violation] | None:
    """Carry out the plan of a seed; say what happened; keep its files if a promise was broken.

    Returns:
        the promises that were broken; `None` if the federation did not start in time.
    """
    kinds = [kind for kind in MODES if kind != "kafka" or broker is not None]
    plan = FaultPlan.of(seed, RUN_SECONDS, kinds=kinds)
    print(f"SEED={seed}: {plan}", flush=True)
    files = directory / f"seed{seed}"
    files.mkdir()
    run = Run(
        plan=plan,
        databases=databases,
        directory=files,
        tell=print if is_verbose else lambda _: None,
        broker=broker,
    )
    try:
        evidence = await run.carry_out()
    except NotSetUp:
        print("  it could not be set up in time: this machine is too busy", flush=True)
        shutil.rmtree(files)
        return None
    # The other seeds go on.
    except Exception:
        print("\n".join(run.timeline), traceback.format_exc(), sep="\n", flush=True)
        return [Violation("a run comes to its end", f"its files are in {files}")]
    found = violations(evidence)
    print(f"  {summary(evidence)}", flush=True)
    if found:
        print(report(plan, evidence, found), flush=True)
        (files / "history.txt").write_text("\n".join(map(str, evidence.history.records)))
        print(f"  its history and the logs of its nodes are in {files}", flush=True)
    else:
        shutil.rmtree(files)
    return found


def summary(evidence: Evidence) -> str:
    history = evidence.history
    counts = ", ".join(
        f"{history.count(outcome)} {outcome}" for outcome in ("acknowledged", "refused", "in doubt")
    )
    return f"{len(history.records)} writes ({counts}); {evidence.timeline[-1].strip()}"


def report(plan: FaultPlan, evidence: Evidence, found: list[Violation]) -> str:
    """The seed, the timeline of faults, and each violated promise with its evidence."""
    return "\n".join(
        (
            f"seed {plan.seed}: {plan}",
            *(f"  {line}" for line in evidence.timeline),
            *(f"  BROKEN: {violation}" for violation in found),
        )
    )


async def soak(
    minutes: float, seed: int | None, directory: Path, broker: KafkaBroker | None
) -> int:
    """Run seeds one after the other; return how many broke a promise.

    If none could be set up, nothing was proved, which counts as one.
    """
    if FAKETIME is None:
        print("Clocks are right: the package faketime is not installed.")
    ends, found = time.monotonic() + 60 * minutes, list[list[Violation] | None]()
    async with RunDatabases.start(directory / "postgresql") as databases:
        if seed is not None:
            found.append(await run_seed(seed, databases, directory, broker, is_verbose=True))
        while seed is None and time.monotonic() < ends:
            chosen = secrets.randbelow(2**31)
            found.append(await run_seed(chosen, databases, directory, broker))
    runs = [each for each in found if each is not None]
    broken = sum(map(bool, runs))
    print(
        f"{len(runs)} runs, of which {broken} broke a promise; "
        f"{len(found) - len(runs)} more could not be set up in time."
    )
    return broken if runs else 1


@contextlib.contextmanager
def _broker(directory: Path) -> Iterator[KafkaBroker | None]:
    """The broker of all runs; `None` where none can be had, so that seeds plan other modes."""
    directory.mkdir()
    with contextlib.ExitStack() as stack:
        try:
            broker = stack.enter_context(running_kafka(directory))
        except NoKafka as why:
            print(f"No link is over Kafka. {why}")
            broker = None
        yield broker


def main(
    minutes: Annotated[float, typer.Option(help="How long to run.")] = 60,
    seed: Annotated[int | None, typer.Option(help="Run this one alone.")] = None,
) -> None:
    """Run federations under faults, and hold them to what replication promises."""
    directory = Path(tempfile.mkdtemp(prefix="concord-soak-"))
    directory.chmod(0o711)  # The account of the server passes through.
    with _broker(directory / "kafka") as broker:
        broken = asyncio.run(soak(minutes, seed, directory, broker))
    if not broken:
        shutil.rmtree(directory, ignore_errors=True)
    raise typer.Exit(1 if broken else 0)


if __name__ == "__main__":
    typer.run(main)
