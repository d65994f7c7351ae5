"""A running link: the state that the runner, source and sink share, and what all links share."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncGenerator, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Generic, Self, TypeVar

import aiohttp
import structlog

from catalog.client import ClientError, Refused
from catalog.context import Context
from catalog.http.listener import most_outbound_connections
from catalog.load.limiter import Share
from catalog.model.entity import Origin
from catalog.model.errors import ServerBusy
from catalog.model.masking import counted
from catalog.operations.peers import Handshake
from catalog.settings import Settings
from catalog.store import links
from catalog.store.database import Database
from catalog.store.links import Link
from catalog.supervisor import LoopTiming
from replication.deciding.provenance import Policy, policy_of
from replication.peers.linkbounds import LinkGate, PacedClient, PeerHosts
from replication.peers.linkerrors import ErrorClass
from replication.peers.peeraccess import PeerAccess, access_of
from replication.store import linkconflicts, linkstates
from replication.store.linkconflicts import LinkConflict
from replication.store.linkstates import Confirmation

SAVE_SECONDS = 1.0
"""The seconds between two saves of the state `current` of an idle link."""
T = TypeVar("T")
_log = structlog.get_logger(__name__)

CursorT = TypeVar("CursorT")


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
        return self.client_of(link.definition.peer, access or access_of(link, self.context))

    def client_of(self, url: str, access: PeerAccess) -> PacedClient:
        """A client of the catalog at a URL; clients of the same host keep to one pace."""
        seconds = self.context.settings.request_timeout_seconds
        return PacedClient(url, self.session, seconds, self.hosts.pace_of(url), access)


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
                    await linkstates.confirm(connection, due)
            # Lost confirmations need no retry: an idle link soon adds the next confirmation.
            except (ServerBusy, TimeoutError):
                await self._database.recovered()
            await asyncio.sleep(SAVE_SECONDS)


async def until_woken(work: Coroutine[Any, Any, T], wakeup: asyncio.Event) -> T | None:
    """Return the result of `work`, or cancel it and return `None` when `wakeup` is set."""
    working, waiting = asyncio.create_task(work), asyncio.create_task(wakeup.wait())
    try:
        await asyncio.wait((working, waiting), return_when=asyncio.FIRST_COMPLETED)
    finally:
        # Read before the cancellation, after which both tasks are done.
        is_done = working.done()
        for task in (working, waiting):
            task.cancel()
        await asyncio.wait((working, waiting))
    wakeup.clear()
    return working.result() if is_done else None


class BeginAgain(ClientError):
    """A link cannot continue from its cursor, and compares or copies everything again.

    Args:
        loss: the reason why the source may lack entities that the link has brought, after a loss.
        error_class: the class under which the reason is counted, if the source caused an error.
    """

    is_retryable = True

    def __init__(
        self, message: str, hint: str = "", *, loss: str = "", error_class: ErrorClass | None = None
    ) -> None:
        super().__init__(message, hint)
        self.loss = loss
        self.error_class = error_class


class OutOfStep(ClientError):
    """The target of a link has a different cursor: the link asks for the cursor again."""

    is_retryable = True


class AwaitsAnswer(ClientError):
    """The target of a link waits until its operator answers a question."""

    is_retryable = True

    def __init__(self, message: str, refusal: Refused) -> None:
        super().__init__(message)
        self.refusal = refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerIdentity:
    """The other catalog of a link, as last met.

    Args:
        base: the base of the URLs that the catalog gives out, if stated.
        loss: the reason why the catalog may lack entities that the link has brought, after a loss.
        changed: the event of a new instance, in words; "" for no event.
    """

    instance: uuid.UUID
    authority: str
    base: str | None = None
    loss: str = ""
    changed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start(Generic[CursorT]):
    """The cursor to continue from, `None` for the beginning, and whether a copy was completed."""

    cursor: CursorT | None
    is_copied: bool


@dataclass(slots=True, kw_only=True)
class Applied:
    """The numbers of copies, of changes by the copies, of deleted entities, and of conflicts."""

    copies: int = 0
    changes: int = 0
    deleted: int = 0
    conflicts: int = 0

    @property
    def text(self) -> str:
        """The numbers in words for the history of a link."""
        brought = f"{counted(self.copies, 'copies')}, {counted(self.changes, 'changes')}"
        return f"{brought}, {self.deleted} deleted"

    def add(self, other: Applied) -> None:
        self.copies += other.copies
        self.changes += other.changes
        self.deleted += other.deleted
        self.conflicts += other.conflicts


@dataclass(slots=True, kw_only=True)
class LinkRun:
    """A link while it runs.

    Args:
        link: the stored link; after the contact with the other catalog, with the catalog's
            identity.
        peer: a client of the other catalog.
        source: the handshake of the source, for a bringing link after the contact.
        wakeup: an event that is set when the link is to act at once.
        requested: the number of requests to retry conflicts.
        retried: the number of completed requests.
        strays: the origins of damaged copies whose true origins are unknown.
        is_allowed: an operator has answered the question about deletions.
        failures: the number of failures in a row before this contact.
    """

    link: Link
    resources: LinkResources
    access: PeerAccess
    peer: PacedClient
    source: Handshake | None = None
    wakeup: asyncio.Event = field(default_factory=asyncio.Event)
    requested: int = 0
    retried: int = 0
    strays: Sequence[Origin] = ()
    is_allowed: bool = False
    failures: int = 0

    @classmethod
    def of(cls, link: Link, resources: LinkResources) -> Self:
        access = access_of(link, resources.context)
        return cls(
            link=link,
            resources=resources,
            access=access,
            peer=resources.peer_of(link, access),
            failures=link.failures,
        )

    @property
    def context(self) -> Context:
        return self.resources.context

    @property
    def database(self) -> Database:
        return self.resources.context.database

    @property
    def settings(self) -> Settings:
        return self.resources.context.settings

    @property
    def interval(self) -> float:
        """The seconds between two requests to a source that announces no changes."""
        return self.settings.pull_interval_seconds

    @property
    def policy(self) -> Policy:
        """The policy for the copies of a bringing link, once the source was met or pinned."""
        own, source = self.database.node.authority, self.link.authority or ""
        return policy_of(self.link.definition, own=own, source=source)

    def about(self, authority: str) -> LinkRun:
        """The run of the link for another authority, whose loss of entities was allowed."""
        link = replace(self.link, authority=authority, doubts=True, former=None)
        return replace(self, link=link, is_allowed=True)

    async def remember(self, event: str, detail: str) -> None:
        """Add an event to the history of the link."""
        _log.info("link", link=self.link.id, event_=event, detail=detail)
        async with self.database.acquire() as connection:
            await links.remember(connection, self.link, datetime.now(UTC), event, detail[:500])

    async def conflicts(self, at_once: int) -> AsyncGenerator[list[LinkConflict]]:
        """The conflicts of the link, in batches."""
        after: Origin | None = None
        while True:
            async with self.database.acquire() as connection:
                found = await linkconflicts.load(connection, self.link.id, after, at_once)
            if not found:
                return
            yield found
            after = found[-1].origin
