"""A client of another catalog that asks as often as the catalog wants to be asked."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import AsyncGenerator
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from catalog.client import ONCE, Answer, Client, ClientError, Credential, Refused
from replication.peerpace import PeerPace

# A longer pause is shown as that of the link, and what asks so often in vain stops for a while.
_LONGEST_PAUSE = 10.0
_ATTEMPTS = 8


class TooManyRequests(ClientError):
    """The peer has asked for a pause that is not over yet."""

    is_retryable = True

    def __init__(self, host: str, seconds: float) -> None:
        super().__init__(f"{host} was asked too often, and wants a pause.")
        self.retry_after = seconds


class PeerTurns:
    """The turns of all requests to one host, which keep to one pace, first come first served."""

    def __init__(self, host: str) -> None:
        self.pace = PeerPace()
        self._host = host
        self._queue = asyncio.Lock()

    async def next(self) -> float:
        """Wait for the turn of a request; return its time.

        Raises:
            TooManyRequests: the peer wants a pause that is too long to wait for it here.
        """
        loop = asyncio.get_running_loop()
        async with self._queue:
            while (seconds := self.pace.delay(loop.time())) > 0:
                if seconds > _LONGEST_PAUSE:
                    raise TooManyRequests(self._host, seconds)
                await asyncio.sleep(seconds)
            now = loop.time()
            self.pace.take(now)
            return now


class PeerHosts:
    """The turns of each host that some client leads to: links to the same host share them."""

    def __init__(self) -> None:
        self._turns: weakref.WeakValueDictionary[str, PeerTurns] = weakref.WeakValueDictionary()

    def turns_of(self, url: str) -> PeerTurns:
        host = urlsplit(url).netloc.lower()
        turns = self._turns.get(host) or PeerTurns(host)
        self._turns[host] = turns
        return turns


class PacedClient(Client):
    """Repeats what is refused because there was too much, more slowly; and nothing else.

    `slowed` counts what was repeated.
    """

    def __init__(
        self,
        url: str,
        session: aiohttp.ClientSession,
        turns: PeerTurns,
        *,
        timeout_seconds: float,
        largest: int,
        credential: Credential | None = None,
    ) -> None:
        super().__init__(
            url,
            session,
            retry=ONCE,
            timeout_seconds=timeout_seconds,
            largest=largest,
            credential=credential,
        )
        self.slowed = 0
        self._turns = turns

    async def request(self, method: str, path: str, **sent: Any) -> Answer:
        attempts = 0
        while True:
            at = await self._turns.next()
            attempts += 1
            try:
                answer = await super().request(method, path, **sent)
            except Refused as error:
                self._note_refusal(error, at, attempts)
            else:
                self._turns.pace.answered(at)
                return answer

    async def lines(self, method: str, path: str, **sent: Any) -> AsyncGenerator[bytes]:
        attempts = 0
        while True:
            at = await self._turns.next()
            attempts += 1
            try:
                async with contextlib.aclosing(super().lines(method, path, **sent)) as lines:
                    async for line in lines:
                        yield line
            # It comes before the first line.
            except Refused as error:
                self._note_refusal(error, at, attempts)
            else:
                self._turns.pace.answered(at)
                return

    def _note_refusal(self, error: Refused, sent: float, attempts: int) -> None:
        """Slow down after a refusal for too many requests; raise if it is not to be repeated."""
        if error.problem.status != HTTPStatus.TOO_MANY_REQUESTS:
            raise error
        now = asyncio.get_running_loop().time()
        self._turns.pace.slow(sent, now, pause=error.retry_after)
        if attempts >= _ATTEMPTS or error.retry_after > _LONGEST_PAUSE:
            raise error
        self.slowed += 1
