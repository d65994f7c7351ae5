"""The access rules that a process has cached, and the search for the rules that a caller meets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from typing import Any

from catalog.model.caller import node_caller
from catalog.model.roles import ANY, ISSUER, IdentityKind, RuleGrant, Who, values_of
from catalog.store.accessrules import read_access_revision, read_known_rules
from catalog.store.database import Database, SharedDatabase

# The longest time until a process learns of a rule that a different process changed.
_SECONDS = 2.0


class RuleTable:
    """Rules, indexed by one condition each, since a caller meets few of thousands of rules.

    Args:
        rules: the condition of each rule as a text, with the role that the rule gives.
    """

    def __init__(self, rules: Iterable[tuple[str, RuleGrant]] = ()) -> None:
        self._found: dict[IdentityKind, dict[str, dict[str, list[tuple[Who, RuleGrant]]]]] = {}
        for text, grant in rules:
            who = Who.parse(text)
            name, value = _most_telling(who)
            by_name = self._found.setdefault(who.kind, {})
            by_name.setdefault(name, {}).setdefault(value, []).append((who, grant))

    def met_by(self, kind: IdentityKind, claims: Mapping[str, Any]) -> tuple[RuleGrant, ...]:
        """The roles that the rules give to a caller with the claims."""
        return tuple(
            grant
            for name, by_value in self._found.get(kind, {}).items()
            for value in {ANY, *values_of(claims, name)}
            for who, grant in by_value.get(value, ())
            if who.is_met_by(kind, claims)
        )


def _most_telling(who: Who) -> tuple[str, str]:
    """The condition of a rule that the fewest callers are likely to meet."""
    ranked = sorted(who.conditions, key=lambda each: (each[1] == ANY, each[0] == ISSUER))
    return ranked[0] if ranked else ("", ANY)


class KnownRules:
    """The rules of a node, read again once the rules have changed."""

    def __init__(self, database: SharedDatabase) -> None:
        self._database = Database(database, node_caller())
        self._table = RuleTable()
        self._revision = -1
        self._until = 0.0
        self._reading = asyncio.Lock()

    async def of(self, kind: IdentityKind, claims: Mapping[str, Any]) -> tuple[RuleGrant, ...]:
        """The roles that the current rules give to a caller."""
        if time.monotonic() >= self._until:
            await self._refresh()
        return self._table.met_by(kind, claims)

    def forget(self) -> None:
        """Read the rules anew at the next search: this process has committed a change of rules."""
        self._until = 0.0

    async def _refresh(self) -> None:
        async with self._reading:
            begun = time.monotonic()
            if begun < self._until:
                return  # A concurrent request has read the rules meanwhile.
            async with self._database.acquire(self._database.pools.requests) as connection:
                revision = await read_access_revision(connection)
                if revision != self._revision:
                    self._table = RuleTable(await read_known_rules(connection))
                    self._revision = revision
            # Counted from before the read: a change that commits during the read is found in time.
            self._until = begun + _SECONDS


def known_rules(database: SharedDatabase) -> KnownRules:
    """The rules of a node, shared by the whole process."""
    return database.part(KnownRules, lambda: KnownRules(database))
