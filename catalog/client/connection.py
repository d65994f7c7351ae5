"""Sends requests to a node, repeats safe requests, and bounds the time and size of answers."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Self
from urllib.parse import urlsplit

import aiohttp
import orjson
from aiohttp import hdrs
from multidict import CIMultiDict, CIMultiDictProxy

from catalog.client.credential import BearerToken, Credential
from catalog.client.errors import (
    BadAnswer,
    ClientError,
    CursorExpired,
    Problem,
    Refused,
    ResponseTooLarge,
    Unreachable,
)
from catalog.client.retry import Retry, send_once
from catalog.client.streamarrival import LEAST_RATE, StreamArrival
from catalog.model.backoff import parse_retry_after
from catalog.model.connectionfailure import why_unreachable
from catalog.model.tracecontext import trace_headers

JsonObject = dict[str, Any]
Params = Mapping[str, str] | Iterable[tuple[str, str]]

UNBOUNDED = sys.maxsize
_LARGEST_ANSWER = 256 * 1024 * 1024
_LARGEST_PROBLEM = 4 * 1024 * 1024
_LONGEST_LINE = 32 * 1024 * 1024
_CONNECT_SECONDS = 10.0
# A stream may be slow for this multiple of the time for which the node may be silent.
_PATIENCES = 10
_POSITION, _WAIT_FOR, _PREFER = "Concord-Position", "Concord-Wait-For", "Prefer"
_REDIRECTS = frozenset({301, 302, 307, 308})
_READS = frozenset({"GET", "HEAD", "OPTIONS"})
_IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})
_GUARDS = frozenset({hdrs.IF_MATCH, hdrs.IF_NONE_MATCH})
_GUARD_HELD = "An earlier attempt, whose answer was lost, may have succeeded: read the entity."


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A successful answer of a node; `next_page` is the path of the next page or empty."""

    status: int
    headers: CIMultiDictProxy[str]
    body: bytes = b""
    next_page: str = ""

    @property
    def position(self) -> str:
        """The position of a write, or of a read that waited, in the change log of the node."""
        return self.headers.get(_POSITION, "")

    @property
    def is_json(self) -> bool:
        content_type = self.headers.get("Content-Type", "").partition(";")[0].strip()
        return content_type == "application/json" or content_type.endswith("+json")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """The content of a request, which may be sent several times."""

    method: str
    path: str
    params: list[tuple[str, str]]
    data: bytes | None
    headers: Mapping[str, str]

    @classmethod
    def of(
        cls, method: str, path: str, params: Params, body: Any, headers: Mapping[str, str]
    ) -> _Call:
        if body is not None and not isinstance(body, bytes):
            body = orjson.dumps(body)
            headers = {hdrs.CONTENT_TYPE: "application/json", **headers}
        pairs = list(params.items() if isinstance(params, Mapping) else params)
        return cls(method=method, path=path, params=pairs, data=body, headers=headers)


