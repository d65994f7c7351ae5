"""A registry as requests leave it: which entities each of them creates, changes and deletes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from tests.integration.processing.entities import (
    SHOWN,
    Json,
    Kind,
    Ledger,
    Refused,
    Steps,
    check_id,
)
from tests.integration.processing.resource import ResourceWrite, new_resource

GROUPS, GROUP_ID = "dirs", "dirid"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A write: the steps of its path, its body, and the flags `epoch` and `setdefaultversionid`."""

    method: str
    path: Steps = ()
    body: Any = None
    epoch: int | None = None
    default: str | None = None

    @property
    def patches(self) -> bool:
        return self.method == "PATCH"


class Oracle:
    """Says what a registry of one type of groups answers to writes, and shows afterwards.

    Args:
        registry: the attributes that the registry begins with.
    """

    def __init__(self, kinds: Iterable[Kind], registry: Json) -> None:
        self.kinds = {kind.plural: kind for kind in kinds}
        self.ledger = Ledger()
        self.root: Json = {"at": "", **registry}
        self.groups: Json = {}

    def answer(self, request: Request, now: str) -> tuple[int, str]:
        """The status that a request is answered with, or 400 and the name of its error."""
        before = copy.deepcopy((self.root, self.groups, self.ledger.graves))
        self.ledger.now = now
        try:
            _check_flag(request)
            return (self._delete if request.method == "DELETE" else self._write)(request), ""
        except Refused as refused:
            self.root, self.groups, self.ledger.graves = before
            return 404 if str(refused) == "not_found" else 400, str(refused)

    # Writing.

    def _write(self, request: Request) -> int:
        patch, body = request.patches, request.body
        match request.path:
            case []:
                if request.method != "POST":
                    self.ledger.write(self.root, body, patch=patch)
                self._write_groups(body.get(GROUPS, {}), patch=patch)
            case [_]:
                self._write_groups(body, patch=patch)
            case [_, gid]:
                created = gid not in self.groups
                if request.method == "POST":
                    self._write_resources(gid, body, patch=False)
                    return 200
                self._write_groups({gid: body}, patch=patch)
                return 201 if created else 200
            case [_, gid, plural]:
                self._write_resources(gid, {plural: body}, patch=patch)
            case _:
                return self._write_resource(request)
        return 200

    def _write_groups(self, bodies: Json, *, patch: bool) -> None:
        for gid, body in bodies.items():
            check_id(body, GROUP_ID, gid)
            self.ledger.write(self._group(gid), body, patch=patch)
            self._write_resources(gid, body, patch=patch)

    def _group(self, gid: str) -> Json:
        """A group, which comes to be where something in it is written."""
        if gid not in self.groups:
            empty: Json = {plural: {} for plural in self.kinds}
            self.groups[gid] = self.ledger.new((GROUPS, gid)) | empty
            self.ledger.touch(self.root)
        group: Json = self.groups[gid]
        return group

    def _write_resources(self, gid: str, bodies: Json, *, patch: bool) -> None:
        self._group(gid)
        for plural in self.kinds:
            for rid, body in bodies.get(plural, {}).items():
                write = self._resource((GROUPS, gid, plural, rid), patch=patch)
                write.write(**_parts(body))

    def _resource(self, place: Steps, *, patch: bool, default: str | None = None) -> ResourceWrite:
        _, gid, plural, rid = place
        resources = self._group(gid)[plural]
        is_new = rid not in resources
        if is_new:
            resources[rid] = new_resource(self.ledger, place)
            self.ledger.touch(self.groups[gid])
        target = self._target(resources[rid])
        return ResourceWrite(
            self.ledger,
            self.kinds[plural],
            place,
            resources[rid],
            is_new=is_new,
            patch=patch,
            default=default,
            target_epoch=self.ledger.epoch_before(target) if target else 0,
        )

    def _write_resource(self, request: Request) -> int:
        body, below = request.body, request.path[4:]
        write = self._resource(request.path[:4], patch=request.patches, default=request.default)
        match below:
            case []:
                if request.method == "POST":
                    write.post(body)
                    return 201 if write.added else 200
                write.write(**_parts(body))
            case ["meta"]:
                write.write(meta=body)
            case ["versions"]:
                if write.is_new and not body:
                    raise Refused("missing_versions")
                # A cross reference counts as updated even by a request that says nothing.
                if body or request.default or write.resource["xref"]:
                    write.write(versions=body)
                return 200
            case [_, vid]:
                created = vid not in write.versions
                write.write(versions={vid: body})
                return 201 if created else 200
        return 201 if write.is_new else 200

    # Deleting.

    def _delete(self, request: Request) -> int:
        match request.path:
            case [_]:
                self._delete_all(self.groups, request.body, self._bury_group)
            case [_, gid]:
                self.ledger.check_epoch(_find(self.groups, gid), request.epoch)
                self._bury_group(gid)
            case [_, gid, plural]:
                resources = _find(self.groups, gid)[plural]
                bodies = _metas(request.body)
                self._delete_all(resources, bodies, lambda rid: self._bury(gid, plural, rid))
            case [_, gid, plural, rid]:
                resource = _find(_find(self.groups, gid)[plural], rid)
                self._check_epoch(resource, request.epoch)
                self._bury(gid, plural, rid)
            case _:
                self._delete_versions(request)
        return 204

    def _delete_versions(self, request: Request) -> None:
        _, gid, plural, rid, _, *vids = request.path
        resource = _find(_find(self.groups, gid)[plural], rid)
        versions = self._versions_shown(resource)
        bodies = {vid: {"epoch": request.epoch} for vid in vids} or request.body
        for vid in vids:
            _find(versions, vid)
        chosen = self._chosen(versions, bodies)
        if resource["xref"]:
            if chosen:
                raise Refused("readonly")
            return
        if len(chosen) < len(versions):
            place = request.path[:4]
            self._resource(place, patch=True, default=request.default).delete(chosen)
            return
        if request.default not in (None, "null"):
            raise Refused("bad_defaultversionid")
        self._bury(gid, plural, rid)

    def _delete_all(self, entities: Json, bodies: Json | None, bury: Callable[[str], None]) -> None:
        for key in self._chosen(entities, bodies):
            bury(key)

    def _chosen(self, entities: Json, bodies: Json | None) -> list[str]:
        """The ids of those that are to be deleted, if their epochs are as the request says."""
        if bodies is None:
            return [*entities]
        chosen = [key for key in bodies if key in entities]
        for key in chosen:
            self._check_epoch(entities[key], bodies[key].get("epoch"))
        return chosen

    def _check_epoch(self, entity: Json, epoch: int | None) -> None:
        """A cross reference has the epoch of what it shows, or none."""
        if not entity.get("xref"):
            self.ledger.check_epoch(entity, epoch)
        elif (shown := self._shown_by(entity)) is not None:
            self.ledger.check_epoch(shown, epoch)
        elif epoch:
            raise Refused("mismatched_epoch")

    def _bury_group(self, gid: str) -> None:
        for plural in self.kinds:
            for rid in [*self.groups[gid][plural]]:
                self._bury(gid, plural, rid)
        self.ledger.touch(self.root)
        self.ledger.bury((GROUPS, gid), self.groups.pop(gid))

    def _bury(self, gid: str, plural: str, rid: str) -> None:
        place = (GROUPS, gid, plural, rid)
        resource = self.groups[gid][plural].pop(rid)
        for vid, version in resource["versions"].items():
            self.ledger.bury((*place, vid), version)
        self.ledger.bury(place, resource)
        self.ledger.touch(self.groups[gid])

    # Showing.

    def shown(self) -> Json:
        """The registry with all that is in it, without what only depends on where it is."""
        groups = {gid: self._shown_group(gid, group) for gid, group in self.groups.items()}
        return _own(self.root) | {f"{GROUPS}count": len(groups), GROUPS: groups}

    def _shown_group(self, gid: str, group: Json) -> Json:
        shown = _own(group) | {GROUP_ID: gid}
        for plural, kind in self.kinds.items():
            shown[f"{plural}count"] = len(group[plural])
            shown[plural] = {
                rid: self._shown_resource({kind.id: rid}, resource)
                for rid, resource in group[plural].items()
            }
        return shown

    def _shown_resource(self, ids: Json, resource: Json) -> Json:
        meta = ids | ({"xref": resource["xref"]} if resource["xref"] else {})
        shown = self._shown_by(resource)
        if shown is None:
            return ids | {"meta": meta}
        chosen = shown["defaultversionid"]
        meta |= _own(shown) | {"readonly": False, "defaultversionid": chosen}
        meta |= {"defaultversionsticky": shown["defaultversionsticky"]}
        versions = {
            vid: ids | _own(version) | {"versionid": vid, "isdefault": vid == chosen}
            for vid, version in shown["versions"].items()
        }
        counted = {"versionscount": len(versions), "versions": versions}
        return versions[chosen] | {"meta": meta} | counted

    def _shown_by(self, resource: Json) -> Json | None:
        """Itself, or what it refers to if that is there and no reference."""
        target = self._target(resource) if resource["xref"] else resource
        return None if target is None or target["xref"] else target

    def _versions_shown(self, resource: Json) -> Json:
        shown = self._shown_by(resource)
        return shown["versions"] if shown is not None else {}

    def _target(self, resource: Json) -> Json | None:
        """What a cross reference refers to, if it is there."""
        if not resource["xref"]:
            return None
        _, _, gid, plural, rid = resource["xref"].split("/")
        found: Json | None = self.groups.get(gid, {}).get(plural, {}).get(rid)
        return found


