"""A connection to an HTTP sink: one request at a time, to the target of the sink."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

from yarl import URL

from catalog.subscriptions.sinks.httpanswer import AnswerReader, HttpAnswer
from catalog.subscriptions.sinks.httpfailure import (
    NoAnswerInTime,
    NotHttp,
    PostConnectionEnded,
    PostFailure,
)

_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_VALUE = re.compile(r"[\x20-\x7e]*")
_VISIBLE = re.compile(r"[\x21-\x7e]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpTarget:
    """The parts of a sink's URL.

    Args:
        host: the name or the address to connect to.
        port: the port.
        is_tls: whether the scheme is https.
        authority: the header Host.
        path: the path with the query, as the request line has it.
    """

    host: str
    port: int
    is_tls: bool
    authority: str
    path: str

    @property
    def key(self) -> tuple[str, int, bool]:
        """The part that is equal in targets that can share a connection."""
        return self.host, self.port, self.is_tls

    def head(self, method: str, headers: Mapping[str, str]) -> bytes:
        """The request line and the given headers; the caller may append more headers.

        Raises:
            ValueError: the method or a header has forbidden characters.
        """
        if not _NAME.fullmatch(method):
            raise ValueError("the method is not one")
        line = f"{method} {self.path} HTTP/1.1\r\n".encode("ascii")
        return line + header_lines({"Host": self.authority, **headers})


def target_of(url: str) -> HttpTarget:
    """The target of an http or https URL; names are in their ASCII form (IDNA).

    Raises:
        ValueError: the URL is not of http or https, or could end the request line.
    """
    parsed = URL(url)
    host, port = parsed.raw_host, parsed.port
    authority, path = parsed.host_port_subcomponent, parsed.raw_path_qs or "/"
    if parsed.scheme not in ("http", "https") or not host or not port or not authority:
        raise ValueError("the sink is not an http or https URL")
    if not all(map(_VISIBLE.fullmatch, (host, authority, path))):
        raise ValueError("the URL of the sink has characters that URLs cannot have")
    return HttpTarget(
        host=host, port=port, is_tls=parsed.scheme == "https", authority=authority, path=path
    )


def header_lines(headers: Mapping[str, str]) -> bytes:
    """Headers as they are sent.

    Raises:
        ValueError: a name or a value has forbidden characters; the message contains no value.
    """
    for name, value in headers.items():
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise ValueError(f"the header {name[:64]!r} cannot be sent")
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode("ascii")


class HttpConnection(asyncio.Protocol):
    """A connection that sends requests and reads the answers.

    Args:
        lost: called when the connection has ended, no matter which side ended it.
    """

    def __init__(self, lost: Callable[[HttpConnection], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._lost = lost
        self._reader = AnswerReader()
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[HttpAnswer] | None = None
        self.is_reusable = False

    async def exchange(self, request: bytes, deadline: float) -> HttpAnswer:
        """Send a request and read its answer.

        The connection ends with a failure, or when the task is cancelled.

        Args:
            request: head and body.
            deadline: the loop's time by which the answer has to be complete.

        Raises:
            PostFailure: there is no answer.
        """
        if self._transport is None:
            raise PostConnectionEnded("the connection has ended", is_unanswered=True)
        self.is_reusable = False
        self._reader.begin()
        waiter: asyncio.Future[HttpAnswer] = self._loop.create_future()
        self._waiter = waiter
        timer = self._loop.call_at(deadline, self._fail, NoAnswerInTime("no whole answer"))
        self._transport.write(request)
        try:
            return await waiter
        finally:
            timer.cancel()
            self._waiter = None
            # A failure refers to this frame, and the frame to the failure: `del` breaks the cycle.
            del waiter
            if not self.is_reusable:
                self.abort()

    def abort(self) -> None:
        """Close at once: a sink must not decide how long closing takes."""
        if self._transport is not None:
            self._transport.abort()
            self._transport = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        waiter = self._waiter
        if waiter is None or waiter.done():
            # Bytes without a request would be taken for the answer to the next request.
            self.is_reusable = False
            self.abort()
            return
        fault = self._reader.feed(data)
        if fault is not None:
            self._fail(NotHttp(fault))
        elif self._reader.is_done:
            self._finish(waiter)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self.is_reusable = False
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            if exc is None and self._reader.feed_end():
                waiter.set_result(self._reader.answer)
            else:
                text = "the connection ended" if exc is None else f"{type(exc).__name__}: {exc}"
                self._fail(PostConnectionEnded(text, is_unanswered=not self._reader.has_bytes))
        self._lost(self)

    def _finish(self, waiter: asyncio.Future[HttpAnswer]) -> None:
        transport = self._transport
        self.is_reusable = (
            self._reader.is_reusable
            and transport is not None
            # The answer came before the request was sent as a whole: the sink ignores the rest.
            and not transport.get_write_buffer_size()
            and not transport.is_closing()
        )
        waiter.set_result(self._reader.answer)

    def _fail(self, failure: PostFailure) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(failure)
