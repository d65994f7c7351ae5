"""The state that handlers and loops share: database, configuration, settings and address."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from aiohttp import web
from cloudevents.core.v1.event import CloudEvent

from catalog.formats.checker import Checker
from catalog.formats.families import COMPATIBILITIES, FORMATS
from catalog.keys.keyring import KeyRing
from catalog.load.workthread import in_thread
from catalog.model.caller import Caller, node_caller
from catalog.model.capabilities import Capabilities, offered_with, stored_capabilities
from catalog.model.configuration import Configuration, model_of
from catalog.model.errors import ServerBusy
from catalog.model.refusals import Refusals
from catalog.model.schema import Model
from catalog.model.xid import Xid
from catalog.settings import Settings
from catalog.settings.keyfile import key_ring
from catalog.store.authoritykeys import OwnSigners
from catalog.store.changes import LoggedChange
from catalog.store.configuration import read_revision, read_stored
from catalog.store.database import Connection, Database, SharedDatabase
from catalog.telemetry.processmetrics import ProcessMetrics
from catalog.telemetry.tracing import Tracing
from catalog.writing.documentchecks import CheckedRequests
from catalog.writing.groupcommit import GroupCommit
from catalog.writing.writer import Writer

# The most capabilities that this server can have.
OFFERED_HERE = offered_with(FORMATS, COMPATIBILITIES)

_CATCH_UP_SECONDS = 1.0
_CONFIGURATION = node_caller()


@dataclass(frozen=True, slots=True, kw_only=True)
class EventDialect:
    """A published API that announces changes by its own events.

    `root` is the path of the API and the beginning of the subjects of events; `type_prefix` is the
    beginning of the types. `renderer` reads the data for the events of several changes, and returns
    the function that renders the events of a change from a given source.
    """

    root: str
    type_prefix: str
    renderer: Callable[
        [Connection, Sequence[LoggedChange], str],
        Awaitable[Callable[[LoggedChange], list[CloudEvent]]],
    ]


class SchemaUnknown(Exception):
    """An address of another API names no schema, or several.

    Args:
        reason: why, for the client.
        is_absent: whether there is no such schema.
    """

    def __init__(self, reason: str, *, is_absent: bool) -> None:
        super().__init__(reason)
        self.is_absent = is_absent


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaDialect:
    """The addresses by which another API names the versions of schemas.

    Args:
        root: the path below which the API has its addresses.
        find: the version that a path names at the catalog of an authority; `None` for a path that
            is not one of the API. Raises `SchemaUnknown`.
        addresses: the paths below which the API has the versions of a schema of an authority, here
            and there, each percent-encoded as clients write it.
    """

    root: str
    find: Callable[[Context, Connection, str, str], Awaitable[Xid | None]]
    addresses: Callable[[Context, Connection, Xid, str], Awaitable[Sequence[str]]]


@dataclass(slots=True, kw_only=True)
class SharedState:
    """The state that the callers of a node share; a `Context` combines the state with a caller.

    `public_base` is the URL at which peers and subscribers reach the node, without a trailing
    slash: the configured URL, else the bound address. `configuration` is replaced as a whole
    when a client changes the configuration. `offered` holds the most capabilities that clients
    may turn on. `event_dialects` holds the dialects of events that a subscription can ask for
    in place of native events; `schema_dialect` finds the schemas that another API names. `keys`
    encrypts secrets in the database; `signers` signs with this authority's own keys. `metrics`
    holds the metrics of this process, `refusals` the refusals of this process that are not in
    the audit yet, and `tracing` sends the spans.
    """

    database: SharedDatabase
    configuration: Configuration
    settings: Settings
    public_base: str
    offered: Capabilities = OFFERED_HERE
    event_dialects: Sequence[EventDialect] = ()
    schema_dialect: SchemaDialect | None = None
    keys: KeyRing = field(init=False)
    checker: Checker = field(init=False)
    checked_requests: CheckedRequests = field(init=False)
    signers: OwnSigners = field(init=False)
    group_commit: GroupCommit = field(init=False)
    metrics: ProcessMetrics = field(default_factory=ProcessMetrics)
    refusals: Refusals = field(default_factory=Refusals)
    tracing: Tracing = field(default_factory=Tracing)
    _others: bytes = field(init=False, default=b"")

    def __post_init__(self) -> None:
        limits = self.settings
        self.keys = key_ring(limits)
        self.checker = Checker(seconds=limits.check_seconds)
        self.checked_requests = CheckedRequests(self.checker)
        self.signers = OwnSigners(authority=self.database.node.authority, keys=self.keys)
        self.group_commit = GroupCommit(self.database, self.checked_requests, self.signers)
        self.database.signal.listeners.append(self.metrics.count_changes)

    def for_caller(self, caller: Caller) -> Context:
        """The context of a caller."""
        return Context(self, caller)

    def for_node(self) -> Context:
        """The context of the node's own tasks."""
        return Context(self, node_caller())

    def adopt(self, configuration: Configuration) -> None:
        """Use a configuration from now on, if newer than the current configuration."""
        # A slow read of the database may end after a later change was adopted.
        if configuration.revision > self.configuration.revision:
            self.configuration = configuration
            # Readers that wait must not continue with the old configuration.
            self.database.signal.hear()

    def base_url(self, request: web.Request) -> str:
        """The registry's root as known to the client of a request, without a trailing slash.

        For a request without an accepted host, the root is the node's own URL.
        """
        base: str = request.get(BASE_URL, self.public_base)
        return base

    async def catch_up(self) -> None:
        """Adopt a configuration that a different process of this host has put in force."""
        shared = self.database.signal.shared
        if shared is None or (others := shared.others()) == self._others:
            return
        # Without the database, the node keeps answering with the present configuration, for example
        # to probes. A write with an older configuration raises ConfigurationChanged.
        with contextlib.suppress(ServerBusy, TimeoutError):
            async with (
                asyncio.timeout(_CATCH_UP_SECONDS),
                Database(self.database, _CONFIGURATION).acquire() as connection,
            ):
                revision = await read_revision(connection)
            if revision != self.configuration.revision:
                await self.reload()
            # Set after success only, so that the next request repeats an attempt that failed.
            self._others = others

    async def reload(self) -> None:
        """Adopt the configuration of the database."""
        self.adopt(await read_configuration(self.database, self.offered))


