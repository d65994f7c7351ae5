"""The terms in which a link writes to a server: wanted, present and removed entities."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from catalog.client import Client, JsonObject
from catalog.model.digest import canonical
from catalog.model.entity import Entity, Origin
from catalog.model.xid import Xid
from catalog.store.database import Connection
from replication.deciding.provenance import Copy
from replication.store.writtenentities import WrittenEntity


class Unwritable(Exception):
    """A server cannot have an entity, or keeps one: `args[0]` is the reason, for the operator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """An entity of this node as a server is to have it.

    `content` is what the server shows of it, without what the server sets. A resource's item is
    its meta entity.
    """

    entity: Entity
    content: JsonObject
    digest: bytes = field(init=False)
    shape: bytes = field(init=False)

    def __post_init__(self) -> None:
        shape = shape_of(self.content)
        object.__setattr__(self, "shape", shape)
        # Older drafts tell the media type beside the content.
        media_type = str(self.entity.attributes.get("contenttype", "")).encode()
        hashed = shape + (self.entity.document_sha256 or b"") + media_type
        object.__setattr__(self, "digest", hashlib.sha256(hashed).digest())

    @property
    def origin(self) -> Origin:
        return Origin(self.entity.authority, self.entity.origin)

    @property
    def xid(self) -> Xid:
        return self.entity.path

    @property
    def collection(self) -> str:
        """The path of the collection that its resource is in."""
        return self.holder.rpartition("/")[0]

    @property
    def holder(self) -> str:
        """The xid of the group, or of the resource, that the entity is or belongs to."""
        return holder_of(self.entity.xid)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """An entity as a server shows it; `shape` is that of its content without its document.

    `tag` changes with each write to it, where the server tells one. `owner` is the mark of the
    link that brought it, where there is one.
    """

    shape: bytes
    tag: str = ""
    owner: str = ""
    is_version: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """The answer to a write: the entity's path at the server, and its tag."""

    path: str
    tag: str = ""


@dataclass(slots=True, kw_only=True)
class Translation:
    """The items of some copies, groups before versions before resources.

    `gone` are the origins that a server is not to have any more, `faults` the copies that it
    cannot have, each with the reason.
    """

    items: list[Item] = field(default_factory=list)
    gone: list[Copy] = field(default_factory=list)
    faults: list[tuple[Copy, str]] = field(default_factory=list)


class Target(Protocol):
    """A server that a link writes to. All calls raise `ClientError`.

    `root` is its URL, `identity` differs where another catalog is there than before, `software`
    is what operators read. `client` sends all requests.
    """

    client: Client
    root: str
    identity: str
    software: str

    async def plan(self, connection: Connection, copies: Sequence[Copy]) -> Translation:
        """Translate copies; those of which the server has no notion are left out."""
        ...

    def path_of(self, item: Item) -> str:
        """The path that a new entity is expected to have."""
        ...

    async def find(self, holder: Xid) -> Mapping[str, Found]:
        """The entities of a group, without those below it, or of a resource: by path."""
        ...

    async def find_below(self, group: Xid) -> Mapping[str, Mapping[str, Found]]:
        """The entities of each resource of a group, by its xid and their paths."""
        ...

    async def create(
        self, items: Sequence[Item], documents: Mapping[str, bytes]
    ) -> Mapping[str, str] | None:
        """Create new resources of one collection by one request, all or none.

        Args:
            items: all those of each resource.
            documents: of versions, by xid.

        Returns:
            tags by xid, as far as the server tells them; `None` if the API has no such request.
        """
        ...

    async def write(
        self, item: Item, document: bytes | None, written: WrittenEntity, *, is_new: bool
    ) -> Answered:
        """Create an entity, or replace it.

        Args:
            written: the entity at the server, or the path that is expected of a new one.

        Raises:
            Unwritable
        """
        ...

    async def read_document(self, path: str) -> bytes: ...

    async def remove(
        self, holder: Xid, paths: Collection[str], adopted: Collection[str], *, is_whole: bool
    ) -> bool:
        """Delete what a link has brought to a group or resource; return whether that is gone.

        A resource goes with the last of its versions.

        Args:
            paths: of what to delete.
            adopted: of what was there before the link, and stays.
            is_whole: nothing that the link brought is to stay.

        Raises:
            Unwritable: it has to stay, since others have added to it.
        """
        ...


def holder_of(xid: str) -> str:
    """The xid of the group, or of the resource, that an entity is or belongs to."""
    return xid.partition("/versions/")[0] if xid.count("/") == 6 else xid


def shape_of(content: Mapping[str, Any]) -> bytes:
    """A hash of content, by which equal content is found."""
    return hashlib.sha256(canonical(content)).digest()


def in_order(items: Sequence[Item]) -> list[Item]:
    """Items in the order in which they are written: a version comes after its ancestor."""
    groups = [item for item in items if item.xid.kind == "group"]
    versions = [item for item in items if item.xid.kind == "version"]
    metas = [item for item in items if item.xid.kind == "resource"]
    versions.sort(key=lambda item: (item.holder, item.entity.createdat, item.xid.vid))
    waiting = {item.entity.xid: item for item in versions}
    ordered: list[Item] = []
    for item in versions:
        chain: list[Item] = []
        following: Item | None = item
        while following is not None and following.entity.xid in waiting:
            chain.append(waiting.pop(following.entity.xid))
            ancestor = following.entity.attributes.get("ancestorid")
            following = waiting.get(f"{following.holder}/versions/{ancestor}")
        ordered += reversed(chain)
    return [*groups, *ordered, *metas]
