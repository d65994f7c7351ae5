"""The recovery of a node from its replicas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from catalog.client.connection import Connection, JsonObject

_PATH = "/replication/recovery"


class RecoveryCalls(Connection):
    """The calls for the recovery of a node, which takes its own entities back."""

    async def begin_recovery(
        self,
        sources: Sequence[str],
        *,
        force: bool = False,
        trust: Sequence[str] = (),
        unsigned: bool = False,
        allow: int = 0,
        credentials: Mapping[str, Any] | None = None,
    ) -> JsonObject:
        """Take the node's own entities back from replicas; it takes no writes until it has.

        Args:
            force: do not ask the replicas first, which may not be reachable yet.
            trust: keys of the node's authority, besides those that it knows.
            unsigned: take copies whatever their signatures are.
            allow: the number of entities that may be deleted without asking.
            credentials: what the node shows replicas, by URL; else what its links show them.
        """
        params = [("force", "")] if force else []
        terms: dict[str, Any] = {"trust": list(trust), "unsigned": unsigned, "allow": allow}
        if credentials:
            terms["credentials"] = credentials
        return await self.post(_PATH, {"sources": list(sources), **terms}, params)

    async def recovery(self) -> JsonObject:
        """The recovery under way, or the last one."""
        return await self.get(_PATH)

    async def recovery_findings(self) -> list[JsonObject]:
        """Origins that could not be taken, that were deleted, or whose copies differed."""
        pages = self.pages(f"{_PATH}/findings")
        return [finding async for page in pages for finding in page["findings"]]

    async def resume_recovery(self, *, allow: int | None = None) -> JsonObject:
        """Go on now, and try again what could not be taken.

        Args:
            allow: the number of entities that it may delete, if it asks.
        """
        return await self.post(f"{_PATH}/resume", {} if allow is None else {"allow": allow})

    async def bury_refused(self) -> JsonObject:
        """Delete what could not be taken, at every replica as well, and end the recovery."""
        return await self.post(f"{_PATH}/bury", {})

    async def abort_recovery(self) -> JsonObject:
        """End the recovery as it is, and let clients write."""
        return await self._json("DELETE", _PATH)
