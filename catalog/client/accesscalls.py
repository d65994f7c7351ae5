"""The part of the client that is about access: who one is, tokens, rules, the audit."""

from __future__ import annotations

from catalog.client.operationcalls import OperationCalls
from catalog.operations import access, audit
from catalog.operations.access import GrantingRule, NewRule, NewToken, RuleChanges, Token, Whoami
from catalog.operations.audit import AuditEntry, AuditQuery


class AccessCalls(OperationCalls):
    """Calls of `/access` and `/audit`, for admins; those of groups manage rules, too."""

    async def whoami(self) -> Whoami:
        """As whom the node knows this client, and its roles."""
        return await self.call(access.WHOAMI)

    async def tokens(self) -> list[Token]:
        """The node's own tokens, without their secrets."""
        return (await self.call(access.LIST_TOKENS)).tokens

    async def token(self, id: str) -> Token:
        """A token, without its secret, with its roles at up to 1,000 paths."""
        return await self.call(access.GET_TOKEN, id=id)

    async def create_token(self, wanted: NewToken) -> Token:
        """Make a token; the answer has it as `token`, this once."""
        return await self.call(access.CREATE_TOKEN, wanted)

    async def revoke_token(self, id: str) -> None:
        await self.call(access.DELETE_TOKEN, id=id)

    async def rules(self) -> list[GrantingRule]:
        """The rules that this client may manage, each with its first paths."""
        return [rule async for page in self.call_pages(access.LIST_RULES) for rule in page.rules]

    async def rule(self, id: str) -> GrantingRule:
        """A rule with all of its paths."""
        return await self.call(access.GET_RULE, id=id)

    async def grant(self, wanted: NewRule) -> GrantingRule:
        """Give a role in groups to each caller that meets a condition."""
        return await self.call(access.CREATE_RULE, wanted)

    async def change_rule(self, id: str, changes: RuleChanges) -> GrantingRule:
        """Replace the members of a rule that `changes` has."""
        return await self.call(access.CHANGE_RULE, changes, id=id)

    async def remove_rule(self, id: str) -> None:
        """Take back what a rule gives."""
        await self.call(access.DELETE_RULE, id=id)

    async def audit(self, wanted: AuditQuery | None = None) -> list[AuditEntry]:
        """A page of the audit: the newest entries first; or those after one, in their order."""
        return (await self.call(audit.READ_AUDIT, query=wanted)).audit
