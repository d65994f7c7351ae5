"""The command `python -m benchmarks`: run the named benchmarks, or all, and print the figures."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import orjson
import uvloop
from rich.console import Console
from rich.markup import escape

from benchmarks import (
    bootstrap,
    comparisons,
    confluent,
    console,
    delivery_latency,
    dialects,
    event_streams,
    export,
    fan_out,
    filters,
    find,
    followers,
    get,
    growing_lag,
    idle_subscriptions,
    imports,
    inputs,
    kafka_sink,
    large_bootstrap,
    long_writes,
    many_links,
    put,
    reconcile,
    restricted,
    resync,
    rule,
    search,
    several_processes,
    sick_sinks,
    sizes,
    subscribing,
    to_replica,
    to_sink,
    topic_copies,
)
from benchmarks.figure import Figure
from benchmarks.machine import facts, is_busy
from benchmarks.size import FULL, QUICK, Size
from benchmarks.table import print_facts, print_figures
from catalog.store.postgresaccount import temporary_directory

Benchmark = Callable[[Size, Path], Awaitable[list[Figure]]]

BENCHMARKS: dict[str, Benchmark] = {
    "get": get.run,
    "find": find.run,
    "search": search.run,
    "console": console.run,
    "restricted": restricted.run,
    "put": put.run,
    "processes": several_processes.run,
    "import": imports.run,
    "long-writes": long_writes.run,
    "export": export.run,
    "dialects": dialects.run,
    "confluent": confluent.run,
    "bootstrap": bootstrap.run,
    "large-bootstrap": large_bootstrap.run,
    "resync": resync.run,
    "reconcile": reconcile.run,
    "rule": rule.run,
    "sizes": sizes.run,
    "inputs": inputs.run,
    "comparisons": comparisons.run,
    "many-links": many_links.run,
    "filters": filters.run,
    "subscribing": subscribing.run,
    "sink": to_sink.run,
    "delivery-latency": delivery_latency.run,
    "fan-out": fan_out.run,
    "event-streams": event_streams.run,
    "sick-sinks": sick_sinks.run,
    "idle-subscriptions": idle_subscriptions.run,
    "kafka": kafka_sink.run,
    "replica": to_replica.run,
    "growing-lag": growing_lag.run,
    "followers": followers.run,
    "topic": topic_copies.run,
}

_LONGEST_SECONDS = 1500


def main() -> None:
    """Exit with 0 if every benchmark ran, even if it missed its aim, else with 1."""
    arguments = _parse()
    terminal = Console()
    names = arguments.names or list(BENCHMARKS)
    with temporary_directory("concord-bench-") as directory:
        about = facts(directory)
        print_facts(terminal, about)
        if is_busy():
            terminal.print("[yellow]The machine is not idle: do not quote these figures.[/]")
        size = QUICK if arguments.quick else FULL
        figures, failed = uvloop.run(_run(names, size, directory, terminal))
    print_figures(terminal, figures)
    if arguments.json:
        result = {"machine": about, "figures": [figure.as_json() for figure in figures]}
        arguments.json.write_bytes(orjson.dumps(result, option=orjson.OPT_INDENT_2))
    sys.exit(1 if failed else 0)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--quick", action="store_true", help="measure less, in a few minutes")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the figures to this file, too"
    )
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(BENCHMARKS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")
    return arguments


async def _run(
    names: Sequence[str], size: Size, directory: Path, terminal: Console
) -> tuple[list[Figure], list[str]]:
    # Cancelled by SIGTERM, a run still stops the servers that it started.
    current = asyncio.current_task()
    assert current is not None, "this is a coroutine of a task"
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, current.cancel)
    figures: list[Figure] = []
    failed: list[str] = []
    for name in names:
        started = time.perf_counter()
        try:
            async with asyncio.timeout(_LONGEST_SECONDS):
                figures += await BENCHMARKS[name](size, directory)
        # The figures of the other benchmarks count even if one fails.
        except Exception as error:
            failed.append(name)
            cause = _leaf(error)
            terminal.print(f"[red]{name} failed:[/] {type(cause).__name__}: {escape(str(cause))}")
        terminal.print(f"[dim]{name} took {time.perf_counter() - started:.0f} s[/]")
    return figures, failed


def _leaf(error: BaseException) -> BaseException:
    """The first cause in groups of exceptions."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


if __name__ == "__main__":
    main()
