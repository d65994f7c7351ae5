"""Clients that write through faulty lines, and note what they know of each write."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random

import aiohttp
import orjson

from catalog.client import ONCE, Client, ClientError, Refused
from tests.faults.history import History, WriteRecord

GROUPS, MESSAGES, SCHEMAS = 2, 3, 2
_PATIENCE_SECONDS = 4.0
_LONGEST_PAUSE_SECONDS = 0.12
_AWAY_PAUSE_SECONDS = 0.6


def message_paths(node: int) -> list[str]:
    """The messages that the clients of a node write."""
    return [
        f"/messagegroups/g{node}{group}/messages/m{number}"
        for group in range(GROUPS)
        for number in range(MESSAGES)
    ]


def schema_paths(node: int) -> list[str]:
    """The schemas, with documents, that the clients of a node write."""
    return [f"/schemagroups/s{node}/schemas/d{number}" for number in range(SCHEMAS)]


def group_of(path: str) -> str:
    return "/".join(path.split("/")[:3])


def groups_by(node: int) -> frozenset[str]:
    """The groups that the clients of a node write."""
    return frozenset(group_of(path) for path in (*message_paths(node), *schema_paths(node)))


@asynccontextmanager
async def careful_client(url: str, patience: float = _PATIENCE_SECONDS) -> AsyncIterator[Client]:
    """A client that sends nothing twice, not even where it would do no harm."""
    connector = aiohttp.TCPConnector(force_close=True)
    async with aiohttp.ClientSession(connector=connector) as session:
        yield Client(url, session, retry=ONCE, timeout_seconds=patience)


@dataclass(slots=True)
class Writer:
    """One client that writes to the entities of one node again and again."""

    number: int
    node: int
    chance: Random
    history: History
    clock: Callable[[], float]

    async def run(self, url: str, ended: asyncio.Event) -> None:
        async with careful_client(url) as client:
            while not ended.is_set():
                await self.write(client)
                is_away = self.history.is_last_in_doubt(self.node, self.number)
                # The load of the run; less of it for a node that does not answer.
                longest = _AWAY_PAUSE_SECONDS if is_away else _LONGEST_PAUSE_SECONDS
                await asyncio.sleep(self.chance.uniform(0, longest))

    async def write(self, client: Client) -> None:
        """Write once."""
        kind = self.chance.choices(
            ["replace", "change what is there", "document", "delete", "delete a group"],
            [40, 25, 15, 17, 3],
        )[0]
        path = self.chance.choice(message_paths(self.node))
        if kind == "replace":
            await self._replace(client, path)
        elif kind == "change what is there":
            await self._change(client, path)
        elif kind == "document":
            await self._store(client, self.chance.choice(schema_paths(self.node)))
        else:
            everything = [*message_paths(self.node), *schema_paths(self.node)]
            path = self.chance.choice(everything)
            await self._delete(client, path if kind == "delete" else group_of(path))

    async def _replace(
        self, client: Client, path: str, *, tag: str = "", expected: int | None = None
    ) -> None:
        record = self._begin(path, self._token(), expected)
        body = {"versionid": "1", "description": record.token}
        headers = {"If-Match": tag} if tag else {}
        async with _noting(record, self.clock):
            answer = await client.request("PUT", path, body=body, headers=headers)
            record.epoch = orjson.loads(answer.body)["epoch"]

    async def _change(self, client: Client, path: str) -> None:
        """Replace what was read, unless somebody else did so meanwhile."""
        try:
            answer = await client.request("GET", path)
        except ClientError:
            return
        epoch = orjson.loads(answer.body)["epoch"]
        await self._replace(client, path, tag=answer.headers["ETag"], expected=epoch)

    async def _store(self, client: Client, path: str) -> None:
        record = self._begin(path, self._token())
        document = orjson.dumps({"title": record.token})
        headers = {"Content-Type": "application/json", "xRegistry-versionid": "1"}
        async with _noting(record, self.clock):
            answer = await client.request("PUT", path, body=document, headers=headers)
            record.epoch = int(answer.headers["xRegistry-epoch"])

    async def _delete(self, client: Client, path: str) -> None:
        async with _noting(self._begin(path), self.clock):
            await client.request("DELETE", path)

    def _begin(self, path: str, token: str = "", expected: int | None = None) -> WriteRecord:
        return self.history.begin(
            node=self.node,
            client=self.number,
            path=path,
            token=token,
            expected=expected,
            at=self.clock(),
        )

    def _token(self) -> str:
        return f"w{len(self.history.records)}-{self.chance.randrange(2**32):08x}"


@asynccontextmanager
async def _noting(record: WriteRecord, clock: Callable[[], float]) -> AsyncIterator[None]:
    """Note what became of a write; one whose answer is missing, or an error of a server, may
    have been carried out, or may be later."""
    try:
        yield
    except Refused as error:
        if error.problem.status < 500:
            record.outcome, record.ended = "refused", clock()
    except ClientError:
        pass
    else:
        record.outcome, record.ended = "acknowledged", clock()
