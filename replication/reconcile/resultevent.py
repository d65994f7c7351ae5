"""Tells a web hook, by a CloudEvent, that a comparison has found differences."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import aiohttp
import orjson
from cloudevents.core.bindings.http import to_structured
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

from replication.reconcile.errors import ReconcileError
from replication.reconcile.report import ReconcileSummary

TYPE = "concord.reconciliation.different"
SOURCE = "/concord/reconcile"
_SECONDS = 30.0
_LEFT_OUT = ("samples", "paths")


def event_of(summary: ReconcileSummary) -> CloudEvent:
    """The event about a comparison; the data are the summary without its samples."""
    document = summary.to_document()
    kept = {name: value for name, value in document.items() if name not in _LEFT_OUT}
    # The summary has times, which the format of the event does not take.
    data = orjson.loads(orjson.dumps(kept))
    attributes = {
        "id": str(uuid4()),
        "source": SOURCE,
        "type": TYPE,
        "subject": ",".join(one.name for one in summary.catalogs),
        "time": summary.startedat,
        "datacontenttype": "application/json",
    }
    return CloudEvent(attributes, data)


def notify(url: str, summary: ReconcileSummary) -> None:
    """Send the event of a comparison to a web hook, in structured mode.

    Raises:
        ReconcileError: the web hook does not take the event.
    """
    asyncio.run(_send(url, event_of(summary)))


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
