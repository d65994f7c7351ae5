"""The cost of creating a subscription if there are many, against the first ones."""

from __future__ import annotations

from pathlib import Path

import orjson

from benchmarks.figure import Aim, Figure
from benchmarks.load import Connection, connected, send_request
from benchmarks.process import node_process
from benchmarks.processor import processor_seconds
from benchmarks.size import Size

_HUNDRED = 100
_HUNDREDS = 20


async def run(_: Size, directory: Path) -> list[Figure]:
    """Measure the node's processor time for one of the last hundred of two thousand creations.

    Elapsed time would mostly be that of the disk.
    """
    async with (
        node_process(directory, "subscribing-node") as (url, pid),
        connected(url, 1) as (connection,),
    ):
        spent = [await _create_hundred(connection, url, pid) for _ in range(_HUNDREDS)]
    return [
        Figure(
            name=f"Creating a subscription beside {_HUNDRED * (_HUNDREDS - 1):,}",
            unit="ms of CPU",
            value=spent[-1],
            baseline=spent[0],
            aim=Aim(bound=1.5, of_ratio=True, is_most=True),
            note="the baseline is one of the first hundred; nothing is sent to their sinks",
        )
    ]


async def _create_hundred(connection: Connection, url: str, pid: int) -> float:
    body = orjson.dumps({"sink": "http://127.0.0.1:9/", "protocol": "HTTP"})
    before = processor_seconds(pid)
    for _ in range(_HUNDRED):
        await connection.request(send_request("POST", url, "/subscriptions", body))
    return (processor_seconds(pid) - before) * 1000 / _HUNDRED
