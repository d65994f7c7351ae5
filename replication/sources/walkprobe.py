"""Finds out how a source can be followed: by replication, or by a walk of the standard API."""

from __future__ import annotations

from dataclasses import replace

import structlog

from catalog.client import BadAnswer, Client, ClientError, Credential, Refused
from catalog.context import Context
from catalog.http.outbound import open_session
from catalog.model.concorderrors import SourceUnusable
from catalog.operations.links import FoundCatalog
from catalog.store.links import LinkDefinition
from catalog.supervisor import LoopTiming
from replication.peers.accessadvice import is_kept_out
from replication.peers.handshake import (
    FORCE,
    PROBE_SECONDS,
    cause_of,
    describe,
    may_pass,
    peer_at,
    probe,
    shake_hands,
    why_own,
)
from replication.readers.reader import NoCatalog
from replication.readers.walkedcatalogs import find_catalog
from replication.readers.walkedserver import WalkedServer

_log = structlog.get_logger(__name__)

_OWN = "it is this node itself"


async def choose_mode(
    context: Context,
    definition: LinkDefinition,
    subject: str,
    *,
    is_named: bool,
    credential: Credential | None = None,
) -> tuple[LinkDefinition, FoundCatalog]:
    """The definition of a link to a source, and the description of the source.

    A server without replication is walked, unless the operator has named another mode.

    Raises:
        SourceUnusable: the source does not answer, cannot be followed, or is this node.
    """
    if definition.mode == "walk":
        return await _probe_server(context, definition, subject, credential)
    try:
        return definition, await probe(context, definition.source, subject, credential)
    except SourceUnusable as error:
        cause = error.__cause__
        has_answered = isinstance(cause, BadAnswer | Refused) and not may_pass(cause)
        # A Concord node that refuses the credential should be followed with a better one, not
        # walked.
        is_refused = isinstance(cause, Refused) and is_kept_out(cause.problem)
        if is_named or is_refused or not has_answered:
            raise
        try:
            return await _probe_server(context, definition, subject, credential)
        except SourceUnusable as another:
            if isinstance(another.__cause__, NoCatalog):
                raise error from cause
            raise


async def _probe_server(
    context: Context, definition: LinkDefinition, subject: str, credential: Credential | None
) -> tuple[LinkDefinition, FoundCatalog]:
    """Describe a server that can be walked; the link reads the server by the found API."""
    source = definition.source
    seconds = min(context.settings.request_timeout_seconds, PROBE_SECONDS)
    async with open_session(context.settings, total_seconds=seconds) as session:
        timing = LoopTiming()
        server = WalkedServer(
            source, session, context.settings, timing, attempts=1, credential=credential
        )
        try:
            if await _is_own(context, peer_at(source, session, seconds, credential=credential)):
                raise SourceUnusable(subject, source=source, error_detail=_OWN)
            found = await find_catalog(server, context.configuration.model, definition.dialect)
        except ClientError as error:
            _log.info("a source cannot be walked", source=source, cause=cause_of(error))
            fault = describe(error, source).rstrip(".")
            raise SourceUnusable(
                subject, source=source, error_detail=fault, detail=FORCE
            ) from error
    left = [fault.path for fault in found.faults]
    return (
        replace(definition, mode="walk", dialect=found.dialect),
        FoundCatalog(authority=source, software=found.software, left=left),
    )


async def _is_own(context: Context, peer: Client) -> bool:
    """Whether a server identifies as this node; a server of other software never does."""
    try:
        return bool(why_own(context, await shake_hands(peer)))
    except ClientError as error:
        if may_pass(error):
            raise
        return False
