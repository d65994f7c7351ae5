"""Tells a web hook, by CloudEvents, what comparisons and the watch of streams have found."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import aiohttp
import orjson
from cloudevents.core.bindings.http import to_structured
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

from replication.reconcile.errors import ReconcileError
from replication.reconcile.report import ReconcileSummary

DIFFERENT, FOUND = "concord.reconciliation.different", "concord.reconciliation.found"
"""The types of the events: of a comparison with differences, and of findings in streams."""
SOURCE = "/concord/reconcile"
_SECONDS = 30.0
_LEFT_OUT = ("samples", "paths")


def notify(url: str, summary: ReconcileSummary) -> None:
    """Send the event of a comparison: its summary without samples, in structured mode.

    Raises:
        ReconcileError: the web hook does not take the event.
    """
    document = summary.to_document()
    data = {name: value for name, value in document.items() if name not in _LEFT_OUT}
    names = [one.name for one in summary.catalogs]
    asyncio.run(_send(url, _event(DIFFERENT, names, data)))


def notify_found(url: str, names: Sequence[str], findings: Sequence[dict[str, Any]]) -> None:
    """Send the event of findings in the streams of catalogs, in structured mode.

    Raises:
        ReconcileError: the web hook does not take the event.
    """
    asyncio.run(_send(url, _event(FOUND, names, {"findings": [*findings]})))


def _event(kind: str, names: Sequence[str], data: dict[str, Any]) -> CloudEvent:
    attributes = {
        "id": str(uuid4()),
        "source": SOURCE,
        "type": kind,
        "subject": ",".join(names),
        "time": datetime.now(UTC),
        "datacontenttype": "application/json",
    }
    # The data may have times, which the format of the event does not take.
    return CloudEvent(attributes, orjson.loads(orjson.dumps(data)))


async def _send(url: str, event: CloudEvent) -> None:
    message = to_structured(event, JSONFormat())
    timeout = aiohttp.ClientTimeout(total=_SECONDS)
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
