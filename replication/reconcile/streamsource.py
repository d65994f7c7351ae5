"""The change stream of a catalog as a streaming data source of Spark: a node's feed, or a topic."""

from __future__ import annotations

import asyncio
import pickle
import time
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

from catalog.client import Client, CursorExpired
from catalog.model.entity import Entity, Tombstone
from replication.feed.feedlines import FeedEnd, read_line
from replication.reconcile.inputs.capturedinputs import SETTINGS, TopicInput, copies_in
from replication.reconcile.inputs.nodeinput import NodeInput
from replication.transfer.topicrecords import TopicLost, open_topic

FORMAT = "concord_changes"
SCHEMA = (
    "catalog string, authority string, origin string, epoch bigint, deleted boolean, "
    "digest string, at double, gap string"
)
Offsets = dict[str, int]
"""The next offset of each partition of a topic."""
Row = tuple[str, str, str, int, bool, str, float, str]

_CHANGES_AT_ONCE = 1000
_MOST_PAGES = 10
_RECORDS_AT_ONCE = 5000
"""The most records of a partition in a batch."""


def changes_of(spark: SparkSession, given: NodeInput | TopicInput) -> DataFrame:
    """The changes of a catalog from now on, with the columns of `SCHEMA`."""
    spark.dataSource.register(ChangeSource)
    # Spark's logs mask an option with this name, and an input has a token.
    option = b64encode(pickle.dumps(given)).decode()
    return spark.readStream.format(FORMAT).option("secretinput", option).load()


class ChangeSource(DataSource):
    """`spark.readStream.format("concord_changes")`; `secretinput` is the pickled input."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return SCHEMA

    def simpleStreamReader(self, schema: Any) -> SimpleDataSourceStreamReader:
        # The driver of this job has pickled the input.
        given = pickle.loads(b64decode(self.options["secretinput"]))
        return _NodeReader(given) if isinstance(given, NodeInput) else _TopicReader(given)


class _NodeReader(SimpleDataSourceStreamReader):
    """Reads the feed of a node; the offset is a cursor.

    A repeated reading shows the present state of the same entities, so it may show later epochs
    than the first one, and never earlier ones.
    """

    def __init__(self, given: NodeInput) -> None:
        self._given = given

    def initialOffset(self) -> dict[str, str]:
        return {"at": self._given.call(lambda client: client.cursor())}

    def read(self, start: dict[str, str]) -> tuple[Iterator[Row], dict[str, str]]:
        rows, cursor = self._given.call(lambda client: self._read(client, start["at"], None))
        return iter(rows), {"at": cursor}

    def readBetweenOffsets(self, start: dict[str, str], end: dict[str, str]) -> Iterator[Row]:
        rows, _ = self._given.call(lambda client: self._read(client, start["at"], end["at"]))
        return iter(rows)

    async def _read(self, client: Client, cursor: str, end: str | None) -> tuple[list[Row], str]:
        rows: list[Row] = []
        # A repeated reading may get other pages, and need not meet `end`: the bound ends it.
        for _ in range(_MOST_PAGES):
            try:
                page, following = await self._page(client, cursor)
            except CursorExpired as error:
                # The log was cut, or belongs to another database: the watch goes on from now.
                rows.append(_gap(self._given.name, error.message))
                return rows, await client.cursor()
            rows += page
            if following in (cursor, end) or not page:
                return rows, following
            cursor = following
        return rows, cursor

    async def _page(self, client: Client, cursor: str) -> tuple[list[Row], str]:
        rows: list[Row] = []
        async for line in client.change_lines(cursor, limit=_CHANGES_AT_ONCE, wait_seconds=0):
            copy = read_line(line)
            if isinstance(copy, FeedEnd):
                return rows, copy.cursor
            if isinstance(copy, Entity | Tombstone):
                rows.append(_row(self._given.name, copy))
        raise EOFError(f"the feed of {self._given.name} broke off")


class _TopicReader(SimpleDataSourceStreamReader):
    """Reads a topic; the offset has the offset of each partition, so each reading is the same."""

    def __init__(self, given: TopicInput) -> None:
        self._given = given

    def initialOffset(self) -> Offsets:
        return asyncio.run(self._end())

    def read(self, start: Offsets) -> tuple[Iterator[Row], Offsets]:
        rows, end = asyncio.run(self._read(start, None))
        return iter(rows), end

    def readBetweenOffsets(self, start: Offsets, end: Offsets) -> Iterator[Row]:
        rows, _ = asyncio.run(self._read(start, end))
        return iter(rows)

    async def _end(self) -> Offsets:
        async with open_topic(self._given.url, SETTINGS) as topic:
            bounds = await topic.bounds(await topic.partitions())
            return _offsets(bounds.ends)

    async def _read(self, start: Offsets, end: Offsets | None) -> tuple[list[Row], Offsets]:
        name = self._given.name
        begins = _positions(start)
        async with open_topic(self._given.url, SETTINGS) as topic:
            bounds = await topic.bounds(len(begins))
            firsts, lasts = bounds.begins, bounds.ends
            if any(not f <= b <= e for f, b, e in zip(firsts, begins, lasts, strict=True)):
                gap = _gap(name, "the topic was deleted, cut or written anew")
                return [gap], _offsets(lasts)
            if end is None:
                most = (begin + _RECORDS_AT_ONCE for begin in begins)
                ends = tuple(map(min, lasts, most))
            else:
                ends = _positions(end)
            try:
                return [
                    _row(name, copy) async for copy in copies_in(topic, begins, ends)
                ], _offsets(ends)
            except TopicLost as error:
                return [_gap(name, error.message)], _offsets(lasts)


def _offsets(positions: Sequence[int]) -> Offsets:
    return {str(partition): position for partition, position in enumerate(positions)}


def _positions(offsets: Offsets) -> tuple[int, ...]:
    return tuple(int(offsets[str(partition)]) for partition in range(len(offsets)))


def _row(catalog: str, copy: Entity | Tombstone) -> Row:
    is_deleted = isinstance(copy, Tombstone)
    digest = copy.digest.hex()
    return (catalog, copy.authority, copy.origin, copy.epoch, is_deleted, digest, time.time(), "")


def _gap(catalog: str, reason: str) -> Row:
    return (catalog, "", "", 0, False, "", time.time(), " ".join(reason.split())[:300] or "unknown")
