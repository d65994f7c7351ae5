"""A node as an input of a comparison, over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import orjson
import pyarrow as pa

from catalog.client import Backoff, Client, ClientError, Refused, Retry
from catalog.operations.feed import DigestSchemaIds
from catalog.operations.reconciliations import LIST_RECONCILIATIONS
from replication.reconcile.catalogs import ReportedLink, SurveyedCatalog, check_digest_version
from replication.reconcile.digestrows import BucketRange, parse_rows
from replication.reconcile.errors import CatalogUnread

T = TypeVar("T")

CALL_SECONDS = 600.0
RETRY = Retry(attempts=3, backoff=Backoff(initial=0.5, factor=2, cap=60, jitter=0.5))

_DIGESTS = "/replication/digests"
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
class NodeInput:
    """A node that runs: its base URL and a bearer token. Each range of rows is a request."""

    name: str
    url: str
    token: str | None = field(default=None, repr=False)
    retry: Retry = field(default=RETRY, repr=False)

    @contextmanager
    def opened(self, work: Path, progress: Callable[[str], None]) -> Iterator[NodeInput]:
        yield self

    def survey(self) -> SurveyedCatalog:
        return self.call(self._survey)

    async def _survey(self, client: Client) -> SurveyedCatalog:
        digests = await client.request("GET", _DIGESTS)
        ids = await client.request("GET", _DIGESTS, params={"format": "schemaids"})
        told, handshake, links = (
            await client.call(LIST_RECONCILIATIONS),
            await client.handshake(),
            await client.links(),
        )
        buckets = orjson.loads(digests.body)
        for version in (handshake.digestversion, buckets["digestversion"]):
            check_digest_version(self.name, version)
        return SurveyedCatalog(
            input=self,
            authority=handshake.authority,
            instance=str(handshake.instance),
            links=tuple(ReportedLink.of(link, self.url) for link in links),
            fingerprints={bucket: (count, xor) for bucket, count, xor in buckets["buckets"]},
            as_of=digests.headers.get("Concord-Cursor"),
            told=told.reconciliations,
            schemaids=DigestSchemaIds.model_validate_json(ids.body).schemaids,
        )

    def read(self, buckets: BucketRange, *, verify: bool, is_signed: bool) -> list[pa.RecordBatch]:
        params = {
            "format": "csv",
            "from": str(buckets.start),
            "to": str(buckets.stop),
            "verify": "true" if verify else "false",
            **({"signatures": "true"} if is_signed else {}),
        }
        answer = self.call(
            lambda client: client.request("GET", _DIGESTS, params=params, largest=None)
        )
        return parse_rows(answer.body, buckets, catalog=self.name, is_signed=is_signed)

    def again(self) -> NodeInput:
        return self

    def call(self, send: Callable[[Client], Awaitable[T]], *, seconds: float = CALL_SECONDS) -> T:
        """Run `send` with a client of the catalog, in a new event loop.

        Raises:
            CatalogUnread: the catalog refused a request, could not be read in several attempts, or
                gave an answer that `send` cannot read.
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
        except (KeyError, TypeError, ValueError) as error:
            raise CatalogUnread(
                f"Catalog {self.name} answers in a way that this job can't read: {error!r}.",
                "Check that the versions of Concord of both belong together.",
                self.name,
            ) from error
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