class Context:
    """A node as offered to a caller: the database with the caller's rights, and shared state.

    A handler reads `configuration` once, since the configuration can be replaced meanwhile.
    """

    __slots__ = ("database", "shared")

    def __init__(self, shared: SharedState, caller: Caller) -> None:
        self.shared = shared
        self.database = Database(shared.database, caller)

    @property
    def caller(self) -> Caller:
        return self.database.caller

    @property
    def writer(self) -> Writer:
        """The writer for the caller."""
        shared = self.shared
        return Writer(
            self.database,
            shared.group_commit,
            shared.checked_requests,
            shared.signers,
            shared.metrics,
            shared.tracing,
        )

    def base_url(self, request: web.Request) -> str:
        """As `SharedState.base_url`."""
        return self.shared.base_url(request)

    @property
    def configuration(self) -> Configuration:
        return self.shared.configuration

    @property
    def model(self) -> Model:
        return self.shared.configuration.model

    @property
    def capabilities(self) -> Capabilities:
        return self.shared.configuration.capabilities

    @property
    def settings(self) -> Settings:
        return self.shared.settings

    @property
    def public_base(self) -> str:
        return self.shared.public_base

    @property
    def keys(self) -> KeyRing:
        return self.shared.keys

    @property
    def checked_requests(self) -> CheckedRequests:
        return self.shared.checked_requests

    @property
    def signers(self) -> OwnSigners:
        return self.shared.signers


async def read_configuration(
    database: SharedDatabase, offered: Capabilities = OFFERED_HERE
) -> Configuration:
    """Read a database's configuration, limited to the capabilities that this server offers."""
    stored = await read_stored(Database(database, _CONFIGURATION))
    return Configuration(
        model=await in_thread(model_of, stored.modelsource, stored.resolved),
        capabilities=offered.initially
        if stored.capabilities is None
        else stored_capabilities(stored.capabilities, offered),
        revision=stored.revision,
        resolved=stored.resolved,
    )


SHARED: web.AppKey[SharedState] = web.AppKey("shared", SharedState)
"""The state that the requests to a node share."""
CONTEXT: web.RequestKey[Context] = web.RequestKey("context", Context)
"""The context of the caller of a request, once the request was admitted."""
BASE_URL: web.RequestKey[str] = web.RequestKey("base_url", str)
"""The registry's root as the client of a request knows it, once the host was checked."""
CLIENT: web.RequestKey[str] = web.RequestKey("client", str)
"""The client that a request is counted for: the address, or the identity once known."""
