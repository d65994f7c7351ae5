"""Tells the other processes of a host about a write before the writing process answers."""

from __future__ import annotations

import fcntl
import mmap
import os
from pathlib import Path

from catalog.store.connections import DatabaseUnusable

_MOST_PROCESSES = 256
_BYTES = 8


class SharedWrites:
    """Memory that the processes of a host share: each process counts writes in a separate cell.

    A process counts a write before it answers. Before an answer from the cache, a process looks for
    writes of other processes. No lock is needed, as each cell has a single writer, and the machine
    stores an aligned cell at once.

    Args:
        file: created if missing. The lock on the cell lasts as long as the process.

    Raises:
        DatabaseUnusable: the file cannot be used, or no cell is free.
    """

    def __init__(self, file: Path) -> None:
        try:
            self._file = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.ftruncate(self._file, _MOST_PROCESSES * _BYTES)
                self._own = self._take_cell()
                self._memory = mmap.mmap(self._file, _MOST_PROCESSES * _BYTES)
            except BaseException:
                os.close(self._file)
                raise
        except OSError as error:
            raise DatabaseUnusable(f"{file} cannot be used: {error}") from error
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
        """Count a committed write of this process, before the answer."""
        self._cells[self._own] = (self._cells[self._own] + 1) % 2**64

    def others(self) -> bytes:
        """A value that changes with each write of another process."""
        begin = self._own * _BYTES
        return self._memory[:begin] + self._memory[begin + _BYTES :]

    def close(self) -> None:
        """Give the cell back."""
        self._cells.release()
        self._memory.close()
        os.close(self._file)
