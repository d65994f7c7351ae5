"""Sends requests to one node: repeated where that is safe, bounded in time and in size."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import urlsplit

import aiohttp
import orjson
from aiohttp import hdrs
from multidict import CIMultiDict, CIMultiDictProxy

from catalog.client.errors import BadAnswer, ClientError, Refused, Unreachable
from catalog.client.problem import Problem
from catalog.client.retry import Retry
from catalog.model.backoff import parse_retry_after

JsonObject = dict[str, Any]
Params = Mapping[str, str] | Iterable[tuple[str, str]]

LARGEST_ANSWER = 256 * 1024 * 1024
_LARGEST_PROBLEM = 4 * 1024 * 1024
_CONNECT_SECONDS = 10.0
_MISSING = 404
_REDIRECTS = frozenset({301, 302, 307, 308})
_IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})
_GUARDS = frozenset({hdrs.IF_MATCH, hdrs.IF_NONE_MATCH})


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A successful answer of a node. `next_page` is the path of the page that follows."""

    status: int
    headers: CIMultiDictProxy[str]
    body: bytes = b""
    next_page: str = ""

    @property
    def is_json(self) -> bool:
        content_type = self.headers.get("Content-Type", "").partition(";")[0].strip()
        return content_type == "application/json" or content_type.endswith("+json")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """One request as it is sent, again and again if need be."""

    method: str
    path: str
    params: list[tuple[str, str]]
    data: bytes | None
    headers: Mapping[str, str]
    is_repeatable: bool
    largest: int | None


