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
from contextlib import AbstractAsyncContextManager
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from catalog.client.client import Client
from catalog.client.credential import Credential
from catalog.client.errors import ClientError
from catalog.client.retry import Retry

Given = ParamSpec("Given")
Item = TypeVar("Item")
Result = TypeVar("Result")

_END = object()
_Started = tuple[Client, asyncio.AbstractEventLoop, asyncio.Event]


def _called(
    method: Callable[Concatenate[Client, Given], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[SyncClient, Given], Result]:
    @functools.wraps(method)
    def call(client: SyncClient, /, *args: Given.args, **kwargs: Given.kwargs) -> Result:
        return client.run(method(client.client, *args, **kwargs))

    return call


def _iterated(
    method: Callable[Concatenate[Client, Given], AsyncIterator[Item]],
) -> Callable[Concatenate[SyncClient, Given], Iterator[Item]]:
    @functools.wraps(method)
    def iterate(client: SyncClient, /, *args: Given.args, **kwargs: Given.kwargs) -> Iterator[Item]:
        return client.iterate(method(client.client, *args, **kwargs))

    return iterate


class SyncClient:
    """The API of one node for programs without asyncio, opened by `SyncClient.open`.

    The methods are the methods of `Client`, which describe arguments, answers and errors. A method
    blocks until the answer has come; iterators read as far as the program iterates. Threads may
    share a client.

    Args:
        client: the client that sends the requests.
        loop: the event loop in which the client was opened, which runs in a thread of its own.
    """

    def __init__(self, client: Client, loop: asyncio.AbstractEventLoop) -> None:
        self.client = client
        self._loop = loop
        self._is_open = True
        # What begins under the lock, while the client is open, ends with the client at the latest.
        self._beginning = threading.Lock()

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
        opening = Client.open(
            url, token=token, credential=credential, timeout_seconds=timeout_seconds, retry=retry
        )
        started: Future[_Started] = Future()
        # A program that holds an event loop, such as a notebook, cannot run a second loop there.
        thread = threading.Thread(
            target=lambda: asyncio.run(_keep_open(opening, started)),
            name="concord-client",
            daemon=True,
        )
        thread.start()
        client, loop, ended = started.result()
        opened = cls(client, loop)
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
            ClientError: the client is closed.
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
            # An interrupted program leaves its step behind, for which `close` has to wait.
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
    answers = _iterated(Client.answers)
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
    update_capabilities = _called(Client.update_capabilities)
    validate = _called(Client.validate)
    validate_by_type = _called(Client.validate_by_type)
    search = _called(Client.search)
    references = _called(Client.references)
    diff = _called(Client.diff)
    events = _iterated(Client.events)

    subscriptions = _called(Client.subscriptions)
    subscription = _called(Client.subscription)
    subscribe = _called(Client.subscribe)
    unsubscribe = _called(Client.unsubscribe)
    pause_subscription = _called(Client.pause_subscription)
    resume_subscription = _called(Client.resume_subscription)
    replay_subscription = _called(Client.replay_subscription)
    test_subscription = _called(Client.test_subscription)
    delivery_attempts = _called(Client.delivery_attempts)
    dead_letters = _called(Client.dead_letters)
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

    links = _called(Client.links)
    link = _called(Client.link)
    add_link = _called(Client.add_link)
    change_link = _called(Client.change_link)
    reset_link = _called(Client.reset_link)
    pause_link = _called(Client.pause_link)
    resume_link = _called(Client.resume_link)
    run_link = _called(Client.run_link)
    allow_link = _called(Client.allow_link)
    remove_link = _called(Client.remove_link)
    conflicts = _called(Client.conflicts)

    keys = _called(Client.keys)
    tell_keys = _called(Client.tell_keys)

    whoami = _called(Client.whoami)


async def _keep_open(
    opening: AbstractAsyncContextManager[Client], started: Future[_Started]
) -> None:
    """Open a client in the thread of its loop, and keep the client open until the program ends."""
    ended = asyncio.Event()
    try:
        async with opening as client:
            started.set_result((client, asyncio.get_running_loop(), ended))
            await ended.wait()
    except Exception as error:
        if started.done():
            raise
        # The program learns in its own thread why the client cannot be opened.
        started.set_exception(error)