class Connection:
    """Requests to one node; every method raises `ClientError`.

    `position` is the position of the last answered write of the client, and empty before the first
    write. A read at a catalog that follows the node can wait for the position, and then shows every
    write of the client. `received` counts the bytes of answers, `sent` the bytes of request bodies.

    Args:
        session: sends the requests; the caller closes the session.
        largest: the largest size of an answer in bytes, except for streams. `open` describes the
            other arguments.
    """

    def __init__(
        self,
        url: str,
        session: aiohttp.ClientSession,
        *,
        retry: Retry,
        timeout_seconds: float,
        largest: int = _LARGEST_ANSWER,
        token: str | None = None,
        credential: Credential | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        self._session = session
        self._retry = retry
        self.timeout_seconds = timeout_seconds
        self._largest = largest
        self._credential: Credential = credential or BearerToken(token)
        self.position = ""
        self.received = self.sent = 0

    @classmethod
    @contextlib.asynccontextmanager
    async def open(
        cls,
        url: str,
        *,
        token: str | None = None,
        credential: Credential | None = None,
        timeout_seconds: float = 120,
        retry: Retry | None = None,
    ) -> AsyncIterator[Self]:
        """Open a client of the node at `url`.

        Args:
            url: the base URL of the node.
            token: the bearer token, sent to the node only.
            credential: the credential in place of a token, shown to the node only.
            timeout_seconds: the longest time of a call, including repetitions.
            retry: the policy for repeating requests; by default four attempts within about a
                second.

        Raises:
            ClientError: `url` is not an http or https URL.
        """
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
            raise ClientError(
                f"{url!r} is not the URL of a node.", "Write it like http://127.0.0.1:8080."
            )
        async with aiohttp.ClientSession(
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
        ) as session:
            yield cls(
                url,
                session,
                retry=retry or Retry(),
                timeout_seconds=timeout_seconds,
                token=token,
                credential=credential,
            )

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
        """Send one request, and repeat it after a transient failure.

        A request that did not reach the node, or was answered 429, is always repeated. If the
        answer was lost, or is 502, 503 or 504, the node may have carried out the request. Then only
        harmless requests are repeated: GET, HEAD, OPTIONS, PUT, DELETE, and requests guarded by
        If-Match, If-None-Match or an epoch in the body. A repeated DELETE that is answered 404
        counts as a success of the earlier attempt. A repeated write that its guard refuses is
        doubtful, since the earlier attempt may have succeeded.

        Args:
            path: the path below the URL of the node, optionally with a query.
            body: the body as bytes, or an object that is sent as JSON.
            is_repeatable: whether a second execution does no harm, if the caller knows better.
            largest: the largest size of the answer in bytes; by default the limit of the client.
            wait_for: the `position` of a write at the node or at a catalog that the node follows;
                the node answers a GET or HEAD once it has the write. Commas separate positions.
            wait_seconds: how long to wait; by default as long as the node allows.

        Raises:
            Refused: the status is 400 or above; `position_not_reached` if the wait was in vain.
            Unreachable: no answer came, or no answer in time.
            BadAnswer: the answer is a redirect, or too large.
        """
        headers = {**(headers or {}), **_waiting(wait_for, wait_seconds)}
        call = _Call.of(method, path, params, body, headers)
        if is_repeatable is None:
            is_repeatable = _does_no_harm(method, body, call.headers)
        try:
            async with asyncio.timeout(self.timeout_seconds) as limit:
                answer = await self._repeat(
                    call, is_repeatable, largest or self._largest, limit.when() or 0.0
                )
                self._note_position(method, answer.position)
                return answer
        except TimeoutError as error:
            raise Unreachable(
                f"{self.url} did not answer in time.",
                "Try again, or look at the node's log.",
                is_doubtful=True,
            ) from error

    async def lines(
        self,
        method: str,
        path: str,
        *,
        params: Params = (),
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        wait_seconds: float = 0.0,
        is_bounded: bool = True,
        is_endless: bool = False,
    ) -> AsyncGenerator[bytes]:
        """Send one request and yield each line of the answer on arrival.

        The request is not repeated. A last line without a newline is left out, since it shows that
        the answer broke off.

        Args:
            wait_seconds: the additional time in which the node may answer.
            is_bounded: whether the whole answer has to arrive in time, or only each chunk.
            is_endless: whether the answer goes on for ever, at whatever rate.

        Raises:
            BadAnswer: a line has more than 32 MiB, or the answer arrives too slowly.
        """
        call = _Call.of(method, path, params, body, headers or {})
        patience = self.timeout_seconds + wait_seconds
        timeout = aiohttp.ClientTimeout(
            total=patience if is_bounded and not is_endless else None,
            sock_connect=_CONNECT_SECONDS,
            sock_read=patience,
        )
        rest = bytearray()
        arrival = StreamArrival(patience=_PATIENCES * patience)
        async with self._respond(call, timeout) as response:
            async for chunk in arrival.timed(response.content.iter_any()):
                self.received += len(chunk)
                if arrival.is_too_slow and not is_endless:
                    raise BadAnswer(self.at(path), f"less than {LEAST_RATE} bytes a second")
                *lines, last = chunk.split(b"\n")
                for line in lines:
                    yield bytes(rest) + line
                    rest.clear()
                rest += last
                if len(rest) > _LONGEST_LINE:
                    raise BadAnswer(self.at(path), f"a line of more than {_LONGEST_LINE} bytes")
                # Reading data that has arrived already never yields to the event loop.
                await asyncio.sleep(0)

    async def get(
        self,
        path: str,
        params: Params = (),
        *,
        wait_for: str = "",
        wait_seconds: int | None = None,
    ) -> JsonObject:
        """The JSON object at a path of the API; see `request` for waiting."""
        return await self._json(
            "GET", path, params=params, wait_for=wait_for, wait_seconds=wait_seconds
        )

    async def put(self, path: str, body: Any, params: Params = ()) -> JsonObject:
        """Send JSON to a path of the API; returns an empty object for an answer without a body."""
        return await self._json("PUT", path, params=params, body=body)

    async def patch(self, path: str, body: Any, params: Params = ()) -> JsonObject:
        """Send JSON by PATCH; see `put`."""
        return await self._json("PATCH", path, params=params, body=body)

    async def post(self, path: str, body: Any, params: Params = ()) -> JsonObject:
        """Send JSON by POST; see `put`."""
        return await self._json("POST", path, params=params, body=body)

    async def pages(
        self,
        path: str,
        params: Params = (),
        *,
        wait_for: str = "",
        wait_seconds: int | None = None,
    ) -> AsyncIterator[Any]:
        """The JSON of every page of a collection, in the order of the links of the node.

        Every page shows the writes that `request` waits for.
        """
        async for answer in self.answers(path, params, wait_for, wait_seconds):
            yield self._decoded(path, answer)

    async def answers(
        self, path: str, params: Params = (), wait_for: str = "", wait_seconds: int | None = None
    ) -> AsyncIterator[Answer]:
        """The answer of each page of a collection; see `pages`."""
        while path:
            answer = await self.request(
                "GET", path, params=params, wait_for=wait_for, wait_seconds=wait_seconds
            )
            yield answer
            if answer.next_page == path:
                raise BadAnswer(self.url, f"a page that is followed by itself, {path}")
            path, params = answer.next_page, ()

    def _note_position(self, method: str, position: str) -> None:
        """Keep the position of a write; of concurrent writes, the highest position."""
        if method in _READS or not position:
            return
        # Positions of different logs cannot be compared.
        is_same_log = position.partition(".")[0] == self.position.partition(".")[0]
        self.position = max(position, self.position) if is_same_log else position

    async def _json(self, method: str, path: str, **sent: Any) -> JsonObject:
        found = self._decoded(path, await self.request(method, path, **sent))
        if not isinstance(found, dict):
            raise BadAnswer(self.at(path), "JSON that is not an object")
        return found

    def _decoded(self, path: str, answer: Answer) -> Any:
        if not answer.body:
            return {}
        try:
            return orjson.loads(answer.body)
        except orjson.JSONDecodeError as error:
            raise BadAnswer(self.at(path), "no JSON") from error

    def at(self, path: str) -> str:
        """The URL of a path, for errors."""
        return f"{self.url}/{path.lstrip('/')}"

    async def _repeat(
        self, call: _Call, is_repeatable: bool, largest: int, deadline: float
    ) -> Answer:
        """Send a request until an answer comes or the policy is exhausted."""
        failures, was_doubtful = 0, False
        while True:
            try:
                async with self._respond(call) as response:
                    body = await read_limited(response, largest)
                    self.received += len(body)
                    return Answer(
                        status=response.status,
                        headers=response.headers,
                        body=body,
                        next_page=self._next_page(response),
                    )
            except ClientError as error:
                is_missing = isinstance(error, Refused) and error.problem.status == 404
                # What an earlier attempt has deleted cannot be found any more.
                if was_doubtful and call.method == "DELETE" and is_missing:
                    return Answer(status=204, headers=CIMultiDictProxy(CIMultiDict()))
                if was_doubtful and isinstance(error, Refused) and _is_held_by_guard(error):
                    error.is_doubtful = True
                    error.hint = f"{error.hint} {_GUARD_HELD}".lstrip()
                    raise
                failures += 1
                was_doubtful |= error.is_doubtful
                pause = self._retry.delay(failures, error)
                is_hopeless = not error.is_retryable or failures >= self._retry.attempts
                # A pause that outlasts the call would only hide the error behind a timeout.
                is_too_late = asyncio.get_running_loop().time() + pause > deadline
                if is_hopeless or is_too_late or (error.is_doubtful and not is_repeatable):
                    raise
            await self._retry.sleep(pause)

    @contextlib.asynccontextmanager
    async def _respond(
        self, call: _Call, timeout: aiohttp.ClientTimeout | None = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request; the value is a successful response with an unread body.

        A request that is answered 401 is sent once more if the credential was renewed.
        """
        try:
            shown = await self._credential.headers()
            async with self._send(call, shown, timeout) as response:
                if response.status != HTTPStatus.UNAUTHORIZED:
                    yield await self._accepted(response)
                    return
                if not await self._credential.renew(shown):
                    raise await self._refusal(response)
            shown = await self._credential.headers()
            async with self._send(call, shown, timeout) as response:
                yield await self._accepted(response)
        except ResponseTooLarge as error:
            raise BadAnswer(self.at(call.path), str(error)) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _failure(self.url, error) from error

    def _send(
        self, call: _Call, shown: Mapping[str, str], timeout: aiohttp.ClientTimeout | None
    ) -> contextlib.AbstractAsyncContextManager[aiohttp.ClientResponse]:
        self.sent += len(call.data or b"")
        return self._session.request(
            call.method,
            self.at(call.path),
            params=call.params,
            data=call.data,
            headers={**trace_headers(), **call.headers, **shown},
            allow_redirects=False,
            timeout=timeout or self._session.timeout,
            middlewares=None if call.method in _READS else (send_once,),
            ssl=self._credential.tls,
        )

    async def _accepted(self, response: aiohttp.ClientResponse) -> aiohttp.ClientResponse:
        """The response, unless it is an error or a redirect."""
        # A redirect could lead the credential of the node to a foreign host.
        if response.status >= 400:
            raise await self._refusal(response)
        if response.status in _REDIRECTS:
            target = response.headers.get(hdrs.LOCATION, "another URL")
            raise BadAnswer(str(response.url), f"a redirect to {target}")
        return response

    async def _refusal(self, response: aiohttp.ClientResponse) -> Refused:
        body = await read_limited(response, min(_LARGEST_PROBLEM, self._largest))
        problem = Problem.read(response.status, body, response.reason or "")
        retry_after = response.headers.get(hdrs.RETRY_AFTER)
        kind = CursorExpired if problem.status == 410 else Refused
        return kind(problem, retry_after=parse_retry_after(retry_after, self._retry.clock()))

    def _next_page(self, response: aiohttp.ClientResponse) -> str:
        """The target of the link `next` (pagination/spec.md), always below the URL of the client.

        The public URL in the links of a node may differ from the URL that the client uses. The
        client must not send the token to the public URL, and may be unable to reach it.
        """
        link = response.links.get("next")
        if link is None:
            return ""
        target = str(link["url"])
        if target.startswith(f"{self.url}/"):
            return target.removeprefix(self.url)
        path = str(response.url.with_query(None)).removeprefix(self.url)
        return f"{path}?{urlsplit(target).query}"


async def read_limited(response: aiohttp.ClientResponse, limit: int) -> bytes:
    """The body of a response.

    Raises:
        ResponseTooLarge: the body has more than `limit` bytes; the connection is closed.
    """
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > limit:
            response.close()
            raise ResponseTooLarge(f"more than {limit} bytes")
    return bytes(body)


def _failure(url: str, error: Exception) -> Unreachable:
    """The error for a request without a complete answer."""
    # Only a failure to connect proves that the node cannot have carried out the request.
    is_refused = isinstance(error, aiohttp.ClientConnectorError)
    is_unsent = is_refused or isinstance(error, aiohttp.ConnectionTimeoutError)
    return Unreachable(
        f"{url} {why_unreachable(error)}." if is_unsent else f"Nothing answers at {url}: {error}.",
        "Start a node with `concord serve`, or name another one with --url.",
        is_doubtful=not is_unsent,
        is_retryable=not isinstance(error, aiohttp.InvalidURL),
    )


def _is_held_by_guard(error: Refused) -> bool:
    return error.problem.status == 412 or error.problem.name == "mismatched_epoch"


def _waiting(wait_for: str, seconds: int | None) -> dict[str, str]:
    """The headers of a read that waits for positions."""
    if not wait_for:
        return {}
    return {_WAIT_FOR: wait_for, **({} if seconds is None else {_PREFER: f"wait={seconds}"})}


def _does_no_harm(method: str, body: Any, headers: Mapping[str, str]) -> bool:
    """Whether a request may be sent twice, since it is idempotent or a guard refuses the second."""
    is_guarded = isinstance(body, dict) and body.get("epoch") is not None
    return method in _IDEMPOTENT or is_guarded or not _GUARDS.isdisjoint(headers)
