"""The client for programs without asyncio: the calls of `Client`, which wait for their answers.

Each call of `Client` is declared here once, by the method that it runs, and has the signature and
the docstring of the method.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from catalog.client.client import Client
from catalog.client.credential import Credential
from catalog.client.errors import ClientError
from catalog.client.retry import Retry
from catalog.client.subscriptions import Event, Events

Given = ParamSpec("Given")
Item = TypeVar("Item")
Result = TypeVar("Result")

_END = object()


def _called(
    method: Callable[Concatenate[Client, Given], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[SyncClient, Given], Result]:
    @functools.wraps(method)
    def call(client: SyncClient, /, *args: Given.args, **kwargs: Given.kwargs) -> Result:
        return client.thread.run(method(client.client, *args, **kwargs))

    return call


def _iterated(
    method: Callable[Concatenate[Client, Given], AsyncIterator[Item]],
) -> Callable[Concatenate[SyncClient, Given], Iterator[Item]]:
    @functools.wraps(method)
    def iterate(client: SyncClient, /, *args: Given.args, **kwargs: Given.kwargs) -> Iterator[Item]:
        return client.thread.iterate(method(client.client, *args, **kwargs))

    return iterate


def _listening(
    method: Callable[Concatenate[Client, Given], AbstractAsyncContextManager[Events]],
) -> Callable[Concatenate[SyncClient, Given], AbstractContextManager[Iterator[Event]]]:
    @functools.wraps(method)
    @contextlib.contextmanager
    def listen(
        client: SyncClient, /, *args: Given.args, **kwargs: Given.kwargs
    ) -> Iterator[Iterator[Event]]:
        with client.thread.enter(method(client.client, *args, **kwargs)) as events:
            yield client.thread.iterate(events)

    return listen


class LoopThread:
    """A thread with an event loop, in which coroutines run for threads without one.

    Args:
        loop: the event loop that runs in the thread.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._is_open = True
        # What begins under it, while the thread is open, ends with the thread at the latest.
        self._beginning = threading.Lock()

    @classmethod
    @contextlib.contextmanager
    def open(cls) -> Iterator[Self]:
        """Start the thread, and end the thread and whatever runs there with the context."""
        started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        target = functools.partial(asyncio.run, _live(started))
        thread = threading.Thread(target=target, name="concord-client", daemon=True)
        thread.start()
        loop, ended = started.result()
        opened = cls(loop)
        try:
            yield opened
        finally:
            with opened._beginning:
                opened._is_open = False
                loop.call_soon_threadsafe(ended.set)
            thread.join()

    def run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """The result of a coroutine, which is cancelled if the waiting thread is interrupted.

        Raises:
            ClientError: the thread has ended.
        """
        running = self._begin(coroutine)
        if running is None:
            raise ClientError("The client is closed.", "Call it within the context of `open`.")
        try:
            return running.result()
        except BaseException:
            running.cancel()
            raise

    def _begin(self, coroutine: Coroutine[Any, Any, Result]) -> Future[Result] | None:
        with self._beginning:
            if self._is_open:
                return asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        coroutine.close()
        return None

    def iterate(self, items: AsyncIterator[Item]) -> Iterator[Item]:
        """The items of an asynchronous iterator, which is closed with the returned iterator."""
        steps: list[asyncio.Task[Any]] = []

        async def take() -> Any:
            steps[:] = filter(None, [asyncio.current_task()])
            return await anext(items, _END)

        async def close() -> None:
            # After an interruption, the step that was cancelled may have yet to end.
            await asyncio.gather(*steps, return_exceptions=True)
            if isinstance(items, AsyncGenerator):
                await items.aclose()

        try:
            while (item := self.run(take())) is not _END:
                yield item
        finally:
            if (closing := self._begin(close())) is not None:
                closing.result()

    @contextlib.contextmanager
    def enter(self, context: AbstractAsyncContextManager[Item]) -> Iterator[Item]:
        """Enter an asynchronous context, and leave it with the returned context."""

        async def enter() -> Item:
            return await context.__aenter__()

        async def leave(error: BaseException | None) -> bool | None:
            traceback = None if error is None else error.__traceback__
            return await context.__aexit__(None if error is None else type(error), error, traceback)

        value = self.run(enter())
        try:
            yield value
        except BaseException as error:
            if not self.run(leave(error)):
                raise
        else:
            self.run(leave(None))


