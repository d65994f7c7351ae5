"""The interface between a walk and its readers, which read a server's catalog part by part."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from catalog.client import ClientError, JsonObject
from catalog.model.attributes import PROVENANCE
from catalog.model.documentforms import decode_document, document_bytes, document_names, shape_of
from catalog.model.entity import Entity
from catalog.model.errors import XRegistryError
from catalog.model.linkterms import Dialect
from catalog.model.schema import GroupType, Model, ResourceType
from catalog.model.timestamps import parse_time
from catalog.model.xid import RESERVED_VERSION_IDS, Xid, is_valid_id
from catalog.writing.documentchecks import RequestChecks
from replication.deciding.copychecks import MalformedCopy
from replication.deciding.selection import is_of_types, is_selected
from replication.feed.feedlines import check_storable
from replication.peers.linkbounds import Allowance
from replication.readers.walkedserver import AnswerMalformed, WalkedServer

_OF_ALL = frozenset({"self", "shortself", "xid", "epoch", "createdat", "modifiedat", "$schema"})
_OF_META = frozenset({"readonly", "defaultversionurl"})
# The result of a server's validation is not content, and is absent in document view.
_OF_VERSION = frozenset(
    {"versionid", "isdefault"}
    | {"formatvalidated", "formatvalidatedreason"}
    | {"compatibilityvalidated", "compatibilityvalidatedreason"}
)
NO_TIME = datetime(1970, 1, 1, tzinfo=UTC)
"""Stands for a time that a server does not show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkedEntity:
    """An entity as its server shows it, without a digest.

    The epoch is the epoch of the server, or 0 if the server shows none. `lacks_document` says that
    the entity may have a document whose exact bytes the server did not show; `lacks_times` says
    that the server shows no times.
    """

    entity: Entity
    lacks_document: bool = False
    lacks_times: bool = False


def read_group(
    authority: str, kind: GroupType, xid: Xid, body: Any, collections: Iterable[str]
) -> WalkedEntity:
    """A group.

    Args:
        collections: the plural names of the group's resources at the server.

    Raises:
        ValueError: the reason why the body is no group.
    """
    told = _object(body)
    _check_identity(told, kind.singular, xid.gid, str(xid))
    derived = {f"{each}{end}" for each in collections for end in ("", "url", "count")}
    return WalkedEntity(entity=_entity(authority, xid, told, {f"{kind.singular}id", *derived}))


def read_resource(
    authority: str, kind: ResourceType, xid: Xid, meta: Any, group: Entity
) -> WalkedEntity:
    """A resource, from its meta entity. A cross reference has the times of its `group`.

    Raises:
        ValueError: the reason why the body is no resource.
    """
    told = _object(meta)
    _check_identity(told, kind.singular, xid.rid, f"{xid}/meta")
    if (target := told.get("xref")) is not None:
        at = group.createdat
        return WalkedEntity(entity=entity_at(authority, xid, 0, {"xref": target}, at, at))
    entity = _entity(authority, xid, told, {f"{kind.singular}id", *_OF_META})
    chosen = {"defaultversionsticky": False, **entity.attributes}
    return WalkedEntity(entity=replace(entity, attributes=chosen))


def read_version(authority: str, kind: ResourceType, xid: Xid, body: Any) -> WalkedEntity:
    """A version.

    Raises:
        ValueError: the reason why the body is no version.
    """
    told = _object(body)
    _check_identity(told, kind.singular, xid.rid, str(xid))
    _check_identity(told, "version", xid.vid, str(xid))
    value, encoded, url = document_names(kind)
    documents = {value, encoded} if kind.hasdocument else set()
    entity = _entity(authority, xid, told, {f"{kind.singular}id", *documents, *_OF_VERSION})
    entity = replace(entity, attributes={"ancestorid": xid.vid, **entity.attributes})
    if not kind.hasdocument or url in entity.attributes:
        return WalkedEntity(entity=entity)
    contenttype = entity.attributes.get("contenttype")
    if told.get(encoded) is not None:
        return WalkedEntity(entity=with_document(entity, decode_document(told[encoded])))
    # Metadata has the value of a JSON document, not the exact text.
    is_text = isinstance(contenttype, str) and shape_of(kind, contenttype) == "string"
    if is_text and isinstance(told.get(value), str):
        document = document_bytes(kind, str(contenttype), told[value])
        return WalkedEntity(entity=with_document(entity, document))
    return WalkedEntity(entity=entity, lacks_document=True)


def entity_at(
    authority: str,
    xid: Xid,
    epoch: int,
    attributes: Mapping[str, Any],
    createdat: datetime,
    modifiedat: datetime,
) -> Entity:
    """An entity whose authority is its server: the xid is the origin."""
    return Entity(
        xid=str(xid),
        kind=xid.kind,
        authority=authority,
        origin=str(xid),
        epoch=epoch,
        attributes=attributes,
        createdat=createdat,
        modifiedat=modifiedat,
    )


def with_document(entity: Entity, document: bytes) -> Entity:
    """An entity with its document; an empty document counts as none."""
    return replace(entity, document=document or None)


def read_time(value: object, name: str) -> datetime:
    """The time that a server shows under a name.

    Raises:
        ValueError: the reason why the value is no time.
    """
    if not isinstance(value, str):
        raise ValueError(f'it has no "{name}"')
    try:
        return parse_time(value)
    except ValueError as error:
        raise ValueError(f'its "{name}" is no time: {error}') from error


def _entity(authority: str, xid: Xid, told: Mapping[str, Any], without: set[str]) -> Entity:
    left, origin, epoch = _OF_ALL | without, told.get("origin"), told.get("epoch")
    # A replica in a Concord catalog shows its own authority and origin.
    if "authority" in told and isinstance(origin, str) and origin.endswith(str(xid)):
        left |= PROVENANCE
    if type(epoch) is not int or epoch < 0:
        raise ValueError("it has no epoch")
    attributes = {k: v for k, v in told.items() if k not in left and v is not None}
    createdat = read_time(told.get("createdat"), "createdat")
    modifiedat = read_time(told.get("modifiedat"), "modifiedat")
    return entity_at(authority, xid, epoch, attributes, createdat, modifiedat)


def _check_identity(told: Mapping[str, Any], singular: str, id: str, xid: str) -> None:
    for name, expected in ((f"{singular}id", id), ("xid", xid)):
        if told.get(name, expected) != expected:
            raise ValueError(f'its "{name}" is {str(told[name])[:64]!r}, not {expected!r}')


def _object(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("it is not an object")
    return value


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

    def state_of(self, part: WalkPart) -> Hashable | None:
        """A value that changes with the set of groups of a part; `None` without such a value."""
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
        return MalformedCopy.of(self.reading.authority, xid, reason)

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
