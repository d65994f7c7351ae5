"""Runs a node: the API and the loops in a process, under a task group."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import math
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog
from aiohttp import web

from catalog.access.callercheck import check_callers
from catalog.access.certificates import server_tls
from catalog.api.app import create_app
from catalog.audit.auditlog import run_audit_retention
from catalog.audit.audittrail import run_refusal_notes
from catalog.context import (
    Context,
    EventDialect,
    SchemaDialect,
    SharedState,
    read_configuration,
)
from catalog.http.clientconnections import HEADER_SECONDS, ClientConnections
from catalog.http.inprocess import IN_PROCESS
from catalog.http.listener import (
    Listening,
    Tls,
    accepting,
    listen,
    most_client_connections,
    raise_descriptor_limit,
)
from catalog.http.route import Route
from catalog.model.caller import node_caller
from catalog.model.errors import ServerBusy
from catalog.reconfiguration.initialmodel import ensure_registry, initial_model
from catalog.settings.settings import FEED_CONNECTIONS, Settings
from catalog.settings.settingsfile import record_settings
from catalog.store.connections import PoolSizes
from catalog.store.database import Database
from catalog.store.databasewatch import Revive, Watch, leave_alone
from catalog.store.embeddedpostgres import start_embedded
from catalog.store.statistics import Statistics
from catalog.telemetry.tracing import open_tracing

_log = structlog.get_logger()
# The time for open requests when the node stops.
_GRACE_SECONDS = 3
# Requests create few reference cycles; collect rarely.
_ALLOCATIONS_BEFORE_COLLECTION = 20_000
# During long work in a thread, the event loop waits this time for the interpreter, about ten times
# per request.
_SWITCH_SECONDS = 0.001
_SHARED_WRITES = "writes"

Loop = Callable[[Context], Coroutine[Any, Any, None]]


class AddressInUse(Exception):
    """The node cannot listen on the configured address, for example since another program does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessMember:
    """A process of a node with several processes, as started by the supervisor.

    `supervisor` becomes readable when the supervisor has ended. `shared_writes` is the file by
    which processes announce writes.
    """

    listening: Listening
    supervisor: socket.socket
    shared_writes: Path


