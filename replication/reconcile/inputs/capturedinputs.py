"""Inputs of a comparison that are read as a whole: a server of other software, and a Kafka topic.

Both are turned into a snapshot, which is read by ranges of buckets.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from catalog.client import ClientError
from catalog.client.credential import BearerToken
from catalog.http.outboundconnections import open_session
from catalog.model.digest import bucket, fingerprint
from catalog.model.entity import Entity, Origin, Tombstone
from catalog.model.modelsource import default_model
from catalog.model.timestamps import microseconds_of
from catalog.settings import Settings
from catalog.supervisor import LoopTiming
from replication.deciding.batch import origin_of
from replication.peers.linkbounds import Allowance, PacedClient
from replication.readers.reader import Reading, WalkedEntity, WalkReader, with_document
from replication.readers.walkedcatalogs import find_catalog
from replication.readers.walkedserver import WalkedServer, server_of
from replication.reconcile.catalogs import ReportedLink, SurveyedCatalog
from replication.reconcile.errors import CatalogUnread
from replication.reconcile.inputs.input import Input, OpenedInput
from replication.reconcile.inputs.snapshotinput import SIGNED_ROWS, SnapshotInput, write_files
from replication.sources.topicsource import read_state
from replication.sources.walkedcopies import sealed_copy
from replication.transfer.topicrecords import Checkpoint, open_topic, read_record, why_no_topic

if TYPE_CHECKING:
    from replication.transfer.topic import Topic

_ROWS_PER_PART = 100_000
# The operator of the job has named the servers and brokers, wherever they are.
SETTINGS = Settings(allow_private_addresses=True)
_LINKS = (
    "Compare and mend what a link brought from it with `concord link dry-run` and `link reset`."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerInput:
    """A server of the xRegistry standard, which is walked once, as a link of mode `walk` does.

    The server is the authority of its entities. The digests are those of the copies that links
    make, so only servers that show the times of entities can be compared.
    """

    name: str
    url: str
    token: str | None = field(default=None, repr=False)

    @contextmanager
    def opened(self, work: Path, progress: Callable[[str], None]) -> Iterator[OpenedInput]:
        startedat = datetime.now(UTC)
        progress(f"walking {self.name}")
        try:
            identity, copies = asyncio.run(self._walk(progress))
        except ClientError as error:
            raise CatalogUnread(
                f"Catalog {self.name} could not be read at {self.url}: {error.message}",
                error.hint or _LINKS,
                self.name,
            ) from error
        yield capture(
            self, copies, work, startedat, authority=self.url, instance=identity, links=()
        )

    async def _walk(self, progress: Callable[[str], None]) -> tuple[str, list[Entity]]:
        async with open_session(SETTINGS) as session:
            seconds, credential = SETTINGS.request_timeout_seconds, BearerToken(self.token)
            client = PacedClient(server_of(self.url), session, seconds, credential=credential)
            server = WalkedServer(self.url, client, SETTINGS, LoopTiming())
            model = default_model()
            catalog = await find_catalog(server, model, "xregistry")
            for fault in catalog.faults:
                progress(f"{self.name}: {fault.path} is not compared: {fault.reason}")
            reader = catalog.reader(
                Reading(
                    server=server,
                    model=model,
                    authority=self.url,
                    scope=(),
                    types=(),
                    allowance=Allowance.of(SETTINGS),
                )
            )
            copies = [copy async for copy in self._copies(reader, progress)]
            if reader.faults:
                raise ClientError(
                    f"it does not list what it has: {'; '.join(reader.faults)}.", _LINKS
                )
            return f"{catalog.software} {catalog.identity}", copies

    async def _copies(
        self, reader: WalkReader, progress: Callable[[str], None]
    ) -> AsyncIterator[Entity]:
        for part in reader.parts:
            async for items in reader.read_part(part):
                for item in items:
                    if not isinstance(item, WalkedEntity):
                        progress(f"{self.name}: {item.xid} is not compared: {item.reason}")
                        continue
                    entity = item.entity
                    if item.lacks_times:
                        raise ClientError(f"it shows no times of {entity.xid}.", _LINKS)
                    if item.lacks_document:
                        entity = with_document(entity, await reader.document(entity.xid))
                    yield sealed_copy(entity, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicInput:
    """A topic to which a node publishes: the last copy of each origin, up to the present end.

    A topic owns nothing: it is compared like a replica of its publisher.
    """

    name: str
    url: str

    @contextmanager
    def opened(self, work: Path, progress: Callable[[str], None]) -> Iterator[OpenedInput]:
        startedat = datetime.now(UTC)
        progress(f"reading the topic of {self.name}")
        try:
            checkpoint, copies = asyncio.run(self._read())
        except ClientError as error:
            raise CatalogUnread(
                f"Catalog {self.name} could not be read from {self.url}: {error.message}",
                error.hint,
                self.name,
            ) from error
        link = ReportedLink(
            source=self.url,
            target=self.url,
            authorities=("*",),
            scope=(),
            id=checkpoint.link,
            mode="kafka",
            reporter=self.url,
            pinned=checkpoint.authority,
        )
        yield capture(
            self,
            copies,
            work,
            startedat,
            authority=self.url,
            instance=str(checkpoint.publication),
            links=[link],
        )

    async def _read(self) -> tuple[Checkpoint, list[Entity | Tombstone]]:
        if fault := why_no_topic(self.url, SETTINGS):
            raise ClientError(f"{fault}.")
        copies: dict[Origin, Entity | Tombstone] = {}
        async with open_topic(self.url, SETTINGS) as topic:
            checkpoint, _, bounds = await read_state(topic, None)
            begins = [*map(max, checkpoint.begins, bounds.begins)]
            async for copy in copies_in(topic, begins, bounds.ends):
                copies[origin_of(copy)] = copy
        return checkpoint, list(copies.values())


async def copies_in(
    topic: Topic, begins: Sequence[int], ends: Sequence[int]
) -> AsyncIterator[Entity | Tombstone]:
    """The copies in a topic between the offsets of each partition, in order."""
    async for records in topic.read_range(dict(enumerate(begins)), dict(enumerate(ends))):
        for record in records:
            copy = read_record(record.key, record.value)
            if isinstance(copy, Entity | Tombstone):
                yield copy


def capture(
    given: Input,
    copies: Iterable[Entity | Tombstone],
    work: Path,
    startedat: datetime,
    *,
    authority: str,
    instance: str,
    links: Sequence[ReportedLink],
) -> SnapshotInput:
    """Write the copies of an input, of distinct origins, as a snapshot below `work`.

    Args:
        startedat: the time before the first copy was read.
        authority, instance, links: the identity and the links of the catalog.
    """
    rows = sorted(map(_row, copies), key=lambda row: (row["bucket"], row["origin"]))
    fingerprints: dict[int, tuple[int, int]] = {}
    for row in rows:
        if not row["deleted"]:
            count, xor = fingerprints.get(row["bucket"], (0, 0))
            sign = fingerprint(bytes.fromhex(row["digest"]))
            fingerprints[row["bucket"]] = (count + 1, xor ^ sign)
    remaining = iter(rows)
    parts = iter(lambda: list(islice(remaining, _ROWS_PER_PART)), [])
    snapshot = SnapshotInput(name=given.name, directory=str(work / given.name), url=given.url)
    surveyed = SurveyedCatalog(
        input=snapshot,
        authority=authority,
        instance=instance,
        links=tuple(links),
        fingerprints=fingerprints,
    )
    tables = (pa.Table.from_pylist(part, SIGNED_ROWS) for part in parts)
    write_files(snapshot.directory, surveyed, tables, startedat)
    return snapshot


def _row(copy: Entity | Tombstone) -> dict[str, Any]:
    is_deleted = isinstance(copy, Tombstone)
    changedat = copy.deletedat if isinstance(copy, Tombstone) else copy.modifiedat
    return {
        "authority": copy.authority,
        "origin": copy.origin,
        "xid": copy.xid,
        "epoch": copy.epoch,
        "deleted": is_deleted,
        "digest": copy.digest.hex(),
        "bucket": bucket(copy.authority, copy.origin),
        "changedat": microseconds_of(changedat),
        "intact": not isinstance(copy, Entity) or copy.is_intact(),
        "signature": (copy.signature or b"").hex(),
        "signedby": copy.signedby or "",
    }
