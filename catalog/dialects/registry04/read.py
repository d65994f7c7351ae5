"""Handlers of GET, and what every request and answer of edition 0.4 has in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from aiohttp import hdrs, web

from catalog.context import CONTEXT
from catalog.dialects import handlers
from catalog.dialects.handlers import next_link
from catalog.dialects.registry04 import load
from catalog.dialects.registry04.names import Json, Types, address_of, types_in
from catalog.dialects.registry04.requestcontent import HEADER_PREFIX, headers_of
from catalog.http.flags import read_page
from catalog.http.responses import (
    JSON_TYPE,
    encode_url,
    interaction_headers,
    json_response,
    to_json,
)
from catalog.model.concorderrors import IncompatibleVersion
from catalog.model.configuration import Configuration
from catalog.model.entity import Entity
from catalog.model.errors import CompatibilityViolation
from catalog.model.interaction import Interaction
from catalog.model.schema import Model
from catalog.model.xid import Xid
from catalog.reading import entities
from catalog.store.database import Connection, Database
from catalog.writing.outcome import Outcome

_ANY = "application/octet-stream"


def layout_for(request: web.Request, model: Model) -> load.Layout:
    """The layout of entities, with the URLs that the client of a request knows."""
    context = request[CONTEXT]
    return load.Layout(
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
    layout: load.Layout

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
        loaded, version = await load.load_version(connection, self.xid)
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


async def get_registry(request: web.Request) -> web.Response:
    """The registry as edition 0.4 has it: `?model` the model, `?inline` with groups."""
    context = request[CONTEXT]
    model, inlines = context.model, "inline" in request.query
    if "model" in request.query and not inlines:
        return json_response(_model(model))
    layout, types = layout_for(request, model), types_in(model)
    async with context.database.snapshot() as connection:
        loaded = await entities.read_entity(connection, model, Xid())
        shown = layout.registry(loaded.entities["/"], types, loaded.counts)
        if inlines:
            shown["model"] = _model(model)
            inlining = load.Inlining(connection=connection, layout=layout)
            for each in types:
                shown[each.group.plural] = await inlining.groups(each)
    return json_response(shown)


def _model(model: Model) -> Json:
    """The model in the form of edition 0.4; `versions` counts kept old versions, -1 for all.

    Source: CloudEvents Registry 0.4, "Registry Model".
    """
    return {
        "groups": [
            {
                "singular": each.group.singular,
                "plural": each.group.plural,
                "resources": [
                    {
                        "singular": each.resource.singular,
                        "plural": each.resource.plural,
                        "versions": each.resource_type.maxversions - 1,
                    }
                ],
            }
            for each in types_in(model)
        ]
    }


async def get_groups(request: web.Request) -> web.Response:
    """A page of the groups of one type, `?inline` with their resources."""
    exchange = Exchange.of(request)
    after, limit = read_page(request)
    layout, types = exchange.layout, exchange.types
    async with exchange.database.snapshot() as connection:
        page = await load.load_page(
            connection, exchange.model, Xid(), types.group.native, after, limit
        )
        if exchange.has("inline"):
            last = page.entities[-1].path.gid if page.entities else after
            inlining = load.Inlining(connection=connection, layout=layout)
            shown = await inlining.groups(types, after, last) if last else {}
        else:
            found = load.shown_each(page.entities, lambda group: _group(layout, types, page, group))
            shown = {xid.gid: one for xid, one in found.items()}
    return _answer(request, page, shown, limit)


def _group(layout: load.Layout, types: Types, page: load.LoadedPage, group: Entity) -> Json:
    count = page.loaded.count(f"{group.xid}/{types.resource.native}")
    return layout.group(group, types, count)


async def get_group(request: web.Request) -> web.Response:
    """A group, `?inline` with its resources."""
    exchange = Exchange.of(request)
    async with exchange.database.snapshot() as connection:
        if not exchange.has("inline"):
            return await exchange.read(connection)
        inlining = load.Inlining(connection=connection, layout=exchange.layout)
        return json_response(await inlining.group(exchange.types, exchange.xid))


async def get_resources(request: web.Request) -> web.Response:
    """A page of a group's resources, each as its latest version; `?inline` with documents."""
    exchange = Exchange.of(request)
    return await _versions(exchange, exchange.types.resource.native)


async def get_version(request: web.Request) -> web.Response:
    """A version, or a resource as its latest one; `?meta` its metadata alone."""
    exchange = Exchange.of(request)
    database = exchange.database
    # A document is read in a snapshot, so that document and metadata belong together.
    shows_document = exchange.types.has_document and not exchange.has("meta")
    async with database.snapshot() if shows_document else database.acquire() as connection:
        return await exchange.read(connection)


async def get_versions(request: web.Request) -> web.Response:
    """A page of a resource's versions, `?inline` with their documents."""
    return await _versions(Exchange.of(request), "versions")


async def _versions(exchange: Exchange, plural: str) -> web.Response:
    """A page of versions, or of resources as their latest versions."""
    request, layout, types = exchange.request, exchange.layout, exchange.types
    after, limit = read_page(request)
    async with exchange.database.snapshot() as connection:
        page = await load.load_page(connection, exchange.model, exchange.xid, plural, after, limit)
        versions = page.entities
        if plural != "versions":
            versions = load.latest_versions(page.loaded, versions)
        if exchange.has("inline"):
            inlining = load.Inlining(connection=connection, layout=layout)
            found = await inlining.versions(types, page.loaded, versions)
        else:
            found = load.shown_each(versions, lambda version: layout.version(version, types))
    shown = {xid.vid if plural == "versions" else xid.rid: one for xid, one in found.items()}
    return _answer(request, page, shown, limit)


def _answer(request: web.Request, page: load.LoadedPage, shown: Json, limit: int) -> web.Response:
    headers = next_link(request, page.following, limit, count=page.total)
    return json_response(shown, headers=headers)
