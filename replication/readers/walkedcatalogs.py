"""Finds out the API of a server that a link is to walk."""

from __future__ import annotations

from collections.abc import Mapping

from catalog.client import Refused
from catalog.dialects.confluent.requests import ROOT
from catalog.dialects.messagecatalog.uris import CATALOG_ROOT
from catalog.dialects.registry04.names import REGISTRY04_ROOT
from catalog.model.linkterms import Dialect
from catalog.model.schema import Model
from replication.readers.confluentreader import ConfluentReader
from replication.readers.draftreaders import MessageCatalogReader, Registry04Reader, ServiceReader
from replication.readers.reader import NoCatalog, WalkedCatalog, WalkReader
from replication.readers.registryreader import RegistryReader
from replication.readers.walkedserver import GONE, WalkedServer

DIALECT_ROOTS: Mapping[Dialect, tuple[str, ...]] = {
    "xregistry": ("",),
    "registry04": ("", REGISTRY04_ROOT),
    "messagecatalog": ("", CATALOG_ROOT),
    "discovery": ("",),
    "confluent": ("", ROOT, "/apis/ccompat/v7"),
}
"""The possible paths of each API below the URL of a link, by dialect."""

_READERS: Mapping[Dialect, type[WalkReader]] = {
    "xregistry": RegistryReader,
    "registry04": Registry04Reader,
    "messagecatalog": MessageCatalogReader,
    "discovery": ServiceReader,
    "confluent": ConfluentReader,
}
# A path without GET is one of another API.
_ABSENT = GONE | {405}


async def find_catalog(
    server: WalkedServer, model: Model, dialect: Dialect | None = None
) -> WalkedCatalog:
    """The catalog of a server by the given dialect, or by the first dialect of the server.

    Raises:
        NoCatalog: the server has no catalog that this node can read.
        OtherEdition: the server is an xRegistry of another edition.
        ClientError: the server does not answer.
    """
    first: NoCatalog | None = None
    for each in [dialect] if dialect else DIALECT_ROOTS:
        for root in DIALECT_ROOTS[each]:
            try:
                return await _READERS[each].find(server, model, root)
            except NoCatalog as error:
                first = first or error
            except Refused as error:
                if error.problem.status not in _ABSENT:
                    raise
                missing = f"{server.url}{root} answered {error.problem.status}: {error.message}"
                first = first or NoCatalog(missing)
    assert first is not None, "each dialect has a path"
    raise first
