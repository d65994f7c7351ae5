"""The client of the API of a node."""

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
    """The API of one node, opened by `Client.open`; every method raises `ClientError`.

    The client repeats requests that are safe to repeat; see `request`.
    """

    async def model(self) -> JsonObject:
        """The full model, with the attributes that the standard adds."""
        return await self.get("/model")

    async def modelsource(self) -> JsonObject:
        """The source of the model, as written by the operator."""
        return await self.get("/modelsource")

    async def put_modelsource(self, source: Any) -> JsonObject:
        """Replace the model; the node refuses a model to which an entity does not conform."""
        return await self.put("/modelsource", source)

    async def capabilities(self) -> JsonObject:
        return await self.get("/capabilities")

    async def offered_capabilities(self) -> JsonObject:
        """The values that the capabilities may have."""
        return await self.get("/capabilitiesoffered")

    async def put_capabilities(self, capabilities: Any) -> JsonObject:
        """Replace the capabilities; missing capabilities are turned off."""
        return await self.put("/capabilities", capabilities)

    async def update_capabilities(self, changes: Any) -> JsonObject:
        """Change the given capabilities and keep the rest."""
        return await self.patch("/capabilities", changes)

    async def validate(self, definition: str, message: Any) -> JsonObject:
        """Check whether a message conforms to its definition; the answer lists the violations.

        Args:
            definition: the xid of a message or of a version of a message.
            message: a CloudEvent in JSON, or a message as JSON (`concord validate --help`).
        """
        body = message if isinstance(message, bytes) else orjson.dumps(message)
        headers = {"Content-Type": "application/json"}
        path = f"/validate{definition}"
        return await self._json("POST", path, body=body, headers=headers, is_repeatable=True)
