"""A server that a link writes to: the entities that it is to have, and the requests to it."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import orjson

from catalog.client import Answer, BadAnswer, Client, JsonObject, Params, Refused
from catalog.context import Context
from catalog.model.digest import canonical
from catalog.model.entity import Entity, Origin
from catalog.model.masking import printable
from catalog.model.xid import Xid
from catalog.store.database import Connection
from replication.deciding.copychecks import Copy
from replication.readers.walkedserver import IgnoredRefusals
from replication.store.writtenentities import WrittenEntity

MARK = "concord.link"
"""The label or tag that names the link of an entity."""
_LONGEST_TITLE, _LONGEST_DETAIL = 300, 500
_MOST_MEMBERS = 1_000_000
# Statuses that concern the whole link or the moment, not a single entity.
_NOT_OF_ENTITIES = frozenset({401, 407, 408, 425, 429})
_GATEWAY = frozenset({502, 503, 504})


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

    @classmethod
    def marked(
        cls, shown: Mapping[str, Any], content: JsonObject, marks: Any, *, is_version: bool
    ) -> Self:
        """An entity as shown by a server with epochs; `marks` are the labels or tags."""
        owner = marks.get(MARK) if isinstance(marks, dict) else None
        return cls(
            shape=shape_of(content),
            tag=tag_of(shown),
            owner=owner if isinstance(owner, str) else "",
            is_version=is_version,
        )


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


class Target(ABC):
    """A server that a link writes to. All calls raise `ClientError`.

    Args:
        client: sends all requests; its URL is the `root` of the server.
        identity: differs between successive catalogs at the URL.
        software: a name for operators.
    """

    def __init__(self, client: Client, identity: str, software: str) -> None:
        self.client = client
        self.root = client.url
        self.identity = identity
        self.software = software

    @classmethod
    @abstractmethod
    async def open(cls, context: Context, client: Client, mark: str) -> Self | None:
        """The server at the URL of a client; `None` if the server shows another API.

        Args:
            mark: the mark in the entities that the link brings.
        """

    @abstractmethod
    async def plan(self, connection: Connection, copies: Sequence[Copy]) -> Translation:
        """Translate copies; entities of types that the server does not know are left out."""

    @abstractmethod
    def path_of(self, item: Item) -> str:
        """The expected path of a new entity."""

    @abstractmethod
    async def find(self, holder: Xid) -> Mapping[str, Found]:
        """The entities of a group without its resources, or of a resource: by path."""

    async def find_below(self, group: Xid) -> Mapping[str, Mapping[str, Found]]:
        """The entities of each resource of a group, by the resource's xid and their paths."""
        return {}

    async def create(
        self, items: Sequence[Item], documents: Mapping[str, bytes]
    ) -> Mapping[str, str] | None:
        """Create new resources of one collection by a single request, completely or not at all.

        The tags by xid are returned, as far as the server shows them; `None` if the API has no such
        request. `items` has every item of each resource, `documents` the documents by xid.
        """
        return None

    @abstractmethod
    async def write(
        self, item: Item, document: bytes | None, written: WrittenEntity, *, is_new: bool
    ) -> Answered:
        """Create an entity, or replace it.

        Args:
            written: the entity at the server, or the expected path of a new entity.

        Raises:
            Unwritable
        """

    async def read_document(self, path: str) -> bytes:
        return (await self.client.request("GET", path)).body

    @abstractmethod
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

    async def get_or_none(self, path: str) -> JsonObject | None:
        """The JSON object at a path; `None` if the path does not exist."""
        with IgnoredRefusals():
            return await self.client.get(path)
        return None

    async def members(
        self, path: str, params: Params = ()
    ) -> AsyncIterator[tuple[str, JsonObject]]:
        """The members of a collection that is a map, page by page; none if it does not exist.

        Raises:
            BadAnswer: the collection is no map of objects, or is endless.
        """
        number = 0
        with IgnoredRefusals():
            async for page in self.client.pages(path, params):
                for id, shown in page.items() if isinstance(page, dict) else [("", None)]:
                    if not isinstance(shown, dict) or (number := number + 1) > _MOST_MEMBERS:
                        raise BadAnswer(self.root + path, "something else than a collection")
                    yield id, shown

    async def delete(self, path: str, params: Params = ()) -> None:
        """Delete the entity at a path, if it still exists."""
        with IgnoredRefusals():
            await self.client.request("DELETE", path, params=params)

    async def remove_versions(
        self,
        resource: str,
        there: set[str],
        paths: Collection[str],
        adopted: Collection[str],
        *,
        is_whole: bool,
        params: Params = (),
    ) -> bool:
        """Remove versions of a resource as by `remove`.

        Args:
            resource: the path of the resource.
            there: the paths of its versions.
            params: the parameters of a request that deletes the resource.
        """
        if there <= {*paths}:
            await self.delete(resource, params)
            return True
        for version in sorted(there & {*paths}):
            await self.delete(version)
        if is_whole and there - {*paths, *adopted}:
            raise Unwritable("it stays, since it has versions that this link did not bring")
        return False


def holder_of(xid: str) -> str:
    """The xid of an entity's group or resource."""
    return xid.partition("/versions/")[0] if xid.count("/") == 6 else xid


def shape_of(content: Mapping[str, Any]) -> bytes:
    """A hash of content, to compare content by."""
    return hashlib.sha256(canonical(content)).digest()


def tag_of(shown: Mapping[str, Any]) -> str:
    """The epoch in an answer of a server, which rises with each write."""
    epoch = shown.get("epoch")
    return str(epoch) if type(epoch) is int else ""


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


def is_of_entity(error: Refused, *, is_tolerant: bool) -> bool:
    """Whether an error concerns the sent entity; every other error may end by itself.

    Args:
        is_tolerant: a persistent fault of the server counts as an error of the entity.
    """
    status = error.problem.status
    if status >= 500:
        return is_tolerant and status not in _GATEWAY
    return status not in _NOT_OF_ENTITIES


def said_in(error: Refused) -> str:
    """The problem document of a refusal as the detail of a conflict."""
    problem = error.problem
    detail = problem.detail or "; ".join(each.title for each in problem.others)
    parts = (f"{problem.status}:", problem.title[:_LONGEST_TITLE], detail[:_LONGEST_DETAIL])
    return printable(" ".join(part for part in parts if part))


def object_in(answer: Answer) -> Mapping[str, Any]:
    """The JSON object in an answer; empty if the answer has none."""
    try:
        found = orjson.loads(answer.body)
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}
