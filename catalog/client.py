"""A typed client of one node's HTTP API, for the command line, the demo and the tests."""

from __future__ import annotations

import asyncio
import contextlib
import csv
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self
from urllib.parse import urljoin, urlsplit

import aiohttp
import orjson
from multidict import CIMultiDictProxy

Params = Mapping[str, str] | Iterable[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One rule that a request breaks: the xid that it is about, and the reason."""

    subject: str
    title: str
    type: str = ""
    detail: str = ""

    @classmethod
    def parse(cls, source: Mapping[str, Any]) -> Violation:
        return cls(
            subject=str(source.get("subject", "")),
            title=str(source.get("title", "")),
            type=str(source.get("type", "")),
            detail=str(source.get("detail", "")),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """The problem document that a node refuses a request with (core/http.md, "Error
    Processing"). `violations` is never empty: the problem itself where there is but one.
    """

    status: int
    title: str
    type: str = ""
    subject: str = ""
    detail: str = ""
    violations: tuple[Violation, ...]

    @property
    def others(self) -> list[Violation]:
        """The violations beside the one that the problem itself tells of."""
        own = (self.type, self.subject, self.title)
        return [v for v in self.violations if (v.type, v.subject, v.title) != own]

    @classmethod
    def parse(cls, status: int, body: bytes, reason: str) -> Problem:
        """Read a problem document; whatever is no such document becomes one."""
        with contextlib.suppress(orjson.JSONDecodeError):
            source = orjson.loads(body)
            if isinstance(source, dict) and "title" in source:
                return cls._of(status, source)
        text = body.decode(errors="replace").strip()
        title = f"The answer was {status} {reason}."
        return cls._of(status, {"title": title, "detail": text[:500]})

    @classmethod
    def _of(cls, status: int, source: Mapping[str, Any]) -> Problem:
        own = Violation.parse(source)
        found = source.get("violations")
        listed = [Violation.parse(item) for item in found] if isinstance(found, list) else []
        return cls(
            status=status,
            title=own.title,
            type=own.type,
            subject=own.subject,
            detail=own.detail,
            violations=tuple(listed) or (own,),
        )


class ClientError(Exception):
    """A request that brought no result. `hint` says what to do about it, if that is known.

    ClientError
    ├── Unreachable     nothing answers at the URL, or not in time
    ├── Refused         the node's answer is an error; `problem` is its document
    └── BadAnswer       what answers is not a node of Concord
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class Unreachable(ClientError):
    """Nothing answers at the URL, or not in time."""


class BadAnswer(ClientError):
    """The answer is not what a node of Concord would say."""

    def __init__(self, url: str, what: str) -> None:
        super().__init__(f"{url} answered with {what}.", "Check that the URL is a Concord node's.")


class Refused(ClientError):
    """The node's answer is an error."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.title, problem.detail)
        self.problem = problem


class Answer(NamedTuple):
    """What a node answered: a success."""

    status: int
    headers: CIMultiDictProxy[str]
    body: bytes

    @property
    def is_json(self) -> bool:
        content_type = self.headers.get("Content-Type", "").partition(";")[0].strip()
        return content_type == "application/json" or content_type.endswith("+json")


class DigestRow(NamedTuple):
    """What a node holds of one origin."""

    authority: str
    origin: str
    xid: str
    epoch: int
    is_deleted: bool
    digest: str


class Client:
    """One node's API. Use `Client.open`; every method raises `ClientError`."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self.url = url.rstrip("/")
        self._session = session

    @classmethod
    @contextlib.asynccontextmanager
    async def open(
        cls, url: str, *, token: str | None = None, timeout_seconds: float = 120
    ) -> AsyncIterator[Self]:
        """A client of the node at `url`.

        Args:
            url: the node's base URL.
            token: is sent as a bearer token.
            timeout_seconds: the longest that one request may take.
        """
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
            raise ClientError(
                f"{url!r} is not the URL of a node.", "Write it like http://127.0.0.1:8080."
            )
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        timeout = aiohttp.ClientTimeout(total=timeout_seconds, connect=10)
        async with aiohttp.ClientSession(headers=headers, timeout=timeout) as session:
            yield cls(url, session)

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Params = (),
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send one request. `body` is sent as JSON, unless it is bytes.

        Raises:
            Refused: the status is 400 or above.
            Unreachable: there was no answer.
        """
        target = urljoin(self.url + "/", path.lstrip("/"))
        data, sent = _encoded(body, dict(headers or {}))
        query = list(params.items() if isinstance(params, Mapping) else params)
        try:
            async with self._session.request(
                method, target, params=query, data=data, headers=sent, allow_redirects=False
            ) as response:
                content = await response.read()
        except TimeoutError as error:
            raise Unreachable(
                f"{self.url} did not answer in time.", "Try again, or look at the node's log."
            ) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            is_refused = isinstance(error, aiohttp.ClientConnectorError)
            raise Unreachable(
                f"Nothing answers at {self.url}" + ("." if is_refused else f": {error}."),
                "Start a node with `concord serve`, or name another one with --url.",
            ) from error
        if response.status >= 400:
            raise Refused(Problem.parse(response.status, content, response.reason or ""))
        return Answer(response.status, response.headers, content)

    async def get(self, path: str, params: Params = ()) -> Any:
        """The JSON at `path`."""
        return self._json(path, await self.request("GET", path, params=params))

    async def put(self, path: str, body: Any, params: Params = ()) -> Any:
        return self._json(path, await self.request("PUT", path, params=params, body=body))

    async def patch(self, path: str, body: Any, params: Params = ()) -> Any:
        return self._json(path, await self.request("PATCH", path, params=params, body=body))

    async def post(self, path: str, body: Any, params: Params = ()) -> Any:
        return self._json(path, await self.request("POST", path, params=params, body=body))

    async def delete(self, path: str, params: Params = ()) -> None:
        await self.request("DELETE", path, params=params)

    async def pages(self, path: str, params: Params = ()) -> AsyncIterator[Any]:
        """Every page of a collection, in order, as the node links them with `rel=next`."""
        target: str | None = path
        while target is not None:
            answer = await self.request("GET", target, params=params)
            yield self._json(target, answer)
            target, params = _next_page(answer), ()

    async def items(self, path: str, params: Params = ()) -> AsyncIterator[tuple[str, Any]]:
        """Every entity of a collection with its id."""
        async for page in self.pages(path, params):
            for item in page.items():
                yield item

    async def export(self) -> Any:
        """The whole catalog as a document that can be imported."""
        return await self.get("/export")

    async def import_groups(self, groups: Mapping[str, Any], *, overwrite: bool = False) -> Any:
        """Create or replace groups and all below them, all or nothing (`POST /`).

        Args:
            overwrite: whatever epochs the entities have.
        """
        return await self.post("/?ignore=epoch" if overwrite else "/", groups)

    async def subscriptions(self) -> list[dict[str, Any]]:
        return await self._listed("/subscriptions", "subscriptions")

    async def subscription(self, id: str) -> Any:
        return await self.get(f"/subscriptions/{id}")

    async def subscribe(self, definition: Mapping[str, Any]) -> Any:
        """Create a subscription; the answer has its id."""
        return await self.post("/subscriptions", definition)

    async def unsubscribe(self, id: str) -> None:
        await self.delete(f"/subscriptions/{id}")

    async def links(self) -> list[dict[str, Any]]:
        return await self._listed("/replication/links", "links")

    async def link(self, id: str) -> Any:
        return await self.get(f"/replication/links/{id}")

    async def add_link(self, definition: Mapping[str, Any]) -> Any:
        """Create a link into this node; the answer has its id."""
        return await self.post("/replication/links", definition)

    async def remove_link(self, id: str) -> None:
        await self.delete(f"/replication/links/{id}")

    async def conflicts(self, link: str) -> list[dict[str, Any]]:
        """What a link could not apply, and why."""
        return await self._listed(f"/replication/links/{link}/conflicts", "conflicts")

    async def handshake(self) -> Any:
        """Who the node is and where its change log stands."""
        return await self.get("/replication")

    async def buckets(self) -> Any:
        """The fingerprint and the count of every bucket that is not empty."""
        return await self.get("/replication/digests")

    async def digest_rows(self) -> list[DigestRow]:
        """What the node holds of every origin, deleted ones too, as of one moment."""
        answer = await self.request("GET", "/replication/digests", params={"format": "csv"})
        return _digest_rows(answer.body.decode())

    async def is_ready(self) -> bool:
        """Whether the node answers."""
        try:
            async with asyncio.timeout(2):
                await self.handshake()
        except (ClientError, TimeoutError):
            return False
        return True

    async def _listed(self, path: str, name: str) -> list[dict[str, Any]]:
        """All pages of a list that is sent as it is, or as the member `name` of an object."""
        found: list[dict[str, Any]] = []
        async for page in self.pages(path):
            found += page[name] if isinstance(page, dict) else page
        return found

    def _json(self, path: str, answer: Answer) -> Any:
        if not answer.body:
            return None
        try:
            return orjson.loads(answer.body)
        except orjson.JSONDecodeError as error:
            raise BadAnswer(urljoin(self.url + "/", path.lstrip("/")), "no JSON") from error


def _encoded(body: Any, headers: dict[str, str]) -> tuple[bytes | None, dict[str, str]]:
    if body is None or isinstance(body, bytes):
        return body, headers
    return orjson.dumps(body), {"Content-Type": "application/json", **headers}


def _next_page(answer: Answer) -> str | None:
    """The target of `Link: <...>; rel=next`, which may be absolute."""
    for value in answer.headers.getall("Link", []):
        for link in value.split(","):
            target, *params = (part.strip() for part in link.split(";"))
            if any(param.replace('"', "") == "rel=next" for param in params):
                return target.strip("<>")
    return None


def _digest_rows(text: str) -> list[DigestRow]:
    return [
        DigestRow(
            authority=row["authority"],
            origin=row["origin"],
            xid=row["xid"],
            epoch=int(row["epoch"]),
            is_deleted=row["deleted"].lower() in ("1", "t", "true"),
            digest=row["digest"],
        )
        for row in csv.DictReader(text.splitlines())
    ]
