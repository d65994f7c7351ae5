"""The part of the client for access: the caller, tokens, rules and the audit."""

from __future__ import annotations

from catalog.client.operationcalls import OperationCalls
from catalog.operations import access, audit
from catalog.operations.access import GrantingRule, NewRule, NewToken, RuleChanges, Token, Whoami
from catalog.operations.audit import AuditEntry, AuditQuery


class AccessCalls(OperationCalls):
    """Calls of `/access` and `/audit`, for admins; admins of groups may manage rules only."""

    async def whoami(self) -> Whoami:
        """The identity and the roles of the client at the node."""
        return await self.call(access.WHOAMI)

    async def tokens(self) -> list[Token]:
        """The tokens of the node, without secrets."""
        return (await self.call(access.LIST_TOKENS)).tokens

    async def token(self, id: str) -> Token:
        """A token, without the secret, with roles at up to 1,000 paths."""
        return await self.call(access.GET_TOKEN, id=id)

    async def create_token(self, wanted: NewToken) -> Token:
        """Make a token; only the answer has the text of the token, as `token`."""
        return await self.call(access.CREATE_TOKEN, wanted)

    async def revoke_token(self, id: str) -> None:
        await self.call(access.DELETE_TOKEN, id=id)

    async def rules(self) -> list[GrantingRule]:
        """The rules that the client may manage, each with the first paths."""
        return [rule async for page in self.call_pages(access.LIST_RULES) for rule in page.rules]

    async def rule(self, id: str) -> GrantingRule:
        """A rule with every path."""
        return await self.call(access.GET_RULE, id=id)

    async def grant(self, wanted: NewRule) -> GrantingRule:
        """Give a role in groups to each caller that meets a condition."""
        return await self.call(access.CREATE_RULE, wanted)

    async def change_rule(self, id: str, changes: RuleChanges) -> GrantingRule:
        """Replace the members of a rule that are set in `changes`."""
        return await self.call(access.CHANGE_RULE, changes, id=id)

    async def remove_rule(self, id: str) -> None:
        """Remove a rule, and thereby revoke the role that the rule gives."""
        await self.call(access.DELETE_RULE, id=id)

    async def audit(self, wanted: AuditQuery | None = None) -> list[AuditEntry]:
        """A page of the audit: newest entries first, or with `after` in the order of the log."""
        return (await self.call(audit.READ_AUDIT, query=wanted)).audit
