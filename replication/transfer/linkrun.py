"""The state of a running link, which its runner, source and sink share."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Generic, Self, TypeVar

import structlog

from catalog.client import ClientError, Refused
from catalog.config import Settings
from catalog.context import Context
from catalog.model.entity import Origin
from catalog.model.masking import counted
from catalog.operations.peers import Handshake
from catalog.store import links
from catalog.store.database import Database
from catalog.store.links import Link
from replication.deciding.pinning import policy_of
from replication.deciding.provenance import Policy
from replication.peers.linkerrors import ErrorClass
from replication.peers.pacedclient import PacedClient
from replication.peers.peeraccess import PeerAccess, access_of
from replication.store import linkconflicts
from replication.store.linkconflicts import LinkConflict
from replication.transfer.linkresources import LinkResources

_log = structlog.get_logger(__name__)

CursorT = TypeVar("CursorT")


class BeginAgain(ClientError):
    """A link cannot go on from its cursor, and compares or copies everything again.

    Args:
        loss: the reason why its source may lack what the link has brought, if there is one.
        error_class: under which the reason is counted, if it is an error of the source.
    """

    is_retryable = True

    def __init__(
        self, message: str, hint: str = "", *, loss: str = "", error_class: ErrorClass | None = None
    ) -> None:
        super().__init__(message, hint)
        self.loss = loss
        self.error_class = error_class


class OutOfStep(ClientError):
    """The target of a link has another cursor than the link: the link asks for it again."""

    is_retryable = True


class AwaitsAnswer(ClientError):
    """The target of a link waits until its operator answers a question."""

    is_retryable = True

    def __init__(self, message: str, refusal: Refused) -> None:
        super().__init__(message)
        self.refusal = refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerIdentity:
    """The other catalog of a link, as it was met.

    Args:
        base: the base of the URLs that it gives out, if it names one.
        loss: the reason why it may lack what the link has brought, if there is one.
        changed: the words for an instance that is another one than before; "" if that is no event.
    """

    instance: uuid.UUID
    authority: str
    base: str | None = None
    loss: str = ""
    changed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start(Generic[CursorT]):
    """The cursor to go on from, `None` to begin; the complete copy ends before it or after it."""

    cursor: CursorT | None
    is_copied: bool


@dataclass(slots=True, kw_only=True)
class Applied:
    """The numbers of copies, of changes that they made, of entities that they deleted, and of those
    copies that could not be applied."""

    copies: int = 0
    changes: int = 0
    deleted: int = 0
    conflicts: int = 0

    @property
    def text(self) -> str:
        """The numbers for the history of a link."""
        brought = f"{counted(self.copies, 'copies')}, {counted(self.changes, 'changes')}"
        return f"{brought}, {self.deleted} deleted"

    def add(self, other: Applied) -> None:
        self.copies += other.copies
        self.changes += other.changes
        self.deleted += other.deleted
        self.conflicts += other.conflicts


@dataclass(slots=True)
class Arrived:
    """The bytes of a peer that were counted with a batch so far."""

    counted: int = 0

    def take(self, received: int) -> int:
        """Count, with the next batch, all that was `received` since the last one."""
        since, self.counted = received - self.counted, received
        return since

    def add(self, size: int) -> None:
        """Count, with the next batch, bytes that came by another client than the peer's."""
        self.counted -= size


@dataclass(slots=True, kw_only=True)
class LinkRun:
    """A link while it runs.

    Args:
        link: as it is stored; once its other catalog was met, with the identity of that.
        peer: a client of the other catalog.
        source: the other catalog's handshake, of a link that brings and has met its source.
        wakeup: is set when the link is to do something at once.
        requested: how often conflicts were to be retried.
        retried: how often of these they were.
        strays: the origins of copies that came spoilt, where nobody knows what they were of.
        is_allowed: an operator has answered the question about what goes.
        failures: in a row, before this contact.
        arrived: counts the bytes that the peer has sent.
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
    arrived: Arrived = field(default_factory=Arrived)

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
        """The seconds between two looks at a source that tells nothing."""
        return self.settings.pull_interval_seconds

    @property
    def policy(self) -> Policy:
        """The policy for what the link brings, once its source was met or pinned."""
        own, source = self.database.node.authority, self.link.authority or ""
        return policy_of(self.link.definition, own=own, source=source)

    def about(self, authority: str) -> LinkRun:
        """The same link, as if its source were of another authority that an operator there has let
        go of some entities of."""
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
