"""The part of the client that is about access: who one is, tokens, rules, the audit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from catalog.client.connection import Connection, JsonObject

_RULES = "/access/rules"


class AccessCalls(Connection):
    """Calls of `/access` and `/audit`, for admins; those of groups manage rules, too."""

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

    async def rules(self) -> list[JsonObject]:
        """The rules that this client may manage, each with its first paths."""
        return [
            rule
            async for page in self.pages(_RULES)
            for rule in page.get("rules", ())
            if isinstance(rule, dict)
        ]

    async def rule(self, id: str) -> JsonObject:
        """A rule with all of its paths."""
        return await self.get(_rule_at(id))

    async def grant(self, definition: Mapping[str, Any]) -> JsonObject:
        """Give a role in groups to whoever meets a condition."""
        return await self.post(_RULES, definition)

    async def change_rule(self, id: str, changes: Mapping[str, Any]) -> JsonObject:
        """Replace the members of a rule that `changes` names."""
        return await self.patch(_rule_at(id), changes)

    async def remove_rule(self, id: str) -> None:
        """Take back what a rule gives."""
        await self.request("DELETE", _rule_at(id))

    async def audit(
        self,
        conditions: Mapping[str, str] | None = None,
        *,
        limit: int | None = None,
        after: str | None = None,
    ) -> list[JsonObject]:
        """Entries of the audit: the newest, the latest first; or those after one, in their order.

        Args:
            conditions: by name: `since`, `until`, `identity`, `path`, `interaction`, `outcome`.
            limit: the most entries; the node has a limit of its own.
            after: the `sequence` of the last entry that is known.
        """
        params = [*(conditions or {}).items()]
        params += [("limit", str(limit))] if limit is not None else []
        params += [("after", after)] if after is not None else []
        found = (await self.get("/audit", params)).get("audit")
        return found if isinstance(found, list) else []


def _rule_at(id: str) -> str:
    return f"{_RULES}/{quote(id, safe='')}"
