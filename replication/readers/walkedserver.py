"""Bounded, paced and conditional requests to a server of other software by its standard API."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import urlencode, urljoin, urlsplit

import orjson
from yarl import URL

from catalog.client import Answer, BadAnswer, ClientError, JsonObject, Refused
from catalog.client.errors import ResponseTooLarge
from catalog.http.body import most_values_of
from catalog.settings import Settings
from catalog.supervisor import LoopTiming, backoff_from
from replication.peers.linkbounds import PacedClient

GONE = frozenset({404, 410})
# Parsing blocks the event loop, and a server with pages can answer with less.
_LARGEST_PAGE = 4 * 1024 * 1024
_LONGEST_WAIT = 60.0
_MOST_BARREN_PAGES = 20
_LINK = re.compile(r"<([^>]*)>([^<]*)")
_NEXT = re.compile(r';\s*rel\s*=\s*(?:"[^"]*\bnext\b[^"]*"|next\b)', re.IGNORECASE)
_TOTAL = re.compile(r';\s*count\s*=\s*"?(\d{1,18})\b', re.IGNORECASE)


def server_of(source: str) -> str:
    """The origin of a URL, below which all paths of its server are."""
    return str(URL(source).origin())


class IgnoredRefusals(AbstractContextManager[None]):
    """Ignores the refusals by which a server says that it has nothing at a path."""

    def __init__(self, statuses: Collection[int] = GONE) -> None:
        self._statuses = statuses

    def __exit__(self, _: object, error: BaseException | None, traceback: object) -> bool:
        return isinstance(error, Refused) and error.problem.status in self._statuses


class AnswerTooLarge(ClientError):
    """An answer exceeds the size that a node reads at once; the caller may ask for less."""


class AnswerMalformed(ClientError):
    """An answer violates the standard."""


_Members = TypeVar("_Members", JsonObject, list[Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkedPage(Generic[_Members]):
    """A JSON object or array in an answer of the server.

    `next` is the path of the next page, empty on the last page. `total` is the number of members on
    all pages, if the server states the number.
    """

    members: _Members
    next: str
    total: int | None


@dataclass(slots=True)
class RequestLog:
    """The requests with a complete answer, each with the ETag of the answer, in order."""

    tags: list[tuple[str, str]] = field(default_factory=list)

    @property
    def is_tagged(self) -> bool:
        """Whether conditional requests can find out that an answer has changed."""
        return bool(self.tags) and all(tag for _, tag in self.tags)


class WalkedServer:
    """Reads from one server. Every method raises `ClientError`.

    A request that fails for a transient reason is repeated a few times; after an answer 429,
    requests are sent more slowly. Requests go only to the origin of `source`, wherever the server's
    links lead.

    `log` has the requests since the log was set, and `flags` are added to each request. If
    `has_pages` is true, the bound of an answer is lower.

    Args:
        source: the URL of the registry's root.
        client: a client of the origin of `source`.
        attempts: the maximum number of attempts of a request.
    """

    def __init__(
        self,
        source: str,
        client: PacedClient,
        settings: Settings,
        timing: LoopTiming,
        *,
        attempts: int = 4,
    ) -> None:
        self.url = source
        self.log = RequestLog()
        self.flags: Sequence[tuple[str, str]] = ()
        self.has_pages = False
        self._attempts = attempts
        self._received = 0
        self._base = URL(source).raw_path.rstrip("/")
        self._settings = settings
        self._timing = timing
        self._backoff = backoff_from(settings)
        self._client = client

    async def read(
        self, path: str, params: Iterable[tuple[str, str]] = ()
    ) -> WalkedPage[JsonObject]:
        """The JSON object at a path below the root.

        Raises:
            AnswerTooLarge
            AnswerMalformed
        """
        return await self._read(self._target(path, params), dict)

    async def pages(
        self, path: str, params: Iterable[tuple[str, str]] = ()
    ) -> AsyncIterator[WalkedPage[JsonObject]]:
        """The pages of a collection, in order."""
        async for page in self._pages(path, params, dict):
            yield page

    async def lists(
        self, path: str, params: Iterable[tuple[str, str]] = ()
    ) -> AsyncIterator[WalkedPage[list[Any]]]:
        """The pages of a collection in the form of an array, in order."""
        barren = 0
        async for page in self._pages(path, params, list):
            yield page
            barren = 0 if page.members else barren + 1
            if barren > _MOST_BARREN_PAGES:
                raise AnswerMalformed(f"{self.url}{path} has pages without end.")

    async def _pages(
        self, path: str, params: Iterable[tuple[str, str]], kind: type[_Members]
    ) -> AsyncIterator[WalkedPage[_Members]]:
        target, visited = self._target(path, params), set[str]()
        while target:
            visited.add(target)
            page = await self._read(target, kind)
            yield page
            target = page.next
            if target in visited:
                raise AnswerMalformed(f"The pages of {self.url}{path} lead in a circle.")

    async def document(self, path: str) -> Answer:
        """The answer with the exact bytes of the document at a path."""
        target = self._target(path, ())
        answer = await self._send(target, largest=self._settings.max_body_bytes)
        if answer.status not in (200, 204):
            raise AnswerMalformed(f"The document is not there, but {answer.status} was answered.")
        self._received += len(answer.body)
        return answer

    async def is_gone(self, path: str) -> bool:
        """Whether the server answers that a path does not exist."""
        with IgnoredRefusals():
            with suppress(AnswerTooLarge):
                await self._send(self._target(path, ()))
            return False
        return True

    def take_received(self) -> int:
        """The bytes of entities since the last call, for the bound of a walk."""
        received, self._received = self._received, 0
        return received

    async def is_unchanged(self, log: RequestLog) -> bool:
        """Whether the server would answer every request of a log as before."""
        for target, tag in log.tags:
            answer = await self._send(target, {"If-None-Match": tag})
            if answer.status != 304:
                return False
        return True

    def _target(self, path: str, params: Iterable[tuple[str, str]]) -> str:
        """The path and query of a request, below the server's origin."""
        query = urlencode([*params, *self.flags])
        return f"{self._base}{path}" + (f"?{query}" if query else "")

    async def _read(self, target: str, kind: type[_Members]) -> WalkedPage[_Members]:
        answer = await self._send(target)
        body = answer.body
        self._received += len(body)
        if sum(map(body.count, (b",", b"[", b"{"))) > most_values_of(self._settings):
            raise AnswerTooLarge(f"An answer of {self.url} has too many values.")
        try:
            members = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise AnswerMalformed(f"{self._at(target)} answered with no JSON.") from error
        if not isinstance(members, kind):
            wanted = "an object" if kind is dict else "an array"
            raise AnswerMalformed(f"{self._at(target)} answered with JSON that is not {wanted}.")
        following, total = self._next_page(target, answer)
        self.log.tags.append((target, answer.headers.get("ETag", "")))
        return WalkedPage(members=members, next=following, total=total)

    def _next_page(self, target: str, answer: Answer) -> tuple[str, int | None]:
        """The path of the next page, always at this server's own origin, and the stated total.

        A server may write links with an origin at which this node does not reach it. From a link to
        another origin, only the query is taken.
        """
        for url, params in _LINK.findall(",".join(answer.headers.getall("Link", ()))):
            if not _NEXT.search(params):
                continue
            total = _TOTAL.search(params)
            found = urlsplit(urljoin(self._at(target), url))
            own = urlsplit(self.url)
            path = found.path
            if (found.scheme, found.netloc) != (own.scheme, own.netloc):
                path = urlsplit(target).path
            query = f"?{found.query}" if found.query else ""
            return f"{path}{query}", None if total is None else int(total.group(1))
        return "", None

    def _at(self, target: str) -> str:
        return f"{self._client.url}{target}"

    async def _send(
        self, target: str, headers: dict[str, str] | None = None, *, largest: int | None = None
    ) -> Answer:
        if largest is None:
            largest = self._settings.max_body_bytes
            largest = min(_LARGEST_PAGE, largest) if self.has_pages else largest
        failures = 0
        while True:
            try:
                return await self._client.request("GET", target, headers=headers, largest=largest)
            except ClientError as error:
                failures += 1
                is_hopeless = not error.is_retryable or error.retry_after > _LONGEST_WAIT
                if is_hopeless or failures >= self._attempts:
                    explained = _explained(error, self._at(target))
                    if explained is error:
                        raise
                    raise explained from error
                delay = self._backoff.delay(
                    failures, self._timing.random, at_least=error.retry_after
                )
                await self._timing.sleep(min(_LONGEST_WAIT, delay))


def _explained(error: ClientError, url: str) -> ClientError:
    """The error in words for a server of other software."""
    if isinstance(error, Refused):
        is_size = error.problem.status == 413 or error.problem.name == "too_large"
        return AnswerTooLarge(f"{url} refused to answer as it is too much.") if is_size else error
    if isinstance(error, BadAnswer):
        if isinstance(error.__cause__, ResponseTooLarge):
            return AnswerTooLarge(f"{url} answered with {error.__cause__}.")
        return AnswerMalformed(error.message, "Name the URL of the registry's root itself.")
    return error
