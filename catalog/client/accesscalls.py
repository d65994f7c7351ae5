"""The part of the client that is about access: who one is, and the node's own tokens."""

from __future__ import annotations

from typing import Any

from catalog.client.connection import Connection, JsonObject


class AccessCalls(Connection):
    """Calls of `/access`; all but `whoami` are for admins."""

    async def whoami(self) -> JsonObject:
        """As whom the node knows this client, and its roles."""
        return await self.get("/access/whoami")

    async def tokens(self) -> list[JsonObject]:
        """The node's own tokens, without their secrets."""
        found = (await self.get("/access/tokens")).get("tokens")
        return found if isinstance(found, list) else []

    async def create_token(self, definition: Any) -> JsonObject:
        """Make a token; the answer has it as `token`, this once."""
        return await self.post("/access/tokens", definition)

    async def revoke_token(self, id: str) -> None:
        await self.request("DELETE", f"/access/tokens/{id}")
