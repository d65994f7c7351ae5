"""Remembers answers to GET until something that they show is written.

An answer is kept at the place that it is about: a resource for all that is below it, else
the entity or collection itself. A write ends the answers at what it changed and above. One
of this process does so before it is answered, so a client never reads what its own write has
changed; those of other processes are asked for in the database's log, so that no answer is
given that was not confirmed within a bound.
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from aiohttp import web
from multidict import CIMultiDict

from catalog.model.change import Change
from catalog.model.xid import Xid
from catalog.store import recentwrites
from catalog.store.database import Connection, Database
from catalog.store.recentwrites import RecentWrites

_MOST_ANSWERS = 10_000
_MOST_ENDINGS = 50_000
_LARGEST_BODY = 64 * 1024
_LONGEST_CONFIRMATION_SECONDS = 10.0

# The client's name for the registry, the request's path and query, and the configuration.
Key: TypeAlias = tuple[str, str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedAnswer:
    """What a GET was answered with; `place` is where it is kept."""

    place: str
    status: int
    headers: CIMultiDict[str]
    body: bytes


class AnswerCache:
    """The most recently used answers.

    Args:
        staleness_seconds: how long a write of another process may go unnoticed.
    """

    def __init__(self, database: Database, staleness_seconds: float) -> None:
        self._database = database
        self._staleness = staleness_seconds
        self._answers: OrderedDict[Key, CachedAnswer] = OrderedDict()
        self._places: dict[str, set[Key]] = {}
        # When each place was last written, as a count of writes; before that, `_floor`.
        self._written: OrderedDict[str, int] = OrderedDict()
        self._writes = 0
        self._floor = 0
        self._snapshot: str | None = None
        self._confirmed_at = -math.inf
        self._confirming = asyncio.Lock()
        database.signal.listeners.append(self.end_changed)

    def ticket(self) -> int:
        """Take it before reading what an answer will be made of."""
        return self._writes

    async def get(self, key: Key) -> CachedAnswer | None:
        """An answer that was good a moment ago, as long as the bound allows.

        Raises:
            ServerBusy, TimeoutError: nobody can tell whether it still is.
        """
        if key not in self._answers:
            return None
        if self._is_doubtful():
            async with asyncio.timeout(_LONGEST_CONFIRMATION_SECONDS), self._confirming:
                if self._is_doubtful():
                    async with self._database.pool.acquire() as connection:
                        await self._confirm(connection)
        return self._use(key)

    async def get_confirmed(self, key: Key, connection: Connection) -> CachedAnswer | None:
        """An answer that is good at this moment; the connection is in no transaction."""
        if key in self._answers:
            await self._confirm(connection)
        return self._use(key)

    def _use(self, key: Key) -> CachedAnswer | None:
        answer = self._answers.get(key)
        if answer is not None:
            self._answers.move_to_end(key)
        return answer

    def put(self, key: Key, answer: CachedAnswer, ticket: int) -> None:
        """Keep an answer, unless its place was written since it took its ticket."""
        written = max(self._written.get(answer.place, 0), self._floor)
        if written > ticket or len(answer.body) > _LARGEST_BODY:
            return
        self._forget(key)
        self._answers[key] = answer
        self._places.setdefault(answer.place, set()).add(key)
        if len(self._answers) > _MOST_ANSWERS:
            self._forget(next(iter(self._answers)))

    def end_changed(self, changes: Iterable[Change]) -> None:
        """End what this process has just changed."""
        self._end([RecentWrites(xid=c.xid, kind=c.kind, action=c.action) for c in changes])

    def clear(self) -> None:
        """End everything, and what is being read as well."""
        self._writes += 1
        self._floor = self._writes
        self._answers.clear()
        self._places.clear()
        self._written.clear()

    def _is_doubtful(self) -> bool:
        return asyncio.get_running_loop().time() - self._confirmed_at > self._staleness

    async def _confirm(self, connection: Connection) -> None:
        """Hear of everything that was committed since the last time.

        Of two at once, the one that ends last may remember an earlier moment than the other:
        then the next hears of some writes again.
        """
        begun = asyncio.get_running_loop().time()
        found = await recentwrites.read_written(connection, self._snapshot)
        if found.written is None:
            self.clear()
        else:
            self._end(found.written)
        self._snapshot = found.snapshot
        self._confirmed_at = begun

    def _end(self, written: Sequence[RecentWrites]) -> None:
        self._writes += 1
        for place in {place for one in written for place in places_of(one.xid)}:
            self._end_at(place)
        for one in written:
            if one.kind == "group" and one.action == "deleted":
                self._end_below(one.xid)
        while len(self._written) > _MOST_ENDINGS:
            _, self._floor = self._written.popitem(last=False)

    def _end_at(self, place: str) -> None:
        self._written[place] = self._writes
        self._written.move_to_end(place)
        for key in self._places.pop(place, ()):
            del self._answers[key]

    def _end_below(self, group: str) -> None:
        """A deleted group's children are gone, with changes of their own or without."""
        for place in [place for place in self._places if place.startswith(f"{group}/")]:
            self._end_at(place)
        self._floor = self._writes

    def _forget(self, key: Key) -> None:
        answer = self._answers.pop(key, None)
        if answer is not None:
            keys = self._places[answer.place]
            keys.discard(key)
            if not keys:
                del self._places[answer.place]


def places_of(xid: str) -> list[str]:
    """Where answers are kept that show an entity: at its resource or itself, and above."""
    path = Xid.parse(xid)
    places = ["/"]
    if path.gid:
        group = f"/{path.groups}/{path.gid}"
        places += [f"/{path.groups}", group]
        if path.rid:
            places += [f"{group}/{path.resources}", f"{group}/{path.resources}/{path.rid}"]
    return places


ANSWERS: web.AppKey[AnswerCache] = web.AppKey("answers", AnswerCache)
