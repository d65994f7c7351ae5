"""The state that handlers and loops share: database, configuration, settings and address."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from aiohttp import web
from cloudevents.core.v1.event import CloudEvent

from catalog.config import Settings
from catalog.encryption import KeyRing
from catalog.formats import COMPATIBILITIES, FORMATS, Checker
from catalog.keyfile import key_ring
from catalog.longwork import in_thread
from catalog.model.capabilities import Capabilities, offered_with
from catalog.model.capabilityupdate import stored_capabilities
from catalog.model.configuration import Configuration, model_of
from catalog.model.errors import ServerBusy
from catalog.model.refusals import Refusals
from catalog.model.schema import Model
from catalog.processmetrics import ProcessMetrics
from catalog.store.authoritykeys import OwnSigners
from catalog.store.changes import LoggedChange
from catalog.store.configuration import read_revision, read_stored
from catalog.store.database import Connection, Database
from catalog.tracing import Tracing
from catalog.writing.documentchecks import CheckedRequests
from catalog.writing.writer import Writer

# The most capabilities that this server can have.
OFFERED_HERE = offered_with(FORMATS, COMPATIBILITIES)

_CATCH_UP_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EventDialect:
    """A published API that announces changes by events of its own.

    `root` is the path of the API, with which the subjects of its events begin; `type_prefix`
    begins their types. `renderer` reads what the events of some changes need, and returns the
    function that renders the events of each change from a given source.
    """

    root: str
    type_prefix: str
    renderer: Callable[
        [Connection, Sequence[LoggedChange], str],
        Awaitable[Callable[[LoggedChange], list[CloudEvent]]],
    ]


@dataclass(slots=True, kw_only=True)
class Context:
    """The shared state of one node.

    `public_base` is the URL that peers and subscribers reach this node at, without a
    trailing slash: the configured one, else the address that it is bound to. A handler takes
    `configuration` once: it is replaced as a whole when a client changes it. `offered` are
    the most capabilities that clients may turn on. `event_dialects` are those whose events a
    subscription can ask for in place of the native ones. `keys` encrypt what is secret in the
    database; `signers` are those of this authority's own keys. `metrics` are those of this process,
    `refusals` those that the audit has yet to get from it, and `tracing` tells its spans.
    """

    database: Database
    configuration: Configuration
    settings: Settings
    public_base: str
    offered: Capabilities = OFFERED_HERE
    event_dialects: Sequence[EventDialect] = ()
    keys: KeyRing = field(init=False)
    checker: Checker = field(init=False)
    checked_requests: CheckedRequests = field(init=False)
    signers: OwnSigners = field(init=False)
    writer: Writer = field(init=False)
    metrics: ProcessMetrics = field(default_factory=ProcessMetrics)
    refusals: Refusals = field(default_factory=Refusals)
    tracing: Tracing = field(default_factory=Tracing)
    _others: bytes = field(init=False, default=b"")

    def __post_init__(self) -> None:
        limits = self.settings
        self.keys = key_ring(limits)
        self.checker = Checker(
            processes=limits.check_processes_per_client, seconds=limits.check_seconds
        )
        self.checked_requests = CheckedRequests(self.checker, limits)
        self.signers = OwnSigners(authority=self.database.node.authority, keys=self.keys)
        self.writer = Writer(
            self.database, self.checked_requests, self.signers, self.metrics, self.tracing
        )
        self.database.signal.listeners.append(self.metrics.count_changes)

    @property
    def model(self) -> Model:
        return self.configuration.model

    @property
    def capabilities(self) -> Capabilities:
        return self.configuration.capabilities

    def base_url(self, request: web.Request) -> str:
        """The registry's root as this client knows it, without a trailing slash.

        It is this node's own one for a request whose host was not accepted.
        """
        base: str = request.get(BASE_URL, self.public_base)
        return base

    async def catch_up(self) -> None:
        """Adopt a configuration that another process of this host has put in force."""
        shared = self.database.signal.shared
        if shared is None or (others := shared.others()) == self._others:
            return
        # Without its database, the node answers what it can with the configuration that it has:
        # to probes, for example. No write is planned by an older one.
        with contextlib.suppress(ServerBusy, TimeoutError):
            async with (
                asyncio.timeout(_CATCH_UP_SECONDS),
                self.database.pool.acquire() as connection,
            ):
                revision = await read_revision(connection)
            if revision != self.configuration.revision:
                await self.reload()
            self._others = others

    async def reload(self) -> None:
        """Adopt the database's configuration."""
        self.adopt(await read_configuration(self.database, self.offered))

    def adopt(self, configuration: Configuration) -> None:
        """Use a configuration from now on, unless it is older than the current one."""
        if configuration.revision > self.configuration.revision:
            self.configuration = configuration
            # Readers that wait must not continue with the old one.
            self.database.signal.hear()


async def read_configuration(
    database: Database, offered: Capabilities = OFFERED_HERE
) -> Configuration:
    """Read a database's configuration, limited to the capabilities that this server offers."""
    stored = await read_stored(database)
    return Configuration(
        model=await in_thread(model_of, stored.modelsource, stored.resolved),
        capabilities=offered.initially
        if stored.capabilities is None
        else stored_capabilities(stored.capabilities, offered),
        revision=stored.revision,
        resolved=stored.resolved,
    )


CONTEXT: web.AppKey[Context] = web.AppKey("context", Context)
BASE_URL: web.RequestKey[str] = web.RequestKey("base_url", str)
"""The registry's root as the client of a request knows it, once its host was checked."""