def _check_flag(request: Request) -> None:
    """Whether `setdefaultversionid` means something here."""
    if request.default is None:
        return
    if len(request.path) < 4:
        raise Refused("bad_flag")
    if request.method == "DELETE" and len(request.path) == 4:
        raise Refused("bad_defaultversionid")
    if request.default == "request" and (request.method, len(request.path)) != ("POST", 4):
        body = {} if request.method == "DELETE" else request.body
        versions = body if request.path[4:] == ("versions",) else body.get("versions", {})
        raise Refused("too_many_versions" if len(versions) > 1 else "bad_flag")


def _parts(body: Json) -> Json:
    """The three parts of a resource: its default version's attributes, its meta, its versions."""
    own = {name: value for name, value in body.items() if name not in ("meta", "versions")}
    return {"own": own, "meta": body.get("meta"), "versions": body.get("versions")}


def _metas(bodies: Json | None) -> Json | None:
    """What a request to delete resources says of their meta, which is where epochs belong."""
    metas = {}
    for rid, body in (bodies or {}).items():
        metas[rid] = body.get("meta", {})
        if body.get("epoch") is not None and metas[rid].get("epoch") is None:
            raise Refused("misplaced_epoch")
    return None if bodies is None else metas


def _own(entity: Json) -> Json:
    return {name: entity[name] for name in SHOWN if name in entity}


def _find(entities: Json, key: str) -> Json:
    if key not in entities:
        raise Refused("not_found")
    found: Json = entities[key]
    return found
