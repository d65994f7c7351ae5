"""Nodes as copies of a process that has imported everything, which saves most of a start."""

from __future__ import annotations

import ast
import gc
import inspect
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path

from catalog import cli


def _imported_within(function: Callable[..., object]) -> Iterator[str]:
    """The modules that a function imports when it is called."""
    for statement in ast.walk(ast.parse(inspect.getsource(function))):
        if isinstance(statement, ast.Import):
            yield from (each.name for each in statement.names)
        elif isinstance(statement, ast.ImportFrom) and statement.module:
            yield statement.module


_processes = multiprocessing.get_context("forkserver")
# A command imports what only it needs when it runs, and a node its sinks when it delivers.
_processes.set_forkserver_preload(
    ["catalog.cli", *_imported_within(cli._node), "catalog.subscriptions.sinks.httpsink"]
)


def start_forked(environment: dict[str, str], log: Path) -> BaseProcess:
    """Start `concord serve` in a process of its own."""
    process = _processes.Process(target=_serve, args=(environment, log))
    process.start()
    return process


def kill_forked(process: BaseProcess) -> None:
    """kill -9, and wait for the end."""
    process.kill()
    process.join(20)


def _serve(environment: dict[str, str], log: Path) -> None:
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.environ.clear()
    os.environ.update(environment)
    # What it shares with its parent is no garbage, and is copied once a collection looks at it.
    gc.freeze()
    sys.argv = ["concord", "serve"]
    cli.main()
