"""Finds the entities that are here and were not listed by their server, and deletes those gone.

Absence alone deletes nothing: the server is asked for each entity, or for the one above it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from catalog.model.entity import Entity, Origin
from catalog.model.schema import Model
from catalog.model.xid import Xid, depth, group_path
from catalog.store import copies as stored_copies
from catalog.store import entities as store
from catalog.store import handovers
from replication.applying.deletionlimit import check_losses
from replication.sources.pull import Brought, Flow, apply_by
from replication.sources.walkedcopies import end_of
from replication.sources.walkedserver import WalkedServer

_AT_ONCE = 1000


async def find_absent(flow: Flow, is_expected: Callable[[str], bool]) -> list[str]:
    """The xids of the source's entities here that `is_expected` does not hold of, in order.

    What this node has given to the source, and the source has not taken yet, is not absent.
    """
    absent: list[str] = []
    after = Origin("", "")
    while True:
        async with flow.context.database.acquire() as connection:
            found = await stored_copies.page_entities(
                connection, [flow.source.authority], after, _AT_ONCE
            )
        if not found:
            break
        absent += [origin.xid for origin in found if not is_expected(origin.xid)]
        after = found[-1]
    async with flow.context.database.acquire() as connection:
        given = await handovers.read_given(connection, flow.source.authority, datetime.now(UTC))
    return [xid for xid in absent if group_path(xid) not in given]


async def confirm_gone(server: WalkedServer, model: Model, absent: Sequence[str]) -> list[str]:
    """Those of the absent entities which are gone, as the server says of them or those above.

    Args:
        model: tells which entities have documents.
        absent: in order, so parents come before their children.
    """
    gone: list[str] = []
    answers: dict[str, bool] = {}
    for xid in absent:
        parent = xid.rsplit("/", 2)[0]
        is_gone = answers.get(parent)
        if is_gone is None:
            is_gone = await _is_gone(server, model, xid)
        answers[xid] = is_gone
        if is_gone:
            gone.append(xid)
    return gone


async def delete_gone(flow: Flow, gone: Sequence[str], losses: Sequence[Origin]) -> Brought:
    """Delete entities here that their server has deleted, children first.

    Args:
        losses: the gone entities that no entity at another path replaces.

    Raises:
        TooManyDeletions: nothing was deleted; the link asks.
    """
    await check_losses(flow.context, flow.link, flow.policy, losses)
    deleted, now = Brought(cursor=""), datetime.now(UTC)
    ordered = sorted(gone, key=depth, reverse=True)
    for start in range(0, len(ordered), _AT_ONCE):
        entities = await _load(flow, ordered[start : start + _AT_ONCE])
        deleted.add(await apply_by(flow, [end_of(entity, now) for entity in entities]))
    return deleted


async def _is_gone(server: WalkedServer, model: Model, xid: str) -> bool:
    """Whether an entity is gone: neither it nor, if it may have one, its document is there."""
    path = Xid.parse(xid)
    kind = model.resource_type(path.groups, path.resources)
    if kind is not None and kind.hasdocument and not await server.is_gone(f"{xid}$details"):
        return False
    return await server.is_gone(xid)


async def _load(flow: Flow, xids: Sequence[str]) -> list[Entity]:
    origins = [Origin(flow.source.authority, xid) for xid in xids]
    async with flow.context.database.acquire() as connection:
        return [*(await store.load_by_origin(connection, origins)).values()]
