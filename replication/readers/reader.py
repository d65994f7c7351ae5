"""The interface between a walk and its readers, which read a server's catalog part by part."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from catalog.client import ClientError, JsonObject
from catalog.model.errors import XRegistryError
from catalog.model.linkterms import Dialect
from catalog.model.schema import Model
from catalog.model.xid import RESERVED_VERSION_IDS, Xid, is_valid_id
from catalog.writing.documentchecks import RequestChecks
from replication.deciding.copychecks import MalformedCopy
from replication.deciding.selection import is_of_types, is_selected
from replication.feed.feedlines import check_storable
from replication.peers.linkbounds import Allowance
from replication.readers.walkedentities import WalkedEntity
from replication.readers.walkedserver import AnswerMalformed, WalkedPage, WalkedServer

WalkedItem = WalkedEntity | MalformedCopy

NO_ENTITY = "its path is not that of an entity"
_MOST_FAULTS = 5


class NoCatalog(ClientError):
    """The URL has no catalog that this node can read."""


class ListingContradicts(AnswerMalformed):
    """A collection lists an entity whose own xid belongs to a different collection."""


@dataclass(frozen=True, slots=True)
class WalkPart:
    """A part of a catalog that is read as a whole: the groups of a type, or one group."""

    plural: str
    gid: str = ""

    @property
    def path(self) -> str:
        return f"/{self.plural}/{self.gid}" if self.gid else f"/{self.plural}"

    def covers(self, xid: str) -> bool:
        return xid == self.path or xid.startswith(self.path + "/")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableType:
    """A type of the server that this node cannot take over, with its path and the reason."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The extent of one walk of a server.

    Args:
        model: the model of this node, which decides the types that can be taken over.
        authority: the authority of the copies.
        scope, types: the paths and types to read; every path and type if both are empty.
        allowance: the bound of entities and bytes of the whole walk.
        levels: the levels of inlining that the server supported last, by the kind of collection.
        known: digests of what the last walks brought, by xid of the resource.
        settings: what a server tells of subjects beside their versions, by subject.
        checks: begins checks of documents, by which texts become canonical.
    """

    server: WalkedServer
    model: Model
    authority: str
    scope: tuple[str, ...]
    types: tuple[str, ...]
    allowance: Allowance
    levels: dict[str, int] = field(default_factory=dict)
    known: Mapping[str, bytes] = field(default_factory=dict)
    settings: dict[str, JsonObject] = field(default_factory=dict)
    checks: Callable[[], RequestChecks] | None = None

    def selects(self, path: str) -> bool:
        return is_selected(path, self.scope, self.types)

    def parts_among(self, plurals: Sequence[str]) -> list[WalkPart]:
        """The parts to read of a catalog with these types of groups."""
        readable = [plural for plural in plurals if is_of_types(f"/{plural}", self.types)]
        if not self.scope:
            return [WalkPart(plural) for plural in readable]
        named = sorted({tuple(path.split("/")[1:3]) for path in self.scope})
        whole = {names[0] for names in named if len(names) == 1}
        wanted = [WalkPart(*names) for names in named if len(names) == 1 or names[0] not in whole]
        return [part for part in wanted if part.plural in readable]


class WalkReader(ABC):
    """Reads the parts of one catalog, once.

    `faults` say why the listing may be incomplete; `known` is for the `Reading` of the next walk.

    Args:
        plurals: the types of groups that can be read.
    """

    has_export = False
    """Whether the server may export the whole catalog in one document."""

    def __init__(self, reading: Reading, plurals: Sequence[str]) -> None:
        self.reading = reading
        self.server = reading.server
        self.parts = reading.parts_among(plurals)
        self.faults: list[str] = []
        self.known: dict[str, bytes] = {}
        # Hashes save memory. They cover every listed xid, valid or not; a collision only keeps a
        # deleted entity.
        self._seen: set[int] = set()

    @classmethod
    @abstractmethod
    async def find(cls, server: WalkedServer, model: Model, root: str) -> WalkedCatalog:
        """The catalog at a path of a server.

        Raises:
            NoCatalog: there is no catalog of this API.
            ClientError: the server does not answer.
        """

    @abstractmethod
    def read_part(self, part: WalkPart) -> AsyncIterator[list[WalkedItem]]:
        """The entities of a part, parents first; a resource comes together with its versions.

        Raises:
            ListingContradicts: the parts read so far may lack entities. Read every part again; the
                reader then inlines less.
        """

    @abstractmethod
    async def is_gone(self, xid: str) -> bool:
        """Whether the server itself answers that an entity of its API does not exist."""

    async def document(self, xid: str) -> bytes:
        """The document of a version that was read without its document."""
        document = (await self.server.document(xid)).body
        self.count_bytes()
        return document

    async def export(self) -> WalkedPage[JsonObject]:
        """The document with the whole catalog, if the reader `has_export`."""
        raise NotImplementedError

    def read_exported(
        self, part: WalkPart, document: JsonObject
    ) -> AsyncIterator[list[WalkedItem]]:
        """The entities of a part as by `read_part`, from the document with the whole catalog."""
        raise NotImplementedError

    def state_of(self, part: WalkPart | None) -> Hashable | None:
        """A value that changes with the set of groups of a part, or of the whole catalog.

        `None` if the server gives no such value.
        """
        return None

    def is_unreadable(self, xid: str) -> bool:
        """Whether the type of an entity exists at the server but cannot be taken over."""
        return False

    def see(self, xid: str) -> None:
        """Note an entity that the server still has."""
        self._seen.add(hash(xid))

    def has_seen(self, xid: str) -> bool:
        return hash(xid) in self._seen

    def item(self, collection: str, id: str, read: Callable[..., WalkedEntity]) -> WalkedItem:
        """The translation of a member of a collection, or a malformed copy with the reason."""
        xid = f"{collection}/{id}"
        if not is_valid_id(id) or (collection.endswith("/versions") and id in RESERVED_VERSION_IDS):
            return self.malformed(xid, NO_ENTITY)
        self.see(xid)
        try:
            found = read(xid=Xid.parse(xid))
            check_storable(found.entity.attributes)
        except (ValueError, TypeError, XRegistryError) as error:
            return self.malformed(xid, str(error))
        return found

    def malformed(self, xid: str, reason: str) -> MalformedCopy:
        self.see(xid)
        path = xid[:500].replace("\0", "")
        text = reason[:500].replace("\0", "")
        authority = self.reading.authority
        return MalformedCopy(authority=authority, origin=path, xid=path, epoch=0, reason=text)

    def count(self) -> None:
        """Count one more entity against the allowance.

        Raises:
            TooMuchSent
        """
        self.reading.allowance.take(0)

    def count_bytes(self) -> None:
        """Count the received bytes against the allowance.

        Raises:
            TooMuchSent
        """
        self.reading.allowance.take_bytes(self.server.take_received())

    def note_fault(self, fault: str) -> None:
        if len(self.faults) < _MOST_FAULTS:
            self.faults.append(fault)

    def check_count(self, path: str, told: Any, listed: int) -> None:
        if type(told) is int and told != listed:
            self.note_fault(f"{path} has {told} members and lists {listed}")


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkedCatalog:
    """A server's catalog as the server describes it.

    Args:
        dialect: the API by which the catalog is read.
        software: the name and the edition of the API.
        identity: a text that differs between successive catalogs at one URL.
        faults: the types that cannot be taken over.
        reader: makes a reader of the catalog.
    """

    dialect: Dialect
    software: str
    identity: str
    reader: Callable[[Reading], WalkReader]
    faults: Sequence[UnreadableType] = ()
