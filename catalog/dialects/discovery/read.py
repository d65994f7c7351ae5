"""Loads endpoints with their messages, and answers GET with the endpoints as services."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import orjson
from aiohttp import web

from catalog.context import CONTEXT
from catalog.dialects.discovery.events import Json, StoredService
from catalog.dialects.discovery.translate import (
    from_entities,
    is_service,
    is_service_id,
    service_id,
)
from catalog.dialects.handlers import next_link
from catalog.http.flags import read_page
from catalog.http.responses import json_or_none, json_response
from catalog.model.configuration import Configuration
from catalog.model.entity import Entity
from catalog.model.errors import BadRequest, NotFound
from catalog.model.schema import Model
from catalog.model.xid import Xid, is_valid_id
from catalog.reading.entities import check_readable, read_entities
from catalog.store import discoveryservices
from catalog.store.connections import seen_by
from catalog.store.database import Connection

ENDPOINTS = "endpoints"
ENDPOINT_MESSAGES = "messages"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceCatalog:
    """The services of a node as seen by the client of a request.

    Args:
        configuration: the configuration for reading the request.
        authority: the authority of the node.
        base: the URL of the registry's root.
    """

    configuration: Configuration
    authority: str
    base: str

    @property
    def model(self) -> Model:
        return self.configuration.model


def id_of(endpoint: Entity) -> str:
    """The id of an endpoint's service."""
    return service_id(endpoint.authority, endpoint.origin)


async def find_endpoints(
    connection: Connection, authority: str, ids: Sequence[str]
) -> dict[str, Entity]:
    """The endpoints with the given service ids, by id in lower case; some may be no services.

    Several endpoints can have the same id: copies of a service from two catalogs. The node's own
    endpoint takes precedence over replicas.
    """
    wanted = {id.lower() for id in ids}
    found = await _find(connection, authority, wanted)
    if found.keys() != wanted and (origins := await discoveryservices.find_underived(connection)):
        await discoveryservices.remember(
            connection, {o: service_id(o.authority, o.xid) for o in origins}
        )
        found = await _find(connection, authority, wanted)
    return found


async def _find(connection: Connection, authority: str, wanted: set[str]) -> dict[str, Entity]:
    candidates = await discoveryservices.find_by_ids(connection, wanted)
    # The last candidate for an id wins: the node's own endpoint.
    candidates.sort(key=lambda each: (each.authority == authority, each.xid))
    found = {id_of(each).lower(): each for each in candidates}
    return {id: each for id, each in found.items() if id in wanted}


async def load_stored_services(
    connection: Connection, catalog: ServiceCatalog, endpoints: Sequence[Entity]
) -> dict[str, StoredService]:
    """Endpoints by xid, with the messages of the endpoints and of their message groups.

    A message that is a cross reference is shown as the target.
    """
    shared = {endpoint.xid: _groups_of(endpoint, catalog) for endpoint in endpoints}
    owners = {*shared, *(group for groups in shared.values() for group in groups)}
    messages = await _load_messages(connection, catalog.model, owners)
    return {
        endpoint.xid: StoredService(
            id=endpoint.path.gid,
            attributes=endpoint.attributes,
            messages={Xid.parse(xid).rid: own for xid, own in messages[endpoint.xid].items()},
            shared={x: m for group in shared[endpoint.xid] for x, m in messages[group].items()},
        )
        for endpoint in endpoints
    }


def _groups_of(endpoint: Entity, catalog: ServiceCatalog) -> list[str]:
    """The xids of the message groups in the registry that an endpoint refers to."""
    refs = endpoint.attributes.get("messagegroups")
    texts = [str(ref).removeprefix(catalog.base) for ref in refs] if isinstance(refs, list) else []
    return [text for text in dict.fromkeys(texts) if _is_group(text)]


def _is_group(text: str) -> bool:
    parts = text.split("/")
    return len(parts) == 3 and parts[:2] == ["", "messagegroups"] and is_valid_id(parts[2])


async def _load_messages(
    connection: Connection, model: Model, owners: Iterable[str]
) -> dict[str, dict[str, Mapping[str, Any]]]:
    """The attributes of the messages of groups, by group and xid."""
    messages: dict[str, dict[str, Mapping[str, Any]]] = {owner: {} for owner in owners}
    collections = [
        f"{owner}/{ENDPOINT_MESSAGES}"
        for owner in messages
        if model.resource_type(Xid.parse(owner).groups, ENDPOINT_MESSAGES) is not None
    ]
    if not collections:
        return messages
    xids = await discoveryservices.load_members(connection, collections)
    loaded = await read_entities(connection, model, [Xid.parse(xid) for xid in xids])
    for xid in xids:
        version = loaded.default_of(loaded.entities[xid]) if xid in loaded.entities else None
        messages[str(Xid.parse(xid).group)][xid] = version.attributes if version else {}
    return messages