async def _live(started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]]) -> None:
    ended = asyncio.Event()
    started.set_result((asyncio.get_running_loop(), ended))
    await ended.wait()


class SyncClient:
    """The API of one node for programs without asyncio, opened by `SyncClient.open`.

    The methods are the methods of `Client`, which describe arguments, answers and errors. A method
    blocks until the answer has come; iterators read as far as the program iterates. Threads may
    share a client.

    Args:
        client: the client that sends the requests.
        thread: the thread in which the client was opened.
    """

    def __init__(self, client: Client, thread: LoopThread) -> None:
        self.client = client
        self.thread = thread

    @classmethod
    @contextlib.contextmanager
    def open(
        cls,
        url: str,
        *,
        token: str | None = None,
        credential: Credential | None = None,
        timeout_seconds: float = 120,
        retry: Retry | None = None,
    ) -> Iterator[Self]:
        """Open a client of the node at `url`; see `Client.open`."""
        with LoopThread.open() as thread:
            opening = Client.open(
                url,
                token=token,
                credential=credential,
                timeout_seconds=timeout_seconds,
                retry=retry,
            )
            with thread.enter(opening) as client:
                yield cls(client, thread)

    @property
    def url(self) -> str:
        """The base URL of the node."""
        return self.client.url

    @property
    def position(self) -> str:
        """The position of the last answered write; see `Connection`."""
        return self.client.position

    request = _called(Client.request)
    lines = _iterated(Client.lines)
    get = _called(Client.get)
    put = _called(Client.put)
    patch = _called(Client.patch)
    post = _called(Client.post)
    pages = _iterated(Client.pages)
    call = _called(Client.call)
    call_pages = _iterated(Client.call_pages)

    entity = _called(Client.entity)
    items = _iterated(Client.items)
    versions = _iterated(Client.versions)
    create = _called(Client.create)
    replace = _called(Client.replace)
    update = _called(Client.update)
    add_version = _called(Client.add_version)
    set_default_version = _called(Client.set_default_version)
    delete = _called(Client.delete)
    document = _called(Client.document)
    put_document = _called(Client.put_document)

    export = _called(Client.export)
    import_groups = _called(Client.import_groups)
    model = _called(Client.model)
    modelsource = _called(Client.modelsource)
    put_modelsource = _called(Client.put_modelsource)
    capabilities = _called(Client.capabilities)
    offered_capabilities = _called(Client.offered_capabilities)
    put_capabilities = _called(Client.put_capabilities)
    update_capabilities = _called(Client.update_capabilities)
    validate = _called(Client.validate)
    validate_by_type = _called(Client.validate_by_type)
    search = _called(Client.search)
    references = _called(Client.references)
    diff = _called(Client.diff)
    catalog_changes = _called(Client.catalog_changes)
    catalog_change = _called(Client.catalog_change)
    revisions = _called(Client.revisions)
    revision = _called(Client.revision)
    purge_revisions = _called(Client.purge_revisions)
    events = _iterated(Client.events)

    listen = _listening(Client.listen)
    subscriptions = _called(Client.subscriptions)
    subscription = _called(Client.subscription)
    subscribe = _called(Client.subscribe)
    try_subscription = _called(Client.try_subscription)
    unsubscribe = _called(Client.unsubscribe)
    pause_subscription = _called(Client.pause_subscription)
    resume_subscription = _called(Client.resume_subscription)
    replay_subscription = _called(Client.replay_subscription)
    test_subscription = _called(Client.test_subscription)
    delivery_attempts = _called(Client.delivery_attempts)
    dead_letters = _called(Client.dead_letters)
    dead_letter_causes = _called(Client.dead_letter_causes)
    dead_letter = _called(Client.dead_letter)
    redeliver = _called(Client.redeliver)
    remove_dead_letter = _called(Client.remove_dead_letter)
    remove_dead_letters = _called(Client.remove_dead_letters)
    exchange_signing_key = _called(Client.exchange_signing_key)
    end_signing_key = _called(Client.end_signing_key)

    handshake = _called(Client.handshake)
    is_ready = _called(Client.is_ready)
    cursor = _called(Client.cursor)
    changes = _called(Client.changes)
    follow = _iterated(Client.follow)
    change_lines = _iterated(Client.change_lines)
    snapshot_lines = _iterated(Client.snapshot_lines)
    fetch_lines = _iterated(Client.fetch_lines)
    digest_rows = _called(Client.digest_rows)
    digest_lines = _iterated(Client.digest_lines)
    merged_digests = _called(Client.merged_digests)
    push = _called(Client.push)
    repair = _called(Client.repair)
    reconciliations = _called(Client.reconciliations)
    tell_reconciliation = _called(Client.tell_reconciliation)
    findings = _called(Client.findings)
    finding = _called(Client.finding)
    tell_findings = _called(Client.tell_findings)
    url_of = _called(Client.url_of)
    authorities = _called(Client.authorities)
    federation = _called(Client.federation)
    followers = _called(Client.followers)
    arrivals = _called(Client.arrivals)
    freshness = _called(Client.freshness)

    links = _called(Client.links)
    link = _called(Client.link)
    add_link = _called(Client.add_link)
    try_link = _called(Client.try_link)
    try_run = _called(Client.try_run)
    change_link = _called(Client.change_link)
    reset_link = _called(Client.reset_link)
    pause_link = _called(Client.pause_link)
    resume_link = _called(Client.resume_link)
    run_link = _called(Client.run_link)
    allow_link = _called(Client.allow_link)
    adopt_link = _called(Client.adopt_link)
    remove_link = _called(Client.remove_link)
    conflicts = _called(Client.conflicts)
    link_figures = _called(Client.link_figures)

    keys = _called(Client.keys)
    tell_keys = _called(Client.tell_keys)
    signing = _called(Client.signing)
    set_signing = _called(Client.set_signing)
    rotate_signing = _called(Client.rotate_signing)
    trusted = _called(Client.trusted)
    trust = _called(Client.trust)
    distrust = _called(Client.distrust)
    check_signatures = _called(Client.check_signatures)

    begin_recovery = _called(Client.begin_recovery)
    recovery = _called(Client.recovery)
    recovery_findings = _called(Client.recovery_findings)
    change_recovery = _called(Client.change_recovery)
    abort_recovery = _called(Client.abort_recovery)
    begin_handover = _called(Client.begin_handover)
    handovers = _called(Client.handovers)
    handover = _called(Client.handover)
    abort_handover = _called(Client.abort_handover)
    tell_offer = _called(Client.tell_offer)
    consent = _called(Client.consent)
    handover_lines = _iterated(Client.handover_lines)

    whoami = _called(Client.whoami)
    tokens = _called(Client.tokens)
    token = _called(Client.token)
    create_token = _called(Client.create_token)
    revoke_token = _called(Client.revoke_token)
    rules = _called(Client.rules)
    rule = _called(Client.rule)
    grant = _called(Client.grant)
    change_rule = _called(Client.change_rule)
    remove_rule = _called(Client.remove_rule)
    holders = _called(Client.holders)
    access_requests = _called(Client.access_requests)
    request_access = _called(Client.request_access)
    grant_request = _called(Client.grant_request)
    decline_request = _called(Client.decline_request)
    withdraw_request = _called(Client.withdraw_request)
    audit = _called(Client.audit)
