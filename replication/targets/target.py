"""The interface to a server that a link writes to: wanted, present and removed entities."""

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
    """A server cannot have an entity, or keeps one: `args[0]` is the reason, for operators."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """An entity of this node in the form for a server.

    `content` is the content at the server, without attributes that the server sets. The item of a
    resource is its meta entity.
    """

    entity: Entity
    content: JsonObject
    digest: bytes = field(init=False)
    shape: bytes = field(init=False)

    def __post_init__(self) -> None:
        shape = shape_of(self.content)
        object.__setattr__(self, "shape", shape)
        # In older drafts, the media type is not a part of the content.
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
        """The path of the collection of the entity's resource."""
        return self.holder.rpartition("/")[0]

    @property
    def holder(self) -> str:
        """The xid of the entity's group or resource."""
        return holder_of(self.entity.xid)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """An entity of a server; `shape` is the hash of the content without the document.

    `tag` changes with each write, if the server shows a tag. `owner` is the mark of the link that
    brought the entity, if any.
    """

    shape: bytes
    tag: str = ""
    owner: str = ""
    is_version: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """The answer to a write: the path of the entity at the server, and the tag."""

    path: str
    tag: str = ""


@dataclass(slots=True, kw_only=True)
class Translation:
    """The items of a page of copies, groups before versions before resources.

    `gone` has the copies whose origins the server must no longer have, `faults` the copies that the
    server cannot have, each with the reason.
    """

    items: list[Item] = field(default_factory=list)
    gone: list[Copy] = field(default_factory=list)
    faults: list[tuple[Copy, str]] = field(default_factory=list)


class Target(Protocol):
    """A server that a link writes to. All calls raise `ClientError`.

    `root` is the URL of the server. `identity` differs between successive catalogs at the URL.
    `software` is a name for operators. `client` sends all requests.
    """

    client: Client
    root: str
    identity: str
    software: str

    async def plan(self, connection: Connection, copies: Sequence[Copy]) -> Translation:
        """Translate copies; entities of types that the server does not know are left out."""
        ...

    def path_of(self, item: Item) -> str:
        """The expected path of a new entity."""
        ...

    async def find(self, holder: Xid) -> Mapping[str, Found]:
        """The entities of a group without its resources, or of a resource: by path."""
        ...

    async def find_below(self, group: Xid) -> Mapping[str, Mapping[str, Found]]:
        """The entities of each resource of a group, by the resource's xid and their paths."""
        ...

    async def create(
        self, items: Sequence[Item], documents: Mapping[str, bytes]
    ) -> Mapping[str, str] | None:
        """Create new resources of one collection by a single request, completely or not at all.

        Args:
            items: every item of each resource.
            documents: documents of versions, by xid.

        Returns:
            tags by xid, as far as the server shows them; `None` if the API has no such request.
        """
        ...

    async def write(
        self, item: Item, document: bytes | None, written: WrittenEntity, *, is_new: bool
    ) -> Answered:
        """Create an entity, or replace it.

        Args:
            written: the entity at the server, or the expected path of a new entity.

        Raises:
            Unwritable
        """
        ...

    async def read_document(self, path: str) -> bytes: ...

    async def remove(
        self, holder: Xid, paths: Collection[str], adopted: Collection[str], *, is_whole: bool
    ) -> bool:
        """Delete the link's entities in a group or resource; return whether the holder is gone.

        A resource is deleted with the last of its versions.

        Args:
            paths: the paths of the entities to delete.
            adopted: the paths of adopted entities, which stay.
            is_whole: none of the link's entities is to stay.

        Raises:
            Unwritable: the holder has to stay, since it has foreign entities.
        """
        ...


def holder_of(xid: str) -> str:
    """The xid of an entity's group or resource."""
    return xid.partition("/versions/")[0] if xid.count("/") == 6 else xid


def shape_of(content: Mapping[str, Any]) -> bytes:
    """A hash of content, to compare content by."""
    return hashlib.sha256(canonical(content)).digest()


def in_order(items: Sequence[Item]) -> list[Item]:
    """Items in the order of their writes: a version comes after its ancestor."""
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
