"""HTTP to one catalog: requests that are repeated as a whole until they were read completely.

The standard library's client is used since Spark's workers read with it: its response is a
file that Arrow parses while it arrives, and a worker needs nothing installed for it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http.client import HTTPException, HTTPResponse
from typing import Any, TypeVar
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import orjson

from replication.reconcile.errors import ReconcileError

T = TypeVar("T")

_RETRIED = frozenset({429, 500, 502, 503, 504})
_HINTS = {
    401: "Give a token for this catalog that has the role replicator.",
    403: "Give a token for this catalog that has the role replicator.",
    404: "Check that the URL is the base URL of a Concord node that offers replication.",
    410: "Start the job again: what was being read is no longer kept.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """How often a request is made and how long to wait in between, in seconds."""

    attempts: int = 3
    initial: float = 0.5
    factor: float = 2.0
    cap: float = 60.0

    def delay(self, failed: int, retry_after: float | None, jitter: float) -> float:
        """The wait after the `failed`-th failure; `jitter` is between 0 and 1."""
        if retry_after is not None:
            return min(self.cap, max(0.0, retry_after))
        return min(self.cap, self.initial * self.factor ** (failed - 1)) * (0.5 + jitter / 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """One catalog as seen over HTTP. `name` is what the operator calls it."""

    name: str
    url: str
    token: str | None = None
    timeout_seconds: float = 60.0
    backoff: Backoff = Backoff()
    sleep: Callable[[float], None] = time.sleep
    random: Callable[[], float] = random.random

    def get(self, path: str, query: Mapping[str, str], consume: Callable[[HTTPResponse], T]) -> T:
        """What `consume` makes of the response. It is called anew for each attempt.

        Raises:
            ReconcileError: the catalog refused, or could not be read in any attempt.
        """
        target = f"{path}?{urlencode(query)}" if query else path
        return self._repeat(Request(self.url + target, headers=self._headers()), consume)

    def get_json(self, path: str) -> Any:
        """The JSON at `path`; raises `ReconcileError` as `get` does."""
        return self.get(path, {}, self._decode)

    def post_json(self, path: str, body: Any) -> Any:
        """The JSON answer to `body`, which must be safe to send twice."""
        headers = self._headers() | {"Content-Type": "application/json"}
        request = Request(self.url + path, data=orjson.dumps(body), headers=headers)
        return self._repeat(request, self._decode)

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    def _decode(self, response: HTTPResponse) -> Any:
        try:
            return orjson.loads(response.read())
        except orjson.JSONDecodeError as error:
            raise ReconcileError(
                f"Catalog {self.name} answered with something that is not JSON: {error}.",
                _HINTS[404],
            ) from error

    def _repeat(self, request: Request, consume: Callable[[HTTPResponse], T]) -> T:
        for attempt in range(1, self.backoff.attempts + 1):
            try:
                with urlopen(request, timeout=self.timeout_seconds) as response:
                    return consume(response)
            except HTTPError as error:
                cause: Exception = error
                retry_after = _retry_after(error.headers.get("Retry-After"))
                error.close()
                if error.code not in _RETRIED:
                    raise self._refused(request, error) from error
            except (OSError, HTTPException) as error:
                cause, retry_after = error, None
            if attempt < self.backoff.attempts:
                self.sleep(self.backoff.delay(attempt, retry_after, self.random()))
        raise ReconcileError(
            f"Catalog {self.name} could not be read at {request.full_url} "
            f"in {self.backoff.attempts} attempts: {_reason(cause)}.",
            "Check that it runs and that its URL is right, then start the job again.",
        ) from cause

    def _refused(self, request: Request, error: HTTPError) -> ReconcileError:
        return ReconcileError(
            f"Catalog {self.name} answered {error.code} {error.reason} to {request.full_url}.",
            _HINTS.get(error.code, ""),
        )


def _reason(error: Exception) -> str:
    if isinstance(error, HTTPError):
        return f"{error.code} {error.reason}"
    return str(getattr(error, "reason", "") or error or type(error).__name__)


def _retry_after(header: str | None) -> float | None:
    """Seconds to wait, from a number or a date; `None` where the header helps not."""
    if header is None:
        return None
    if header.strip().isdigit():
        return float(header)
    try:
        return parsedate_to_datetime(header).timestamp() - time.time()
    except ValueError:
        return None
