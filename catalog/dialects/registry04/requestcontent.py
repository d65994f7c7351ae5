"""What the writes of edition 0.4 have in common: what was there, what is to be, one interaction."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from functools import partial
from typing import Any

from aiohttp import web

from catalog.context import CONTEXT
from catalog.dialects.registry04.address import Address
from catalog.dialects.registry04.answers import read_answer
from catalog.dialects.registry04.attributechecks import incompatibility_is_conflict
from catalog.dialects.registry04.layout import Layout
from catalog.dialects.registry04.translate import (
    REGISTRY04_ATTRIBUTE,
    Json,
    Kind,
    shown_of,
    to_entity,
)
from catalog.http.body import read_body, read_object
from catalog.http.preconditions import condition_on
from catalog.model.entity import Entity
from catalog.model.errors import (
    BadRequest,
    InvalidAttribute,
    MismatchedEpoch,
    MismatchedId,
)
from catalog.model.interaction import Interaction
from catalog.model.schema import Attribute
from catalog.writing.transaction import Outcome

# No entity has this epoch, so that what comes with it can only be new.
UNUSED_EPOCH = 2**62


async def apply(
    request: web.Request, interaction: Interaction, place: Address | None = None
) -> Outcome:
    """Apply what a request asks for, on its conditions.

    Args:
        place: of the one entity that the path addresses, if it addresses one.

    Raises:
        XRegistryError
    """
    context = request.app[CONTEXT]
    read = None if place is None else partial(read_answer, request, place)
    condition = condition_on(request, read, place.path if place is not None else "")
    with incompatibility_is_conflict():
        return await context.writer.apply(context.configuration, interaction, condition=condition)


async def read_optional_object(request: web.Request) -> Json:
    """The body as a JSON object; an empty one where there is none.

    Raises:
        ParsingData, UnsupportedMediaType
    """
    return await read_object(request) if await read_body(request) else {}


def patch_of(
    kind: Kind,
    body: Mapping[str, Any],
    before: Entity,
    show: Layout,
    definitions: Mapping[str, Attribute],
) -> Json:
    """A native patch that makes an entity what edition 0.4 says of it.

    What edition 0.4 does not show of the entity stays.
    """
    attributes = before.attributes
    native = to_entity(kind, body, attributes, show.fill(definitions), show.references)
    gone = shown_of(kind, attributes) | {REGISTRY04_ATTRIBUTE}
    return {**{name: None for name in gone if name in attributes}, **native}


def new_id(subject: str, *given: Any) -> str:
    """The id that a request names, else one of the server's.

    Raises:
        InvalidAttribute: it is no string.
        MismatchedId: the request names two.
    """
    ids = [id for id in given if id is not None]
    for id in ids:
        if not isinstance(id, str):
            raise InvalidAttribute(subject, name="id", error_detail="it needs to be a string")
    if len({*ids}) > 1:
        raise MismatchedId(subject, singular="", invalid_id=ids[1], expected_id=ids[0])
    return ids[0] if ids else str(uuid.uuid4())


def check_identity(subject: str, shown: Mapping[str, Any], *said: Mapping[str, Any]) -> None:
    """Refuse a request that says of an entity that it is another one, or another version.

    Raises:
        MismatchedId
    """
    for each in said:
        for name, singular in (("id", ""), ("version", "version")):
            given = each.get(name)
            if given is not None and name in shown and str(given) != str(shown[name]):
                raise MismatchedId(
                    subject,
                    singular=singular,
                    invalid_id=str(given),
                    expected_id=str(shown[name]),
                )


def expected_epoch(request: web.Request, *said: Mapping[str, Any]) -> int | None:
    """The epoch that a request expects, in its URL, its headers or its body.

    Raises:
        BadRequest: they do not agree.
        InvalidAttribute: one is no unsigned integer.
    """
    given: list[Any] = [each["epoch"] for each in said if each.get("epoch") is not None]
    if (text := request.query.get("epoch")) is not None:
        is_number = text.isascii() and text.isdigit() and len(text) < 16
        given.append(int(text) if is_number else text)
    for epoch in given:
        if not isinstance(epoch, int) or isinstance(epoch, bool) or epoch < 0:
            detail = "it needs to be an unsigned integer"
            raise InvalidAttribute(request.path, name="epoch", error_detail=detail)
    if len({*given}) > 1:
        raise BadRequest(request.path, error_detail="the request names more than one epoch")
    return given[0] if given else None


def check_epoch(entity: Entity, expected: int | None) -> None:
    """Refuse a request that expects an entity at another epoch.

    Raises:
        MismatchedEpoch
    """
    if expected is not None and expected != entity.epoch:
        raise MismatchedEpoch(entity.xid, bad_epoch=str(expected), epoch=str(entity.epoch))


def interaction_at(request: web.Request, place: Address) -> Interaction:
    """An interaction that asks for nothing yet."""
    return Interaction(at=place.xid, path=request.path)
