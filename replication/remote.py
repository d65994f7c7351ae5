"""Talks to another catalog's replication API.

RemoteError          talking to a peer failed
├── Unreachable      it did not answer, or not whole
├── Throttled        it asked us to come later
├── CursorExpired    it can't go on from where we were
└── Rejected         it does not understand or want us; somebody has to change something
    └── Missing      it has nothing there
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson

from catalog.http.outbound import AddressRefused, ResponseTooLarge, read_limited
from catalog.model.digest import DIGEST_VERSION
from catalog.model.entity import Origin

_LARGEST_ANSWER = 1024 * 1024
_LONGEST_LINE = 32 * 1024 * 1024
_LONGEST_RETRY_AFTER = 3600.0

Filters = Sequence[tuple[str, str]]


class RemoteError(Exception):
    """Talking to a peer failed. `hint` tells the operator what to do."""

    is_retryable = True

    def __init__(self, message: str, *, hint: str = "", retry_after: float | None = None) -> None:
        self.hint = hint
        self.retry_after = retry_after
        super().__init__(f"{message} {hint}".strip())


class Unreachable(RemoteError):
    """The peer did not answer, or its answer broke off."""


class Throttled(RemoteError):
    """The peer has too much to do; `retry_after` is in seconds, if it said."""


class CursorExpired(RemoteError):
    """The peer's log does not reach back to the cursor, or is another one."""


class Rejected(RemoteError):
    """The peer refuses, or is none. Someone has to change something first."""

    is_retryable = False


class Missing(Rejected):
    """The peer has nothing there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handshake:
    """Who the peer says it is.

    `base` is that of the URLs which it gives out, and `entities` are how many it has: both
    where it says so.
    """

    instance: uuid.UUID
    authority: str
    digestversion: int = DIGEST_VERSION
    software: str = ""
    base: str | None = None
    entities: int | None = None


class Remote:
    """One peer, by the URL of its catalog. Every method may raise a `RemoteError`."""

    def __init__(self, session: aiohttp.ClientSession, url: str, timeout_seconds: float) -> None:
        self._session = session
        self._timeout = timeout_seconds
        self.url = url.rstrip("/")

    async def handshake(self, *, counts: bool = False) -> Handshake:
        """Ask who is there.

        Args:
            counts: ask how many entities there are, too.

        Raises:
            Rejected: it is no Concord node, or computes digests by another rule.
        """
        data = await self.json("GET", "/replication?count" if counts else "/replication")
        try:
            version = data["digestversion"]
            instance, authority = uuid.UUID(data["instance"]), str(data["authority"])
            base, entities = data.get("base"), data.get("entities")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise Rejected(f"{self.url} does not offer replication.") from error
        known = Handshake(
            instance=instance,
            authority=authority,
            digestversion=DIGEST_VERSION,
            software=str(data.get("software", ""))[:64],
            base=base.rstrip("/") if isinstance(base, str) else None,
            entities=entities if type(entities) is int else None,
        )
        if version != DIGEST_VERSION:
            raise Rejected(
                f"{self.url} computes digests by version {version}, here it is {DIGEST_VERSION}.",
                hint="Bring both to the same version of Concord.",
            )
        return known

    def changes(
        self, cursor: str, *, limit: int, wait_seconds: float, filters: Filters
    ) -> AsyncGenerator[bytes]:
        """The lines of one page of the feed."""
        params = [("after", cursor), ("limit", str(limit)), ("wait", f"{wait_seconds:g}"), *filters]
        return self._lines("GET", "/replication/changes", params, wait_seconds=wait_seconds)

    def snapshot(self, filters: Filters) -> AsyncGenerator[bytes]:
        """The lines of everything. It may take any time, but never stand still for long."""
        return self._lines("GET", "/replication/snapshot", filters, is_bounded=False)

    def fetch(self, origins: Sequence[Origin]) -> AsyncGenerator[bytes]:
        """The lines of single origins, with what is above them."""
        body = {"origins": [{"authority": o.authority, "origin": o.xid} for o in origins]}
        return self._lines("POST", "/replication/fetch", (), body=body)

    async def json(self, method: str, path: str, body: Any = None) -> Any:
        """A JSON answer of bounded size; `None` for an empty one."""
        async with self._request(method, path, body=body) as response:
            content = await read_limited(response, _LARGEST_ANSWER)
        try:
            return orjson.loads(content) if content else None
        except orjson.JSONDecodeError as error:
            raise Rejected(f"{self.url}{path} answered with something else than JSON.") from error

    async def _lines(
        self,
        method: str,
        path: str,
        params: Filters,
        *,
        body: Any = None,
        wait_seconds: float = 0.0,
        is_bounded: bool = True,
    ) -> AsyncGenerator[bytes]:
        request = self._request(
            method, path, params, body=body, wait_seconds=wait_seconds, is_bounded=is_bounded
        )
        async with request as response:
            async for line in _split(response.content):
                yield line

    @contextlib.asynccontextmanager
    async def _request(
        self,
        method: str,
        path: str,
        params: Filters = (),
        *,
        body: Any = None,
        wait_seconds: float = 0.0,
        is_bounded: bool = True,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        patience = self._timeout + wait_seconds
        timeout = aiohttp.ClientTimeout(
            total=patience if is_bounded else None, sock_connect=10, sock_read=patience
        )
        try:
            async with self._session.request(
                method,
                self.url + path,
                params=list(params),
                data=None if body is None else orjson.dumps(body),
                headers={} if body is None else {"Content-Type": "application/json"},
                timeout=timeout,
                allow_redirects=False,
            ) as response:
                if response.status >= 300:
                    raise await _refusal(response, self.url)
                yield response
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise _failure(error, self.url) from error


async def _split(content: aiohttp.StreamReader) -> AsyncGenerator[bytes]:
    """The lines of a body; the rest without a newline broke off and is left out."""
    rest = b""
    async for chunk in content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line
        if len(rest) > _LONGEST_LINE:
            raise Rejected(f"A line has more than {_LONGEST_LINE} bytes.")
        # A long stream that is always ready must not keep other links from their turn.
        await asyncio.sleep(0)


def _failure(error: BaseException, url: str) -> RemoteError:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, AddressRefused):
            return Rejected(
                f"{url} is at a private address.",
                hint="Allow that with CONCORD_ALLOW_PRIVATE_ADDRESSES=true.",
            )
        cause = getattr(cause, "os_error", None) or cause.__cause__
    if isinstance(error, ResponseTooLarge | aiohttp.InvalidURL):
        return Rejected(f"{url}: {error}.")
    return Unreachable(f"{url} cannot be reached ({type(error).__name__}: {error}).")


async def _refusal(response: aiohttp.ClientResponse, url: str) -> RemoteError:
    title = _title(await read_limited(response, _LARGEST_ANSWER))
    said = f"{url} answered {response.status}: {title or response.reason}"
    if response.status == 410:
        return CursorExpired(said)
    if response.status in (429, 503):
        return Throttled(said, retry_after=_retry_after(response.headers))
    if response.status == 404:
        return Missing(said)
    if response.status >= 500:
        return Unreachable(said)
    return Rejected(said)


def _title(body: bytes) -> str:
    try:
        return str(orjson.loads(body)["title"])[:300]
    except (ValueError, KeyError, TypeError):
        return ""


def _retry_after(headers: Mapping[str, str]) -> float | None:
    text = headers.get("Retry-After", "").strip()
    if not (text.isascii() and text.isdigit()):
        return None
    return min(float(text), _LONGEST_RETRY_AFTER)
