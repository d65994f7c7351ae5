"""Reports the result of a comparison to the given catalogs, unreadable catalogs included."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from uuid import uuid4

from catalog.client import ONCE
from catalog.operations.peers import MOST_NAMED
from catalog.operations.reconciliations import NewReconciliation, Outcome
from replication.reconcile.errors import ReconcileError
from replication.reconcile.findings import FINDINGS
from replication.reconcile.inputs.input import Input
from replication.reconcile.inputs.nodeinput import NodeInput
from replication.reconcile.report import ReconcileSummary

_SECONDS = 10.0
_LONGEST_ERROR = 500


class ResultReporter:
    """Reports to each node of a run the findings about the catalog of the node.

    If a report fails, the job names the catalog in its progress, and goes on.
    """

    def __init__(self, inputs: Sequence[Input], progress: Callable[[str], None]) -> None:
        # One attempt only: an unreachable catalog misses its report, and does not delay the job.
        nodes = (each for each in inputs if isinstance(each, NodeInput))
        self._nodes = [replace(each, retry=ONCE) for each in nodes]
        self._names = [each.name for each in inputs]
        self._progress = progress
        self._run = uuid4()
        self._startedat = datetime.now(UTC)

    def tell(self, summary: ReconcileSummary) -> None:
        """Report the result of a completed comparison."""
        repaired = {each.catalog: each.requested for each in summary.repair or ()}
        results = []
        # A shrunk catalog is compared with its earlier number until an operator accepts a smaller
        # number, so the report repeats the earlier number.
        before = {each.name: each.before for each in summary.shrunk}
        numbers = [(one.authority, before.get(one.name, one.entities)) for one in summary.catalogs]
        entities = dict(numbers[:MOST_NAMED])
        unread = {each.name: each.reason for each in summary.unread}
        for catalog in self._nodes:
            if catalog.name in unread:
                results.append(self._failed(catalog, unread[catalog.name]))
                continue
            findings = {
                finding: number
                for finding in FINDINGS
                if (number := summary.counts.get(finding, {}).get(catalog.name, 0))
            }
            told = self._result("different" if findings else "equal", catalog)
            more: dict[str, object] = {
                "findings": findings,
                "unverifiable": summary.unverifiable,
                "entities": entities,
            }
            if summary.repair is not None:
                more["repaired"] = repaired.get(catalog.name, 0)
            results.append(told.model_copy(update=more))
        self._post(results)

    def tell_failure(self, error: ReconcileError) -> None:
        """Report the failure of the comparison."""
        self._post([self._failed(each, error.message) for each in self._nodes])

    def _failed(self, catalog: NodeInput, error: str) -> NewReconciliation:
        result = self._result("failed", catalog)
        return result.model_copy(update={"error": error[:_LONGEST_ERROR]})

    def _result(self, outcome: Outcome, catalog: NodeInput) -> NewReconciliation:
        return NewReconciliation(
            run=self._run,
            startedat=self._startedat,
            endedat=datetime.now(UTC),
            outcome=outcome,
            name=catalog.name,
            catalogs=self._names[:MOST_NAMED],
        )

    def _post(self, results: Sequence[NewReconciliation]) -> None:
        with ThreadPoolExecutor(max_workers=min(16, max(1, len(results)))) as pool:
            for result, line in zip(
                results, pool.map(_post_one, self._nodes, results), strict=True
            ):
                # The run itself tells why it failed, or why a catalog could not be read.
                if line and result.outcome != "failed":
                    self._progress(line)


def _post_one(catalog: NodeInput, result: NewReconciliation) -> str:
    """Report to a catalog; return the reason of a failure, or an empty text."""
    try:
        catalog.call(lambda client: client.tell_reconciliation(result), seconds=_SECONDS)
    except ReconcileError as error:
        return f"{catalog.name} was not told the result: {error.message}"
    return ""
