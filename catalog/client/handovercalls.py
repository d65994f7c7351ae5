"""The handovers of groups from one authority to another."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from catalog.client.connection import Connection, JsonObject

_PATH = "/replication/handovers"


class HandoverCalls(Connection):
    """The calls by which two operators, and their nodes, hand a group over."""

    async def offer_group(self, group: str, to: str, *, token: str | None = None) -> JsonObject:
        """Give a group to the catalog at a URL, whose operator has consented.

        Args:
            token: the node shows it to that catalog; else what a link to there shows.
        """
        return await self.post(_PATH, {"group": group, "to": to, **_shown(token)})

    async def accept_group(
        self, group: str, source: str, *, token: str | None = None
    ) -> JsonObject:
        """Consent to take a group from the catalog at a URL; see `offer_group`."""
        return await self.post(_PATH, {"group": group, "from": source, **_shown(token)})

    async def handovers(self) -> list[JsonObject]:
        """The handovers that are under way at the node, and the last ones that ended."""
        return [each async for page in self.pages(_PATH) for each in page["handovers"]]

    async def handover(self, id: str) -> JsonObject:
        return await self.get(f"{_PATH}/{id}")

    async def abort_handover(self, id: str, *, force: bool = False) -> JsonObject:
        """End a handover, unless the group may have been given already.

        Args:
            force: do so although the giver, who knows that, does not answer.
        """
        params = [("force", "")] if force else []
        return await self._json("DELETE", f"{_PATH}/{id}", params=params)

    async def tell_offer(self, id: str, group: str, authority: str) -> JsonObject:
        """Tell the taker of a handover of this authority, and ask how far the taker is."""
        body = {"id": id, "group": group, "authority": authority}
        return await self.post(f"{_PATH}/offers", body)

    async def consent(self, group: str, authority: str) -> JsonObject:
        """Ask whether the node's operator has consented to take a group of an authority."""
        return await self.get(f"{_PATH}/consent", [("group", group), ("authority", authority)])

    def handover_lines(self, id: str) -> AsyncGenerator[bytes]:
        """The lines of a group that the node hands over, or would now; see `lines`."""
        return self.lines("GET", f"{_PATH}/{id}/copies", is_bounded=False)


def _shown(token: str | None) -> dict[str, Any]:
    return {} if token is None else {"credential": {"token": token}}
