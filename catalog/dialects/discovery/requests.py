"""Reads services, and references to services, from the bodies of requests.

Each reader raises `ParsingData`, `InvalidAttribute` or `RequiredAttributeMissing`.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from aiohttp import web

from catalog.dialects.bodypath import BodyPath
from catalog.dialects.discovery.attributechecks import faults
from catalog.dialects.discovery.composer import Put, Remove
from catalog.dialects.discovery.events import Json
from catalog.dialects.discovery.translate import is_service_id
from catalog.model.errors import BadFlag, ParsingData, with_violations
from catalog.model.scalars import fault_in_json

# Epochs count on from an imported epoch, and must stay exact in JSON. Catalogs that follow the
# node refuse an epoch that leaps by much more.
_LARGEST_EPOCH = 2**52
_MOST_SERVICES = 10_000
_MOST_EVENTS = 10_000


def is_import(request: web.Request) -> bool:
    """Whether the request has the `import` parameter.

    Raises:
        BadFlag: the parameter has a value, or occurs twice.
    """
    values = request.query.getall("import", [])
    if any(values) or len(values) > 1:
        raise BadFlag(request.path, flag="import", detail="It is given once, without a value.")
    return bool(values)


def read_added(body: Any, path: str, *, imports: bool) -> list[Put]:
    """The services of `POST /services`; ids and epochs matter only to an import."""
    puts = []
    for entry, place in _entries(body, path):
        service = _service(entry, place)
        id = _id(entry, place) if imports else None
        epoch = _epoch(entry, place) if imports else None
        puts.append(Put(id=id or str(uuid.uuid4()), service=service, least_epoch=epoch or 0))
    return puts


def read_replaced(body: Any, path: str, id: str, *, imports: bool) -> Put:
    """The service of `PUT /services/{id}`."""
    if not isinstance(body, dict):
        raise ParsingData(path, error_detail="a JSON object is needed")
    place = BodyPath(path)
    given = _id(body, place)
    if given is None:
        raise place.at("id").missing()
    if given.lower() != id.lower():
        raise place.at("id").fault(f"it must be that of the URL, {id}")
    service = _service(body, place)
    epoch = _epoch(body, place)
    if imports:
        return Put(id=given, service=service, least_epoch=epoch or 0)
    return Put(id=given, service=service, epoch=epoch, must_exist=True)


def read_removed(body: Any, path: str) -> list[Remove]:
    """The references of `DELETE /services`: ids, with the epochs that the client knows."""
    removed = []
    for entry, place in _entries(body, path):
        id = _id(entry, place)
        if id is None:
            raise place.at("id").missing()
        removed.append(Remove(id=id, epoch=_epoch(entry, place)))
    return removed


def _entries(body: Any, path: str) -> Iterator[tuple[Json, BodyPath]]:
    if not isinstance(body, list) or not all(isinstance(entry, dict) for entry in body):
        raise ParsingData(path, error_detail="a JSON array of objects is needed")
    if len(body) > _MOST_SERVICES:
        raise ParsingData(path, error_detail=f"it has more than {_MOST_SERVICES} services")
    return ((entry, BodyPath(path).item(index)) for index, entry in enumerate(body))


def _id(entry: Mapping[str, Any], place: BodyPath) -> str | None:
    id = entry.get("id")
    if id is not None and not is_service_id(id):
        raise place.at("id").fault("it must be a UUID")
    return id


def _epoch(entry: Mapping[str, Any], place: BodyPath) -> int | None:
    epoch = entry.get("epoch")
    if epoch is None:
        return None
    if type(epoch) is not int or not 0 <= epoch <= _LARGEST_EPOCH:
        raise place.at("epoch").fault(f"it must be an integer from 0 to {_LARGEST_EPOCH}")
    return epoch


def _service(entry: Mapping[str, Any], place: BodyPath) -> Json:
    """A service without the attributes that the server sets, and without nulls."""
    service = {n: v for n, v in entry.items() if n not in ("id", "epoch", "url")}
    for name, value in service.items():
        if fault := fault_in_json(value):
            raise place.at(name).fault(fault)
    if violations := [*faults(service, place)]:
        raise with_violations(violations)
    service = _without_nulls(service)
    if len(service.get("events", ())) > _MOST_EVENTS:
        raise place.at("events").fault(f"there are more than {_MOST_EVENTS}")
    if "events" in service:
        service["events"] = [_event(event) for event in service["events"]]
    return service


def _event(event: Mapping[str, Any]) -> Json:
    event = _without_nulls(event)
    if "extensions" in event:
        event["extensions"] = [_without_nulls(one) for one in event["extensions"]]
    return event


def _without_nulls(values: Mapping[str, Any]) -> Json:
    return {name: value for name, value in values.items() if value is not None}
