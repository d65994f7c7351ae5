"""The process that verifies signatures, and its requests.

A request is a count of four bytes, then for each signature the key, the digest and the signature;
the answer has one byte for each. The process ends with its standard input.
"""

from __future__ import annotations

import atexit
import contextlib
import select
import subprocess
import sys
from collections.abc import Sequence
from typing import BinaryIO

from catalog.formats.process import bare_environment
from catalog.keys.entitysignature import SignatureOfCopy, verify_copy
from catalog.model.authoritykey import SIGNATURE_BYTES

MOST_AT_ONCE = 256
"""The signatures of one request, which a pipe holds as a whole."""
_COUNT_BYTES = 4
_KEY_BYTES = _DIGEST_BYTES = 32
_RECORD_BYTES = _KEY_BYTES + _DIGEST_BYTES + SIGNATURE_BYTES
# A request takes the process some hundredths of a second.
_PATIENCE_SECONDS = 10


def fits(signature: SignatureOfCopy) -> bool:
    """Whether a key, a digest and a signature have the lengths of a record."""
    return tuple(map(len, signature)) == (_KEY_BYTES, _DIGEST_BYTES, SIGNATURE_BYTES)


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
        """Verify up to `MOST_AT_ONCE` signatures that fit, with their keys and digests.

        Raises:
            OSError: the process does not answer.
        """
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "replication.signing.signatureprocess"],
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=bare_environment(),
                # In a session of its own, the process does not get an interrupt of the terminal,
                # and the node ends the process.
                start_new_session=True,
            )
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


def _ask(process: subprocess.Popen[bytes], wanted: Sequence[SignatureOfCopy]) -> bytes:
    assert process.stdin is not None
    assert process.stdout is not None
    count = len(wanted).to_bytes(_COUNT_BYTES, "big")
    process.stdin.write(count + b"".join(map(b"".join, wanted)))
    answer = b""
    while len(answer) < len(wanted):
        ready, _, _ = select.select([process.stdout], [], [], _PATIENCE_SECONDS)
        part = process.stdout.read(len(wanted) - len(answer)) if ready else b""
        if not part:
            raise OSError("the process that verifies signatures does not answer")
        answer += part
    return answer


def _serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until the input ends."""
    while count := int.from_bytes(requests.read(_COUNT_BYTES), "big"):
        records = requests.read(count * _RECORD_BYTES)
        starts = range(0, len(records), _RECORD_BYTES)
        answers.write(bytes(_is_signed(records[at : at + _RECORD_BYTES]) for at in starts))
        answers.flush()


def _is_signed(record: bytes) -> bool:
    key, rest = record[:_KEY_BYTES], record[_KEY_BYTES:]
    return verify_copy(key, rest[:_DIGEST_BYTES], rest[_DIGEST_BYTES:])


if __name__ == "__main__":
    _serve(sys.stdin.buffer, sys.stdout.buffer)
