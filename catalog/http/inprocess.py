"""Calls the operations of a node in process, by the same door as a request over a connection.

The answer goes to memory, or as a stream to the client of the request that is being answered. Host,
credential, rate, right and audit are those of the request that is being answered meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from aiohttp import EMPTY_PAYLOAD, StreamReader, hdrs, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import HttpVersion11, RawRequestMessage
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from catalog.client.connection import Answer, Params
from catalog.client.errors import BadAnswer, Problem, Refused
from catalog.client.operationcalls import OperationCalls
from catalog.model.tracecontext import current_trace

_OF_STREAMS = (hdrs.CONTENT_TYPE, hdrs.CACHE_CONTROL, "X-Accel-Buffering")
LARGEST_ANSWER = 8 * 1024 * 1024
# The headers of the outer request that tell who asks, from where, and by which name of the node.
_PASSED_ON = (hdrs.HOST, hdrs.USER_AGENT, "X-Forwarded-For", "X-Request-ID")
_NEXT = re.compile(r"<([^>]+)>\s*;\s*rel=\"?next\"?")


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
    # The door sets the trace of the inner request in the task of the outer one.
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


class InProcessCalls(OperationCalls):
    """Calls of the node that answers a request; every method raises `ClientError`.

    Args:
        request: the request that is being answered, whose caller asks.
        token: the token of the caller; without a token, the credential of the request.

    Attributes:
        outer: the request that is being answered.
        own_headers: the headers of each call: who asks, from where, and the name of the node.
    """

    def __init__(self, request: web.Request, token: str | None = None) -> None:
        self.url = str(request.url.origin())
        self.position = ""
        self.outer = request
        self.own_headers = {
            name: ",".join(request.headers.getall(name))
            for name in _PASSED_ON
            if name in request.headers
        }
        if token is not None:
            self.own_headers[hdrs.AUTHORIZATION] = f"Bearer {token}"
        elif hdrs.AUTHORIZATION in request.headers:
            self.own_headers[hdrs.AUTHORIZATION] = request.headers[hdrs.AUTHORIZATION]

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Params = (),
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        is_repeatable: bool | None = None,
        largest: int | None = None,
        wait_for: str = "",
        wait_seconds: int | None = None,
    ) -> Answer:
        """Answer a request of the API in process, once, without a wait for a position.

        Raises:
            Refused: the node refuses the request.
            BadAnswer: the answer is a redirect, or larger than `largest` or 8 MiB.
        """
        pairs = list(params.items() if isinstance(params, Mapping) else params)
        url = URL(path).extend_query(pairs)
        sent = {**self.own_headers, **(headers or {})}
        if body is not None and not isinstance(body, bytes):
            body = orjson.dumps(body)
            sent.setdefault(hdrs.CONTENT_TYPE, "application/json")
        kept = _KeptAnswer(largest or LARGEST_ANSWER)
        try:
            response = await _answer(self.outer, method, url, sent, body or b"", kept)
        except LargerThanKept as error:
            # A write may have been carried out.
            raise BadAnswer(self.at(path), "more than can be shown here") from error
        content = bytes(kept.body)
        if response.status >= 400:
            raise Refused(Problem.read(response.status, content, response.reason or ""))
        if response.status >= 300:
            target = response.headers.get(hdrs.LOCATION, "another URL")
            raise BadAnswer(self.at(path), f"a redirect to {target}")
        found = _NEXT.search(", ".join(response.headers.getall(hdrs.LINK, ())))
        return Answer(
            status=response.status,
            headers=CIMultiDictProxy(response.headers),
            body=content,
            next_page=URL(found[1]).raw_path_qs if found else "",
        )
