"""Nodes as copies of a process that has imported everything, which saves most of a start."""

from __future__ import annotations

import multiprocessing
import os
import sys
from multiprocessing.process import BaseProcess
from pathlib import Path

from catalog.cli import main

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["catalog.cli", "catalog.node", "catalog.sinks.httpsink"])


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
    sys.argv = ["concord", "serve"]
    main()