def show(endpoint: Entity, held: StoredService, catalog: ServiceCatalog) -> Json:
    """A service in the form for clients.

    A service of the node without a URL for subscriptions gets the URL of the node; only the
    authority of a replica knows the URL of the replica's service.
    """
    check_readable(endpoint)
    id = id_of(endpoint)
    service = from_entities(held, catalog.base)
    if endpoint.authority == catalog.authority:
        service.setdefault("subscriptionurl", subscriptions_url(catalog))
    return {"id": id, "epoch": endpoint.epoch, "url": f"{catalog.base}/services/{id}", **service}


def subscriptions_url(catalog: ServiceCatalog) -> str:
    return f"{catalog.base}/subscriptions"


async def show_all(
    connection: Connection, catalog: ServiceCatalog, endpoints: Sequence[Entity]
) -> list[orjson.Fragment]:
    """Services in the form for clients, as JSON text, in the order of `endpoints`.

    A service that cannot be shown is left out.
    """
    held = await load_stored_services(connection, catalog, endpoints)
    shown = (
        json_or_none(endpoint.xid, partial(show, endpoint, held[endpoint.xid], catalog))
        for endpoint in endpoints
    )
    return [service for service in shown if service is not None]


async def show_one(connection: Connection, catalog: ServiceCatalog, endpoint: Entity) -> Json:
    """A service in the form for clients, loaded with its messages."""
    held = await load_stored_services(connection, catalog, [endpoint])
    return show(endpoint, held[endpoint.xid], catalog)


async def find_service(connection: Connection, authority: str, id: str) -> Entity | None:
    """The endpoint of the service `id`."""
    endpoint = (await find_endpoints(connection, authority, [id])).get(id.lower())
    return endpoint if endpoint is not None and is_service(endpoint.attributes) else None


async def find_named(connection: Connection, name: str) -> Entity | None:
    """The service with a name, regardless of case; the oldest of several with the same name."""
    folded = await discoveryservices.fold(connection, [name])
    return next(iter(await discoveryservices.find_by_names(connection, folded.values())), None)


def catalog_of(request: web.Request) -> ServiceCatalog:
    """The catalog of services for a request.

    Raises:
        NotFound: the model has no endpoints, which represent services.
    """
    context = request[CONTEXT]
    if ENDPOINTS not in context.model.groups:
        raise NotFound(request.path, detail="The model of this registry has no endpoints.")
    return ServiceCatalog(
        configuration=context.configuration,
        authority=context.database.node.authority,
        base=context.base_url(request),
    )


def service_id_in(request: web.Request) -> str:
    """The id in the path of a request.

    Raises:
        NotFound: no service can have the id.
    """
    id = request.match_info["id"]
    if not is_service_id(id):
        raise NotFound(request.path)
    return id


async def list_services(request: web.Request) -> web.Response:
    """The services, in pages; with `name`, the one service of that name."""
    catalog = catalog_of(request)
    if "name" in request.query:
        return await _answer_named(request, catalog)
    after, limit = read_page(request)
    async with request[CONTEXT].database.snapshot() as connection:
        found = await discoveryservices.page_services(connection, after, limit + 1)
        shown = await show_all(connection, catalog, found[:limit])
    last = found[limit - 1].path.gid if len(found) > limit else ""
    return json_response(shown, headers=next_link(request, last, limit))


async def _answer_named(request: web.Request, catalog: ServiceCatalog) -> web.Response:
    names = request.query.getall("name")
    if len(names) > 1:
        raise BadRequest(request.path, error_detail='"name" can be given only once')
    async with request[CONTEXT].database.snapshot() as connection:
        endpoint = await find_named(connection, names[0])
        if endpoint is None:
            raise NotFound(request.path, detail="There is no service of this name.")
        return json_response(await show_one(connection, catalog, endpoint))


async def get_service(request: web.Request) -> web.Response:
    """One service by its id."""
    # Not a snapshot, which is read-only: a lookup stores the ids that it derives for replicas.
    database = request[CONTEXT].database
    async with database.transaction() as connection, seen_by(connection, database.caller):
        return await read_service(request, connection)


async def read_service(request: web.Request, connection: Connection) -> web.Response:
    """The answer to a GET of a service; raises `NotFound`."""
    catalog = catalog_of(request)
    endpoint = await find_service(connection, catalog.authority, service_id_in(request))
    if endpoint is None:
        raise NotFound(request.path)
    return json_response(await show_one(connection, catalog, endpoint))
