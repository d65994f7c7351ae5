"""Has Schemathesis fuzz a node by its description: `python -m tests.fuzz.schemathesisrun`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer

from catalog.store.postgresaccount import temporary_directory
from tests.e2e.nodes import node_at, running

# The description of `POST /` nests deeper than Python's default limit of recursion allows.
_PROGRAM = """
import sys
sys.setrecursionlimit(10_000)
from schemathesis import serializer
serializer.alias("application/x-ndjson", "text/plain")
from schemathesis.cli import schemathesis
schemathesis()
"""


def main(
    examples: Annotated[int, typer.Option(help="Generated requests for each operation")] = 20,
) -> None:
    """Start a node and let Schemathesis look for errors of the server."""

    async def run(directory: Path) -> int:
        node = node_at(directory)
        async with running(node):
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", _PROGRAM, "run", f"{node.url}/openapi.json"),
                *("--checks", "not_a_server_error", f"--max-examples={examples}"),
                *("--phases=coverage,fuzzing,stateful", "--generation-deterministic"),
                *("--request-timeout=45", "--workers=4", "--continue-on-failure", "--no-color"),
                # A stream of events has no end.
                *("--exclude-path=/-/events",),
                *("--suppress-health-check=all", "--warnings=off"),
            )
            return await process.wait()

    with temporary_directory("concord-fuzz-") as directory:
        raise SystemExit(asyncio.run(run(directory)))


if __name__ == "__main__":
    typer.run(main)
