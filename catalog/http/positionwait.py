"""Reads that wait for the position of a write, at the node or at a catalog that the node follows.

The answer to a write has the position of the write in `Concord-Position`. A GET or HEAD with the
position in `Concord-Wait-For`, at the same node or at a replica, is answered once the write is
visible there, within the seconds of `Prefer: wait=N` (RFC 7240, 4.3). The answer has a position of
the answering node, so that a reader at the other end of a relay asks the relay first, and then
waits for the relay's position.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Sequence

from aiohttp import hdrs, web

from catalog.context import CLIENT, CONTEXT
from catalog.http.responses import POSITION
from catalog.http.stream import WAITING_READS
from catalog.model.caller import node_caller
from catalog.model.concorderrors import PositionNotReached, UnknownPosition
from catalog.model.errors import BadRequest, ServerBusy
from catalog.store import links
from catalog.store.changes import LogCursor
from catalog.store.database import Database, SharedDatabase, wait_for
from catalog.store.linksources import LinkProgress, NodeProgress, read_progress

# A current link has a change of the source within milliseconds. A link that sleeps, or does not
# replicate the change, reads on when woken. The source may hide a change as long as an older
# transaction is open there, so the link is woken again.
_FIRST_WAKE, _NEXT_WAKE = 0.1, 1.0
# Progress is signalled; the pause covers notifications that were lost with a connection.
_LONGEST_PAUSE = 5.0
WAIT_FOR = "Concord-Wait-For"
_PREFER = "Prefer"
_MOST_POSITIONS = 10
_SECONDS = re.compile(r"[0-9]{1,9}", re.ASCII)
_RELAYED = (
    "A position is known where its catalog is followed. Read there with this header first: the "
    "answer has a position to wait for where that catalog is followed."
)


class _Waiting:
    """A waiting read, the awaited position, and the links that are behind the position."""

    def __init__(self, cursor: LogCursor, behind: Sequence[LinkProgress]) -> None:
        self.cursor = cursor
        self.behind = behind
        self.is_over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def end(self) -> None:
        if not self.is_over.done():
            self.is_over.set_result(None)


class LinkWaits:
    """The waiting reads of a process.

    Waiting reads hold no connection to the database. A single task, which runs while reads wait,
    looks at the progress of the links whenever progress is signalled.
    """

    def __init__(self, database: SharedDatabase) -> None:
        self._database = Database(database, node_caller())
        self._waiting: set[_Waiting] = set()
        # The times at which to wake the links that reads wait for.
        self._wakes: dict[str, float] = {}
        self._follower: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """The number of waiting reads."""
        return len(self._waiting)

    async def wait(
        self, cursor: LogCursor, behind: Sequence[LinkProgress], seconds: float
    ) -> Sequence[LinkProgress]:
        """Wait until every link to an instance is at a position, or no link follows the instance.

        Args:
            cursor: the position and its instance.
            behind: the links that are behind the position at first.
            seconds: the longest time to wait.

        Returns:
            the links that are behind the position at the end.
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
        """Look at the links as long as reads wait."""
        while True:
            # The ticket comes first, so that progress during the look ends the wait below.
            ticket = self._database.signal.progress_ticket()
            if self._database.signal.is_ended:
                # End every wait, with the links that are behind.
                for reader in self._waiting:
                    reader.end()
                return
            try:
                await self._look()
            except (ServerBusy, TimeoutError):
                await self._database.recovered()
                continue
            now = asyncio.get_running_loop().time()
            until = min(self._wakes.values(), default=now + _LONGEST_PAUSE)
            await wait_for(ticket, min(_LONGEST_PAUSE, max(0.0, until - now)))

    async def _look(self) -> None:
        instances = {reader.cursor.instance for reader in self._waiting}
        async with self._database.acquire() as connection:
            progress = await read_progress(connection, instances)
            behind = self._settle(progress)
            for id in self._due(behind):
                await links.wake(connection, id)

    def _settle(self, progress: NodeProgress) -> set[str]:
        """End the waits that are over; return the links that the remaining reads wait for."""
        for reader in self._waiting:
            found = progress.following(reader.cursor.instance)
            reader.behind = [link for link in found if not link.is_at(reader.cursor)]
            if not reader.behind:
                reader.end()
        return {link.id for reader in self._waiting for link in reader.behind}

    def _due(self, behind: set[str]) -> list[str]:
        """The links to wake at the moment; sets the time of the following wake of each."""
        now = asyncio.get_running_loop().time()
        # Forgotten, so that the next read that waits for the link wakes it after the short pause.
        for id in self._wakes.keys() - behind:
            del self._wakes[id]
        due = [id for id in behind if self._wakes.setdefault(id, now + _FIRST_WAKE) <= now]
        self._wakes |= dict.fromkeys(due, now + _NEXT_WAKE)
        return due


LINK_WAITS: web.AppKey[LinkWaits] = web.AppKey("link_waits", LinkWaits)


READ_AS_OF: web.RequestKey[str] = web.RequestKey("read_as_of", str)


async def wait_for_positions(request: web.Request) -> None:
    """Let a GET or HEAD wait until the writes at the requested positions are visible.

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
        _behind(request, cursor, progress)  # Raises UnknownPosition if the link was deleted.
    # A write that changed the configuration has to be visible, too.
    if progress.revision > context.configuration.revision:
        await context.shared.reload()
    now = LogCursor.at(context.database.node.instance, progress.newest)
    request[READ_AS_OF] = str(now)


async def _read_progress(database: Database, cursors: Sequence[LogCursor]) -> NodeProgress:
    """Read the progress of the node and of the links that follow the instances of cursors."""
    async with database.acquire() as connection:
        return await read_progress(connection, {cursor.instance for cursor in cursors})


def _behind(request: web.Request, cursor: LogCursor, progress: NodeProgress) -> list[LinkProgress]:
    """The links that are behind a position.

    Raises:
        UnknownPosition: no link follows the catalog of the position, or the position is one of
            the node itself beyond the end of the log.
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
    """The positions that a request names, without repetitions.

    Raises:
        BadRequest: the header names too many positions, or a text that is no position.
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
    """The seconds that a client wants to wait, at most `read_wait_seconds`."""
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
