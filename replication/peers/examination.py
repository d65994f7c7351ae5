"""The checks of `concord doctor` over HTTP: `GET /-/doctor`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict

from aiohttp import web

from catalog.context import CONTEXT
from catalog.http.route import Route
from catalog.model.concorderrors import TooManyAtOnce
from catalog.monitoring.diagnosis import CheckedNode, examine
from catalog.monitoring.nodechecks import DATABASE_CHECKS, MACHINE_CHECKS, SINK_CHECKS
from catalog.operations.nodestate import (
    EXAMINE_NODE,
    CheckResult,
    Examination,
    ExaminationQuery,
)
from catalog.store.database import SharedDatabase
from replication.peers.peerchecks import PEER_CHECKS


class _Turn(asyncio.Lock):
    """The turn of one examination in a process: the checks open connections of their own."""


async def examine_node(request: web.Request, query: ExaminationQuery) -> Examination:
    """Check the node for common problems; nothing outside of it is asked without being wanted."""
    context = request[CONTEXT]
    database = context.database.shared
    outside = [*PEER_CHECKS, *SINK_CHECKS] if query.outside else []
    turn = _turn_of(database)
    if turn.locked():
        raise TooManyAtOnce(
            request.path, limit="1", things="examinations of the node", setting="fixed"
        )
    async with turn:
        node = CheckedNode(context.settings, database.dsn, _no_token)
        found = await examine(node, [*DATABASE_CHECKS, *MACHINE_CHECKS, *outside])
    return Examination(checks=[CheckResult(**asdict(each)) for each in found])


def _turn_of(database: SharedDatabase) -> _Turn:
    return database.part(_Turn, _Turn)


def _no_token(_: str) -> str | None:
    """A node has no token of a user; the credentials of its links are those of the links."""
    return None


routes: Sequence[Route] = (Route(EXAMINE_NODE, examine_node),)
