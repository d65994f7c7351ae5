"""Leaves out the entities and events that the creator of a subscription may not see."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from catalog.access.creatorrights import CreatorRights
from catalog.model.caller import EVERYTHING, Everything, Visibility
from catalog.model.roles import Permission
from catalog.model.xid import group_path
from catalog.store.accessrules import covered_groups
from catalog.store.database import Connection, Database
from catalog.subscriptions.delivery.logtail import LogEntry
from catalog.subscriptions.stored.subscriptions import Subscription

_REGISTRY = "/"


class Audience:
    """The rights of the creator, checked whenever events are due."""

    def __init__(
        self, subscription: Subscription, *, rights: CreatorRights, database: Database
    ) -> None:
        self._creator = subscription.creator
        self._createdby = subscription.createdby
        self._rights = rights
        self._database = database
        whole = rights.in_all(self._creator).permissions
        self._reads_all = Permission.READ in whole
        # Only callers that may manage every subscription know the subscriptions of further callers.
        self._manages_all = Permission.SUBSCRIBE in whole
        self._may_have_log = subscription.log != "audit" or Permission.ADMINISTER in whole

    async def told(self, entries: Sequence[LogEntry]) -> Sequence[LogEntry]:
        """The entries of a log; entries that the creator may not know of get no events."""
        if not self._may_have_log:
            return [entry.untold() for entry in entries]
        if self._reads_all and self._manages_all:
            return entries
        hidden = await self.hidden({each.xid for each in entries if each.xid is not None})
        return [
            entry.untold() if entry.xid in hidden or self._is_others(entry) else entry
            for entry in entries
        ]

    async def hidden(self, xids: Collection[str]) -> Collection[str | None]:
        """The given entities that the creator may not see."""
        if self._reads_all or not xids:
            return ()
        identity = await self._rights.now(self._creator)
        async with self._database.acquire() as connection:
            return await hidden_among(connection, identity.visibility, xids)

    def _is_others(self, entry: LogEntry) -> bool:
        is_about_entity = entry.xid is not None
        return not (is_about_entity or self._manages_all or entry.createdby == self._createdby)


async def hidden_among(
    connection: Connection, sees: Visibility | Everything, xids: Iterable[str | None]
) -> Collection[str | None]:
    """The entities among xids that a caller may not see at present.

    Args:
        sees: what the caller sees.
        xids: `None` stands for no entity, which every caller may know of, as of the registry.
    """
    if sees is EVERYTHING:
        return ()
    groups = {xid: group_path(xid) for xid in xids if xid is not None and xid != _REGISTRY}
    covered = await covered_groups(connection, sees.rules, {*groups.values()})
    return {xid for xid, group in groups.items() if group not in covered}
