"""Runs one link to a server of any make, which is walked again and again."""

from __future__ import annotations

import asyncio
import uuid
from datetime import UTC, datetime

from catalog.client import ClientError
from catalog.context import Context
from catalog.model.digest import DIGEST_VERSION
from catalog.operations.peers import Handshake
from catalog.store import links
from catalog.store.database import wait_for
from catalog.store.links import Link, LinkReplaced
from replication.applying.deletionlimit import TooManyDeletions
from replication.deciding.pinning import meet_claim, met
from replication.links.linkresources import LinkResources
from replication.links.linkrunner import LinkRunner, reconsidered
from replication.sources.pull import Flow
from replication.sources.walk import Walk, Walked, WalkMemory
from replication.sources.walkedregistry import WalkedRegistry, describe_registry
from replication.sources.walkedserver import WalkedServer

# As long as a stream may take.
_WALK_SECONDS = 7200.0
# A server is walked for at most a tenth of the time.
_PAUSES = 9
# What a server says of its own changes is believed for so long.
_TRUST_SECONDS = 3600.0


class WalkRunner(LinkRunner):
    """Walks the source of a link, then waits: as long as between pulls, or longer if it is large.

    A link that is woken reads everything again, whatever the source says has not changed.
    """

    def __init__(self, link: Link, resources: LinkResources) -> None:
        super().__init__(link, resources)
        self._memory = WalkMemory()
        self._memory.epochs.reads_all = link.copiesall
        self._read_at = 0.0

    async def _follow(self) -> None:
        await self._drop_replicas()
        await self._await_permission()
        self.wakeup.clear()
        loop = asyncio.get_running_loop()
        began = loop.time()
        if began - self._read_at > _TRUST_SECONDS:
            self._memory.forget_marks()
            self._read_at = began
        try:
            walked = await self.walk_once()
        except TooManyDeletions:
            # The question is stored: the link waits for its answer when it begins again.
            self._memory.forget_marks()
            return
        except BaseException:
            self._memory.forget_marks()
            raise
        if walked.is_first or walked.brought.changes:
            await self._remember("copied" if walked.is_first else "walked", walked.text)
        self._failures = 0
        await self._report("current", currentat=datetime.now(UTC))
        interval = self._resources.context.settings.pull_interval_seconds
        if await wait_for(self.wakeup, max(interval, _PAUSES * (loop.time() - began))):
            self._memory.forget_marks()

    async def walk_once(self) -> Walked:
        """Walk the source, within two hours; see `Walk.run`."""
        server = self._server()
        try:
            async with asyncio.timeout(_WALK_SECONDS) as limit:
                model = self._resources.context.configuration.model
                registry = await describe_registry(server, model)
                flow = await self._meet(registry)
                await self._reconsider(flow.link, flow.policy)
                flow = reconsidered(flow)
                if flow.link.currentat is None:
                    await self._report("copying")
                return await Walk(
                    flow=flow, server=server, registry=registry, memory=self._memory
                ).run()
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise ClientError(
                f"{self._peer.url} could not be read within {_WALK_SECONDS:.0f} seconds.",
                "Narrow the link's scope.",
            ) from error
        finally:
            self._peer.slowed += server.slowed

    def _server(self) -> WalkedServer:
        return WalkedServer(
            self.link.definition.source,
            self._resources.session,
            self._resources.context.settings,
            self._resources.timing,
            credential=self._access,
        )

    async def _meet(self, registry: WalkedRegistry) -> Flow:
        """Hold the source to its authority; note if there is another registry than before."""
        context = self._resources.context
        found = server_identity(context, self.link, registry)
        authority, instance, source = found.authority, found.instance, found.base
        async with self._database.transaction() as connection:
            link = await links.get(connection, self.id)
            if link is None:
                raise LinkReplaced(self.id)
            await meet_claim(connection, link, authority)
            await links.meet(connection, self.link, instance, authority, source)
        if link.instance not in (None, instance):
            detail = f"the registry there is {registry.registryid} now, and was another one"
            await self._remember("another instance", detail)
        return Flow(
            context=context,
            link=met(link, instance, authority, ""),
            peer=self._peer,
            source=found,
            gate=self._resources.gate,
        )


def server_identity(context: Context, link: Link, registry: WalkedRegistry) -> Handshake:
    """The identity of a server that is walked, which tells none itself.

    Raises:
        ClientError: the server would speak for this node.
    """
    source = link.definition.source
    authority = link.authority or source
    if authority == context.database.node.authority:
        raise ClientError(
            f"{source} would speak for this node itself.", "Name another authority (--pin)."
        )
    return Handshake(
        instance=uuid.uuid5(uuid.NAMESPACE_URL, f"{authority}\n{registry.registryid}"),
        authority=authority,
        software=f"xRegistry {registry.edition}",
        base=source,
        digestversion=DIGEST_VERSION,
    )
