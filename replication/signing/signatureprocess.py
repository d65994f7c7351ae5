"""Runs a process beside the node that verifies signatures (see `signatureworker`)."""

from __future__ import annotations

import atexit
import contextlib
import select
import subprocess
import sys
from collections.abc import Sequence

from catalog.formats.process import bare_environment
from catalog.keys.entitysignature import SignatureOfCopy
from replication.signing.signatureworker import request_of

MOST_AT_ONCE = 256
"""The signatures of one request, which a pipe holds as a whole."""
# A request takes the process some hundredths of a second.
_PATIENCE_SECONDS = 10


class SignatureProcess:
    """A process that verifies signatures; it starts with the first request, and again after an end.

    Only one thread may use the object. While the thread waits, it releases the interpreter lock, so
    that a request costs the event loop two switches, however many signatures the request has.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self.end)

    @property
    def id(self) -> int | None:
        """The id of the running process; `None` if no process runs."""
        return None if self._process is None else self._process.pid

    def verify(self, wanted: Sequence[SignatureOfCopy]) -> list[bool]:
        """Verify up to `MOST_AT_ONCE` signatures, with their keys and digests.

        Raises:
            OSError: the process does not answer.
        """
        if self._process is None:
            self._process = _start()
        try:
            return [answer == 1 for answer in _ask(self._process, wanted)]
        except BaseException:
            # A late answer would be taken for the answer of the next request.
            self.end()
            raise

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            with contextlib.suppress(OSError), self._process:
                pass
            self._process = None


def _start() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "replication.signing.signatureworker"],
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=bare_environment(),
        # In a session of its own, the process does not get an interrupt of the terminal, and the
        # node ends the process.
        start_new_session=True,
    )


def _ask(process: subprocess.Popen[bytes], wanted: Sequence[SignatureOfCopy]) -> bytes:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(request_of(wanted))
    answer = b""
    while len(answer) < len(wanted):
        ready, _, _ = select.select([process.stdout], [], [], _PATIENCE_SECONDS)
        part = process.stdout.read(len(wanted) - len(answer)) if ready else b""
        if not part:
            raise OSError("the process that verifies signatures does not answer")
        answer += part
    return answer
