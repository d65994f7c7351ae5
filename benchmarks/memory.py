"""The memory of a process, as Linux counts it."""

from __future__ import annotations

from pathlib import Path

_KIBIBYTE = 1024


def memory_of(pid: int) -> int:
    """The bytes that a process holds now."""
    return _status(pid, "VmRSS")


def restart_peak(pid: int) -> int:
    """Reset the peak of a process; return the bytes that it holds now."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    return memory_of(pid)


def peak_of(pid: int) -> int:
    """The most bytes that a process held since `restart_peak`."""
    return _status(pid, "VmHWM")


def _status(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * _KIBIBYTE
    raise ValueError(f"this system has no {name} of a process")
