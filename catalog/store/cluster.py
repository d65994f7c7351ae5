"""The directory of an embedded server, shared by all processes that use the server."""

from __future__ import annotations

import asyncio
import fcntl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from catalog.store.server import WAIT_SECONDS, EmbeddedPostgresError, Server, until

# Whoever holds the lock for longer starts the server, and so is a user that will stop it.
_FAREWELL_SECONDS = 5
_SHORT_SECONDS = 1


@dataclass(frozen=True, slots=True)
class Cluster:
    """The server's directory: its data and two lock files.

    Who holds `start.lock` may start and stop the server. Every user shares `users.lock`;
    the kernel drops the share of a process that dies, however it dies.
    """

    directory: Path
    server: Server

    @classmethod
    def at(cls, directory: Path) -> Cluster:
        directory = directory.expanduser().resolve()
        try:
            directory.mkdir(mode=0o711, parents=True, exist_ok=True)
        except OSError as error:
            raise EmbeddedPostgresError(f"cannot create {directory}: {error.strerror}") from error
        return cls(directory, Server.at(directory / "data"))

    async def join(self) -> tuple[IO[bytes], Path]:
        """Become a user of the server, starting it first if it does not run.

        The answer is what to give up later, and the directory of the server's socket.
        Whoever is cancelled while the server starts leaves none behind.
        """
        async with self._start_lock(WAIT_SECONDS):
            use = self._users()
            fcntl.flock(use, fcntl.LOCK_SH)
            try:
                return use, self.server.listening_at() or await self.server.start()
            except BaseException:
                await self._until_known()
                await self._leave(use)
                raise

    async def revive(self) -> bool:
        """Start the server again if it has ended; whether that was so."""
        async with self._start_lock(WAIT_SECONDS):
            if self.server.is_alive():
                return False
            await self.server.start()
            return True

    async def give_up(self, use: IO[bytes]) -> None:
        """Stop being a user; the last one stops the server, in bounded time."""
        if use.closed:
            return
        try:
            async with self._start_lock(_FAREWELL_SECONDS):
                await self._leave(use)
        except EmbeddedPostgresError:
            use.close()

    async def _leave(self, use: IO[bytes]) -> None:
        use.close()
        with self._users() as users, suppress(BlockingIOError):
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if self.server.is_alive():
                await self.server.stop()

    def _users(self) -> IO[bytes]:
        return (self.directory / "users.lock").open("ab")

    @asynccontextmanager
    async def _start_lock(self, longest_seconds: float) -> AsyncIterator[None]:
        try:
            lock = (self.directory / "start.lock").open("ab")
        except PermissionError as error:
            raise EmbeddedPostgresError(f"{self.directory} belongs to another user") from error
        with lock:
            try:
                async with asyncio.timeout(longest_seconds):
                    await _lock(lock)
            except TimeoutError as error:
                raise EmbeddedPostgresError(f"another process holds {lock.name}") from error
            yield

    async def _until_known(self) -> None:
        """Wait a moment for a server that has just been started to say so."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_SHORT_SECONDS):
                await until(self.server.is_alive)


async def _lock(lock: IO[bytes]) -> None:
    """Wait for a file lock in a way that can be given up."""

    def is_ours() -> bool:
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        return False

    await until(is_ours)
