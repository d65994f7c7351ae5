"""One write request, whatever its path and method: the upserts and deletes that it asks for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from catalog.model.errors import (
    BadRequest,
    GroupsOnly,
    InvalidAttribute,
    MalformedId,
    MismatchedId,
    MisplacedEpoch,
    ResourcesOnly,
    UnknownResourceType,
    XRegistryError,
)
from catalog.model.schema import GroupType, Model, ResourceType
from catalog.model.xid import RESERVED_VERSION_IDS, Xid, is_valid_id

Body = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A document that came as the body of a request, not inside its metadata."""

    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryUpsert:
    """The registry's own attributes."""

    body: Body
    patch: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupUpsert:
    """A group's own attributes; a `body` of `None` only creates what is missing."""

    xid: Xid
    body: Body | None
    patch: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionUpsert:
    """A version's attributes, under an id that the server chooses where `vid` is empty."""

    vid: str
    body: Body
    patch: bool
    document: Document | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceUpsert:
    """A resource: its default version's attributes, its meta and its versions, as given."""

    xid: Xid
    patch: bool
    default: Body | None = None
    document: Document | None = None
    meta: Body | None = None
    versions: tuple[VersionUpsert, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """An entity to delete. From a collection, what is not there is passed over."""

    xid: Xid
    epoch: int | None = None
    must_exist: bool = True


@dataclass(slots=True, kw_only=True)
class Interaction:
    """What one request asks for; it is applied whole or not at all.

    `violations` are the errors found in single entities of a larger request: they refuse
    it, but not before the rest was examined too.
    """

    registry: RegistryUpsert | None = None
    groups: list[GroupUpsert] = field(default_factory=list)
    resources: list[ResourceUpsert] = field(default_factory=list)
    deletes: list[Delete] = field(default_factory=list)
    violations: list[XRegistryError] = field(default_factory=list)

    @contextlib.contextmanager
    def _collecting(self) -> Iterator[None]:
        try:
            yield
        except XRegistryError as violation:
            self.violations.append(violation)

    def put_registry(self, model: Model, body: Body, *, patch: bool) -> None:
        collections = {name: body[name] for name in model.groups if name in body}
        own = {name: value for name, value in body.items() if name not in collections}
        self.registry = RegistryUpsert(body=own, patch=patch)
        self._put_groups_by_type(model, collections, patch=patch)

    def post_registry(self, model: Model, body: Body) -> None:
        """Groups of several types (`core/http.md, "POST /"`).

        Raises:
            GroupsOnly: the body has anything else.
        """
        for name in body:
            if name not in model.groups and name != "$schema":
                raise GroupsOnly("/", name=name)
        self._put_groups_by_type(model, body, patch=False)

    def _put_groups_by_type(self, model: Model, body: Body, *, patch: bool) -> None:
        for name, collection in body.items():
            if name in model.groups:
                self.put_groups(model, name, collection, patch=patch)

    def put_groups(self, model: Model, groups: str, collection: Any, *, patch: bool) -> None:
        """The groups of one type, keyed by id (`core/http.md, "POST /<GROUPS>"`)."""
        for gid, body in _entries(f"/{groups}", collection):
            with self._collecting():
                self.put_group(model, Xid(groups, gid), body, patch=patch)

    def put_group(self, model: Model, xid: Xid, body: Body, *, patch: bool) -> None:
        _check_id(xid, xid.gid)
        kind = _group_type(model, xid)
        collections = {name: body[name] for name in kind.resources if name in body}
        own = {name: value for name, value in body.items() if name not in collections}
        self.groups.append(GroupUpsert(xid=xid, body=own, patch=patch))
        for name, collection in collections.items():
            self.put_resources(model, xid, name, collection, patch=patch)

    def post_group(self, model: Model, xid: Xid, body: Body) -> None:
        """Resources of several types (`core/http.md, "POST /<GROUPS>/<GID>"`).

        Raises:
            ResourcesOnly: the body has anything else.
        """
        kind = _group_type(model, xid)
        for name in body:
            if name not in kind.resources and name != "$schema":
                raise ResourcesOnly(str(xid), name=name)
        for name, collection in body.items():
            if name in kind.resources:
                self.put_resources(model, xid, name, collection, patch=False)

    def put_resources(
        self, model: Model, group: Xid, resources: str, collection: Any, *, patch: bool
    ) -> None:
        """The resources of one type, keyed by id."""
        for rid, body in _entries(f"{group}/{resources}", collection):
            with self._collecting():
                self.put_resource(model, group.child(resources, rid), body, patch=patch)

    def put_resource(
        self,
        model: Model,
        xid: Xid,
        body: Body,
        *,
        patch: bool,
        document: Document | None = None,
    ) -> None:
        _check_id(xid, xid.rid)
        _resource_type(model, xid)
        self._imply_group(xid.group)
        meta = body.get("meta")
        if meta is not None and not isinstance(meta, dict):
            raise InvalidAttribute(str(xid), name="meta", error_detail="it needs to be an object")
        self.resources.append(
            ResourceUpsert(
                xid=xid,
                patch=patch,
                default={k: v for k, v in body.items() if k not in ("meta", "versions")},
                document=document,
                meta=meta,
                versions=tuple(_versions(xid, body.get("versions") or {}, patch=patch)),
            )
        )

    def put_meta(self, model: Model, xid: Xid, body: Body, *, patch: bool) -> None:
        _resource_type(model, xid)
        self._imply_group(xid.group)
        self.resources.append(ResourceUpsert(xid=xid, patch=patch, meta=body))

    def post_version(
        self, model: Model, xid: Xid, body: Body, *, document: Document | None = None
    ) -> None:
        """One version, new unless its id names one (`core/http.md, "POST …/<RID>"`)."""
        vid = body.get("versionid") or ""
        self.put_version(model, xid, vid, body, patch=document is not None, document=document)

    def put_version(
        self,
        model: Model,
        resource: Xid,
        vid: str,
        body: Body,
        *,
        patch: bool,
        document: Document | None = None,
    ) -> None:
        _check_id(resource, resource.rid)
        _resource_type(model, resource)
        if vid:
            check_version_id(resource, vid)
        self._imply_group(resource.group)
        upsert = VersionUpsert(vid=vid, body=body, patch=patch, document=document)
        self.resources.append(ResourceUpsert(xid=resource, patch=patch, versions=(upsert,)))

    def put_versions(self, model: Model, resource: Xid, collection: Any, *, patch: bool) -> None:
        """The versions of one resource, keyed by id."""
        _check_id(resource, resource.rid)
        _resource_type(model, resource)
        self._imply_group(resource.group)
        versions = tuple(_versions(resource, collection, patch=patch))
        self.resources.append(ResourceUpsert(xid=resource, patch=patch, versions=versions))

    def delete(self, xid: Xid, epoch: int | None) -> None:
        self.deletes.append(Delete(xid=xid, epoch=epoch))

    def delete_from(self, model: Model, parent: Xid, plural: str, collection: Any) -> None:
        """Some entities of a collection (`core/spec.md, "Deleting Entities"`)."""
        for id, body in _entries(f"{parent}/{plural}".replace("//", "/"), collection):
            xid = parent.child(plural, id)
            _check_id(xid, id)
            _match_id(model, xid, body)
            self.deletes.append(
                Delete(xid=xid, epoch=_epoch_to_delete(xid, body), must_exist=False)
            )

    def _imply_group(self, xid: Xid) -> None:
        _check_id(xid, xid.gid)
        if not self.groups or self.groups[-1].xid != xid:
            self.groups.append(GroupUpsert(xid=xid, body=None))


def _entries(subject: str, collection: Any) -> Iterator[tuple[str, Body]]:
    if not isinstance(collection, dict):
        raise BadRequest(subject, error_detail=f"{subject} needs to be a map of entities")
    for key, body in collection.items():
        if not isinstance(body, dict):
            raise BadRequest(
                f"{subject}/{key}", error_detail=f"{subject}/{key} needs to be an entity"
            )
        yield key, body


def _versions(resource: Xid, collection: Any, *, patch: bool) -> Iterator[VersionUpsert]:
    for vid, body in _entries(f"{resource}/versions", collection):
        check_version_id(resource, vid)
        yield VersionUpsert(vid=vid, body=body, patch=patch)


def _check_id(xid: Xid, id: str) -> None:
    if not is_valid_id(id):
        raise MalformedId(
            str(xid),
            id=id,
            error_detail="it needs 1 to 128 of A-Z a-z 0-9 - . _ ~ : @ and a letter, digit or _ "
            "at its start",
        )


def check_version_id(resource: Xid, vid: Any) -> None:
    """Refuse what can't be the id of a version of `resource`.

    Raises:
        InvalidAttribute, MalformedId
    """
    if not isinstance(vid, str):
        raise InvalidAttribute(
            str(resource), name="versionid", error_detail="it needs to be a string"
        )
    _check_id(resource.version(vid), vid)
    if vid in RESERVED_VERSION_IDS:
        raise MalformedId(str(resource), id=vid, error_detail="the word is reserved")


def _group_type(model: Model, xid: Xid) -> GroupType:
    return model.groups[xid.groups]


def _resource_type(model: Model, xid: Xid) -> ResourceType:
    kind = model.resource_type(xid.groups, xid.resources)
    if kind is None:
        raise UnknownResourceType(str(xid), group=xid.groups, name=xid.resources)
    return kind


def _match_id(model: Model, xid: Xid, body: Body) -> None:
    singular = "version" if xid.vid else model.singular_of(xid)
    given = body.get(f"{singular}id", xid.id)
    if given != xid.id:
        raise MismatchedId(str(xid), singular=singular, invalid_id=str(given), expected_id=xid.id)


def _epoch_to_delete(xid: Xid, body: Body) -> int | None:
    if xid.kind != "resource":
        return read_epoch(xid, body)
    meta = body.get("meta")
    if isinstance(meta, dict) and meta.get("epoch") is not None:
        return read_epoch(xid, meta)
    if body.get("epoch") is not None:
        raise MisplacedEpoch(str(xid))
    return None


def read_epoch(xid: Xid, body: Body) -> int | None:
    """The epoch that a request expects, `None` where it does not say.

    Raises:
        InvalidAttribute: it is not an unsigned integer.
    """
    epoch = body.get("epoch")
    if epoch is not None and (not isinstance(epoch, int) or isinstance(epoch, bool) or epoch < 0):
        raise InvalidAttribute(
            str(xid), name="epoch", error_detail="it needs to be an unsigned integer"
        )
    return epoch
