"""The figures of links over time: noted every minute, and shown for a day or a month."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise

from aiohttp import web

from catalog.context import CONTEXT
from catalog.http.route import Route
from catalog.model.errors import ServerBusy
from catalog.operations.linkfigures import (
    READ_LINK_FIGURES,
    FiguresQuery,
    LinkFigure,
    LinkFigures,
)
from catalog.store.database import Database
from replication.links.links import existing_link
from replication.store import linkstates
from replication.store.linkstates import HOUR, KEPT, MINUTE, FigurePoint

_FIRST_SECONDS = 5.0


async def run_figures(database: Database) -> None:
    """Note the figures of all links every minute, for ever."""
    # The first seconds of a process belong to its links.
    await asyncio.sleep(_FIRST_SECONDS)
    while True:
        try:
            async with database.acquire() as connection:
                await linkstates.note_figures(connection)
        # A point that is missing needs no retry: the next minute brings the next point.
        except (ServerBusy, TimeoutError):
            await database.recovered()
        await asyncio.sleep(MINUTE)


async def get_link_figures(request: web.Request, query: FiguresQuery) -> LinkFigures:
    """Show the lag, the rate and the errors of a link over time."""
    step = MINUTE if query.step == "minute" else HOUR
    since = datetime.now(UTC) - KEPT[step]
    async with request[CONTEXT].database.acquire() as connection:
        link = await existing_link(connection, request)
        points = await linkstates.read_figures(connection, link.id, step, since)
    return LinkFigures(link=link.id, step=query.step, figures=_differences(points))


def _differences(points: Sequence[FigurePoint]) -> list[LinkFigure]:
    """The points with what was counted since the point before; the first one has no such figure."""
    shown = []
    for before, point in pairwise([None, *points]):
        assert point is not None, "only the first of all is missing"
        figure = LinkFigure(at=point.at, lag=point.lag)
        if before is not None:
            seconds = (point.at - before.at).total_seconds()
            # Counters begin anew with a link that is made again by the same name.
            copies = max(0, point.copies - before.copies)
            errors = max(0, point.errors - before.errors)
            figure = figure.model_copy(
                update={"rate": round(copies / seconds, 3), "errors": errors}
            )
        shown.append(figure)
    return shown


routes: Sequence[Route] = (Route(READ_LINK_FIGURES, get_link_figures),)
