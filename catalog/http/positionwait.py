"""Reads that wait for a position: that of a write, here or at a catalog that this node follows.

A write answers with its position in `Concord-Position`. A GET or HEAD that gives it in
`Concord-Wait-For`, here or at a replica, is answered once the write can be seen there, within the
seconds of `Prefer: wait=N` (RFC 7240, 4.3). The answer has a position of this node itself, so that
a reader at the other end of a relay asks the relay first, and then waits for the relay's position.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence

from aiohttp import hdrs, web

from catalog.context import CONTEXT
from catalog.http.headers import POSITION
from catalog.http.linkwaits import LINK_WAITS
from catalog.http.streamshares import WAITING_READS
from catalog.model.concorderrors import PositionNotReached, UnknownPosition
from catalog.model.errors import BadRequest
from catalog.store.linkprogress import LinkProgress, NodeProgress
from catalog.store.logcursor import LogCursor

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
    context, waits = request.app[CONTEXT], request.app[LINK_WAITS]
    cursors, seconds = _positions(request), _seconds(request)
    until = asyncio.get_running_loop().time() + seconds
    progress = await waits.read(cursors)
    for cursor in cursors:
        missing = _behind(request, cursor, progress)
        if not missing:
            continue
        async with request.app[WAITING_READS].take(request.path):
            left = until - asyncio.get_running_loop().time()
            behind = await waits.wait(cursor, missing, left)
        if behind:
            raise _not_reached(request, cursor, behind[0], seconds)
        progress = await waits.read(cursors)
        _behind(request, cursor, progress)  # Raises, if it waited for a link that is gone.
    if progress.revision > context.configuration.revision:
        await context.reload()
    now = LogCursor.at(context.database.node.instance, progress.newest)
    request[READ_AS_OF] = str(now)


def _behind(request: web.Request, cursor: LogCursor, progress: NodeProgress) -> list[LinkProgress]:
    """The links that have not come to a position yet.

    Raises:
        UnknownPosition: no link does, or it is one of this node that its log does not have.
    """
    if cursor.is_of(request.app[CONTEXT].database.node.instance):
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
    most = request.app[CONTEXT].settings.read_wait_seconds
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
