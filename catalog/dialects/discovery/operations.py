"""Processes the services of one request in their order, each on what the former ones left.

Pure: it decides what every service that a request touches is in the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from catalog.dialects.discovery.serviceevents import Json
from catalog.model.errors import NotFound
from catalog.model.ownerrors import ServiceNameTaken


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """Add a service, or replace the one of this id.

    Its epoch will be above `least_epoch`, and has to be `epoch` now where that is given.
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
    """Delete a service, whose epoch has to be `epoch` now where that is given."""

    id: str
    epoch: int | None = None


Operation: TypeAlias = Put | Remove


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingService:
    """A service before the request: its name as it is compared, and its endpoint's xid."""

    name: str
    xid: str


def process(
    operations: Iterable[Operation],
    held: Mapping[str, ExistingService],
    folded: Mapping[str, str],
    epochs: Mapping[str, int],
) -> dict[str, Operation]:
    """What each touched service is in the end: put, or removed.

    Args:
        held: services that there are, by id in lower case: all that are touched and all that
            have a name which is asked for.
        folded: how the names in the operations are compared.
        epochs: by id in lower case, of the endpoints that there are or were; others have 0.

    Raises:
        ServiceNameTaken: at its turn, another service has the name.
        NotFound: at its turn, there is no such service.

    Source: discovery seed, "POST /services" and "POST /services?import".
    """
    register = _Register(held)
    done: dict[str, Operation] = {}
    for operation in operations:
        id = operation.id.lower()
        if isinstance(operation, Remove) or operation.must_exist:
            register.check_exists(operation.id)
        if isinstance(operation, Remove):
            register.remove(id)
            done[id] = operation
        else:
            register.put(id, operation.name, folded[operation.name])
            done[id] = _joined(done.get(id), operation, epochs.get(id, 0))
    return done


def _joined(earlier: Operation | None, later: Put, epoch: int) -> Put:
    """The later one, whose epoch is above the one that the earlier one led to.

    Args:
        epoch: the one that the earlier one found.
    """
    if not isinstance(earlier, Put):
        return later
    reached = max(epoch, earlier.least_epoch) + 1
    return Put(
        id=later.id,
        service=later.service,
        must_exist=earlier.must_exist,
        epoch=earlier.epoch,
        least_epoch=max(reached, later.least_epoch),
    )


class _Register:
    """Which service has which name."""

    def __init__(self, held: Mapping[str, ExistingService]) -> None:
        self._held = held
        self._names = {id: service.name for id, service in held.items()}
        self._holders: dict[str, set[str]] = {}
        for id, name in self._names.items():
            self._holders.setdefault(name, set()).add(id)

    def check_exists(self, id: str) -> None:
        if id.lower() not in self._names:
            raise NotFound(f"/services/{id}")

    def put(self, id: str, shown: str, name: str) -> None:
        """Names that are the same already, as native clients may give them, can be kept."""
        if self._names.get(id) == name:
            return
        if holders := self._holders.get(name):
            raise ServiceNameTaken(self._subject(holders), name=shown)
        self.remove(id)
        self._names[id] = name
        self._holders.setdefault(name, set()).add(id)

    def remove(self, id: str) -> None:
        if id in self._names:
            self._holders[self._names.pop(id)].discard(id)

    def _subject(self, holders: Iterable[str]) -> str:
        """Who has a name: a service that there is, or else one of the same request."""
        known = sorted(self._held[id].xid for id in holders if id in self._held)
        return known[0] if known else "/services"
