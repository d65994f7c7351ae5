"""Answers a request in process, by the same door as a request over a connection.

The answer goes to memory, or as a stream to the client of the request that is being answered. Host,
credential, rate, right and audit are those of the request that is being answered meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass

from aiohttp import EMPTY_PAYLOAD, StreamReader, hdrs, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import HttpVersion11, RawRequestMessage
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from catalog.model.tracecontext import current_trace

_OF_STREAMS = (hdrs.CONTENT_TYPE, hdrs.CACHE_CONTROL, "X-Accel-Buffering")


class LargerThanKept(Exception):
    """An answer has more bytes than the caller takes."""


@dataclass(slots=True)
class InProcess:
    """The server of an application, once the application serves."""

    server: web.Server | None = None


IN_PROCESS: web.AppKey[InProcess] = web.AppKey("in_process", InProcess)


class _KeptAnswer(AbstractStreamWriter):
    """Keeps the body of an answer in memory, in place of a connection."""

    def __init__(self, largest: int) -> None:
        self.body = bytearray()
        self._largest = largest

    async def write(self, chunk: bytes | bytearray | memoryview) -> None:
        self.body += chunk
        self.output_size = len(self.body)
        if len(self.body) > self._largest:
            raise LargerThanKept

    async def write_eof(self, chunk: bytes = b"") -> None:
        await self.write(chunk)

    async def drain(self) -> None:
        """Nothing waits, since nothing is sent."""

    def enable_compression(self, encoding: str = "deflate", strategy: int | None = None) -> None:
        """Nothing is compressed, since nothing is sent."""

    def enable_chunking(self) -> None:
        """Nothing is framed, since nothing is sent."""

    async def write_headers(self, status_line: str, headers: CIMultiDict[str]) -> None:
        """The response has the headers itself."""


async def call_in_process(
    request: web.Request,
    method: str,
    url: URL,
    headers: Mapping[str, str],
    body: bytes = b"",
    *,
    largest: int,
) -> tuple[web.StreamResponse, bytes]:
    """Answer a request of a node's own while a client's request is being answered.

    Args:
        request: the request that is being answered, whose client, connection and host count.
        method: the method of the inner request.
        url: the path and query of the inner request.
        headers: the headers of the inner request, among them Host and the credential.
        body: the body of the inner request.
        largest: the most bytes of the answer's body.
        body: the body of the further request.

    Returns:
        the response, whose status may be an error, and the body of the response.

    Raises:
        LargerThanKept: a write may have been carried out.
    """
    kept = _KeptAnswer(largest)
    response = await _answer(request, method, url, headers, body, kept)
    return response, bytes(kept.body)


class _PassedOn(_KeptAnswer):
    """Passes the body of an answer on to a client as it comes, unless the answer is an error."""

    def __init__(self, request: web.Request, largest: int) -> None:
        super().__init__(largest)
        self.outer: web.StreamResponse | None = None
        self._request = request
        self._is_error = True
        self._fields: dict[str, str] = {}

    async def write_headers(self, status_line: str, headers: CIMultiDict[str]) -> None:
        self._is_error = int(status_line.split()[1]) >= 400
        self._fields = {name: headers[name] for name in _OF_STREAMS if name in headers}

    async def write(self, chunk: bytes | bytearray | memoryview) -> None:
        if self._is_error:
            await super().write(chunk)
            return
        if self.outer is None:
            self.outer = web.StreamResponse(headers=self._fields)
            self.outer.force_close()
            await self.outer.prepare(self._request)
        self.output_size += len(chunk)
        await self.outer.write(bytes(chunk))


async def stream_in_process(
    request: web.Request, url: URL, headers: Mapping[str, str], *, largest: int
) -> tuple[web.StreamResponse, bytes]:
    """Answer a client's request by the stream of a GET of the node's own, as it comes.

    Args:
        request: the request that is being answered.
        url: the path and query of the inner request.
        headers: the headers of the inner request.
        largest: the most bytes of the body of an error.

    Returns:
        the response that the client got, and nothing; or an error, and its body.
    """
    passed = _PassedOn(request, largest)
    response = await _answer(request, hdrs.METH_GET, url, headers, b"", passed)
    if passed.outer is None:
        return response, bytes(passed.body)
    # A client that has left needs no end of the stream.
    with contextlib.suppress(ConnectionResetError):
        await passed.outer.write_eof()
    return passed.outer, b""


async def _answer(
    request: web.Request,
    method: str,
    url: URL,
    headers: Mapping[str, str],
    body: bytes,
    writer: AbstractStreamWriter,
) -> web.StreamResponse:
    server, task = request.app[IN_PROCESS].server, asyncio.current_task()
    assert server is not None, "a request comes from a server"
    assert task is not None, "a request is handled in a task"
    fields = CIMultiDict(headers)
    if body:
        fields[hdrs.CONTENT_LENGTH] = str(len(body))
    raw = tuple((name.encode(), value.encode()) for name, value in fields.items())
    message = RawRequestMessage(
        method=method,
        path=str(url),
        version=HttpVersion11,
        headers=CIMultiDictProxy(fields),
        raw_headers=raw,
        should_close=False,
        compression=None,
        upgrade=False,
        chunked=False,
        url=url,
    )
    trace = current_trace.get()
    content = _content_of(request, body) if body else EMPTY_PAYLOAD
    inner = server.request_factory(message, content, request.protocol, writer, task)
    try:
        response = await server.request_handler(inner)
        await response.prepare(inner)
        await response.write_eof()
    finally:
        current_trace.set(trace)
    return response


def _content_of(request: web.Request, body: bytes) -> StreamReader:
    """A body that has arrived as a whole."""
    # The reader has room for the body, and so never pauses the connection of the client.
    content = StreamReader(request.protocol, len(body))
    content.feed_data(body)
    content.feed_eof()
    return content
