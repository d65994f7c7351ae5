"""A server of other software as an input of a comparison: walked by its standard API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from catalog.client import ClientError
from catalog.client.credential import BearerToken
from catalog.http.outbound import open_session
from catalog.model.entity import Entity
from catalog.model.modelsource import default_model
from catalog.settings import Settings
from catalog.supervisor import LoopTiming
from replication.peers.linkbounds import Allowance
from replication.readers.reader import (
    Reading,
    WalkedCatalog,
    WalkedEntity,
    WalkReader,
    with_document,
)
from replication.readers.walkedcatalogs import find_catalog
from replication.readers.walkedserver import WalkedServer
from replication.reconcile.errors import CatalogUnread
from replication.reconcile.inputs.capture import capture
from replication.reconcile.inputs.input import OpenedInput
from replication.sources.walkedcopies import sealed_copy

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
        # The operator of the job has named the server, wherever it is.
        settings = Settings(allow_private_addresses=True)
        async with open_session(settings) as session:
            server = WalkedServer(
                self.url, session, settings, LoopTiming(), credential=BearerToken(self.token)
            )
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
                    allowance=Allowance.of(settings),
                )
            )
            copies = [copy async for copy in self._copies(reader, progress)]
            if reader.faults:
                raise ClientError(
                    f"it does not list what it has: {'; '.join(reader.faults)}.", _LINKS
                )
            return _instance(catalog), copies

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


def _instance(catalog: WalkedCatalog) -> str:
    return f"{catalog.software} {catalog.identity}"
