"""The objects that the runners of all links of a process share."""

from __future__ import annotations

from dataclasses import dataclass, field

import aiohttp

from catalog.context import Context
from catalog.store.links import Link
from catalog.supervisor import LoopTiming
from replication.credentials.peeraccess import PeerAccess, access_of
from replication.feed.confirmations import Confirmations
from replication.peers.handshake import peer_at
from replication.peers.linkbounds import LinkGate
from replication.peers.linkconnections import LinkConnections
from replication.peers.pacedclient import PacedClient, PeerHosts


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkResources:
    """The objects that all runners of a process share."""

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
            access: shows the credential of the link, where clients share that.
        """
        timeout, url = self.context.settings.request_timeout_seconds, link.definition.peer
        shown = access or access_of(link, self.context)
        return peer_at(url, self.session, timeout, self.hosts.pace_of(url), shown)
