"""What a process that checks documents may not do."""

from __future__ import annotations

import resource
import sys
from contextlib import suppress

MAX_FILE_BYTES = 64 * 1024 * 1024
FORBIDDEN = (
    "ftplib",
    "http",
    "os.exec",
    "os.fork",
    "os.posix_spawn",
    "os.system",
    "socket",
    "subprocess",
    "urllib",
)


def confine(memory: int) -> None:
    """Limit this process to so many bytes of memory, and to no network and no other programs.

    No check needs the network: every library is told not to fetch what a document refers to.
    This holds where a library forgets it.
    """
    _limit(resource.RLIMIT_AS, memory)
    _limit(resource.RLIMIT_FSIZE, MAX_FILE_BYTES)
    _limit(resource.RLIMIT_CORE, 0)
    sys.addaudithook(_refuse)


def _limit(kind: int, most: int) -> None:
    # macOS refuses to limit the address space.
    with suppress(ValueError, OSError):
        resource.setrlimit(kind, (most, most))


def _refuse(event: str, details: tuple[object, ...]) -> None:
    if event == "urllib.Request" and str(details[0]).startswith("file:"):
        # How xmlschema reads the schemas that it brings along.
        return
    if event.startswith(FORBIDDEN):
        raise PermissionError(f"a check may not do this: {event}")
