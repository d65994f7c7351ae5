"""A catalog under comparison, as the operator names it and as HTTP reaches it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TypeVar
from urllib.parse import urlsplit

from catalog.client import Backoff, Client, ClientError, Refused, Retry
from replication.reconcile.errors import ReconcileError

T = TypeVar("T")

CALL_SECONDS = 600.0
RETRY = Retry(attempts=3, backoff=Backoff(initial=0.5, factor=2, cap=60, jitter=0.5))

_HINTS = {
    **dict.fromkeys((401, 403), "Give a token for this catalog that has the role replicator."),
    404: "Check that the URL is the base URL of a Concord node that offers replication.",
    410: "Start the job again: the catalog no longer keeps the requested state.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteCatalog:
    """The name that the operator gives a catalog, its base URL and a bearer token.

    It can be pickled, and `call` works in Spark's Python workers.
    """

    name: str
    url: str
    token: str | None = field(default=None, repr=False)
    retry: Retry = field(default=RETRY, repr=False)

    @classmethod
    def parse(cls, text: str) -> RemoteCatalog:
        """Read `NAME=URL`.

        Raises:
            ReconcileError: there is no name, or the URL is not one of HTTP.
        """
        name, _, url = text.partition("=")
        if not name or urlsplit(url).scheme not in ("http", "https"):
            raise ReconcileError(
                f"{text!r} does not name a catalog.",
                "Write NAME=URL, for instance eu=https://eu.example.com.",
            )
        return cls(name=name, url=url.rstrip("/"))

    def call(self, send: Callable[[Client], Awaitable[T]], *, seconds: float = CALL_SECONDS) -> T:
        """Run `send` with a client of the catalog, in an event loop of its own.

        Raises:
            ReconcileError: the catalog refused a request, or could not be read in any attempt.
        """

        # Not the result of the task: `asyncio.run` formats that, with the body of an answer, when
        # it restores the signal handler.
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

    def _explained(self, error: ClientError) -> ReconcileError:
        reason = " ".join(error.message.split())
        if isinstance(error, Refused) and not error.is_retryable:
            status = error.problem.status
            message = f"Catalog {self.name} at {self.url} answered {status}: {reason}"
            return ReconcileError(message, _HINTS.get(status, error.hint))
        return ReconcileError(
            f"Catalog {self.name} could not be read at {self.url}: {reason}",
            "Check that it runs and that its URL is right, then start the job again.",
        )


def parse_catalogs(catalogs: Iterable[str], tokens: Iterable[str]) -> list[RemoteCatalog]:
    """Read each `NAME=URL`, and each `NAME=VARIABLE` that names the token of a catalog.

    Raises:
        ReconcileError: a text is malformed, or the environment lacks a variable.
    """
    remotes = [RemoteCatalog.parse(text) for text in catalogs]
    variables = dict(text.partition("=")[::2] for text in tokens)
    if unknown := variables.keys() - {remote.name for remote in remotes}:
        raise ReconcileError(
            f"There is a token for {min(unknown)!r}, and no catalog of that name.",
            "Write NAME=VARIABLE, with the name of a given catalog.",
        )
    return [replace(remote, token=_token(variables.get(remote.name))) for remote in remotes]


def _token(variable: str | None) -> str | None:
    if variable is not None and variable not in os.environ:
        raise ReconcileError(
            f"There is no environment variable {variable!r}.", "Set it to the catalog's token."
        )
    return os.environ[variable] if variable else None
