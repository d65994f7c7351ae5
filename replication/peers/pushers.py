"""The sender of a push, and the link that accepts its pushes."""

from __future__ import annotations

import shlex
import uuid
from datetime import UTC, datetime

from aiohttp import web

from catalog.context import CONTEXT
from catalog.model.concorderrors import PushNotAccepted, PushOutOfStep
from catalog.model.errors import BadRequest, ServerBusy
from catalog.model.linkterms import is_authority
from catalog.store import links
from catalog.store.links import Link, LinkReplaced
from replication.peers.handshake import why_lost


async def accepting_link(request: web.Request) -> Link:
    """The link that accepts the pushes of the sender of a request, after noting its instance.

    The sender states its identity without proof.

    Raises:
        BadRequest: the request does not state the sender.
        PushNotAccepted
        ServerBusy: the link is paused, or its replicas are being dropped.
    """
    context, subject = request[CONTEXT], request.path
    authority, instance = _read_sender(request)
    async with context.database.acquire() as connection:
        link = await links.get_acceptance(connection, authority)
    if link is None or instance == context.database.node.instance:
        # The authority is a text of an unknown sender, and operators copy the command into a shell.
        command = f"concord accept add {shlex.quote(authority)}"
        detail = f"Its operator can accept them: `{command} --url {context.public_base}`."
        raise PushNotAccepted(subject, authority=authority, detail=detail)
    if link.paused is not None:
        raise ServerBusy(subject, detail="Nothing is taken from this catalog for the time being.")
    if link.drops or link.ends:
        raise ServerBusy(subject, detail="What was pushed before is being dropped.")
    if link.instance == instance:
        return link
    async with context.database.transaction() as connection:
        try:
            loss = why_lost(link, instance)
            await links.meet(connection, link, instance, authority, None, loss=loss)
        except LinkReplaced as error:
            raise ServerBusy(subject, detail="What is accepted was changed.") from error
        if link.instance is not None:
            detail = f"the pusher is {instance} now, it was {link.instance}"
            at = datetime.now(UTC)
            await links.remember(connection, link, at, "another instance", detail)
        met = await links.get(connection, link.id)
    if met is None:
        raise PushOutOfStep(subject, error_detail="what is accepted was changed")
    return met


def _read_sender(request: web.Request) -> tuple[str, uuid.UUID]:
    authority = request.headers.get("Concord-Authority", "")
    if not is_authority(authority):
        detail = "the header Concord-Authority needs to be the authority of the sender"
        raise BadRequest(request.path, error_detail=detail)
    try:
        instance = uuid.UUID(request.headers.get("Concord-Instance", ""))
    except ValueError as error:
        detail = "the header Concord-Instance needs to be the instance of the sender"
        raise BadRequest(request.path, error_detail=detail) from error
    return authority, instance
