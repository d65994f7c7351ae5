"""Bounds streams, waiting requests and tests of sinks: in all and for each client."""

from __future__ import annotations

from aiohttp import web

from catalog.clientshares import ClientShares
from catalog.config import Settings

STREAMS: web.AppKey[ClientShares] = web.AppKey("streams", ClientShares)
LONG_POLLS: web.AppKey[ClientShares] = web.AppKey("long_polls", ClientShares)
WAITING_READS: web.AppKey[ClientShares] = web.AppKey("waiting_reads", ClientShares)
SINK_TESTS: web.AppKey[ClientShares] = web.AppKey("sink_tests", ClientShares)


def add_stream_shares(app: web.Application, settings: Settings) -> None:
    """Bound these things of an application as its settings say."""
    app[STREAMS] = ClientShares(
        "streams",
        "CONCORD_STREAMS",
        most=settings.streams,
        most_per_client=settings.streams_per_client,
    )
    app[LONG_POLLS] = ClientShares(
        "requests that wait for changes",
        "CONCORD_LONG_POLLS",
        most=settings.long_polls,
        most_per_client=settings.long_polls_per_client,
    )
    app[WAITING_READS] = ClientShares(
        "reads that wait for a position",
        "CONCORD_WAITING_READS",
        most=settings.waiting_reads,
        most_per_client=settings.waiting_reads_per_client,
    )
    app[SINK_TESTS] = ClientShares(
        "tests of sinks",
        "CONCORD_SINK_TESTS",
        most=settings.sink_tests,
        most_per_client=settings.sink_tests_per_client,
    )