async def run_node(
    settings: Settings,
    *,
    routes: Iterable[Route] = (),
    event_dialects: Sequence[EventDialect] = (),
    schema_dialect: SchemaDialect | None = None,
    loops: Iterable[Loop] = (),
    ready: Callable[[str], None] = lambda url: None,
    member: ProcessMember | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM, then stop cleanly.

    Args:
        loops: the loops to run as long as the node; if a loop fails, the node stops.
        ready: called with the node's URL once it answers.
        member: the resources of this process, if the node has several processes.

    Raises:
        AddressInUse: see `Settings.host` and `Settings.port`.
        InitialModelUnusable: see `Settings.initial_model`.
        KeysUnusable: see `Settings.encryption_key`.
        NoCallerKnown: see `Settings.open`.
        TlsUnusable: see `Settings.tls_cert`.
    """
    raise_descriptor_limit()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, stop.set)
    if member is not None:
        # The supervisor's end of the socket is closed when the supervisor ends, in whatever way.
        loop.add_reader(member.supervisor.fileno(), stop.set)
    async with asyncio.TaskGroup() as tasks:
        node = tasks.create_task(
            _run(settings, routes, event_dialects, schema_dialect, loops, ready, member)
        )
        waiting = tasks.create_task(stop.wait())
        # A signal cancels the node; the error of a failed node is raised by the task group.
        await asyncio.wait((node, waiting), return_when=asyncio.FIRST_COMPLETED)
        node.cancel()
        waiting.cancel()


async def _run(
    settings: Settings,
    routes: Iterable[Route],
    event_dialects: Sequence[EventDialect],
    schema_dialect: SchemaDialect | None,
    loops: Iterable[Loop],
    ready: Callable[[str], None],
    member: ProcessMember | None,
) -> None:
    shared_writes = None if member is None else member.shared_writes
    async with (
        _open_database(settings, shared_writes) as (database, revive),
        contextlib.aclosing(open_tracing(str(database.node.instance))) as tracing,
        asyncio.TaskGroup() as tasks,
    ):
        shared = SharedState(
            database=database.shared,
            configuration=await read_configuration(database.shared),
            settings=settings,
            public_base="",
            event_dialects=event_dialects,
            schema_dialect=schema_dialect,
            tracing=tracing,
        )
        _log.debug("encryption key in use", id=shared.keys.current_id)
        await check_callers(settings, database)
        record_settings(settings)
        listening = await start_listening(settings) if member is None else member.listening
        async with shared.checker, serve(create_app(shared, routes), settings, listening):
            shared.public_base = settings.public_url or listening.url
            context = shared.for_node()
            own = (Watch(database.shared, revive).run(), Statistics(database).run())
            auditing = (run_refusal_notes, run_audit_retention)
            bodies = (body(context) for body in (follow_configuration, *auditing, *loops))
            running = [tasks.create_task(body) for body in (*own, *bodies)]
            _collect_seldom()
            sys.setswitchinterval(_SWITCH_SECONDS)
            if settings.public_url is None:
                _log.info(
                    "no public URL: what others keep of this node's URLs may lead nowhere",
                    authority=database.node.authority,
                )
            ready(listening.url)
            try:
                await asyncio.Event().wait()
            finally:
                # The loops end before the server waits for open requests, and not after the wait.
                for task in running:
                    task.cancel()


def _collect_seldom() -> None:
    """Exempt code and model, which live as long as the node, from garbage collection."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_ALLOCATIONS_BEFORE_COLLECTION)


async def follow_configuration(context: Context) -> None:
    """Adopt each configuration that a different process of the node puts in force."""
    changed = context.database.shared.reconfigured
    while True:
        await changed.wait()
        # Cleared before the reload, so that a change during the reload leads to a further reload.
        changed.clear()
        try:
            await context.shared.reload()
        except ServerBusy:
            changed.set()
            await context.database.recovered()


@contextlib.asynccontextmanager
async def open_database(settings: Settings) -> AsyncIterator[Database]:
    """The configured database, or an embedded one in the data directory."""
    async with _open_database(settings) as (database, _):
        yield database


@contextlib.asynccontextmanager
async def _open_database(
    settings: Settings, shared_writes: Path | None = None
) -> AsyncIterator[tuple[Database, Revive]]:
    """The database, and the function that restarts the database server."""
    initial = await initial_model(settings.initial_model)
    async with contextlib.AsyncExitStack() as stack:
        revive = leave_alone
        if settings.database_url is not None:
            dsn = settings.database_url.get_secret_value()
        else:
            embedded = await start_embedded(settings.data_dir)
            stack.push_async_callback(embedded.stop)
            dsn, revive = embedded.dsn, embedded.revive
            shared_writes = settings.data_dir.expanduser() / _SHARED_WRITES
        database = await stack.enter_async_context(
            Database.open(
                dsn,
                node_caller(),
                modelsource=initial.model.source,
                resolved=initial.resolved,
                public_url=settings.public_url,
                authority=settings.authority,
                awaits_recovery=settings.await_recovery,
                sizes=_sizes(settings),
                shared_writes=shared_writes,
            )
        )
        await ensure_registry(database, settings.registry_id)
        yield database, revive


def _sizes(settings: Settings) -> PoolSizes:
    """The share of a process in the connections that the settings allow."""
    return PoolSizes(
        requests=math.ceil(settings.database_pool_size / settings.processes),
        restricted=math.ceil((settings.database_pool_size + settings.streams) / settings.processes),
        streams=math.ceil(settings.streams / settings.processes),
        feed=math.ceil(FEED_CONNECTIONS / settings.processes),
        tasks=settings.database_task_connections,
    )


async def start_listening(settings: Settings) -> Listening:
    """Listen on the address of the settings.

    Raises:
        AddressInUse
    """
    try:
        return await listen(settings.host, settings.port, is_tls=settings.tls_cert is not None)
    except OSError as error:
        raise AddressInUse(f"{settings.host}:{settings.port}: {error.strerror}") from error


@contextlib.asynccontextmanager
async def serve(
    app: web.Application, settings: Settings, listening: Listening
) -> AsyncIterator[None]:
    """Answer connections while the context lasts.

    Raises:
        TlsUnusable
    """
    context = server_tls(settings)
    tls = None if context is None else Tls(context, HEADER_SECONDS)
    runner = web.AppRunner(app, shutdown_timeout=_GRACE_SECONDS)
    await runner.setup()
    try:
        assert runner.server is not None
        app[IN_PROCESS].server = runner.server
        connections = ClientConnections(settings, most_client_connections(settings))
        async with accepting(listening, runner.server, connections, tls):
            yield
    finally:
        await runner.cleanup()
