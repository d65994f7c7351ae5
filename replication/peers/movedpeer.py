"""Checks that the catalog of a link answers at the URL that it has moved to."""

from __future__ import annotations

from dataclasses import replace

import structlog

from catalog.client import ClientError, Credential, CursorExpired
from catalog.context import Context
from catalog.http.outbound import open_session
from catalog.model.concorderrors import SourceUnusable, TargetUnusable
from catalog.model.errors import InvalidAttribute
from catalog.operations.links import LinkChanges
from catalog.store.links import Link
from replication.feed.sourceloss import loss_told, why_lost
from replication.peers.handshake import (
    PROBE_SECONDS,
    cause_of,
    describe,
    peer_at,
    shake_hands,
    why_own,
)

_log = structlog.get_logger(__name__)

_MOVABLE = ("pull", "events", "push")
_FORCE = (
    "If it is the right one all the same, change the link with `?force` (`--force`): it compares "
    "everything with what is there."
)


def moved_peer(body: LinkChanges, link: Link, subject: str) -> dict[str, str]:
    """The member of the link's definition that names its peer, with another URL; empty if the body
    has none.

    Raises:
        InvalidAttribute: the link has no such member, or begins anew where its peer is another.
    """
    name = "target" if link.definition.sends else "source"
    if other := {"source", "target"} & body.model_fields_set - {name}:
        fault = f'a link of mode "{link.definition.mode}" has none'
        raise InvalidAttribute(subject, name=other.pop(), error_detail=fault)
    url = getattr(body, name)
    if url is None:
        return {}
    if link.definition.mode not in _MOVABLE:
        fault = f'a link of mode "{link.definition.mode}" is removed and added anew instead'
        raise InvalidAttribute(subject, name=name, error_detail=fault)
    return {name: url}


async def check_moved(
    context: Context, link: Link, url: str, credential: Credential, subject: str
) -> None:
    """Check that the catalog at a URL is the one of a link, with all that the link has read.

    Args:
        credential: is shown to the catalog.
        subject: of an error.

    Raises:
        SourceUnusable, TargetUnusable: it does not answer, is another catalog or another node, or
            has lost data.
    """
    seconds = min(context.settings.request_timeout_seconds, PROBE_SECONDS)
    async with open_session(context.settings, total_seconds=seconds) as session:
        peer = peer_at(url, session, seconds, credential=credential)
        try:
            found = await shake_hands(peer)
            fault = why_own(context, found)
            if not fault and link.authority not in (None, found.authority):
                fault = f"it is the authority {found.authority}, not {link.authority}"
            # What was lost before is known; it does not tell the new place from the old one.
            fault = fault or why_lost(replace(link, loss=None), found.instance)
            if not fault and link.cursor is not None and not link.definition.sends:
                await peer.changes(link.cursor, limit=1)
        except CursorExpired as error:
            fault = loss_told(error)
        except ClientError as error:
            _log.info("a link cannot move", link=link.id, url=url, cause=cause_of(error))
            fault = describe(error, url, link.id).rstrip(".")
    if fault and link.definition.sends:
        raise TargetUnusable(subject, target=url, error_detail=fault, detail=_FORCE)
    if fault:
        raise SourceUnusable(subject, source=url, error_detail=fault, detail=_FORCE)
