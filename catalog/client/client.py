"""The client of one node's API."""

from __future__ import annotations

from typing import Any

import orjson

from catalog.client.accesscalls import AccessCalls
from catalog.client.connection import JsonObject
from catalog.client.documentcalls import DocumentCalls
from catalog.client.exports import ExportCalls
from catalog.client.handovercalls import HandoverCalls
from catalog.client.recoverycalls import RecoveryCalls
from catalog.client.replication import ReplicationCalls
from catalog.client.subscriptions import SubscriptionCalls


class Client(
    ExportCalls,
    DocumentCalls,
    SubscriptionCalls,
    ReplicationCalls,
    RecoveryCalls,
    HandoverCalls,
    AccessCalls,
):
    """The API of one node. Use `Client.open`; every method raises `ClientError`.

    Requests that are safe to repeat are repeated; see `request`.
    """

    async def model(self) -> JsonObject:
        """The full model, with the attributes that the standard adds."""
        return await self.get("/model")

    async def modelsource(self) -> JsonObject:
        """The model as it was written."""
        return await self.get("/modelsource")

    async def put_modelsource(self, source: Any) -> JsonObject:
        """Replace the model. The node refuses a model that an entity does not comply with."""
        return await self.put("/modelsource", source)

    async def capabilities(self) -> JsonObject:
        return await self.get("/capabilities")

    async def offered_capabilities(self) -> JsonObject:
        """All values that the capabilities may have."""
        return await self.get("/capabilitiesoffered")

    async def put_capabilities(self, capabilities: Any) -> JsonObject:
        """Replace the capabilities; those that are not mentioned are turned off."""
        return await self.put("/capabilities", capabilities)

    async def update_capabilities(self, changes: Any) -> JsonObject:
        """Change some capabilities."""
        return await self.patch("/capabilities", changes)

    async def validate(self, definition: str, message: Any) -> JsonObject:
        """Check whether a message conforms to its definition; the answer lists the violations.

        Args:
            definition: the xid of a message, or of a version of one.
            message: a CloudEvent in JSON, or a message as JSON (`concord validate --help`).
        """
        body = message if isinstance(message, bytes) else orjson.dumps(message)
        headers = {"Content-Type": "application/json"}
        path = f"/validate{definition}"
        return await self._json("POST", path, body=body, headers=headers, is_repeatable=True)
