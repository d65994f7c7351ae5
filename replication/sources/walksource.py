"""The source of links to servers of other software, which are walked periodically."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import replace

from catalog.client import BadAnswer, Client, ClientError, Refused
from catalog.context import Context
from catalog.model.digest import DIGEST_VERSION
from catalog.operations.links import FoundCatalog
from catalog.operations.peers import Handshake
from catalog.store.database import Connection, wait_for
from catalog.store.links import Link, LinkDefinition
from catalog.supervisor import LoopTiming
from replication.deciding.provenance import meet_claim
from replication.peers import handshake
from replication.peers.linkerrors import is_kept_out, may_pass
from replication.peers.peeraccess import PeerAccess
from replication.readers.reader import NoCatalog, WalkedCatalog
from replication.readers.walkedcatalogs import find_catalog
from replication.readers.walkedserver import WalkedServer, server_of
from replication.sources.catalogwalk import Walk, Walked
from replication.sources.copypages import CopyPage
from replication.sources.walkedcopies import WalkMemory
from replication.transfer.linkrun import LinkRun, PeerIdentity, Start
from replication.transfer.transfer import LinkPeer, LinkSource

# A server is walked for at most a tenth of the time.
_PAUSES = 9
# Seconds for which "unchanged" answers of a server are trusted.
_TRUST_SECONDS = 3600.0


class WalkSource(LinkSource, LinkPeer):
    """Walks a server in each contact, then waits: as long as between pulls, or longer.

    A link that is woken reads everything again, even parts that the server calls unchanged.
    """

    def __init__(self, run: LinkRun) -> None:
        self._run = run
        # Links between pages may leave the path of the URL, but never the server.
        server = server_of(run.link.definition.source)
        run.peer = run.resources.client_of(server, run.access)
        self._memory = WalkMemory()
        self._memory.reads_all = run.link.copiesall
        self._read_at = self._began = 0.0
        self._server: WalkedServer
        self._catalog: WalkedCatalog
        self.walked: Walked | None = None

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        self._run.wakeup.clear()
        self.walked, self._began = None, asyncio.get_running_loop().time()
        if self._began - self._read_at > _TRUST_SECONDS:
            self._memory.forget_parts()
            self._read_at = self._began
        try:
            yield
        except BaseException:
            self._memory.forget_parts()
            raise

    async def meet(self) -> None:
        """Learn the description of the server, which must not speak for this node."""
        run = self._run
        definition = run.link.definition
        self._server = WalkedServer(definition.source, run.peer, run.settings, run.resources.timing)
        self._catalog = await find_catalog(
            self._server, run.context.configuration.model, definition.dialect
        )
        run.source = _identity_of(run.context, run.link, self._catalog)

    async def identify(self, connection: Connection, link: Link) -> PeerIdentity:
        source = self._run.source
        assert source is not None, "the link has met its source"
        await meet_claim(connection, link, source.authority)
        return PeerIdentity(
            instance=source.instance,
            authority=source.authority,
            base=source.base,
            changed=f"the registry there is {self._catalog.identity} now, and was another one",
        )

    async def resume(self, saved: str | None) -> Start[str]:
        return Start(cursor=saved or "", is_copied=self._run.link.currentat is not None)

    async def everything(self, after: str | None) -> AsyncGenerator[CopyPage]:
        """One walk, since only a walk finds missing entities."""
        async for page in self.walk():
            yield page

    async def changes(self, cursor: str) -> AsyncGenerator[CopyPage]:
        """A walk, unless the complete copy was a walk just before; the end comes after a pause."""
        run, loop = self._run, asyncio.get_running_loop()
        if self.walked is None:
            async for page in self.walk():
                yield page
            if self.walked is not None and self.walked.changes:
                await run.remember("walked", self.walked.text)
        yield CopyPage(is_last=True)
        if await wait_for(run.wakeup, max(run.interval, _PAUSES * (loop.time() - self._began))):
            self._memory.forget_parts()

    def new_walk(self) -> Walk:
        """A walk of the server that the link has met."""
        return Walk(run=self._run, server=self._server, catalog=self._catalog, memory=self._memory)

    async def walk(self) -> AsyncGenerator[CopyPage]:
        """The pages of one walk, within two hours; see `Walk.pages`."""
        walk = self.new_walk()
        async for page in walk.pages():
            yield page
        self.walked = walk.walked


def _identity_of(context: Context, link: Link, catalog: WalkedCatalog) -> Handshake:
    """The identity of a walked server, which states none; it must not speak for this node."""
    source = link.definition.source
    authority = link.authority or source
    if authority == context.database.node.authority:
        raise ClientError(
            f"{source} would speak for this node itself.", "Name another authority (--pin)."
        )
    return Handshake(
        instance=uuid.uuid5(uuid.NAMESPACE_URL, f"{authority}\n{catalog.identity}"),
        authority=authority,
        software=catalog.software,
        base=source,
        digestversion=DIGEST_VERSION,
    )


async def choose_mode(
    context: Context, definition: LinkDefinition, access: PeerAccess, *, is_named: bool
) -> tuple[LinkDefinition, FoundCatalog]:
    """The definition of a link to a source, and the description of the source.

    A server without replication is walked, unless the operator has named another mode.

    Raises:
        ThisNode
        ClientError: the source does not answer, or cannot be followed.
    """
    if definition.mode == "walk":
        return await _find_server(context, definition, access)
    async with handshake.first_contact(context, definition.source, access) as peer:
        try:
            return definition, await handshake.find_node(context, peer)
        except (BadAnswer, Refused) as error:
            # A Concord node that refuses the credential should be followed with a better one, not
            # walked.
            is_refused = isinstance(error, Refused) and is_kept_out(error.problem)
            if is_refused or may_pass(error):
                raise
            if not is_named:
                # Of a server that is neither a node nor can be walked, the first answer says more.
                with contextlib.suppress(NoCatalog):
                    return await _find_server(context, definition, access)
            raise ClientError(await handshake.describe_other(peer, error)) from error


async def _find_server(
    context: Context, definition: LinkDefinition, access: PeerAccess
) -> tuple[LinkDefinition, FoundCatalog]:
    """Describe a server that can be walked; the link reads the server by the found API."""
    source = definition.source
    async with handshake.first_contact(context, source, access) as peer:
        if await _is_own(context, peer):
            raise handshake.ThisNode("It is this node itself.")
    async with handshake.first_contact(context, server_of(source), access) as client:
        server = WalkedServer(source, client, context.settings, LoopTiming(), attempts=1)
        found = await find_catalog(server, context.configuration.model, definition.dialect)
    left = [fault.path for fault in found.faults]
    return (
        replace(definition, mode="walk", dialect=found.dialect),
        FoundCatalog(authority=source, software=found.software, left=left),
    )


async def _is_own(context: Context, peer: Client) -> bool:
    """Whether a server identifies as this node; a server of other software never does."""
    try:
        return bool(handshake.why_own(context, await handshake.shake_hands(peer)))
    except ClientError as error:
        if may_pass(error):
            raise
        return False
