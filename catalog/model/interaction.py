"""Interactions: the upserts and deletes of one write request, of any path and method."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from catalog.model import errors
from catalog.model.caller import Caller
from catalog.model.concorderrors import LimitExceeded
from catalog.model.record import record
from catalog.model.schema import Model, ResourceType
from catalog.model.tracecontext import TraceContext
from catalog.model.xid import RESERVED_VERSION_IDS, Xid, is_valid_id

Body = Mapping[str, Any]

# Reserved words in the place of a version's id (core/spec.md, "SetDefaultVersionID Flag").
NEWEST = "null"
THE_NEW_ONE = "request"


# The attributes that the `ignore` flag can remove from a body, by the kind of entity.
_OF_ANY = frozenset({"epoch"})
# Shown beside the default version of a resource, and ignored when a version is made from the
# answer.
_LINKS_OF_RESOURCES = frozenset({"metaurl", "versionsurl", "versionscount"})
_COLLECTIONS_OF_RESOURCES = ("meta", "versions")
_OF_REGISTRY = _OF_ANY | {"capabilities", "modelsource"}
_OF_META = _OF_ANY | {"defaultversionid", "defaultversionsticky"}


@record
class VersionDocument:
    """A document that is the body of a request, not part of metadata.

    A `body` of `None` erases the stored document; an erased version is not checked.
    """

    body: bytes | None


@record
class RegistryUpsert:
    """The registry's own attributes; a `body` of `None` only counts the registry as updated."""

    body: Body | None
    patch: bool


@record
class GroupUpsert:
    """A group's own attributes; a `body` of `None` only creates a missing group.

    With `must_exist`, a missing group refuses the request. The epoch will be above `least_epoch`,
    the epoch of a copy from elsewhere. `confluent` replaces the attribute of
    `catalog.model.confluentattribute`, which bodies cannot set.
    """

    xid: Xid
    body: Body | None
    patch: bool = False
    must_exist: bool = False
    least_epoch: int = 0
    confluent: Body | None = None


@record
class VersionUpsert:
    """A version's attributes; the server chooses the id where `vid` is empty.

    `confluent` is as in `GroupUpsert`.
    """

    vid: str
    body: Body
    patch: bool
    document: VersionDocument | None = None
    confluent: Body | None = None


@record
class ResourceUpsert:
    """A resource as given: attributes of the default version, meta and versions.

    `has_versions`: the collection was given, maybe empty.
    """

    xid: Xid
    patch: bool
    default: Body | None = None
    document: VersionDocument | None = None
    meta: Body | None = None
    versions: tuple[VersionUpsert, ...] = ()
    has_versions: bool = False


@record
class Delete:
    """An entity to delete; without `must_exist`, a missing entity is ignored."""

    xid: Xid
    epoch: int | None = None
    must_exist: bool = True


