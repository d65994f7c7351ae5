"""Composes the interaction of a write request for services, under the locks of the services."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias
from uuid import UUID

from catalog.dialects.discovery import read
from catalog.dialects.discovery.events import Json, StoredService
from catalog.dialects.discovery.translate import is_service, to_entities
from catalog.http.responses import interaction_headers
from catalog.model.caller import Caller
from catalog.model.concorderrors import RequestInterrupted, ServiceNameTaken
from catalog.model.entity import Entity, Origin
from catalog.model.errors import InvalidAttribute, NotFound
from catalog.model.interaction import Interaction
from catalog.model.xid import Xid
from catalog.store import discoveryservices, entities
from catalog.store.database import Connection
from catalog.store.locks import Touched
from catalog.writing.outcome import Outcome
from catalog.writing.writetransaction import Composer

# Requests about more services lock the catalog as a whole: a database has room for a few thousand
# locks, and a service takes two locks.
_MOST_LOCKED = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """Add a service, or replace the service with the same id.

    The new epoch is above `least_epoch`; the epoch before must be `epoch`, if given.
    """

    id: str
    service: Json
    must_exist: bool = False
    epoch: int | None = None
    least_epoch: int = 0

    @property
    def name(self) -> str:
        return str(self.service["name"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Remove:
    """Delete a service; the epoch of the service must be `epoch`, if given."""

    id: str
    epoch: int | None = None


Operation: TypeAlias = Put | Remove


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingService:
    """A service before the request: the name, folded for comparison, and the endpoint's xid."""

    name: str
    xid: str


def process(
    operations: Iterable[Operation],
    existing: Mapping[str, ExistingService],
    folded: Mapping[str, str],
    epochs: Mapping[str, int],
) -> dict[str, Operation]:
    """Reduce operations to the final operation on each service, by id in lower case.

    Each operation is processed on the state that the previous operation leaves.

    Args:
        existing: services by id in lower case: the services that the operations name, and the
            services with a name that an operation gives.
        folded: the names in the operations, folded for comparison.
        epochs: epochs of existing and deleted endpoints, by id in lower case; the default is 0.

    Raises:
        ServiceNameTaken: a different service has the name at the turn of an operation.
        NotFound: the service does not exist at the turn of an operation.

    Source: discovery seed, "POST /services" and "POST /services?import".
    """
    names = {id: service.name for id, service in existing.items()}
    holders: dict[str, set[str]] = {}
    for id, held in names.items():
        holders.setdefault(held, set()).add(id)
    done: dict[str, Operation] = {}
    for operation in operations:
        id = operation.id.lower()
        before = names.pop(id, None)
        if before is None and (isinstance(operation, Remove) or operation.must_exist):
            raise NotFound(f"/services/{operation.id}")
        if before is not None:
            holders[before].discard(id)
        if isinstance(operation, Remove):
            done[id] = operation
            continue
        name = folded[operation.name]
        # A name that native clients gave to several services may stay.
        if name != before and (taken := holders.get(name)):
            xids = sorted(existing[each].xid for each in taken if each in existing)
            raise ServiceNameTaken(xids[0] if xids else "/services", name=operation.name)
        names[id] = name
        holders.setdefault(name, set()).add(id)
        done[id] = _joined(done.get(id), operation, epochs.get(id, 0))
    return done


