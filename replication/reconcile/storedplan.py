"""Executes a plan of repairs: at a bounded rate, and from where an earlier execution ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import groupby, islice
from pathlib import Path

from catalog.operations.reconciliations import FindingName
from replication.reconcile.inputs.nodeinput import NodeInput
from replication.reconcile.repairplan import JOURNAL_FILE, PLAN_FILE, RepairAction, read_plan
from replication.reconcile.repairrequests import MOST_AT_ONCE, RepairOutcome, fetch_again


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPlan:
    """The plan in the directory of a report, and the journal of the actions that are done.

    Args:
        only: the findings to repair; empty for all.
    """

    directory: Path
    only: Collection[FindingName] = ()

    def left(self) -> Iterator[RepairAction]:
        """The actions that are wanted and not done, in order.

        Raises:
            ReconcileError
        """
        done = self._done()
        for each in read_plan(self.directory / PLAN_FILE):
            if each.id not in done and (not self.only or each.finding in self.only):
                yield each

    def _done(self) -> frozenset[str]:
        journal = self.directory / JOURNAL_FILE
        return frozenset(journal.read_text().split()) if journal.exists() else frozenset()

    def execute(
        self,
        nodes: Mapping[str, NodeInput],
        *,
        per_second: int,
        progress: Callable[[str], None],
        sleep: Callable[[float], None] = time.sleep,
    ) -> list[RepairOutcome]:
        """Ask the catalogs to fetch what is left, in batches; return what became of it.

        Each batch is noted in the journal when its catalog has answered, so that an execution that
        was interrupted goes on.

        Args:
            nodes: the nodes of the plan, by name.
            per_second: the most origins to ask for in a second, of all catalogs together.

        Raises:
            ReconcileError: a catalog can't be reached or refuses; what is done stays noted.
        """
        outcomes: dict[str, RepairOutcome] = {}
        most = min(MOST_AT_ONCE, per_second)
        with (self.directory / JOURNAL_FILE).open("a") as journal:
            for name, actions in groupby(self.left(), key=lambda each: each.catalog):
                while batch := list(islice(actions, most)):
                    began = time.monotonic()
                    outcome = outcomes.get(name, RepairOutcome(catalog=name))
                    origins = [each.key for each in batch]
                    progress(f"{name} fetches {len(batch)} origins again")
                    repairs = nodes[name].call(partial(fetch_again, origins=origins))
                    outcomes[name] = outcome.plus(len(batch), repairs)
                    journal.writelines(f"{each.id}\n" for each in batch)
                    journal.flush()
                    sleep(max(0.0, len(batch) / per_second - (time.monotonic() - began)))
        return list(outcomes.values())
