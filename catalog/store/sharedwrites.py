"""Tells the processes of one host that another one of them has written, before it answers."""

from __future__ import annotations

import fcntl
import mmap
import os
from pathlib import Path

_MOST_PROCESSES = 256
_BYTES = 8


class SharedWrites:
    """Memory that the processes of one host share: each counts its writes in a cell of its own.

    A process counts a write before it answers. A process that answers from its cache looks first
    whether other processes have written. No lock is needed, as each cell has one writer, and the
    machine stores an aligned cell at once.

    Args:
        file: is created if it is missing. The cell is locked in it as long as the process lives.

    Raises:
        OSError: the file cannot be used, or more processes share it than it has cells.
    """

    def __init__(self, file: Path) -> None:
        self._file = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(self._file, _MOST_PROCESSES * _BYTES)
            self._own = self._take_cell()
            self._memory = mmap.mmap(self._file, _MOST_PROCESSES * _BYTES)
        except BaseException:
            os.close(self._file)
            raise
        self._cells = memoryview(self._memory).cast("Q")

    def _take_cell(self) -> int:
        for number in range(_MOST_PROCESSES):
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, _BYTES, number * _BYTES)
            except BlockingIOError:
                continue
            return number
        raise OSError(f"more than {_MOST_PROCESSES} processes share it")

    def count(self) -> None:
        """Count a write of this process, which is committed and not answered yet."""
        self._cells[self._own] = (self._cells[self._own] + 1) % 2**64

    def others(self) -> bytes:
        """A value that is another one after each write of another process."""
        begin = self._own * _BYTES
        return self._memory[:begin] + self._memory[begin + _BYTES :]

    def close(self) -> None:
        """Give the cell back."""
        self._cells.release()
        self._memory.close()
        os.close(self._file)