class Connection:
    """Requests to one node. Every method raises `ClientError`."""

    def __init__(
        self, url: str, session: aiohttp.ClientSession, *, retry: Retry, timeout_seconds: float
    ) -> None:
        self.url = url.rstrip("/")
        self._session = session
        self._retry = retry
        self._timeout = timeout_seconds

    @classmethod
    @contextlib.asynccontextmanager
    async def open(
        cls,
        url: str,
        *,
        token: str | None = None,
        timeout_seconds: float = 120,
        retry: Retry | None = None,
    ) -> AsyncIterator[Self]:
        """A client of the node at `url`.

        Args:
            url: the node's base URL.
            token: is sent as a bearer token, to this node only.
            timeout_seconds: the longest that one call may take, repetitions included.
            retry: how often requests are repeated; four attempts within about a second
                unless given.

        Raises:
            ClientError: `url` is none.
        """
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
            raise ClientError(
                f"{url!r} is not the URL of a node.", "Write it like http://127.0.0.1:8080."
            )
        headers = {hdrs.AUTHORIZATION: f"Bearer {token}"} if token else {}
        async with aiohttp.ClientSession(
            headers=headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
        ) as session:
            yield cls(url, session, retry=retry or Retry(), timeout_seconds=timeout_seconds)

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Params = (),
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        is_repeatable: bool | None = None,
        largest: int | None = LARGEST_ANSWER,
    ) -> Answer:
        """Send one request, again if it fails for a reason that may pass.

        A request that the node has not got, or has turned away with 429, is repeated whatever
        it is. One whose answer was lost, or is 502, 503 or 504, may have been carried out; it is
        repeated if that does no harm: GET, HEAD, OPTIONS, PUT and DELETE, and whatever is
        guarded by If-Match, If-None-Match or an epoch in its body. A repeated DELETE that finds
        nothing has succeeded before.

        Args:
            path: below the node's URL; it may have a query of its own.
            body: is sent as JSON, unless it is bytes.
            is_repeatable: whether carrying it out twice does no harm, if that is known better.
            largest: the most bytes that an answer may have; `None` for any number.

        Raises:
            Refused: the status is 400 or above.
            Unreachable: there was no answer, or not in time.
            BadAnswer: the answer is a redirect, or too large.
        """
        data, sent = _encoded(body, headers or {})
        call = _Call(
            method=method,
            path=path.lstrip("/"),
            params=list(params.items() if isinstance(params, Mapping) else params),
            data=data,
            headers=sent,
            is_repeatable=_does_no_harm(method, body, sent)
            if is_repeatable is None
            else is_repeatable,
            largest=largest,
        )
        try:
            async with asyncio.timeout(self._timeout) as limit:
                return await self._repeat(call, limit.when() or 0.0)
        except TimeoutError as error:
            raise Unreachable(
                f"{self.url} did not answer in time.",
                "Try again, or look at the node's log.",
                is_doubtful=True,
            ) from error

    async def get(self, path: str, params: Params = ()) -> JsonObject:
        """The JSON object at any path of the API."""
        return await self._json("GET", path, params=params)

    async def put(self, path: str, body: Any, params: Params = ()) -> JsonObject:
        """Send JSON to any path of the API; the answer is empty if it has no body."""
        return await self._json("PUT", path, params=params, body=body)

    async def patch(self, path: str, body: Any, params: Params = ()) -> JsonObject:
        """As `put`."""
        return await self._json("PATCH", path, params=params, body=body)

    async def post(self, path: str, body: Any, params: Params = ()) -> JsonObject:
        """As `put`."""
        return await self._json("POST", path, params=params, body=body)

    async def pages(self, path: str, params: Params = ()) -> AsyncIterator[Any]:
        """The JSON of every page of a collection, in order, as the node links them."""
        while path:
            answer = await self.request("GET", path, params=params)
            yield self._decoded(path, answer)
            if answer.next_page == path:
                raise BadAnswer(self.url, f"a page that is followed by itself, {path}")
            path, params = answer.next_page, ()

    async def _json(self, method: str, path: str, **sent: Any) -> JsonObject:
        found = self._decoded(path, await self.request(method, path, **sent))
        if not isinstance(found, dict):
            raise BadAnswer(self._at(path), "JSON that is not an object")
        return found

    def _decoded(self, path: str, answer: Answer) -> Any:
        if not answer.body:
            return {}
        try:
            return orjson.loads(answer.body)
        except orjson.JSONDecodeError as error:
            raise BadAnswer(self._at(path), "no JSON") from error

    def _at(self, path: str) -> str:
        return f"{self.url}/{path.lstrip('/')}"

    async def _repeat(self, call: _Call, deadline: float) -> Answer:
        """Send a request until it is answered or the policy is exhausted."""
        failures, was_doubtful = 0, False
        while True:
            try:
                return await self._send(call)
            except ClientError as error:
                if was_doubtful and call.method == "DELETE" and _is_missing(error):
                    return Answer(status=204, headers=CIMultiDictProxy(CIMultiDict()))
                failures += 1
                was_doubtful |= error.is_doubtful
                pause = self._retry.delay(failures, error)
                is_hopeless = not error.is_retryable or failures >= self._retry.attempts
                is_too_late = asyncio.get_running_loop().time() + pause > deadline
                if is_hopeless or is_too_late or (error.is_doubtful and not call.is_repeatable):
                    raise
            await self._retry.sleep(pause)

    async def _send(self, call: _Call) -> Answer:
        try:
            async with self._session.request(
                call.method,
                self._at(call.path),
                params=call.params,
                data=call.data,
                headers=call.headers,
                allow_redirects=False,
            ) as response:
                is_error = response.status >= 400
                largest = _LARGEST_PROBLEM if is_error else call.largest
                return self._answer(response, await _body_of(response, largest))
        except (aiohttp.ClientError, OSError, ValueError) as error:
            is_refused = isinstance(error, aiohttp.ClientConnectorError)
            is_unsent = is_refused or isinstance(error, aiohttp.ConnectionTimeoutError)
            raise Unreachable(
                f"Nothing answers at {self.url}" + ("." if is_refused else f": {error}."),
                "Start a node with `concord serve`, or name another one with --url.",
                is_doubtful=not is_unsent,
            ) from error

    def _answer(self, response: aiohttp.ClientResponse, body: bytes) -> Answer:
        if response.status >= 400:
            problem = Problem.read(response.status, body, response.reason or "")
            asked = response.headers.get(hdrs.RETRY_AFTER)
            raise Refused(problem, retry_after=parse_retry_after(asked, self._retry.clock()))
        if response.status in _REDIRECTS:
            where = response.headers.get(hdrs.LOCATION, "another place")
            raise BadAnswer(str(response.url), f"a redirect to {where}")
        return Answer(
            status=response.status,
            headers=response.headers,
            body=body,
            next_page=self._next_page(response),
        )

    def _next_page(self, response: aiohttp.ClientResponse) -> str:
        """The target of the link `next` (pagination/spec.md), always at this node's own URL.

        A node may call itself by another URL than the one that it is reached at; the token must
        not go there, and it may lead nowhere from here.
        """
        link = response.links.get("next")
        if link is None:
            return ""
        target = str(link["url"])
        if target.startswith(f"{self.url}/"):
            return target.removeprefix(self.url)
        path = str(response.url.with_query(None)).removeprefix(self.url)
        return f"{path}?{urlsplit(target).query}"


async def _body_of(response: aiohttp.ClientResponse, largest: int | None) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if largest is not None and len(body) > largest:
            response.close()
            raise BadAnswer(str(response.url), f"more than {largest} bytes")
    return bytes(body)


def _encoded(body: Any, headers: Mapping[str, str]) -> tuple[bytes | None, Mapping[str, str]]:
    if body is None or isinstance(body, bytes):
        return body, headers
    return orjson.dumps(body), {hdrs.CONTENT_TYPE: "application/json", **headers}


def _does_no_harm(method: str, body: Any, headers: Mapping[str, str]) -> bool:
    """Whether a request can be carried out twice, or can't be for its guard."""
    is_guarded = isinstance(body, dict) and body.get("epoch") is not None
    return method in _IDEMPOTENT or is_guarded or not _GUARDS.isdisjoint(headers)


def _is_missing(error: ClientError) -> bool:
    return isinstance(error, Refused) and error.problem.status == _MISSING
