"""A catalog under comparison: the name, the URL, and requests over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar
from urllib.parse import urlsplit

from catalog.client import Backoff, Client, ClientError, Refused, Retry
from replication.reconcile.errors import CatalogUnread, ReconcileError

T = TypeVar("T")

CALL_SECONDS = 600.0
RETRY = Retry(attempts=3, backoff=Backoff(initial=0.5, factor=2, cap=60, jitter=0.5))

_HINTS = {
    **dict.fromkeys(
        (401, 403),
        "Give a token for this catalog that has the role replicator (`concord token add --role "
        "replicator` there): --token-from NAME=VARIABLE, or --tokens FILE.",
    ),
    404: "Check that the URL is the base URL of a Concord node that offers replication.",
    410: "Start the job again: the catalog no longer keeps the requested state.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteCatalog:
    """The name that the operator gives a catalog, its base URL and a bearer token.

    An instance can be pickled, and `call` works in Spark's Python workers.
    """

    name: str
    url: str
    token: str | None = field(default=None, repr=False)
    retry: Retry = field(default=RETRY, repr=False)

    @classmethod
    def parse(cls, text: str) -> RemoteCatalog:
        """Read `NAME=URL`.

        Raises:
            ReconcileError: the name is empty or has white space, or the scheme of the URL is
                neither `http` nor `https`.
        """
        name, _, url = text.partition("=")
        # White space ends a name in the text of `CatalogUnread`, which `error_in` parses.
        is_name = name != "" and len(name.split()) == 1
        if not is_name or urlsplit(url).scheme not in ("http", "https"):
            raise ReconcileError(
                f"{text!r} does not name a catalog.",
                "Write NAME=URL, for instance eu=https://eu.example.com.",
            )
        return cls(name=name, url=url.rstrip("/"))

    def call(self, send: Callable[[Client], Awaitable[T]], *, seconds: float = CALL_SECONDS) -> T:
        """Run `send` with a client of the catalog, in a new event loop.

        Raises:
            CatalogUnread: the catalog refused a request, or could not be read in several attempts.
        """

        # The task returns no result, because `asyncio.run` would format the result, with the body
        # of an answer, when it restores the signal handler.
        results: list[T] = []

        async def connect() -> None:
            async with Client.open(
                self.url, token=self.token, timeout_seconds=seconds, retry=self.retry
            ) as client:
                results.append(await send(client))

        try:
            asyncio.run(connect())
        except ClientError as error:
            raise self._explained(error) from error
        return results[0]

    def _explained(self, error: ClientError) -> CatalogUnread:
        reason = " ".join(error.message.split())
        if isinstance(error, Refused) and not error.is_retryable:
            status = error.problem.status
            message = f"Catalog {self.name} at {self.url} answered {status}: {reason}"
            return CatalogUnread(message, _HINTS.get(status, error.hint), self.name)
        return CatalogUnread(
            f"Catalog {self.name} could not be read at {self.url}: {reason}",
            "Check that it runs and that its URL is right, then start the job again.",
            self.name,
        )


def parse_catalogs(catalogs: Iterable[str], tokens: Mapping[str, str]) -> list[RemoteCatalog]:
    """Read each `NAME=URL`, and add the token of the catalog.

    Args:
        tokens: the bearer tokens by the name of the catalog.

    Raises:
        ReconcileError: a text is malformed.
    """
    remotes = [RemoteCatalog.parse(text) for text in catalogs]
    return [replace(remote, token=tokens.get(remote.name)) for remote in remotes]
