"""Operations on services, and the final operation on each service: pure, no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from catalog.dialects.discovery.serviceevents import Json
from catalog.model.concorderrors import ServiceNameTaken
from catalog.model.errors import NotFound


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
    names = _Names(existing)
    done: dict[str, Operation] = {}
    for operation in operations:
        id = operation.id.lower()
        if isinstance(operation, Remove) or operation.must_exist:
            names.check_exists(operation.id)
        if isinstance(operation, Remove):
            names.remove(id)
            done[id] = operation
        else:
            names.put(id, operation.name, folded[operation.name])
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


class _Names:
    """The unique names of services."""

    def __init__(self, existing: Mapping[str, ExistingService]) -> None:
        self._existing = existing
        self._names = {id: service.name for id, service in existing.items()}
        self._holders: dict[str, set[str]] = {}
        for id, name in self._names.items():
            self._holders.setdefault(name, set()).add(id)

    def check_exists(self, id: str) -> None:
        if id.lower() not in self._names:
            raise NotFound(f"/services/{id}")

    def put(self, id: str, shown: str, name: str) -> None:
        """Name a service; a name that native clients gave to several services may stay."""
        if self._names.get(id) == name:
            return
        if holders := self._holders.get(name):
            xids = sorted(self._existing[id].xid for id in holders if id in self._existing)
            raise ServiceNameTaken(xids[0] if xids else "/services", name=shown)
        self.remove(id)
        self._names[id] = name
        self._holders.setdefault(name, set()).add(id)

    def remove(self, id: str) -> None:
        if id in self._names:
            self._holders[self._names.pop(id)].discard(id)
