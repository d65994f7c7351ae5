"""Reads that wait for a position: that of a write, here or at a catalog that this node follows.

A write answers with its position in `Concord-Position`. A GET or HEAD that gives it in
`Concord-Wait-For`, here or at a replica, is answered once the write can be seen there, within the
seconds of `Prefer: wait=N` (RFC 7240, 4.3). The answer has a position of this node itself, so that
a reader at the other end of a relay asks the relay first, and then waits for the relay's position.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from aiohttp import hdrs, web

from catalog.context import CLIENT, CONTEXT
from catalog.http.responses import POSITION
from catalog.http.stream import WAITING_READS
from catalog.model.caller import node_caller
from catalog.model.concorderrors import PositionNotReached, UnknownPosition
from catalog.model.errors import BadRequest, ServerBusy
from catalog.store import links
from catalog.store.database import Database, SharedDatabase, wait_for
from catalog.store.linkprogress import LinkProgress, NodeProgress, read_progress
from catalog.store.logpositions import LogCursor

# A link that is current has a change of its source within milliseconds. One that sleeps, or that
# does not bring this change, reads on when it is woken; then its source may hide a change for as
# long as an older transaction is open there, so it is woken again, less and less often.
_FIRST_WAKE, _LAST_WAKE = 0.1, 2.0
# Progress is signalled; this is for a notification that was lost with its connection.
_LONGEST_PAUSE = 5.0


class _Waiting:
    """A read that waits, and the position that it waits for."""

    def __init__(self, cursor: LogCursor, behind: Sequence[LinkProgress]) -> None:
        self.cursor = cursor
        self.behind = behind
        self.is_over: asyncio.Future[None] = asyncio.get_running_loop().create_future()


@dataclass(slots=True)
class _Wake:
    """The time at which to wake a link, and the pause before the next time."""

    due: float
    pause: float


class LinkWaits:
    """The waiting reads of one process.

    They hold no connection. While there are some, one task looks at the progress of their links,
    whenever that is signalled.
    """

    def __init__(self, database: SharedDatabase) -> None:
        self._database = Database(database, node_caller())
        self._waiting: set[_Waiting] = set()
        self._wakes: dict[str, _Wake] = {}
        self._follower: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """The number of reads that wait."""
        return len(self._waiting)

    async def wait(
        self, cursor: LogCursor, behind: Sequence[LinkProgress], seconds: float
    ) -> Sequence[LinkProgress]:
        """Wait until all links that follow an instance are at a position of it, or until none does.

        Args:
            behind: those that are not yet.

        Returns:
            those that are not after `seconds`.
        """
        reader = _Waiting(cursor, behind)
        self._waiting.add(reader)
        if self._follower is None or self._follower.done():
            self._follower = asyncio.create_task(self._follow())
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await reader.is_over
        finally:
            self._waiting.discard(reader)
            if not self._waiting and self._follower is not None:
                self._follower.cancel()
                self._follower = None
                self._wakes.clear()
        return reader.behind

    async def _follow(self) -> None:
        """Look at the links as long as there are reads that wait."""
        while True:
            ticket = self._database.signal.progress_ticket()
            if self._database.signal.is_ended:
                return self._dismiss()
            try:
                await self._look()
            except (ServerBusy, TimeoutError):
                await self._database.recovered()
                continue
            now = asyncio.get_running_loop().time()
            until = min((wake.due for wake in self._wakes.values()), default=now + _LONGEST_PAUSE)
            await wait_for(ticket, min(_LONGEST_PAUSE, max(0.0, until - now)))

    def _dismiss(self) -> None:
        """End all waits with the links that are behind."""
        for reader in self._waiting:
            if not reader.is_over.done():
                reader.is_over.set_result(None)

    async def _look(self) -> None:
        instances = {reader.cursor.instance for reader in self._waiting}
        async with self._database.acquire() as connection:
            progress = await read_progress(connection, instances)
            behind = self._settle(progress)
            for id in self._due(behind):
                await links.wake(connection, id)

    def _settle(self, progress: NodeProgress) -> set[str]:
        """End the waits that are over; return the links that the others wait for."""
        for reader in self._waiting:
            found = progress.following(reader.cursor.instance)
            reader.behind = [link for link in found if not link.is_at(reader.cursor)]
            if not reader.behind and not reader.is_over.done():
                reader.is_over.set_result(None)
        return {link.id for reader in self._waiting for link in reader.behind}

    def _due(self, behind: set[str]) -> list[str]:
        """The links to wake now."""
        now = asyncio.get_running_loop().time()
        for id in self._wakes.keys() - behind:
            del self._wakes[id]
        due = []
        for id in behind:
            wake = self._wakes.setdefault(id, _Wake(now + _FIRST_WAKE, _FIRST_WAKE))
            if wake.due <= now:
                due.append(id)
                wake.pause = min(_LAST_WAKE, 2 * wake.pause)
                wake.due = now + wake.pause
        return due


LINK_WAITS: web.AppKey[LinkWaits] = web.AppKey("link_waits", LinkWaits)


WAIT_FOR = "Concord-Wait-For"
_PREFER = "Prefer"
_MOST_POSITIONS = 10
_SECONDS = re.compile(r"[0-9]{1,9}", re.ASCII)
READ_AS_OF: web.RequestKey[str] = web.RequestKey("read_as_of", str)
_RELAYED = (
    "A position is known where its catalog is followed. Read there with this header first: the "
    "answer has a position to wait for where that catalog is followed."
)


async def wait_for_positions(request: web.Request) -> None:
    """Let a GET or HEAD wait until the writes that it names are visible here.

    Raises:
        UnknownPosition: a write would never be visible.
        PositionNotReached: a write is not visible within the time.
        TooManyAtOnce, ServerBusy: too many reads wait already.
    """
    if WAIT_FOR not in request.headers or request.method not in (hdrs.METH_GET, hdrs.METH_HEAD):
        return
    context, waits = request[CONTEXT], request.app[LINK_WAITS]
    cursors, seconds = _positions(request), _seconds(request)
    until = asyncio.get_running_loop().time() + seconds
    progress = await _read_progress(context.database, cursors)
    for cursor in cursors:
        missing = _behind(request, cursor, progress)
        if not missing:
            continue
        async with request.app[WAITING_READS].hold(
            request[CLIENT], wait_seconds=0, path=request.path
        ):
            left = until - asyncio.get_running_loop().time()
            behind = await waits.wait(cursor, missing, left)
        if behind:
            raise _not_reached(request, cursor, behind[0], seconds)
        progress = await _read_progress(context.database, cursors)
        _behind(request, cursor, progress)  # Raises, if it waited for a link that is gone.
    if progress.revision > context.configuration.revision:
        await context.shared.reload()
    now = LogCursor.at(context.database.node.instance, progress.newest)
    request[READ_AS_OF] = str(now)


async def _read_progress(database: Database, cursors: Sequence[LogCursor]) -> NodeProgress:
    """Read the progress of this node and of the links that follow the instances of cursors."""
    async with database.acquire() as connection:
        return await read_progress(connection, {cursor.instance for cursor in cursors})


def _behind(request: web.Request, cursor: LogCursor, progress: NodeProgress) -> list[LinkProgress]:
    """The links that have not come to a position yet.

    Raises:
        UnknownPosition: no link does, or it is one of this node that its log does not have.
    """
    if cursor.is_of(request[CONTEXT].database.node.instance):
        if cursor.position.txid < progress.next_txid:
            return []
        detail = "the log of this node does not reach there"
        raise UnknownPosition(request.path, position=str(cursor), error_detail=detail)
    found = progress.following(cursor.instance)
    if found:
        return [link for link in found if not link.is_at(cursor)]
    raise UnknownPosition(
        request.path,
        position=str(cursor),
        error_detail="no link of this node follows the catalog that gave it",
        detail=_RELAYED,
    )


def _positions(request: web.Request) -> Sequence[LogCursor]:
    """The positions that a request names, each once.

    Raises:
        BadRequest
    """
    texts = ",".join(request.headers.getall(WAIT_FOR)).split(",", _MOST_POSITIONS)
    if len(texts) > _MOST_POSITIONS:
        fault = f"{WAIT_FOR} names more than {_MOST_POSITIONS} positions"
        raise BadRequest(request.path, error_detail=fault)
    try:
        return list(dict.fromkeys(LogCursor.parse(text.strip()) for text in texts))
    except ValueError as error:
        fault = f"{WAIT_FOR} is no position; {POSITION} of a write is one"
        raise BadRequest(request.path, error_detail=fault) from error


def _seconds(request: web.Request) -> float:
    """The time that a client wants to wait, as far as the node lets it."""
    most = request[CONTEXT].settings.read_wait_seconds
    for preference in ",".join(request.headers.getall(_PREFER, ())).split(","):
        name, _, value = preference.partition(";")[0].partition("=")
        if name.strip().lower() == "wait" and _SECONDS.fullmatch(value.strip()):
            return min(most, float(value))
    return most


def _not_reached(
    request: web.Request, cursor: LogCursor, link: LinkProgress, seconds: float
) -> PositionNotReached:
    return PositionNotReached(
        request.path,
        position=str(cursor),
        link=link.id,
        source=link.source,
        state=link.state,
        reached=str(link.reached or ""),
        seconds=f"{seconds:g}",
        detail=f"/replication/links/{link.id} has its state.",
    )
