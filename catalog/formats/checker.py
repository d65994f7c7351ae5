"""Runs the checks of documents in separate processes, and caches the results.

Clients share a bounded number of processes, by the time that each client has used.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Literal, Self, TypeAlias

from catalog.formats.families import is_supported, rules_for
from catalog.formats.process import Lost, Process, Unfinished

Direction = Literal["backward", "forward"]
# The format in lower case, the direction, and the digests of the documents.
Key: TypeAlias = tuple[str, str, tuple[bytes, ...]]
_MOST_REMEMBERED = 1000


@dataclass(frozen=True, slots=True)
class CheckedDocument:
    """The content and the digest of a document."""

    content: bytes
    sha256: bytes

    @classmethod
    def of(cls, content: bytes) -> Self:
        return cls(content, sha256(content).digest())


@dataclass(frozen=True, slots=True)
class Check:
    """The validation of a document, or with a `direction` the comparison of two documents."""

    format: str
    direction: str
    documents: tuple[CheckedDocument, ...]

    @property
    def key(self) -> Key:
        """The format, the direction and the digests, which determine the result."""
        digests = tuple(document.sha256 for document in self.documents)
        return self.format.lower(), self.direction, digests


def validation(format: str, document: CheckedDocument) -> Check:
    """The check whether a document follows a format.

    Raises:
        ValueError: documents of the format cannot be checked.
    """
    if not is_supported(format):
        raise ValueError(f"no document of format {format} can be checked")
    return Check(format, "", (document,))


def comparison(
    format: str, older: CheckedDocument, newer: CheckedDocument, direction: Direction
) -> Check:
    """The check whether two versions of a document are compatible.

    backward: a reader with the newer schema can read data written with the older schema.
    forward: a reader with the older schema can read data written with the newer schema.

    Raises:
        ValueError: versions of the format cannot be compared.
    """
    if not rules_for(format):
        raise ValueError(f"no versions of format {format} can be compared")
    return Check(format, direction, (older, newer))


@dataclass(slots=True)
class _Client:
    # The seconds of the turns that have ended.
    used: float = 0.0
    # The start times of the turns that are under way.
    turns: list[float] = field(default_factory=list)
    waiting: deque[asyncio.Future[float]] = field(default_factory=deque)

    def used_until(self, now: float) -> float:
        return self.used + sum(now - begun for begun in self.turns)


class Turns:
    """The turns of clients to occupy a place.

    A place goes to the waiting client that has used the least time. A client with long turns
    therefore delays another client by a single turn at most, regardless of the number of turns
    that the first client waits for. A new client begins with the time of the client that had the
    last turn, so that absence earns no credit.

    Args:
        each: the most places that a single client may occupy at a time. The number of places is
            `each` + 1: one place always stays free for a second client.
    """

    def __init__(self, each: int) -> None:
        self._each = each
        self._free = each + 1
        self._clients: dict[str, _Client] = {}
        self._last_used = 0.0

    @contextlib.asynccontextmanager
    async def turn(self, name: str) -> AsyncIterator[None]:
        """Wait for a turn of a client; the turn lasts as long as the context."""
        client = self._clients.setdefault(name, _Client())
        if not (client.turns or client.waiting):
            client.used = max(client.used, self._last_used)
        begun = await self._wait(client)
        try:
            yield
        finally:
            self._end(client, begun)

    async def _wait(self, client: _Client) -> float:
        place: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        client.waiting.append(place)
        self._hand_out()
        try:
            return await place
        except asyncio.CancelledError:
            # A place may be granted and the waiting task cancelled before the task resumes: the
            # place must go back.
            if place.cancelled():
                self._hand_out()
            else:
                self._end(client, place.result())
            raise

    def _end(self, client: _Client, begun: float) -> None:
        client.turns.remove(begun)
        client.used += asyncio.get_running_loop().time() - begun
        self._free += 1
        self._hand_out()

    def _hand_out(self) -> None:
        now = asyncio.get_running_loop().time()
        while self._free:
            ready = [c for c in self._clients.values() if c.waiting and len(c.turns) < self._each]
            if not ready:
                break
            client = min(ready, key=lambda each: each.used_until(now))
            place = client.waiting.popleft()
            if place.cancelled():
                continue
            place.set_result(now)
            self._last_used = max(self._last_used, client.used)
            client.turns.append(now)
            self._free -= 1
        self._forget_idle()

    def _forget_idle(self) -> None:
        """Forget the times of idle clients when every place is free, or the clients are too many.

        With every place free, no client waits, and the used times decide nothing.
        """
        is_idle = self._free > self._each
        if is_idle or len(self._clients) > _MOST_REMEMBERED:
            active = {name: c for name, c in self._clients.items() if c.turns or c.waiting}
            self._clients = active


MAX_BYTES = 4 * 1024 * 1024
TOO_LARGE = f"a document of more than {MAX_BYTES} bytes cannot be checked"
MAX_REMEMBERED = 16 * 1024
# Longer answers are texts of schemas, and would take too much memory.
MAX_REMEMBERED_CHARACTERS = 16 * 1024
MAX_MEMORY = 1024 * 1024 * 1024


@dataclass(slots=True)
class Budget:
    """The seconds left for the checks of one request."""

    seconds: float = math.inf


class BudgetSpent(Exception):
    """The checks of a request took longer than the budget of the request."""


class Checker:
    """Checks documents in separate processes, because documents may be hostile.

    A check that takes more than `seconds` of the processor is ended; the answer then says that
    the check took too long. A process starts when a check first needs the process. Results depend
    on the documents only and are therefore cached.

    The counters are `done` (checks that ran), `known` (answers from the cache), `unfinished`
    (checks that took too long) and `spent` (seconds).

    Args:
        processes: the most processes that work for one client at a time. The checker has
            `processes` + 1 in total.
        seconds: the most seconds of the processor for one check.
    """

    def __init__(self, *, processes: int = 2, seconds: float = 2.0) -> None:
        self._seconds = seconds
        self._at_once = processes
        self._turns = Turns(processes)
        self._idle: list[Process] = []
        self._remembered: OrderedDict[Key, str] = OrderedDict()
        self.done = self.known = self.unfinished = 0
        self.spent = 0.0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *failure: object) -> None:
        while self._idle:
            await self._idle.pop().end()

    async def answers(self, checks: Sequence[Check]) -> Sequence[str]:
        """Run checks for the server itself, without a budget; an answer is a problem or ""."""
        found = await self.run(checks, Budget())
        return [found[check.key] for check in checks]

    def remembered(self, key: Key) -> str | None:
        """The cached result of a check, if the cache has the result."""
        if key in self._remembered:
            self._remembered.move_to_end(key)
        return self._remembered.get(key)

    async def run(
        self, checks: Iterable[Check], budget: Budget, *, client: str = ""
    ) -> Mapping[Key, str]:
        """Run checks, a few at a time, in the turns of the client.

        Args:
            checks: the checks to run or to answer from the cache.
            budget: the time for the checks; every check that runs reduces the budget.
            client: the name of the client; clients share the processes equally.

        Returns:
            the problem that each check found, or "".

        Raises:
            BudgetSpent: the budget ended before every check had run.
        """
        known = {check.key: self.remembered(check.key) for check in checks}
        found = {key: answer for key, answer in known.items() if answer is not None}
        self.known += len(found)
        due = deque({check.key: check for check in checks if check.key not in found}.items())

        async def run_due() -> None:
            while due and budget.seconds > 0:
                key, check = due.popleft()
                found[key] = await self._answer(key, check, budget, client)

        async with asyncio.TaskGroup() as tasks:
            # The current task runs checks, too: most requests have a single check.
            for _ in range(min(self._at_once, len(due)) - 1):
                tasks.create_task(run_due())
            await run_due()
        if due:
            raise BudgetSpent
        return found

    async def conform(
        self,
        format: str,
        schema: bytes,
        payload: bytes,
        contenttype: str,
        part: str = "",
        *,
        client: str = "",
    ) -> str:
        """The problem of a payload that should conform to a schema, or "".

        Args:
            format: the format of the schema.
            schema: the document of the schema.
            payload: the payload to check.
            contenttype: the media type of the payload, which decides between the encodings of a
                format.
            part: the declaration that describes the payload, in a schema with several: the name
                of a Protobuf message or of a named Avro type, or a JSON pointer. By default, the
                first message of the file, or the whole schema.
            client: the name of the client, as in `run`.

        Raises:
            UnusableSchema: the schema breaks the rules of the format, or refers to other documents.
            ValueError: documents of the format cannot be checked.
        """
        if not is_supported(format):
            raise ValueError(f"nothing of format {format} can be checked")
        documents = (schema, payload, contenttype.encode(), part.encode())
        if any(len(document) > MAX_BYTES for document in documents):
            return TOO_LARGE
        try:
            async with self._turns.turn(client):
                # The same message seldom comes twice, so the result is not cached.
                return await self._ask(format.lower(), "conform", documents)
        except Unfinished as error:
            return str(error)

    async def _answer(self, key: Key, check: Check, budget: Budget, client: str) -> str:
        contents = tuple(document.content for document in check.documents)
        if any(len(content) > MAX_BYTES for content in contents):
            return TOO_LARGE
        loop = asyncio.get_running_loop()
        async with self._turns.turn(client):
            # The time of other clients, spent waiting for the turn, is not in the budget.
            begun = loop.time()
            try:
                answer = await self._ask(check.format.lower(), check.direction, contents)
            except Unfinished as error:
                # The duration depends on the machine, so the answer is not cached.
                return str(error)
            finally:
                budget.seconds -= loop.time() - begun
        if len(answer) <= MAX_REMEMBERED_CHARACTERS:
            self._remembered[key] = answer
        if len(self._remembered) > MAX_REMEMBERED:
            self._remembered.popitem(last=False)
        return answer

    async def _ask(self, format: str, direction: str, documents: tuple[bytes, ...]) -> str:
        while True:
            process = await self._process()
            # An idle process may have died since the last answer. The check is not to blame for
            # such a death, and runs again; in a fresh process, the check is.
            may_be_dead = process.has_answered
            begun = asyncio.get_running_loop().time()
            try:
                answer = await process.ask(format, direction, documents)
                self.done += 1
                return answer
            except Lost:
                if not may_be_dead:
                    raise
            except Unfinished:
                self.unfinished += 1
                raise
            finally:
                self.spent += asyncio.get_running_loop().time() - begun
                await self._put_back(process)

    async def _process(self) -> Process:
        while self._idle:
            process = self._idle.pop()
            if process.is_usable:
                return process
            await process.end()
        return await Process.start(memory=MAX_MEMORY, seconds=self._seconds)

    async def _put_back(self, process: Process) -> None:
        # A process without a reply to the last check, such as a cancelled check, would answer
        # the next check with the overdue reply.
        if process.is_usable:
            self._idle.append(process)
        else:
            await process.end()
