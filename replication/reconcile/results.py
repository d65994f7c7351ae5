"""The results of comparisons and of the watch, told to the catalogs and to a web hook."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import aiohttp
import orjson
from cloudevents.core.bindings.http import to_structured
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

from catalog.client import ONCE, Client
from catalog.operations import reconciliations as operations
from catalog.operations.peers import MOST_NAMED, check_url
from replication.reconcile.errors import ReconcileError
from replication.reconcile.findings import Difference
from replication.reconcile.inputs.input import Input
from replication.reconcile.inputs.nodeinput import NodeInput
from replication.reconcile.report import ReconcileSummary

MOST_TOLD = 20_000
"""The most differences of which all nodes together are told one by one."""
_SECONDS = 10.0
_LONGEST_ERROR = 500
DIFFERENT, FOUND = "concord.reconciliation.different", "concord.reconciliation.found"
"""The types of the events: of a comparison with differences, and of findings in streams."""
SOURCE = "/concord/reconcile"
_EVENT_SECONDS = 30.0
_LEFT_OUT = ("samples", "paths")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """The report for a node, the catalogs of the comparison, and the differences for the node."""

    result: operations.NewReconciliation
    compared: Sequence[operations.ComparedCatalog] = ()
    differences: Sequence[Difference] = ()


class ResultReporter:
    """Reports to each node of a run what was found there, and whatever concerns its entities.

    A node learns the numbers of differences at every catalog, but single findings only where it is
    the catalog, the reference or the authority: catalogs may have groups that are not for others.
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
        # A shrunk catalog is compared with its earlier number until an operator accepts a smaller
        # number, so the report repeats the earlier number.
        before = {each.name: each.before for each in summary.shrunk}
        numbers = [(one.authority, before.get(one.name, one.entities)) for one in summary.catalogs]
        more: dict[str, object] = {
            "unverifiable": summary.unverifiable,
            "entities": dict(numbers[:MOST_NAMED]),
        }
        if summary.repair is not None:
            more["repaired"] = 0
        repaired = {each.catalog: {"repaired": each.requested} for each in summary.repair or ()}
        unread = {each.name: each.reason for each in summary.unread}
        compared = self._compared(summary) if summary.counts else ()
        results = []
        for node in self._nodes:
            if node.name in unread:
                results.append(_Told(result=self._failed(node, unread[node.name])))
                continue
            findings = _counts_at(node.name, summary)
            own = more | repaired.get(node.name, {}) | {"findings": findings}
            results.append(
                _Told(
                    result=self._result("different" if findings else "equal", node, own),
                    compared=compared,
                    differences=[*_concerning(node.name, summary)],
                )
            )
        self._post(results)

    def tell_failure(self, error: ReconcileError) -> None:
        """Report the failure of the comparison."""
        self._post([_Told(result=self._failed(each, error.message)) for each in self._nodes])

    def _compared(self, summary: ReconcileSummary) -> list[operations.ComparedCatalog]:
        """The catalogs that were compared; the URLs of nodes alone, as others may tell secrets."""
        urls = {each.name: _public(each.url) for each in self._nodes}
        return [
            operations.ComparedCatalog(
                name=each.name,
                authority=each.authority,
                url=urls.get(each.name),
                findings=_counts_at(each.name, summary),
            )
            for each in summary.catalogs[:MOST_NAMED]
        ]

    def _failed(self, node: NodeInput, error: str) -> operations.NewReconciliation:
        return self._result("failed", node, {"error": error[:_LONGEST_ERROR]})

    def _result(
        self, outcome: operations.Outcome, node: NodeInput, more: Mapping[str, object]
    ) -> operations.NewReconciliation:
        result = operations.NewReconciliation(
            run=self._run,
            startedat=self._startedat,
            endedat=datetime.now(UTC),
            outcome=outcome,
            name=node.name,
            catalogs=self._names[:MOST_NAMED],
        )
        # A copy is not validated: a text of a hostile catalog that the node refuses must not end
        # the job, which only tells that the node was not told.
        return result.model_copy(update=more)

    def _post(self, results: Sequence[_Told]) -> None:
        with ThreadPoolExecutor(max_workers=min(16, max(1, len(results)))) as pool:
            for told, line in zip(results, pool.map(_post_one, self._nodes, results), strict=True):
                # The run itself tells why it failed, or why a catalog could not be read.
                if line and told.result.outcome != "failed":
                    self._progress(line)