@dataclass(slots=True, kw_only=True)
class Interaction:
    """The upserts and deletes of a request, which are applied as a whole or not at all.

    `at` is the entity that the request addresses, or the owner of the collection; `path` is the
    path of the request, for errors. `ignore` holds the values of the flag (core/spec.md, "Ignore
    Flag"). `default` is the version to become the default of the only resource, or a word: `NEWEST`
    or `THE_NEW_ONE`. With `writes_only_changes`, an entity that would not change counts as not
    named: the entity is not updated, the epoch is not checked, and a replica is allowed.
    `violations` holds errors in single entities of a larger request, which is refused after the
    rest was checked as well. A request with more than `most_entities` entities is refused at once.
    `caller` is the writer: reads for the interaction are limited to the entities that the caller
    sees. `trace` is the trace of the request, if the interaction is decided in another task.
    """

    caller: Caller
    at: Xid = field(default_factory=Xid)
    path: str = "/"
    is_collection: bool = False
    ignore: frozenset[str] = frozenset()
    default: str | None = None
    writes_only_changes: bool = False
    registry: RegistryUpsert | None = None
    groups: list[GroupUpsert] = field(default_factory=list)
    resources: list[ResourceUpsert] = field(default_factory=list)
    deletes: list[Delete] = field(default_factory=list)
    violations: errors.FirstViolations = field(default_factory=errors.FirstViolations)
    most_entities: int = 100_000
    trace: TraceContext | None = None
    _entities: int = field(default=0, init=False)

    def _count(self, entities: int) -> None:
        """Count entities of the request, before the entities are processed."""
        self._entities += entities
        if self._entities > self.most_entities:
            setting = "CONCORD_MAX_REQUEST_ENTITIES"
            limit = str(self.most_entities)
            raise LimitExceeded(self.path, limit=limit, things="entities", setting=setting)

    @property
    def size(self) -> int:
        """The number of entities that the interaction names."""
        return len(self.groups) + len(self.resources) + len(self.deletes)

    def _taken(self, body: Body, xid: Xid, *ids: str, ignorable: frozenset[str] = _OF_ANY) -> Body:
        """A body without ignored attributes; `ids` name the ids of the entity at `xid`."""
        dropped = ignorable & self.ignore
        if "id" in self.ignore and xid == self.at and not self.is_collection:
            dropped |= {*ids}
        return {k: v for k, v in body.items() if k not in dropped} if dropped else body

    def choose_default(self, version: str, *, creates_one: bool) -> None:
        """Apply the `setdefaultversionid` flag (core/spec.md, "SetDefaultVersionID Flag").

        `request` has to denote a single version: `creates_one` says that the kind of request lets
        the server choose a version's id.
        """
        if version == THE_NEW_ONE and not creates_one:
            if any(len(upsert.versions) > 1 for upsert in self.resources):
                raise errors.TooManyVersions(self.path)
            raise errors.BadFlag(self.path, flag="setdefaultversionid")
        self.default = version

    def put_registry(self, model: Model, body: Body, *, patch: bool) -> None:
        own = {name: value for name, value in body.items() if name not in model.groups}
        taken = self._taken(own, Xid(), "registryid", ignorable=_OF_REGISTRY)
        self.registry = RegistryUpsert(body=taken, patch=patch)
        self._put_collections(model, Xid(), body, patch=patch)

    def put_group(
        self, model: Model, xid: Xid, body: Body, *, patch: bool, least_epoch: int = 0
    ) -> None:
        _check_id(xid, xid.gid)
        kind = model.groups[xid.groups]
        own = {name: value for name, value in body.items() if name not in kind.resources}
        taken = self._taken(own, xid, f"{kind.singular}id")
        self.groups.append(GroupUpsert(xid=xid, body=taken, patch=patch, least_epoch=least_epoch))
        self._put_collections(model, xid, body, patch=patch)

    def post_collections(self, model: Model, owner: Xid, body: Body) -> None:
        """Collections of several types of the registry or a group, and nothing else.

        Source: core/http.md, "POST /" and "POST /<GROUPS>/<GID>".
        """
        error = errors.ResourcesOnly if owner.gid else errors.GroupsOnly
        known = {*_plurals(model, owner), "$schema"}
        self.violations += (error(str(owner), name=name) for name in body if name not in known)
        self._put_collections(model, owner, body, patch=False)

    def _put_collections(self, model: Model, owner: Xid, body: Body, *, patch: bool) -> None:
        plurals = _plurals(model, owner)
        for name, collection in body.items():
            if name in plurals:
                self.put_collection(model, owner, name, collection, patch=patch)

    def put_collection(
        self, model: Model, owner: Xid, plural: str, collection: Any, *, patch: bool
    ) -> None:
        """The groups, resources or versions of one collection, keyed by id."""
        if owner.rid:
            _check_id(owner, owner.rid)
            self._imply_group(owner.group)
            versions = self._versions(model, owner, collection, patch=patch)
            self.resources.append(ResourceUpsert(xid=owner, patch=patch, versions=versions))
            return
        put = self.put_resource if owner.gid else self.put_group
        for id, body in self._entries(owner.collection(plural), collection):
            # After a limit, further violations would be found by the work that the limit bounds.
            with self.violations.collecting(except_for=LimitExceeded):
                put(model, owner.child(plural, id), body, patch=patch)

    def put_resource(
        self,
        model: Model,
        xid: Xid,
        body: Body,
        *,
        patch: bool,
        document: VersionDocument | None = None,
    ) -> None:
        _check_id(xid, xid.rid)
        id = f"{_resource_type(model, xid).singular}id"
        self._imply_group(xid.group)
        meta = body.get("meta")
        if meta is not None and not isinstance(meta, dict):
            raise _invalid(xid, "meta", "it needs to be an object")
        default = {k: v for k, v in body.items() if k not in ("meta", "versions")}
        self.resources.append(
            ResourceUpsert(
                xid=xid,
                patch=patch,
                default=self._taken(default, xid, id),
                document=document,
                meta=None if meta is None else self._taken(meta, xid, id, ignorable=_OF_META),
                versions=self._versions(model, xid, body.get("versions"), patch=patch),
                has_versions=body.get("versions") is not None,
            )
        )

    def put_meta(self, model: Model, xid: Xid, body: Body, *, patch: bool) -> None:
        id = f"{_resource_type(model, xid).singular}id"
        self._imply_group(xid.group)
        meta = self._taken(body, xid, id, ignorable=_OF_META)
        self.resources.append(ResourceUpsert(xid=xid, patch=patch, meta=meta))

    def post_version(
        self, model: Model, xid: Xid, body: Body, *, document: VersionDocument | None = None
    ) -> None:
        """A version, new unless the id exists (`core/http.md, "POST …/<RID>"`).

        Links to the meta entity and the versions, which a GET shows beside the default version, are
        ignored; content of the resource is refused.
        """
        vid = body.get("versionid")
        if vid is not None:
            check_version_id(xid, vid)
        for name in _COLLECTIONS_OF_RESOURCES:
            if body.get(name) is not None:
                raise errors.UnknownAttribute(str(xid), name=name)
        body = {name: value for name, value in body.items() if name not in _LINKS_OF_RESOURCES}
        self.put_version(model, xid, vid or "", body, patch=document is not None, document=document)

    def put_version(
        self,
        model: Model,
        resource: Xid,
        vid: str,
        body: Body,
        *,
        patch: bool,
        document: VersionDocument | None = None,
    ) -> None:
        _check_id(resource, resource.rid)
        kind = _resource_type(model, resource)
        if vid:
            check_version_id(resource, vid)
        _refuse_parts_of_resources(resource.version(vid), body, kind)
        self._imply_group(resource.group)
        own = self._taken(body, resource, f"{kind.singular}id")
        own = self._taken(own, resource.version(vid), f"{kind.singular}id", "versionid")
        upsert = VersionUpsert(vid=vid, body=own, patch=patch, document=document)
        self.resources.append(ResourceUpsert(xid=resource, patch=patch, versions=(upsert,)))

    def _versions(
        self, model: Model, resource: Xid, collection: Any, *, patch: bool
    ) -> tuple[VersionUpsert, ...]:
        kind = _resource_type(model, resource)
        upserts = []
        entries = {} if collection is None else collection
        for vid, body in self._entries(f"{resource}/versions", entries):
            check_version_id(resource, vid)
            _refuse_parts_of_resources(resource.version(vid), body, kind)
            body = self._taken(body, resource, f"{kind.singular}id")
            upserts.append(VersionUpsert(vid=vid, body=body, patch=patch))
        return tuple(upserts)

    def delete(self, xid: Xid, epoch: int | None) -> None:
        self.deletes.append(Delete(xid=xid, epoch=epoch))

    def delete_from(self, model: Model, parent: Xid, plural: str, collection: Any) -> None:
        """Delete some entities of a collection (core/spec.md, "Deleting Entities")."""
        if parent.rid and not collection and self.default is not None:
            self._imply_group(parent.group)
            self.resources.append(ResourceUpsert(xid=parent, patch=True))
        for id, body in self._entries(parent.collection(plural), collection):
            xid = parent.child(plural, id)
            _check_id(xid, id)
            singular = "version" if xid.vid else model.singular_of(xid)
            given = body.get(f"{singular}id")
            if given not in (None, id):
                raise errors.MismatchedId(
                    str(xid), singular=singular, invalid_id=str(given), expected_id=id
                )
            epoch = None if "epoch" in self.ignore else _epoch_to_delete(xid, body)
            self.deletes.append(Delete(xid=xid, epoch=epoch, must_exist=False))

    def _entries(self, subject: str, collection: Any) -> Iterator[tuple[str, Body]]:
        if not isinstance(collection, dict):
            raise errors.BadRequest(
                subject, error_detail=f"{subject} needs to be a map of entities"
            )
        self._count(len(collection))
        for key, body in collection.items():
            if not isinstance(body, dict):
                path = f"{subject}/{key}"
                raise errors.BadRequest(path, error_detail=f"{path} needs to be an entity")
            yield key, body

    def _imply_group(self, xid: Xid) -> None:
        _check_id(xid, xid.gid)
        # A request names the resources of a group one after the other, so the last one suffices.
        if not self.groups or self.groups[-1].xid != xid:
            self.groups.append(GroupUpsert(xid=xid, body=None))


