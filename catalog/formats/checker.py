"""Runs the checks of documents in processes of their own, and caches their results."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from hashlib import sha256
from typing import Literal, Self

from catalog.formats.families import is_supported, rules_for
from catalog.formats.process import Lost, Process, Unfinished

Direction = Literal["backward", "forward"]

MAX_BYTES = 4 * 1024 * 1024
TOO_LARGE = f"a document of more than {MAX_BYTES} bytes cannot be checked"
MAX_REMEMBERED = 4096
MAX_MEMORY = 1024 * 1024 * 1024
LONGEST_WAIT_SECONDS = 30.0


class Checker:
    """Checks documents in processes of their own, for documents may be hostile.

    No check takes longer than `time_limit` seconds once it has begun: its process is ended
    then, and that is the answer. The processes start when they are first needed.
    Results depend on the documents only, so they are cached.
    """

    def __init__(self, *, processes: int = 2, time_limit: float = 10.0) -> None:
        self._time_limit = time_limit
        self._turns = asyncio.Semaphore(processes)
        self._idle: list[Process] = []
        self._answers: OrderedDict[tuple[str, str, tuple[bytes, ...]], str] = OrderedDict()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *failure: object) -> None:
        while self._idle:
            await self._idle.pop().end()

    async def validate(self, format: str, document: bytes) -> str:
        """The problem of a document of this format, or ""."""
        if not is_supported(format):
            raise ValueError(f"no document of format {format} can be checked")
        return await self._answer(format, "", (document,))

    async def compare(self, format: str, older: bytes, newer: bytes, direction: Direction) -> str:
        """The reason why a version is not compatible with the other one, or "".

        backward: who has the newer schema can read what was written with the older one.
        forward: who has the older schema can read what was written with the newer one.
        """
        if not rules_for(format):
            raise ValueError(f"no versions of format {format} can be compared")
        return await self._answer(format, direction, (older, newer))

    async def conform(
        self, format: str, schema: bytes, payload: bytes, contenttype: str, part: str = ""
    ) -> str:
        """The problem of a payload that should conform to a schema of this format, or "".

        Args:
            format: of the schema.
            contenttype: of the payload: it says which of a format's encodings this is.
            part: what the payload is, if the schema declares more than one thing: the name of
                a Protobuf message or of a named Avro type, or a JSON pointer. Without it, it
                is the first message of the file, or the whole schema.

        Raises:
            UnusableSchema: it breaks the rules of its format, or refers to other documents.
        """
        if not is_supported(format):
            raise ValueError(f"nothing of format {format} can be checked")
        documents = (schema, payload, contenttype.encode(), part.encode())
        if any(len(document) > MAX_BYTES for document in documents):
            return TOO_LARGE
        try:
            # The same message seldom comes twice, so its result is not cached.
            return await self._ask(format.lower(), "conform", documents)
        except Unfinished as error:
            return str(error)

    async def _answer(self, format: str, direction: str, documents: tuple[bytes, ...]) -> str:
        if any(len(document) > MAX_BYTES for document in documents):
            return TOO_LARGE
        format = format.lower()
        digests = tuple(sha256(document).digest() for document in documents)
        key = (format, direction, digests)
        if key in self._answers:
            self._answers.move_to_end(key)
            return self._answers[key]
        try:
            answer = await self._ask(format, direction, documents)
        except Unfinished as error:
            # The duration depends on the machine, so this is not cached.
            return str(error)
        self._answers[key] = answer
        if len(self._answers) > MAX_REMEMBERED:
            self._answers.popitem(last=False)
        return answer

    async def _ask(self, format: str, direction: str, documents: tuple[bytes, ...]) -> str:
        try:
            async with asyncio.timeout(LONGEST_WAIT_SECONDS):
                await self._turns.acquire()
        except TimeoutError as error:
            raise Unfinished("too many checks were waiting for their turn") from error
        try:
            while True:
                process = await self._process()
                # A process that has answered before may have died since, before this check.
                may_be_dead = process.has_answered
                try:
                    return await process.ask(format, direction, documents, self._time_limit)
                except Lost:
                    if not may_be_dead:
                        raise
                finally:
                    await self._put_back(process)
        finally:
            self._turns.release()

    async def _process(self) -> Process:
        while self._idle:
            process = self._idle.pop()
            if process.is_usable:
                return process
            await process.end()
        return await Process.start(memory=MAX_MEMORY, time_limit=self._time_limit)

    async def _put_back(self, process: Process) -> None:
        if process.is_usable:
            self._idle.append(process)
        else:
            await process.end()
