"""What accidents do to an embedded server that a test has started itself."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path


def postmaster_of(directory: Path) -> int:
    """The process id of the server whose data are below `directory`."""
    lines = (directory / "data" / "postmaster.pid").read_text().splitlines()
    assert lines[1] == str(directory / "data")
    return int(lines[0])


def kill_server(directory: Path) -> None:
    """kill -9: its children notice by themselves."""
    process = postmaster_of(directory)
    os.kill(process, signal.SIGKILL)
    while is_there(process):
        time.sleep(0.001)  # between two looks: nobody can be asked to tell


def is_there(process: int) -> bool:
    """Whether a process runs; one that nobody has reaped does not."""
    try:
        return bool(os.readlink(f"/proc/{process}/cwd"))
    except OSError:
        return False


def send_to_server(directory: Path, what: signal.Signals) -> None:
    """Stop or continue the server with all its children."""
    first = postmaster_of(directory)
    for process in (first, *_children(first)):
        os.kill(process, what)


def _children(process: int) -> list[int]:
    return [*map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split())]
