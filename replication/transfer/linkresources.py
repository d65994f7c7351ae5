"""The objects shared by the runners of all links of a process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

import aiohttp

from catalog.config import Settings
from catalog.context import Context
from catalog.http.listener import most_outbound_connections
from catalog.load.limiter import Share
from catalog.model.errors import ServerBusy
from catalog.store.database import Database
from catalog.store.links import Link
from catalog.supervisor import LoopTiming
from replication.peers.handshake import peer_at
from replication.peers.linkbounds import LinkGate
from replication.peers.pacedclient import PacedClient, PeerHosts
from replication.peers.peeraccess import PeerAccess, access_of
from replication.store import linkconfirmations
from replication.store.linkconfirmations import Confirmation

SAVE_SECONDS = 1.0
"""The seconds between two saves of the state `current` of an idle link."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkResources:
    """The objects shared by the runners of a process."""

    context: Context
    session: aiohttp.ClientSession
    gate: LinkGate
    timing: LoopTiming
    connections: LinkConnections
    confirmations: Confirmations
    hosts: PeerHosts = field(default_factory=PeerHosts)

    @classmethod
    def of(
        cls, context: Context, session: aiohttp.ClientSession, timing: LoopTiming | None = None
    ) -> LinkResources:
        """Resources that no runner uses yet."""
        return cls(
            context=context,
            session=session,
            gate=LinkGate(),
            timing=timing or LoopTiming(),
            connections=LinkConnections(context.settings),
            confirmations=Confirmations(context.database),
        )

    def peer_of(self, link: Link, access: PeerAccess | None = None) -> PacedClient:
        """A client of the catalog at the other end of a link.

        Args:
            access: the credential of the link, if several clients share its tokens.
        """
        timeout, url = self.context.settings.request_timeout_seconds, link.definition.peer
        shown = access or access_of(link, self.context)
        return peer_at(url, self.session, timeout, self.hosts.pace_of(url), shown)


class LinkConnections:
    """The shares of the outgoing connections that links may use at a time.

    Links whose last attempt failed share a quarter until they are current, since a peer that does
    not answer occupies a connection for long. Requests that wait for changes at a source share
    half. The rest is left for links that bring copies.
    """

    def __init__(self, settings: Settings) -> None:
        most = most_outbound_connections(settings)
        self.probation = Share(max(1, most // 4))
        self._waiting = Share(max(1, most // 2))

    @contextlib.contextmanager
    def place_to_wait(self) -> Iterator[bool]:
        """Take a place for a request that waits at a source; false without a free place."""
        has_place = self._waiting.take_now()
        try:
            yield has_place
        finally:
            if has_place:
                self._waiting.give_back()


class Confirmations:
    """Links without new copies since the last save.

    A thousand idle links take one transaction per second.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._due: dict[str, Confirmation] = {}
        self._is_due = asyncio.Event()

    def add(self, link: Link) -> None:
        """Note that a current link has no new copies."""
        self._due[link.id] = Confirmation(link.id, link.revision, datetime.now(UTC))
        self._is_due.set()

    async def run(self) -> None:
        """Save confirmations as they come, for ever."""
        while True:
            await self._is_due.wait()
            self._is_due.clear()
            due, self._due = [*self._due.values()], {}
            try:
                async with self._database.transaction() as connection:
                    await linkconfirmations.confirm(connection, due)
            # Lost confirmations need no retry: an idle link soon adds the next confirmation.
            except (ServerBusy, TimeoutError):
                await self._database.recovered()
            await asyncio.sleep(SAVE_SECONDS)
