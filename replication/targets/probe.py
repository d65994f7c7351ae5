"""Finds out the API of a server that a link is to write to."""

from __future__ import annotations

from collections.abc import Mapping

import aiohttp

from catalog.client import ONCE, Client, ClientError, Credential
from catalog.context import Context
from catalog.http.outboundconnections import open_session
from catalog.model.linkterms import Dialect
from catalog.operations.links import FoundCatalog
from catalog.store.links import LinkDefinition
from replication.peers.handshake import PROBE_SECONDS
from replication.peers.linkerrors import describe, may_pass, state_of
from replication.peers.peeraccess import PeerAccess
from replication.readers.walkedcatalogs import DIALECT_ROOTS
from replication.targets.confluenttarget import ConfluentTarget
from replication.targets.drafttargets import DiscoveryTarget, MessageCatalogTarget, Registry04Target
from replication.targets.target import Target
from replication.targets.xregistry import XRegistryTarget

_LARGEST_ANSWER = 32 * 1024 * 1024

_TARGETS: Mapping[Dialect, type[Target]] = {
    "xregistry": XRegistryTarget,
    "registry04": Registry04Target,
    "messagecatalog": MessageCatalogTarget,
    "discovery": DiscoveryTarget,
    "confluent": ConfluentTarget,
}


class UnknownApi(ClientError):
    """The server has no API that a link can write to."""


async def open_target(
    context: Context,
    session: aiohttp.ClientSession,
    definition: LinkDefinition,
    mark: str,
    timeout_seconds: float,
    credential: Credential | None = None,
) -> Target:
    """Find the API of a link's server.

    Args:
        session: a session that guards against private networks (`open_session`).
        mark: the mark in the entities that the link brings.

    Raises:
        ClientError: the server does not answer, or has no suitable API.
    """
    chosen = [definition.dialect] if definition.dialect else [*_TARGETS]
    last: ClientError | None = None
    refusal: ClientError | None = None
    for dialect in chosen:
        for path in DIALECT_ROOTS[dialect]:
            client = Client(
                definition.target + path,
                session,
                retry=ONCE,
                timeout_seconds=timeout_seconds,
                largest=_LARGEST_ANSWER,
                credential=credential,
            )
            try:
                found = await _TARGETS[dialect].open(context, client, mark)
            except ClientError as error:
                if may_pass(error):
                    raise
                # An error of one API may only mean that the server has a different API.
                last = error
                if state_of(error) in ("unauthenticated", "forbidden"):
                    refusal = refusal or error
                continue
            if found is not None:
                return found
    if refusal is not None:
        raise refusal
    wanted = (
        definition.dialect or "xRegistry, Message Catalog, Discovery, Registry 0.4 or Confluent"
    )
    said = f" ({describe(last, definition.target)})" if last is not None else ""
    raise UnknownApi(
        f"{definition.target} shows no API of {wanted}{said}",
        "Name the root of the API, and its dialect.",
    )


async def find_server(
    context: Context, definition: LinkDefinition, access: PeerAccess
) -> FoundCatalog:
    """Describe a server; `ClientError` if it has no API that a link can write to."""
    seconds = min(context.settings.request_timeout_seconds, PROBE_SECONDS)
    async with open_session(context.settings, total_seconds=seconds) as session:
        found = await open_target(context, session, definition, "", seconds, access)
    return FoundCatalog(authority=found.root, software=found.software)
