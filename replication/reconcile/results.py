"""Reports the result of a comparison to the catalogs that were compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from catalog.client import ONCE, JsonObject
from replication.reconcile.errors import ReconcileError
from replication.reconcile.findings import FINDINGS
from replication.reconcile.remotecatalog import RemoteCatalog
from replication.reconcile.report import ReconcileSummary

_SECONDS = 10.0
_LONGEST_ERROR = 500
_MOST_NAMED = 100


class ResultReporter:
    """Tells each catalog of one run what was found there.

    A catalog that cannot be told is named in the progress of the job, which goes on.
    """

    def __init__(self, catalogs: Sequence[RemoteCatalog], progress: Callable[[str], None]) -> None:
        # Nobody waits for a catalog that is away: its result is not told to it then.
        self._catalogs = [replace(each, retry=ONCE) for each in catalogs]
        self._progress = progress
        self._run = str(uuid4())
        self._startedat = datetime.now(UTC)

    def tell(self, summary: ReconcileSummary) -> None:
        """Tell the result of a comparison that came to an end."""
        repaired = {each.catalog: each.requested for each in summary.repair or ()}
        bodies = []
        for catalog in self._catalogs:
            findings = {
                finding: number
                for finding in FINDINGS
                if (number := summary.counts.get(finding, {}).get(catalog.name, 0))
            }
            body = self._body("different" if findings else "equal", catalog)
            body |= {"findings": findings, "unverifiable": summary.unverifiable}
            if summary.repair is not None:
                body["repaired"] = repaired.get(catalog.name, 0)
            bodies.append(body)
        self._post(bodies)

    def tell_failure(self, error: ReconcileError) -> None:
        """Tell that the comparison failed."""
        told = {"findings": {}, "error": error.message[:_LONGEST_ERROR]}
        self._post([self._body("failed", each) | told for each in self._catalogs])

    def _body(self, outcome: str, catalog: RemoteCatalog) -> dict[str, Any]:
        names = [each.name for each in self._catalogs]
        return {
            "run": self._run,
            "startedat": self._startedat.isoformat(),
            "endedat": datetime.now(UTC).isoformat(),
            "outcome": outcome,
            "name": catalog.name,
            "catalogs": names[:_MOST_NAMED],
        }

    def _post(self, bodies: Sequence[JsonObject]) -> None:
        with ThreadPoolExecutor(max_workers=min(16, len(bodies))) as pool:
            for line in pool.map(_post_one, self._catalogs, bodies):
                if line:
                    self._progress(line)


def _post_one(catalog: RemoteCatalog, body: JsonObject) -> str:
    """Report to a catalog; return why that is not possible."""
    try:
        catalog.call(lambda client: client.tell_reconciliation(body), seconds=_SECONDS)
    except ReconcileError as error:
        return f"{catalog.name} was not told the result: {error.message}"
    return ""
