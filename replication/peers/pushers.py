"""The sender of a push: the stated identity, and the link that accepts the pushes."""

from __future__ import annotations

import shlex
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime

from aiohttp import web

from catalog.context import CONTEXT, Context
from catalog.model.concorderrors import (
    PushNotAccepted,
    PushOutOfStep,
)
from catalog.model.errors import BadRequest, ServerBusy
from catalog.model.linkterms import is_authority
from catalog.store import links
from catalog.store.links import Link, LinkReplaced
from replication.peers.handshake import why_lost


@dataclass(frozen=True, slots=True, kw_only=True)
class Pusher:
    """The identity that the sender of a request states, without proof."""

    authority: str
    instance: uuid.UUID


async def accepted_pusher(request: web.Request) -> Link:
    """The link that accepts the pushes of the sender of a request.

    Raises:
        BadRequest: the request does not state the sender.
        PushNotAccepted, ServerBusy
    """
    return await accepting_link(request[CONTEXT], read_pusher(request), request.path)


def read_pusher(request: web.Request) -> Pusher:
    authority = request.headers.get("Concord-Authority", "")
    if not is_authority(authority):
        detail = "the header Concord-Authority needs to be the authority of the sender"
        raise BadRequest(request.path, error_detail=detail)
    try:
        instance = uuid.UUID(request.headers.get("Concord-Instance", ""))
    except ValueError as error:
        detail = "the header Concord-Instance needs to be the instance of the sender"
        raise BadRequest(request.path, error_detail=detail) from error
    return Pusher(authority=authority, instance=instance)


async def accepting_link(context: Context, pusher: Pusher, subject: str) -> Link:
    """The link that accepts the pushes of a catalog, after noting the catalog's instance.

    Raises:
        PushNotAccepted
        ServerBusy: the link is paused, or its replicas are being dropped.
    """
    node = context.database.node
    async with context.database.acquire() as connection:
        link = await links.get_acceptance(connection, pusher.authority)
    if link is None or pusher.instance == node.instance:
        # The authority is a text of an unknown sender, and operators copy the command into a shell.
        command = f"concord accept add {shlex.quote(pusher.authority)}"
        detail = f"Its operator can accept them: `{command} --url {context.public_base}`."
        raise PushNotAccepted(subject, authority=pusher.authority, detail=detail)
    if link.paused is not None:
        raise ServerBusy(subject, detail="Nothing is taken from this catalog for the time being.")
    if link.drops or link.ends:
        raise ServerBusy(subject, detail="What was pushed before is being dropped.")
    if link.instance == pusher.instance:
        return link
    async with context.database.transaction() as connection:
        try:
            loss = why_lost(link, pusher.instance)
            await links.meet(connection, link, pusher.instance, pusher.authority, None, loss=loss)
        except LinkReplaced as error:
            raise ServerBusy(subject, detail="What is accepted was changed.") from error
        if link.instance is not None:
            detail = f"the pusher is {pusher.instance} now, it was {link.instance}"
            at = datetime.now(UTC)
            await links.remember(connection, link, at, "another instance", detail)
        met = await links.get(connection, link.id)
    if met is None:
        raise PushOutOfStep(subject, error_detail="what is accepted was changed")
    return met
