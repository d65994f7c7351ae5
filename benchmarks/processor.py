"""The processor time of processes."""

from __future__ import annotations

from pathlib import Path

import psutil


def postmaster_of(node: Path) -> int:
    """The id of the process that started the others of a node's PostgreSQL.

    Args:
        node: the data directory of the node.
    """
    return int((node / "data" / "postmaster.pid").read_text().split()[0])


def processor_seconds(pid: int) -> float:
    """The processor time of a process, user and system."""
    spent = psutil.Process(pid).cpu_times()
    return spent.user + spent.system


def family_seconds(pid: int) -> float:
    """That of a process and of all children that it has or had."""
    process = psutil.Process(pid)
    spent = process.cpu_times()
    of_children = sum(processor_seconds(child.pid) for child in process.children())
    return spent.user + spent.system + spent.children_user + spent.children_system + of_children
