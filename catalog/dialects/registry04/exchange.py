"""A request to edition 0.4, and the answers: a group, a resource, or metadata alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from aiohttp import hdrs, web

from catalog.context import CONTEXT
from catalog.dialects import handlers
from catalog.dialects.registry04.address import Types, address_of
from catalog.dialects.registry04.layout import Layout
from catalog.dialects.registry04.load import load_version
from catalog.dialects.registry04.names import Json
from catalog.dialects.registry04.registryheaders import HEADER_PREFIX, headers_of
from catalog.http.responses import (
    JSON_TYPE,
    encode_url,
    interaction_headers,
    json_response,
    to_json,
)
from catalog.model.concorderrors import IncompatibleVersion
from catalog.model.configuration import Configuration
from catalog.model.errors import CompatibilityViolation
from catalog.model.interaction import Interaction
from catalog.model.schema import Model
from catalog.model.xid import Xid
from catalog.reading import entities
from catalog.store.database import Connection, Database
from catalog.writing.outcome import Outcome

_ANY = "application/octet-stream"


def layout_for(request: web.Request, model: Model) -> Layout:
    """The layout of entities, with the URLs that the client of a request knows."""
    context = request[CONTEXT]
    return Layout(
        model,
        base=context.base_url(request),
        authority=context.database.node.authority,
        others=[context.public_base] if context.public_base else [],
    )


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request with the configuration for reading the request, and the layout of the answer.

    `types` and `xid` belong to the entity at the path, or to the owner of the collection.
    """

    request: web.Request
    configuration: Configuration
    types: Types
    xid: Xid
    layout: Layout

    @classmethod
    def of(cls, request: web.Request) -> Exchange:
        """Read the path of a request.

        Raises:
            NotFound: no entity can have the path.
        """
        configuration = request[CONTEXT].configuration
        types, xid = address_of(request, configuration.model)
        layout = layout_for(request, configuration.model)
        return cls(request, configuration, types, xid, layout)

    @property
    def path(self) -> str:
        return str(self.xid)

    @property
    def model(self) -> Model:
        return self.configuration.model

    @property
    def database(self) -> Database:
        return self.request[CONTEXT].database

    def at(self, xid: Xid) -> Exchange:
        """The same request, as if the path addressed a different entity of the same types."""
        return replace(self, xid=xid)

    def has(self, flag: str) -> bool:
        """Whether the query names a flag, with or without a value."""
        return flag in self.request.query

    async def read(self, connection: Connection) -> web.Response:
        """The answer to a GET of an entity; `?meta` asks for the metadata of a resource or version.

        The answer for a document elsewhere is a redirection without a body.

        Raises:
            NotFound
        """
        answer = await self.show(connection, meta=self.has("meta"))
        elsewhere = answer.headers.get(HEADER_PREFIX + self.types.uri)
        if elsewhere is None:
            return answer
        headers = answer.headers.copy()
        headers[hdrs.LOCATION] = elsewhere
        headers.popall(hdrs.CONTENT_TYPE, None)
        return web.Response(status=307, headers=headers)

    async def show(
        self,
        connection: Connection,
        *,
        meta: bool = False,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> web.Response:
        """The current group, or the current resource or version with the metadata in headers.

        Args:
            meta: answer with the metadata in place of the resource or version.

        Raises:
            NotFound
        """
        if not self.xid.rid:
            return json_response(await self.load_group(connection), status=status, headers=headers)
        loaded, version = await load_version(connection, self.xid)
        shown = self.layout.version(version, self.types)
        if meta:
            return json_response(shown, status=status, headers=headers)
        named = {**headers_of(shown), **(headers or {}), hdrs.CONTENT_LOCATION: shown["self"]}
        if self.types.has_document:
            await entities.load_documents(connection, loaded, [version])
            body = loaded.document_of(version)
            named[hdrs.CONTENT_TYPE] = encode_url(version.attributes.get("contenttype") or _ANY)
        else:
            body = to_json(shown)
            named[hdrs.CONTENT_TYPE] = JSON_TYPE
        return web.Response(status=status, body=body, headers=named)

    async def load_group(self, connection: Connection) -> Json:
        """A group without its resources; raises `NotFound`."""
        loaded = await entities.read_entity(connection, self.model, self.xid)
        count = loaded.count(f"{self.path}/{self.types.resource.native}")
        return self.layout.group(loaded.entities[self.path], self.types, count)

    def interaction(self) -> Interaction:
        """A new interaction at the address, without any change yet."""
        most = self.request[CONTEXT].settings.max_request_entities
        return Interaction(
            caller=self.request[CONTEXT].caller,
            at=self.xid,
            path=self.request.path,
            most_entities=most,
        )

    async def apply(self, interaction: Interaction, *, is_one: bool = True) -> Outcome:
        """Apply an interaction on the conditions of the request.

        Args:
            is_one: the path addresses the written entity, not a collection.

        Raises:
            XRegistryError
            IncompatibleVersion: a version breaks the compatibility rule of the resource.
        """
        reading = self.read if is_one else None
        try:
            return await handlers.apply(self.request, self.configuration, interaction, reading)
        except CompatibilityViolation as violation:
            subject, detail = violation.subject, violation.detail
            compat = violation.arguments.get("compat", "")
            raise IncompatibleVersion(subject, detail=detail, compat=compat) from violation

    async def answer_written(
        self, outcome: Outcome, *, meta: bool = False, location: str = ""
    ) -> web.Response:
        """The entity at the address after a write; with a `location`, a new entity."""
        headers = interaction_headers(outcome)
        if location:
            headers[hdrs.LOCATION] = location
        status = 201 if location else 200
        async with self.database.acquire() as connection:
            return await self.show(connection, meta=meta, status=status, headers=headers)
