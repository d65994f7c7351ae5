"""Random requests that are likely to mean something to a registry as it is."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, TypeVar

from tests.integration.processing.entities import Json, Kind
from tests.integration.processing.registry import GROUP_ID, GROUPS, Oracle, Request

TIMES = ("2001-01-01T00:00:00Z", "2002-01-01T00:00:00Z", "2900-01-01T00:00:00Z")
RIDS = ("a", "b")
VIDS = ("v1", "V2", "v3", "w", "1", "2")
SEMANTIC_VIDS = ("1.0.0", "1.0.0-rc.1", "1.10.0", "1.9.0", "2.0.0-a")
# What is written, and how often.
TARGETS = {
    "registry": 1,
    "groups": 1,
    "group": 3,
    "resources": 3,
    "resource": 9,
    "meta": 5,
    "versions": 6,
    "version": 8,
}
WITHOUT_DELETE = ("registry", "meta")
Item = TypeVar("Item")


class Client:
    """Makes up one request after the other.

    Args:
        gids: the groups to write to.
        oracle: knows what is there.
    """

    def __init__(self, seed: int, gids: Sequence[str], oracle: Oracle) -> None:
        self._random = random.Random(seed)
        self._gids = gids
        self._oracle = oracle

    def request(self) -> Request:
        gid, rid = self._one(self._gids), self._one(RIDS)
        kind = self._one([*self._oracle.kinds.values()])
        self._about = (gid, kind, rid)
        [target] = self._random.choices([*TARGETS], [*TARGETS.values()])
        if target not in WITHOUT_DELETE and self._often(0.12):
            return self._deletion(target)
        return self._write(target)

    def _write(self, target: str) -> Request:
        gid, kind, rid = self._about
        place = (GROUPS, gid, kind.plural, rid)
        flag = self._flag() if target in ("resource", "meta", "versions", "version") else None
        single, several = self._one(["PUT", "PATCH"]), self._one(["POST", "PATCH"])
        match target:
            case "registry":
                method = self._one(["PUT", "PATCH", "POST"])
                own = {} if method == "POST" else self._common(self._oracle.root)
                groups = {GROUPS: {gid: self._group()}} if self._often(0.6) else {}
                return Request(method=method, body=own | groups)
            case "groups":
                return Request(method=several, path=place[:1], body={gid: self._group()})
            case "group" if self._often(0.3):
                body = {kind.plural: {rid: self._resource(rid)}}
                return Request(method="POST", path=place[:2], body=body)
            case "group":
                return Request(method=single, path=place[:2], body=self._group())
            case "resources":
                rids = self._random.sample(RIDS, self._random.randint(1, 2))
                body = {each: self._resource(each) for each in rids}
                return Request(method=several, path=place[:3], body=body)
            case "resource" if self._often(0.35):
                return Request(method="POST", path=place, body=self._new_version(), default=flag)
            case "resource":
                return Request(method=single, path=place, body=self._resource(rid), default=flag)
            case "meta":
                path = (*place, "meta")
                return Request(method=single, path=path, body=self._meta(rid), default=flag)
            case "versions":
                path, body = (*place, "versions"), self._versions(rid)
                return Request(method=several, path=path, body=body, default=flag)
        vid = self._vid(rid)
        path, body = (*place, "versions", vid), self._version(rid, vid)
        return Request(method=single, path=path, body=body, default=flag)

    def _deletion(self, target: str) -> Request:
        gid, kind, rid = self._about
        place = (GROUPS, gid, kind.plural, rid)
        group, resource, vid = self._group_now(), self._resource_now(rid), self._vid(rid)
        version = resource.get("versions", {}).get(vid, {})
        flag = self._flag() if resource else None
        body: Any = None
        match target:
            case "groups":
                if self._often(0.9):
                    body = {gid: self._epoch(group)}
                return Request(method="DELETE", path=place[:1], body=body)
            case "group":
                return Request(method="DELETE", path=place[:2], **self._epoch(group))
            case "resources":
                if self._often(0.9):
                    wrong, right = {"epoch": 77}, {"meta": self._epoch(resource)}
                    body = {rid: self._one([{}, right, right, wrong, wrong | right])}
                return Request(method="DELETE", path=place[:3], body=body)
            case "resource":
                return Request(method="DELETE", path=place, **self._epoch(resource))
            case "versions":
                if self._often(0.9):
                    body = {self._vid(rid): {}, vid: self._epoch(version)}
                path = (*place, "versions")
                return Request(method="DELETE", path=path, body=body, default=flag)
        path = (*place, "versions", vid)
        return Request(method="DELETE", path=path, default=flag, **self._epoch(version))

    # Bodies.

    def _common(self, entity: Json) -> Json:
        """Attributes that every entity has."""
        chances = {
            "name": (0.4, ["n", "m", None]),
            "description": (0.2, ["d", None]),
            "labels": (0.2, [{"a": "b"}, {"c": "d"}, None]),
            "createdat": (0.2, [*TIMES, None]),
            "modifiedat": (0.2, [*TIMES, None]),
        }
        body = {
            name: self._one(values)
            for name, (share, values) in chances.items()
            if self._often(share)
        }
        return body | self._epoch(entity)

    def _group(self) -> Json:
        gid, kind, rid = self._about
        body = self._common(self._group_now())
        if self._often(0.1):
            body[GROUP_ID] = self._one([gid, gid, "other"])
        if self._often(0.4):
            body[kind.plural] = {rid: self._resource(rid)}
        return body

    def _resource(self, rid: str) -> Json:
        kind, now = self._kind, self._resource_now(rid)
        if self._often(0.08):
            return {"meta": {"xref": self._xref(rid)}}
        if now.get("xref") and self._often(0.5):
            return {"meta": {"xref": None}, **self._common({})}
        vid = now.get("defaultversionid") or self._vid(rid)
        body = self._version(rid, vid)
        body.pop("ancestorid", None)
        if self._often(0.2):
            body["versionid"] = vid
        if self._often(0.3):
            body["meta"] = self._meta(rid)
        elif not now.get("xref") and self._often(0.1):
            body[kind.id] = self._one([rid, rid, "other"])
        if self._often(0.3):
            body["versions"] = self._versions(rid)
        return body

    def _meta(self, rid: str) -> Json:
        if self._often(0.08):
            return {"xref": self._xref(rid)}
        now = self._resource_now(rid)
        body = self._common(now)
        if now.get("xref"):
            body.pop("epoch", None)
            body |= {"xref": None} if self._often(0.5) else {}
        if self._often(0.35):
            body["defaultversionid"] = self._vid(rid) if self._often(0.85) else None
        if self._often(0.3):
            body["defaultversionsticky"] = self._one([True, True, False, None])
        return body

    def _versions(self, rid: str) -> Json:
        number = 0 if self._often(0.05) else self._random.randint(1, 4)
        vids = sorted({self._vid(rid) for _ in range(number)})
        versions = {vid: self._version(rid, vid) for vid in vids}
        if self._kind.mode == "manual" and self._often(0.2):
            # Some follow others of the same request, whose ancestors are yet to be found.
            for follower in vids[: len(vids) // 2]:
                versions[follower]["ancestorid"] = self._one(vids[len(vids) // 2 :])
        return versions

    def _version(self, rid: str, vid: str) -> Json:
        body = self._common(self._resource_now(rid).get("versions", {}).get(vid, {}))
        if self._kind.mode == "manual" and self._often(0.25):
            body["ancestorid"] = self._one([vid, self._vid(rid), self._vid(rid)])
        return body

    def _new_version(self) -> Json:
        _, _, rid = self._about
        vid = self._vid(rid)
        body = self._version(rid, vid)
        if self._often(0.5) or self._kind.mode == "semver":
            body["versionid"] = vid
        elif self._often(0.1):
            body["ancestorid"] = "request"
        return body

    # Values.

    @property
    def _kind(self) -> Kind:
        return self._about[1]

    def _group_now(self) -> Json:
        return self._oracle.groups.get(self._about[0], {})

    def _resource_now(self, rid: str) -> Json:
        found: Json = self._group_now().get(self._kind.plural, {}).get(rid, {})
        return found

    def _vid(self, rid: str) -> str:
        """The id of a version, half of the time one that is there."""
        there = [*self._resource_now(rid).get("versions", {})]
        if there and self._often(0.5 if self._kind.sets_ids else 0.95):
            return self._one(there)
        return self._one(SEMANTIC_VIDS if self._kind.mode == "semver" else VIDS)

    def _xref(self, rid: str) -> str:
        groups = f"/{GROUPS}/{self._about[0]}"
        if self._often(0.1):
            itself = f"{groups}/{self._kind.plural}/{rid}"
            return self._one([groups, f"{groups}/nowhere/a", itself, "x"])
        return f"/{GROUPS}/{self._one(self._gids)}/{self._kind.plural}/{self._one(RIDS)}"

    def _epoch(self, entity: Json) -> Json:
        """Mostly nothing, now and then the right epoch, seldom the wrong one."""
        if not self._often(0.2):
            return {}
        right = entity.get("epoch", 1)
        return {"epoch": self._one([right, right, right, right, right + 1, None])}

    def _flag(self) -> str | None:
        rid = self._about[2]
        if not self._often(0.15):
            return None
        return self._one(["null", "request", self._vid(rid), self._vid(rid)])

    def _often(self, share: float) -> bool:
        return self._random.random() < share

    def _one(self, items: Sequence[Item]) -> Item:
        return self._random.choice(items)
