"""Caches answers to GET until a write changes an entity in the answer.

The cache files an answer under a place: the path of the resource for answers below a resource, or
else the path of the entity or collection. A write removes the answers at its own place and above.
A write of this process removes the answers before the write is answered. Writes of processes on the
same host are read from the change log at once (`SharedWrites`), and writes of processes on
different hosts within a bounded time, which is zero unless an operator sets it. So a client always
reads its own writes.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TypeAlias

from aiohttp import hdrs, web
from multidict import CIMultiDict

from catalog.context import CONTEXT
from catalog.http.conditions import tag
from catalog.http.positionwait import WAIT_FOR
from catalog.model.caller import node_caller
from catalog.model.change import Change
from catalog.model.record import record
from catalog.model.xid import depth
from catalog.store.changes import RecentWrite, read_written
from catalog.store.database import Connection, Database, SharedDatabase

_MOST_ENDINGS = 50_000
# Above this number of changes, clearing the cache is faster than a search for stale answers.
_MOST_CHANGES = 2000
_LARGEST_BODY = 64 * 1024
_DEPTH_OF_RESOURCE = 4
_LONGEST_CONFIRMATION_SECONDS = 10.0
# The memory of an answer without the body and the texts of key and headers: objects, and entries
# of tables.
_OVERHEAD_BYTES = 3000
_SHARE_OF_MEMORY = 32
# The wishes of a client for an answer that no cache has kept.
_ANEW = frozenset({"no-cache", "no-store", "max-age=0"})
_LEAST_BYTES, _MOST_BYTES = 16 * 1024 * 1024, 512 * 1024 * 1024

# The URL of the registry for the client; the path and query, with a digest of a body that counts;
# and the revision of the configuration.
Key: TypeAlias = tuple[str, str, int]


@record
class CachedAnswer:
    """An answer to GET, and the place under which the cache files it."""

    place: str
    status: int
    headers: CIMultiDict[str]
    body: bytes


def default_bytes(limit: Path = Path("/sys/fs/cgroup/memory.max")) -> int:
    """The default size of the cache in bytes: a share of the memory, within bounds.

    Args:
        limit: the file with the memory limit of a container under Linux (cgroup v2).
    """
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    # The file is missing outside of cgroup v2, and holds the word `max` without a limit.
    with contextlib.suppress(OSError, ValueError):
        memory = min(memory, int(limit.read_text()))
    return min(max(memory // _SHARE_OF_MEMORY, _LEAST_BYTES), _MOST_BYTES)


class AnswerCache:
    """The most recently used answers, as far as they fit into a number of bytes.

    Args:
        most_bytes: the limit of the sum of answers, keys and headers; `bytes` is the current sum.
        staleness_seconds: how long a write of a process on a different host may go unnoticed.
    """

    def __init__(
        self, database: SharedDatabase, *, most_bytes: int, staleness_seconds: float
    ) -> None:
        self._database = Database(database, node_caller())
        self._most_bytes = most_bytes
        self.bytes = self.hits = self.misses = 0
        self._staleness = staleness_seconds
        # The answers with their sizes in bytes.
        self._answers: OrderedDict[Key, tuple[CachedAnswer, int]] = OrderedDict()
        self._places: dict[str, set[Key]] = {}
        # The number of the last write at each place; missing places count as `_floor`.
        self._written: OrderedDict[str, int] = OrderedDict()
        self._writes = 0
        self._floor = 0
        self._snapshot: str | None = None
        self._confirmed_at = -math.inf
        self._shared = database.signal.shared
        self._others = b""
        self._confirming = asyncio.Lock()
        database.signal.listeners.append(self.end_changed)

    def ticket(self) -> int:
        """The number of the latest write, taken before reading the entities of an answer."""
        return self._writes

    async def get(self, key: Key) -> CachedAnswer | None:
        """An answer that was current at most `staleness_seconds` before the call, or later.

        Raises:
            ServerBusy, TimeoutError: the database does not confirm that the answer is current.
        """
        if key not in self._answers:
            self.misses += 1
            return None
        # A confirmation that another request begins after this moment is as good as an own one.
        asked_at = asyncio.get_running_loop().time()
        if not self._is_current(asked_at):
            # The requests that wait for the lock share the confirmation of the first request.
            async with asyncio.timeout(_LONGEST_CONFIRMATION_SECONDS), self._confirming:
                if not self._is_current(asked_at):
                    async with self._database.acquire() as connection:
                        await self._confirm(connection)
        answer = self._use(key)
        if answer is None:
            self.misses += 1
        else:
            self.hits += 1
        return answer

    async def get_confirmed(self, key: Key, connection: Connection) -> CachedAnswer | None:
        """An answer that is current at the call; the connection must not be in a transaction."""
        if key in self._answers:
            await self._confirm(connection)
        return self._use(key)

    def _use(self, key: Key) -> CachedAnswer | None:
        found = self._answers.get(key)
        if found is None:
            return None
        self._answers.move_to_end(key)
        return found[0]

    def put(self, key: Key, answer: CachedAnswer, ticket: int) -> None:
        """Cache an answer, unless its place was written after its ticket was taken."""
        written = max(self._written.get(answer.place, 0), self._floor)
        if written > ticket or len(answer.body) > _LARGEST_BODY:
            return
        self._forget(key)
        base, path, _ = key
        headers = sum(len(name) + len(value) for name, value in answer.headers.items())
        texts = len(base) + len(path) + len(answer.place)
        size = _OVERHEAD_BYTES + texts + headers + len(answer.body)
        self._answers[key] = answer, size
        self.bytes += size
        self._places.setdefault(answer.place, set()).add(key)
        while self.bytes > self._most_bytes:
            self._forget(next(iter(self._answers)))

    def end_changed(self, changes: Iterable[Change]) -> None:
        """Remove the answers that became stale by changes of this process."""
        written = list(changes)
        if len(written) > _MOST_CHANGES:
            self.clear()
        else:
            self._end(written)

    def clear(self) -> None:
        """Remove every answer, and refuse answers with older tickets."""
        self._writes += 1
        self._floor = self._writes
        self._answers.clear()
        self.bytes = 0
        self._places.clear()
        self._written.clear()

    def _is_current(self, asked_at: float) -> bool:
        if self._shared is not None and self._shared.others() != self._others:
            return False
        return asked_at - self._confirmed_at <= self._staleness

    async def _confirm(self, connection: Connection) -> None:
        """Read the writes that were committed after the previous snapshot.

        If two calls run concurrently, the last call to end may store the older snapshot; the next
        call then reads a few writes again.
        """
        # Time and counters are taken before the read, since they must not cover a later write.
        begun = asyncio.get_running_loop().time()
        others = self._others if self._shared is None else self._shared.others()
        found = await read_written(connection, self._snapshot)
        if found.written is None:
            self.clear()
        else:
            self._end(found.written)
        self._snapshot = found.snapshot
        self._confirmed_at = begun
        self._others = others

    def _end(self, written: Sequence[RecentWrite | Change]) -> None:
        self._writes += 1
        for place in places_of(one.xid for one in written):
            self._end_at(place)
        for one in written:
            if one.kind == "group" and one.action == "deleted":
                # The log may have no changes of the entities below a deleted group.
                for place in [p for p in self._places if p.startswith(f"{one.xid}/")]:
                    self._end_at(place)
                # Also refuses answers below the group that are being read and have no place yet.
                self._floor = self._writes
        while len(self._written) > _MOST_ENDINGS:
            _, self._floor = self._written.popitem(last=False)

    def _end_at(self, place: str) -> None:
        self._written[place] = self._writes
        self._written.move_to_end(place)
        for key in self._places.pop(place, ()):
            self.bytes -= self._answers.pop(key)[1]

    def _forget(self, key: Key) -> None:
        found = self._answers.pop(key, None)
        if found is not None:
            answer, size = found
            self.bytes -= size
            keys = self._places[answer.place]
            keys.discard(key)
            if not keys:
                del self._places[answer.place]


def places_of(xids: Iterable[str]) -> set[str]:
    """The places of the answers that show the entities: each place with the places above it."""
    places = {""}
    for xid in xids:
        place = xid.rsplit("/", 2)[0] if depth(xid) > _DEPTH_OF_RESOURCE else xid
        while place not in places:
            places.add(place)
            place = place.rpartition("/")[0]
    return places - {""} | {"/"}


ANSWERS: web.AppKey[AnswerCache] = web.AppKey("answers", AnswerCache)


async def find_answer(request: web.Request, body: bytes = b"") -> web.Response | None:
    """A cached answer; `None` if the cache has no answer, or must not answer the request.

    The cache holds the answers for callers who may see the whole catalog. A request that waited for
    a position may have to show newer entities than the cache of this process.

    Args:
        body: the body of a request whose answer depends on a body.
    """
    wishes = request.headers.get(hdrs.CACHE_CONTROL, "").lower().replace(" ", "").split(",")
    if not _ANEW.isdisjoint(wishes):
        return None
    if WAIT_FOR in request.headers or request[CONTEXT].caller.is_restricted:
        return None
    answer = await request.app[ANSWERS].get(_key_of(request, body))
    if answer is None:
        return None
    return web.Response(body=answer.body, status=answer.status, headers=answer.headers)


def keep_answer(
    request: web.Request, response: web.Response, place: str, ticket: int, body: bytes = b""
) -> None:
    """Cache the whole answer to a caller who may see the whole catalog.

    Args:
        place: the answer is current until an entity at the place, or below, is written.
        ticket: the ticket from before the first read.
        body: the body of a request whose answer depends on a body.
    """
    if request.method == hdrs.METH_GET:
        tag(response)
    answer = CachedAnswer(
        place=place,
        status=response.status,
        headers=response.headers.copy(),
        body=response.body if isinstance(response.body, bytes) else b"",
    )
    request.app[ANSWERS].put(_key_of(request, body), answer, ticket)


def _key_of(request: web.Request, body: bytes) -> Key:
    context = request[CONTEXT]
    asked = f"{request.raw_path} {sha256(body).hexdigest()}" if body else request.raw_path
    return (context.base_url(request), asked, context.configuration.revision)