def _refuse_parts_of_resources(xid: Xid, body: Body, kind: ResourceType) -> None:
    """Refuse, rather than ignore, attributes of the resource in a version."""
    of_resources_only = kind.resourceattributes.keys() - kind.attributes.keys()
    for name in sorted(of_resources_only & body.keys()):
        if body[name] is not None:
            raise _invalid(xid, name, "it is the resource's, not a version's")


def _invalid(xid: Xid | str, name: str, detail: str) -> errors.InvalidAttribute:
    return errors.InvalidAttribute(str(xid), name=name, error_detail=detail)


def _check_id(xid: Xid, id: str) -> None:
    if not is_valid_id(id):
        wanted = "1 to 128 of A-Z a-z 0-9 - . _ ~ : @ and a letter, digit or _ at its start"
        raise errors.MalformedId(str(xid), id=id, error_detail=f"it needs {wanted}")


def check_version_id(resource: Xid, vid: Any) -> None:
    """Refuse a value that can't be the id of a version of `resource`."""
    if not isinstance(vid, str):
        raise _invalid(resource, "versionid", "it needs to be a string")
    _check_id(resource.version(vid), vid)
    if vid in RESERVED_VERSION_IDS:
        raise errors.MalformedId(str(resource), id=vid, error_detail="the word is reserved")


def _plurals(model: Model, owner: Xid) -> Collection[str]:
    """The names of the collections of the registry or of a group."""
    return model.groups[owner.groups].resources if owner.gid else model.groups


def _resource_type(model: Model, xid: Xid) -> ResourceType:
    kind = model.resource_type(xid.groups, xid.resources)
    if kind is None:
        raise errors.UnknownResourceType(str(xid), group=xid.groups, name=xid.resources)
    return kind


def _epoch_to_delete(xid: Xid, body: Body) -> int | None:
    if xid.kind != "resource":
        return read_epoch(xid, body)
    meta = body.get("meta")
    if isinstance(meta, dict) and meta.get("epoch") is not None:
        return read_epoch(xid, meta)
    if body.get("epoch") is not None:
        raise errors.MisplacedEpoch(str(xid))
    return None


def read_epoch(xid: Xid | str, body: Body) -> int | None:
    """The epoch, an unsigned integer, that a request expects; `None` if not given."""
    epoch = body.get("epoch")
    if epoch is not None and (not isinstance(epoch, int) or isinstance(epoch, bool) or epoch < 0):
        raise _invalid(xid, "epoch", "it needs to be an unsigned integer")
    return epoch
