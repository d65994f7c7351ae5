"""The client of the API of a node."""

from __future__ import annotations

from typing import Any

import orjson

from catalog.client.connection import JsonObject, Params
from catalog.client.entities import DocumentCalls
from catalog.client.exports import ExportCalls
from catalog.client.replication import ReplicationCalls
from catalog.client.subscriptions import EventCalls, SubscriptionCalls
from catalog.operations import access, changes, search
from catalog.operations.access import Whoami
from catalog.operations.changes import DiffAnswer, DiffQuery
from catalog.operations.search import ReferencesAnswer, ReferencesQuery, SearchAnswer, SearchQuery


class Client(ExportCalls, DocumentCalls, SubscriptionCalls, EventCalls, ReplicationCalls):
    """The API of one node, opened by `Client.open`; every method raises `ClientError`.

    The client repeats requests that are safe to repeat; see `request`.
    """

    async def whoami(self) -> Whoami:
        """The identity and the roles of the client at the node."""
        return await self.call(access.WHOAMI)

    async def search(self, wanted: SearchQuery) -> SearchAnswer:
        """Search groups and resources by words; the answer is one page of the hits."""
        return await self.call(search.SEARCH, query=wanted)

    async def references(self, wanted: ReferencesQuery) -> ReferencesAnswer:
        """What refers to an entity, and what the entity refers to."""
        return await self.call(search.READ_REFERENCES, query=wanted)

    async def diff(self, wanted: DiffQuery) -> DiffAnswer:
        """What differs between two versions, or two revisions of an entity."""
        return await self.call(changes.READ_DIFF, query=wanted)

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

    async def update_capabilities(self, changes: Any) -> JsonObject:
        """Change the given capabilities and keep the rest."""
        return await self.patch("/capabilities", changes)

    async def validate(self, definition: str, message: Any) -> JsonObject:
        """Check whether a message conforms to its definition; the answer lists the violations.

        Args:
            definition: the xid of a message or of a version of a message.
            message: a CloudEvent in JSON, or a message as JSON (`concord validate --help`).
        """
        return await self._validate(definition, message, ())

    async def validate_by_type(self, message: Any, type: str | None = None) -> JsonObject:
        """Check a CloudEvent as `validate` does, with the definition that its type finds.

        Args:
            message: a CloudEvent in JSON.
            type: the type, if `message` is the data of the CloudEvent alone.
        """
        return await self._validate("", message, {} if type is None else {"type": type})

    async def _validate(self, definition: str, message: Any, params: Params) -> JsonObject:
        body = message if isinstance(message, bytes) else orjson.dumps(message)
        return await self._json(
            "POST",
            f"/validate{definition}",
            params=params,
            body=body,
            headers={"Content-Type": "application/json"},
            is_repeatable=True,
        )