def _joined(earlier: Operation | None, later: Put, epoch: int) -> Put:
    """The later operation, with an epoch above the epoch after the earlier operation.

    Args:
        epoch: the epoch before the earlier operation.
    """
    if not isinstance(earlier, Put):
        return later
    least = max(epoch + 1, earlier.least_epoch + 1, later.least_epoch)
    return replace(later, must_exist=earlier.must_exist, epoch=earlier.epoch, least_epoch=least)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceAnswer:
    """The answer to a request, which may be kept until the client asks for the answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes


# Makes the answer from the services in the order of the request, in the state after the write (a
# deleted service in the state before), and from the ids of new services.
AnswerMaker: TypeAlias = Callable[[Sequence[Json], frozenset[str]], ServiceAnswer]


@dataclass(slots=True, kw_only=True)
class ServiceWrite(Composer):
    """A request to write services; `interaction` and `answer` are set when it is applied.

    Args:
        path: the path of the request.
        operations: the operations in the order of the request.
        id: the id of the request if the answer is kept, for a client that does not wait.
    """

    catalog: read.ServiceCatalog
    caller: Caller
    path: str
    operations: Sequence[Operation]
    make_answer: AnswerMaker
    id: UUID | None = None
    interaction: Interaction = field(init=False)
    answer: ServiceAnswer | None = None
    _endpoints: dict[str, Entity] = field(default_factory=dict)
    _held: dict[str, StoredService] = field(default_factory=dict)
    _xids: dict[str, Xid] = field(default_factory=dict)

    def locks(self) -> Touched:
        """Locks of the endpoints that `compose` found; before, of endpoints with the given ids."""
        if self._locks_catalog:
            return Touched(catalog_exclusive=True)
        xids = [
            self._xids.get(each.id.lower(), Xid(read.ENDPOINTS, each.id))
            for each in self.operations
        ]
        return Touched(
            groups=frozenset(map(str, xids)),
            groups_exclusive=True,
            registry_exclusive=any(isinstance(each, Remove) for each in self.operations),
        )

    @property
    def _locks_catalog(self) -> bool:
        return len(self.operations) > _MOST_LOCKED

    async def compose(self, connection: Connection) -> Interaction:
        """Process the operations in order.

        Raises:
            ServiceNameTaken, NotFound
            InvalidAttribute: the model has no messages, which represent events.
        """
        names = {each.name for each in self.operations if isinstance(each, Put)}
        folded = await discoveryservices.fold(connection, names)
        # Two requests must not give the same name to two services. A large request excludes every
        # concurrent write.
        if names and not self._locks_catalog:
            await discoveryservices.lock_names(connection, folded.values())
        ids = [operation.id for operation in self.operations]
        authority = self.catalog.authority
        self._endpoints = await read.find_endpoints(connection, authority, ids)
        self._held = await read.load_stored_services(
            connection, self.catalog, [*self._endpoints.values()]
        )
        done = await self._process(connection, folded)
        self.interaction = interaction = Interaction(caller=self.caller, path=self.path)
        for id, operation in done.items():
            endpoint = self._endpoints.get(id)
            xid = Xid(read.ENDPOINTS, operation.id) if endpoint is None else endpoint.path
            self._xids[id] = xid
            if isinstance(operation, Put):
                self._put(interaction, xid, operation, endpoint)
            elif endpoint is not None:
                interaction.delete(xid, operation.epoch)
        return interaction

    async def _process(
        self, connection: Connection, folded: Mapping[str, str]
    ) -> dict[str, Operation]:
        named = await discoveryservices.find_by_names(connection, folded.values())
        touched = [e for e in self._endpoints.values() if is_service(e.attributes)]
        found = [*named, *touched]
        shown = {each.xid: str(each.attributes.get("name") or each.path.gid) for each in found}
        names = await discoveryservices.fold(connection, shown.values())
        held = {
            read.id_of(each).lower(): ExistingService(name=names[shown[each.xid]], xid=each.xid)
            for each in found
        }
        return process(self.operations, held, folded, await self._epochs(connection))

    async def _epochs(self, connection: Connection) -> dict[str, int]:
        """The epochs before the request, if several operations concern the same service."""
        ids = [operation.id for operation in self.operations]
        if len({id.lower() for id in ids}) == len(ids):
            return {}
        origins = [Origin(self.catalog.authority, str(Xid(read.ENDPOINTS, id))) for id in {*ids}]
        tombstones = await entities.load_tombstones(connection, origins)
        epochs = {Xid.parse(origin.xid).gid.lower(): t.epoch for origin, t in tombstones.items()}
        return epochs | {id: endpoint.epoch for id, endpoint in self._endpoints.items()}

    def _put(self, interaction: Interaction, xid: Xid, put: Put, endpoint: Entity | None) -> None:
        held = StoredService(id=xid.gid) if endpoint is None else self._held[endpoint.xid]
        model = self.catalog.model
        service = dict(put.service)
        if service.get("subscriptionurl") == read.subscriptions_url(self.catalog):
            # The node's URL is shown by default, so it need not be stored.
            del service["subscriptionurl"]
        patch = to_entities(service, held, self.catalog.base)
        if patch.messages and model.resource_type(read.ENDPOINTS, read.ENDPOINT_MESSAGES) is None:
            detail = "endpoints have no messages in the model of this registry"
            raise InvalidAttribute(self.path, name="events", error_detail=detail)
        body = dict(patch.endpoint) if put.epoch is None else patch.endpoint | {"epoch": put.epoch}
        interaction.put_group(model, xid, body, patch=True, least_epoch=put.least_epoch)
        for id, message in patch.messages.items():
            interaction.put_resource(
                model, xid.child(read.ENDPOINT_MESSAGES, id), message, patch=True
            )
        for id in patch.deleted:
            interaction.delete(xid.child(read.ENDPOINT_MESSAGES, id), None)

    async def conclude(self, connection: Connection, outcome: Outcome) -> None:
        """Make the answer, and store the answer if no client waits.

        Raises:
            RequestInterrupted: the deadline of the request has passed.
        """
        written = await entities.load(connection, map(str, self._xids.values()))
        held = await read.load_stored_services(connection, self.catalog, [*written.values()])
        shown = {xid: read.show(written[xid], held[xid], self.catalog) for xid in written}
        for endpoint in self._endpoints.values():
            if endpoint.xid not in shown:
                shown[endpoint.xid] = read.show(endpoint, self._held[endpoint.xid], self.catalog)
        results = [shown[str(self._xids[each.id.lower()])] for each in self.operations]
        before = {id for id, each in self._endpoints.items() if is_service(each.attributes)}
        answer = self.make_answer(results, frozenset(self._xids.keys() - before))
        self.answer = replace(answer, headers={**answer.headers, **interaction_headers(outcome)})
        if self.id is not None and not await discoveryservices.settle(
            connection, self.id, "done", self.answer.headers, self.answer.body
        ):
            raise RequestInterrupted(self.path)
