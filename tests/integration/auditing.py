"""Callers with roles, and what the audit of a node tells an admin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from catalog.access.owntokens import make_token
from catalog.model.roles import Grant, Role
from tests.integration.conftest import Answer, Node


@dataclass(frozen=True, slots=True)
class Caller:
    """Sends requests with one token, which has an id and a text."""

    node: Node
    id: str
    text: str

    async def send(self, method: str, path: str, json: Any = None, **headers: str) -> Answer:
        headers = {"Authorization": f"Bearer {self.text}", "User_Agent": "tester/1", **headers}
        return await self.node.send(method, path, json, **headers)

    async def audit(self, query: str = "") -> list[dict[str, Any]]:
        answer = await self.send("GET", f"/audit{query}")
        assert answer.status == 200, answer.body
        found: list[dict[str, Any]] = answer.json["audit"]
        return found


async def as_role(node: Node, role: Role) -> Caller:
    """A caller with a new token."""
    async with node.database.acquire() as connection:
        grants = (Grant(role),)
        made, text = await make_token(connection, name="", grants=grants, expiresat=None)
    return Caller(node, made.id, text)
