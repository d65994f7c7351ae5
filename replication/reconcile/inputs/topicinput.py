"""A Kafka topic of copies as an input of a comparison."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from catalog.client import ClientError
from catalog.model.entity import Entity, Origin, Tombstone
from catalog.settings import Settings
from replication.deciding.batch import origin_of
from replication.reconcile.catalogs import ReportedLink
from replication.reconcile.errors import CatalogUnread
from replication.reconcile.inputs.capture import capture
from replication.reconcile.inputs.input import OpenedInput
from replication.sources.topicsource import read_state
from replication.transfer.topicaddress import open_topic, why_no_topic
from replication.transfer.topicrecords import Checkpoint, read_record


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
        # The operator of the job has named the brokers, wherever they are.
        settings = Settings(allow_private_addresses=True)
        if fault := why_no_topic(self.url, settings):
            raise ClientError(f"{fault}.")
        copies: dict[Origin, Entity | Tombstone] = {}
        async with open_topic(self.url, settings) as topic:
            checkpoint, _, bounds = await read_state(topic, None)
            begins = dict(enumerate(map(max, checkpoint.begins, bounds.begins)))
            async for records in topic.read_range(begins, dict(enumerate(bounds.ends))):
                for record in records:
                    copy = read_record(record.key, record.value)
                    if isinstance(copy, Entity | Tombstone):
                        copies[origin_of(copy)] = copy
        return checkpoint, list(copies.values())