def _post_one(catalog: NodeInput, told: _Told) -> str:
    """Report to a catalog; return the reason of a failure, or an empty text."""
    try:
        catalog.call(lambda client: _tell(client, told), seconds=_SECONDS)
    except ReconcileError as error:
        return f"{catalog.name} was not told the result: {error.message}"
    return ""


async def _tell(client: Client, told: _Told) -> None:
    """Report a result, and as many of its findings as the node keeps."""
    await client.call(operations.TELL_RECONCILIATION, told.result)
    if not told.compared:
        return
    for first in range(0, max(1, len(told.differences)), operations.MOST_FINDINGS):
        part = operations.NewFindings(
            compared=[*told.compared],
            first=first,
            findings=[*_findings(told.differences[first : first + operations.MOST_FINDINGS])],
        )
        kept = await client.call(operations.TELL_FINDINGS, part, run=str(told.result.run))
        if not kept.wanted:
            return


def _findings(differences: Iterable[Difference]) -> Iterator[operations.ComparisonFinding]:
    """Differences in the form in which nodes are told of them.

    Their texts were read from catalogs, which may be hostile: what no node would take is left out.
    """
    for each in differences:
        named = {name.replace("_", ""): value for name, value in asdict(each).items()}
        with contextlib.suppress(ValueError):
            yield operations.ComparisonFinding.model_validate(named)


def _counts_at(name: str, summary: ReconcileSummary) -> dict[operations.FindingName, int]:
    """The numbers of differences at a catalog, without zeros."""
    return {finding: counts[name] for finding, counts in summary.counts.items() if name in counts}


def _concerning(name: str, summary: ReconcileSummary) -> Iterator[Difference]:
    own = {each.authority for each in summary.catalogs if each.name == name}
    for each in summary.ranked:
        if name in (each.catalog, each.reference) or each.authority in own:
            yield each


def _public(url: str) -> str | None:
    """A URL without secrets, or nothing."""
    try:
        return check_url(url)
    except ValueError:
        return None


def notify(url: str, summary: ReconcileSummary) -> None:
    """Send the event of a comparison: its summary without samples, in structured mode.

    Raises:
        ReconcileError: the web hook does not take the event.
    """
    document = summary.to_document()
    data = {name: value for name, value in document.items() if name not in _LEFT_OUT}
    asyncio.run(_send(url, DIFFERENT, [one.name for one in summary.catalogs], data))


def notify_found(url: str, names: Sequence[str], findings: Sequence[dict[str, Any]]) -> None:
    """Send the event of findings in the streams of catalogs, in structured mode.

    Raises:
        ReconcileError: the web hook does not take the event.
    """
    asyncio.run(_send(url, FOUND, names, {"findings": [*findings]}))


async def _send(url: str, kind: str, names: Sequence[str], data: dict[str, Any]) -> None:
    attributes = {
        "id": str(uuid4()),
        "source": SOURCE,
        "type": kind,
        "subject": ",".join(names),
        "time": datetime.now(UTC),
        "datacontenttype": "application/json",
    }
    # The data may have times, which the format of the event does not take.
    event = CloudEvent(attributes, orjson.loads(orjson.dumps(data)))
    message = to_structured(event, JSONFormat())
    timeout = aiohttp.ClientTimeout(total=_EVENT_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.post(
                url, data=message.body, headers=message.headers, allow_redirects=False
            ) as answer,
        ):
            status = answer.status
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        raise ReconcileError(f"{url} was not told: {error or 'it does not answer'}.") from error
    if not 200 <= status < 300:
        raise ReconcileError(f"{url} was not told: it answered {status}.")
