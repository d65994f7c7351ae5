"""A small xRegistry server that shares no code with Concord, and misbehaves when asked to."""

from __future__ import annotations

import base64
import contextlib
import copy
import hashlib
import json
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Literal

from aiohttp import web
from aiohttp.test_utils import TestServer

SINGULARS = {
    "schemagroups": "schemagroup",
    "messagegroups": "messagegroup",
    "thinggroups": "thinggroup",
    "schemas": "schema",
    "messages": "message",
    "things": "thing",
}
RESOURCES = {"schemagroups": "schemas", "messagegroups": "messages", "thinggroups": "things"}
DOCUMENTED = {"schemas"}
NO_FLAGS: dict[str, Any] = {"flags": []}

Json = dict[str, Any]


@dataclass(slots=True, repr=False)
class ForeignServer:
    """A registry in memory, at `url`.

    `capabilities` is what it says of itself; it does no more than that. Collections have pages of
    `page_size` members, which begin anew for ever if they are `endless`; links between them lead to
    `public`, if that is given. It answers with tags if it `has_tags`. What it `mixes_up` are the
    resources of a group, listed in another group whose id begins alike: those that are inlined, or
    all. The request with the number
    `fault_at`, counted from 0, meets the `fault`: see `_misbehave`.
    """

    plurals: tuple[str, ...] = ("schemagroups", "messagegroups")
    capabilities: Json | None = field(
        default_factory=lambda: {
            "available": {"entities": {}, "model": {}},
            "flags": ["inline", "doc", "binary"],
            "pagination": True,
            "specversions": ["1.0-rc4"],
        }
    )
    specversion: str = "1.0-rc4"
    page_size: int = 2
    has_tags: bool = False
    mixes_up: Literal["", "inlined", "all"] = ""
    endless: bool = False
    public: str = ""
    fault: str = ""
    fault_at: int = -1
    url: str = ""
    groups: dict[str, dict[str, Json]] = field(default_factory=dict)
    requests: Counter[str] = field(default_factory=Counter)
    number: int = 0
    epoch: int = 1
    second: int = 0

    # What its clients do.

    def put_group(self, plural: str, gid: str, **attributes: Any) -> Json:
        collection = self.groups.setdefault(plural, {})
        if gid not in collection:
            self.epoch += 1
        group = collection.setdefault(gid, {"resources": {}, **self._born()})
        self._update(group, attributes)
        return group

    def put_resource(self, xid: str, **meta: Any) -> Json:
        _, plural, gid, _, rid = xid.split("/")
        group = self.groups[plural][gid]
        if rid not in group["resources"]:
            group["epoch"] += 1
        resource: Json = group["resources"].setdefault(rid, {"versions": {}, **self._born()})
        self._update(resource, meta)
        return resource

    def put_version(
        self, resource: str, vid: str, document: bytes | None = None, **attributes: Any
    ) -> Json:
        _, plural, gid, _, rid = resource.split("/")
        if rid not in self.groups[plural][gid]["resources"]:
            self.put_resource(resource)
        owner = self.groups[plural][gid]["resources"][rid]
        if vid not in owner["versions"]:
            owner["epoch"] += 1
            owner["attributes"]["defaultversionid"] = vid
        version: Json = owner["versions"].setdefault(vid, {"document": None, **self._born()})
        self._update(version, {"ancestorid": vid, **attributes})
        version["document"] = document
        return version

    def refer(self, xid: str, target: str) -> None:
        """Make a resource a cross reference."""
        resource = self.put_resource(xid)
        resource["attributes"], resource["versions"] = {"xref": target}, {}

    def delete(self, xid: str) -> None:
        names = xid.split("/")[1:]
        if len(names) == 2:
            del self.groups[names[0]][names[1]]
            self.epoch += 1
            return
        group = self.groups[names[0]][names[1]]
        if len(names) == 4:
            del group["resources"][names[3]]
            group["epoch"] += 1
            return
        del group["resources"][names[3]]["versions"][names[5]]
        group["resources"][names[3]]["epoch"] += 1

    def backup(self) -> Json:
        return copy.deepcopy({"groups": self.groups, "epoch": self.epoch})

    def restore(self, backup: Json) -> None:
        kept = copy.deepcopy(backup)
        self.groups, self.epoch = kept["groups"], kept["epoch"]

    def _born(self) -> Json:
        now = self._now()
        return {"epoch": 1, "attributes": {}, "createdat": now, "modifiedat": now}

    def _update(self, entity: Json, attributes: Json) -> None:
        if attributes:
            entity["attributes"] |= attributes
            entity["epoch"] += 1
            entity["modifiedat"] = self._now()

    def _now(self) -> str:
        self.second += 1
        minute, second = divmod(self.second, 60)
        return f"2024-01-01T00:{minute:02}:{second:02}Z"

    # What it answers.

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.requests[request.path] += 1
        fault = self.fault if self.number == self.fault_at else ""
        self.number += 1
        if fault == "500":
            raise web.HTTPInternalServerError
        if fault == "404":
            raise web.HTTPNotFound
        if fault == "429":
            raise web.HTTPTooManyRequests(headers={"Retry-After": "1"})
        path = request.path.rstrip("/")
        names = [name for name in path.removesuffix("$details").split("/") if name]
        headers: dict[str, str] = {}
        if len(names) in (6, 4) and names[2] in DOCUMENTED and "$details" not in path:
            return web.Response(body=self._document(names))
        shown = self._find(request, names, headers)
        self._misbehave(fault, shown, headers, request)
        body = json.dumps(shown).encode()
        if self.has_tags:
            headers["ETag"] = f'"{hashlib.sha256(body).hexdigest()}"'
            if request.headers.get("If-None-Match") == headers["ETag"]:
                return web.Response(status=304, headers=headers)
        if fault == "cut":
            return await self._cut(request, body)
        return web.Response(body=body, headers=headers, content_type="application/json")

    async def _cut(self, request: web.Request, body: bytes) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": str(len(body))})
        await response.prepare(request)
        await response.write(body[: len(body) // 2])
        assert request.transport is not None
        request.transport.close()
        return response

    def _misbehave(
        self, fault: str, shown: Json, headers: dict[str, str], request: web.Request
    ) -> None:
        """Spoil an answer: leave members out, count wrongly, lead in a circle, and the like."""
        members = [name for name, value in shown.items() if isinstance(value, dict)]
        if fault == "absent" and members:
            del shown[members[0]]
        elif fault == "counts":
            _miscount(shown)
        elif fault == "circle":
            headers["Link"] = f"<{request.path_qs}>; rel=next"
        elif fault == "huge":
            shown["padding"] = "x" * 20_000_000
        elif fault == "text":
            shown.clear()
        elif fault == "empty":
            for name in members:
                shown[name] = {}

    def _find(self, request: web.Request, names: list[str], headers: dict[str, str]) -> Json:
        flags = self._flags(request)
        match names:
            case []:
                return self._root({*flags} - {"doc", "binary"})
            case ["capabilities"] if self.capabilities is not None:
                return self.capabilities
            case ["model"]:
                return {"groups": {plural: self._type(plural) for plural in self.plurals}}
        with contextlib.suppress(KeyError, ValueError):
            return self._entity(request, names, flags, headers)
        raise web.HTTPNotFound

    def _entity(
        self, request: web.Request, names: list[str], flags: set[str], headers: dict[str, str]
    ) -> Json:
        plural, *below = names
        match below:
            case []:
                ids = self._page(request, self.groups.get(plural, {}), headers)
                return {gid: self._group(plural, gid, flags) for gid in ids}
            case [gid]:
                return self._group(plural, gid, flags)
            case [gid, _]:
                listed = self._listed(plural, gid, flags, mixed=self.mixes_up == "all")
                return {rid: listed[rid] for rid in self._page(request, listed, headers)}
            case [gid, _, rid]:
                return self._resource(plural, gid, rid, flags)
            case [gid, _, rid, "meta"]:
                return self._meta(plural, gid, rid)
            case [gid, _, rid, "versions"]:
                versions = self._shown(plural, gid, rid)["versions"]
                ids = self._page(request, versions, headers)
                return {vid: self._version(plural, gid, rid, vid, flags) for vid in ids}
            case [gid, _, rid, "versions", vid]:
                return self._version(plural, gid, rid, vid, flags)
        raise KeyError(names)

    def _flags(self, request: web.Request) -> set[str]:
        """The flags that it takes; of `inline`, the last names of its paths."""
        taken = set((self.capabilities or {}).get("flags", ()))
        flags = {name for name in request.query if name in taken}
        if "inline" in flags:
            for path in request.query["inline"].split(","):
                flags |= set(path.split("."))
        return flags

    def _page(self, request: web.Request, members: Json, headers: dict[str, str]) -> list[str]:
        start = int(request.query.get("offset", "0"))
        limit = min(self.page_size, int(request.query.get("limit", self.page_size)))
        ids = list(members)
        if self.endless or start + limit < len(ids):
            query = {**request.query, "offset": str(start + limit), "limit": str(limit)}
            # A relative reference, as RFC 3986 allows it.
            url = request.rel_url.with_query(query)
            headers["Link"] = f'<{self.public}{url}>; rel="next"; count={len(ids)}, </>; rel=first'
        return ids[start : start + limit] or ids[:limit]

    def _root(self, flags: set[str]) -> Json:
        shown = {
            "specversion": self.specversion,
            "registryid": "foreign",
            "self": "/",
            "xid": "/",
            "epoch": self.epoch,
            "createdat": "2024-01-01T00:00:00Z",
            "modifiedat": "2024-01-01T00:00:00Z",
        }
        for plural in self.plurals:
            shown |= {f"{plural}url": f"/{plural}"}
            shown |= {f"{plural}count": len(self.groups.get(plural, {}))}
        return shown

    def _type(self, plural: str) -> Json:
        resources = RESOURCES[plural]
        return {
            "plural": plural,
            "singular": SINGULARS[plural],
            "resources": {
                resources: {
                    "plural": resources,
                    "singular": SINGULARS[resources],
                    "hasdocument": resources in DOCUMENTED,
                }
            },
        }

    def _common(self, entity: Json, xid: str) -> Json:
        # A relative URL, which says nothing of the place where the server is.
        return {
            "self": f".{xid}",
            "xid": xid,
            "epoch": entity["epoch"],
            "createdat": entity["createdat"],
            "modifiedat": entity["modifiedat"],
            **entity["attributes"],
        }

    def _group(self, plural: str, gid: str, flags: set[str]) -> Json:
        group = self.groups[plural][gid]
        resources = RESOURCES[plural]
        shown = {
            f"{SINGULARS[plural]}id": gid,
            **self._common(group, f"/{plural}/{gid}"),
            f"{resources}url": f"/{plural}/{gid}/{resources}",
            f"{resources}count": len(group["resources"]),
        }
        if flags & {"*", resources}:
            shown[resources] = self._listed(plural, gid, flags, mixed=bool(self.mixes_up))
            shown[f"{resources}count"] = len(shown[resources])
        return shown

    def _listed(self, plural: str, gid: str, flags: set[str], *, mixed: bool) -> Json:
        """The resources that a group lists; mixed up, they are in the group of the longer id."""
        groups = self.groups[plural]
        others = {other for other in groups if mixed and other != gid}
        owners = {other for other in others if gid.startswith(other)}
        if not any(other.startswith(gid) for other in others):
            owners.add(gid)
        return {
            rid: self._resource(plural, owner, rid, flags)
            for owner in sorted(owners)
            for rid in groups[owner]["resources"]
        }

    def _shown(self, plural: str, gid: str, rid: str) -> Json:
        """The resource whose content a resource shows."""
        resource: Json = self.groups[plural][gid]["resources"][rid]
        if target := resource["attributes"].get("xref"):
            _, other, group, _, id = target.split("/")
            found: Json = self.groups[other][group]["resources"][id]
            return found
        return resource

    def _resource(self, plural: str, gid: str, rid: str, flags: set[str]) -> Json:
        resource = self.groups[plural][gid]["resources"][rid]
        shown_as = self._shown(plural, gid, rid)
        resources = RESOURCES[plural]
        xid = f"/{plural}/{gid}/{resources}/{rid}"
        shown: Json = {f"{SINGULARS[resources]}id": rid, "self": f".{xid}", "xid": xid}
        default = shown_as["attributes"].get("defaultversionid")
        is_doc = "doc" in flags
        if not is_doc and default in shown_as["versions"]:
            shown = {**self._version(plural, gid, rid, default, set()), **shown}
        shown["metaurl"] = f"{xid}/meta"
        if flags & {"*", "meta"}:
            shown["meta"] = self._meta(plural, gid, rid, is_doc=is_doc)
        if "xref" in resource["attributes"] and is_doc:
            return shown
        shown |= {"versionsurl": f"{xid}/versions", "versionscount": len(shown_as["versions"])}
        if flags & {"*", "versions"}:
            shown["versions"] = {
                vid: self._version(plural, gid, rid, vid, flags) for vid in shown_as["versions"]
            }
        return shown

    def _meta(self, plural: str, gid: str, rid: str, *, is_doc: bool = False) -> Json:
        resource = self.groups[plural][gid]["resources"][rid]
        resources = RESOURCES[plural]
        xid = f"/{plural}/{gid}/{resources}/{rid}/meta"
        named = {f"{SINGULARS[resources]}id": rid}
        if "xref" in resource["attributes"] and is_doc:
            return {**named, "xid": xid, **resource["attributes"]}
        shown = self._shown(plural, gid, rid)
        return {**named, **self._common(shown, xid), **resource["attributes"], "readonly": False}

    def _version(self, plural: str, gid: str, rid: str, vid: str, flags: set[str]) -> Json:
        owner = self._shown(plural, gid, rid)
        version = owner["versions"][vid]
        resources = RESOURCES[plural]
        shown = {
            f"{SINGULARS[resources]}id": rid,
            "versionid": vid,
            "isdefault": owner["attributes"]["defaultversionid"] == vid,
            **self._common(version, f"/{plural}/{gid}/{resources}/{rid}/versions/{vid}"),
        }
        document = version["document"]
        if document is not None and flags & {"*", SINGULARS[resources]}:
            if "binary" in flags:
                shown[f"{SINGULARS[resources]}base64"] = base64.b64encode(document).decode()
            else:
                shown[SINGULARS[resources]] = json.loads(document)
        return shown

    def _document(self, names: list[str]) -> bytes:
        with contextlib.suppress(KeyError):
            owner = self._shown(names[0], names[1], names[3])
            vid = names[5] if len(names) == 6 else owner["attributes"]["defaultversionid"]
            return owner["versions"][vid]["document"] or b""
        raise web.HTTPNotFound


def _miscount(shown: Json) -> None:
    for name, value in shown.items():
        if isinstance(value, dict):
            _miscount(value)
        elif name.endswith("count"):
            shown[name] = value + 1


@contextlib.asynccontextmanager
async def foreign_server(**settings: Any) -> AsyncIterator[ForeignServer]:
    foreign = ForeignServer(**settings)
    app = web.Application()
    app.router.add_get("/{path:.*}", foreign.answer)
    async with TestServer(app) as server:
        foreign.url = str(server.make_url("")).rstrip("/")
        yield foreign


def fill(foreign: ForeignServer, groups: int = 3) -> None:
    """Groups with schemas of two versions, and messages that refer to nothing."""
    for number in range(groups):
        schemas, messages = f"s{number}", f"m{number}"
        foreign.put_group("schemagroups", schemas, name=schemas, labels={"a": "b"})
        foreign.put_group("messagegroups", messages, description="some")
        for each in range(2):
            path = f"/schemagroups/{schemas}/schemas/x{each}"
            for vid in ("1", "2"):
                document = b'{ "type":  "object", "n": %d }' % number
                foreign.put_version(
                    path, vid, document, contenttype="application/json", format="JsonSchema"
                )
            foreign.put_version(f"/messagegroups/{messages}/messages/y{each}", "1", name="y")
