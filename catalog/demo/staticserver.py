"""A small read-only xRegistry server, independent of Concord, that shows documents in pages.

The server shares no code with the nodes, and has neither feeds nor digests. It represents foreign
servers, which a node can follow, too.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from aiohttp import web

Json = dict[str, Any]

_SPECVERSION = "1.0-rc4"
_PAGE = 4
_CAPABILITIES = {
    "available": {"capabilities": {}, "entities": {}},
    "flags": ["inline"],
    "pagination": True,
    "specversions": [_SPECVERSION],
}
_BEGAN = "2026-01-01T00:00:00Z"


def _resources_of(plural: str) -> str:
    return "schemas" if plural == "schemagroups" else "messages"


@dataclass(slots=True)
class StaticServer:
    """A registry with the groups of documents, by plural and id."""

    registryid: str
    groups: dict[str, dict[str, Json]]
    url: str
    epochs: dict[str, int] = field(default_factory=dict)

    def describe(self, xid: str, text: str) -> None:
        """Change the description of a message with a single version."""
        _, plural, gid, resources, rid = xid.split("/")
        _versions_of(self.groups[plural][gid][resources][rid])["1"]["description"] = text
        for path in (xid, f"{xid}/versions/1"):
            self.epochs[path] = self.epochs.get(path, 1) + 1

    def delete(self, xid: str) -> None:
        """Delete a message."""
        _, plural, gid, resources, rid = xid.split("/")
        del self.groups[plural][gid][resources][rid]
        self.epochs[f"/{plural}/{gid}"] = self.epochs.get(f"/{plural}/{gid}", 1) + 1

    def xids(self) -> Iterator[str]:
        """The paths of the groups, resources and versions."""
        for plural, groups in self.groups.items():
            for gid, group in groups.items():
                yield f"/{plural}/{gid}"
                resources = _resources_of(plural)
                for rid, resource in group.get(resources, {}).items():
                    xid = f"/{plural}/{gid}/{resources}/{rid}"
                    yield xid
                    yield from (f"{xid}/versions/{vid}" for vid in _versions_of(resource))

    async def answer(self, request: web.BaseRequest) -> web.Response:
        names = [name for name in request.path.split("/") if name]
        if names == ["capabilities"]:
            return web.json_response(_CAPABILITIES)
        wanted = [each for each in request.query.get("inline", "").split(",") if each]
        try:
            shown = self._find(names, wanted)
        except KeyError:
            return web.json_response({"title": "There is no such entity."}, status=404)
        if len(names) % 2 == 0 or names[-1] == "meta":
            return web.json_response(shown)
        return self._page(request, shown)

    def _page(self, request: web.BaseRequest, members: Json) -> web.Response:
        """A page of a collection, with a link to the next page."""
        begin, ids = int(request.query.get("offset", 0)), list(members)
        size = min(_PAGE, int(request.query.get("limit", _PAGE)))
        response = web.json_response({id: members[id] for id in ids[begin : begin + size]})
        if begin + size < len(ids):
            others = [(name, value) for name, value in request.query.items() if name != "offset"]
            following = urlencode([*others, ("offset", begin + size)])
            response.headers["Link"] = f"<{self.url}{request.path}?{following}>; rel=next"
        return response

    def _find(self, names: list[str], inline: list[str]) -> Json:
        """The answer for a path; the path of a schema or its version is that of its document.

        Raises:
            KeyError: the path does not exist.
        """
        match names:
            case []:
                return self._root()
            case [plural]:
                return {gid: self._group(plural, gid, inline) for gid in self.groups[plural]}
            case [plural, gid]:
                return self._group(plural, gid, inline)
        plural, gid, resources, *rest = names
        members: dict[str, Json] = self.groups[plural][gid].get(resources, {})
        path = f"/{plural}/{gid}/{resources}"
        if not rest:
            return {rid: self._resource(f"{path}/{rid}", members[rid], inline) for rid in members}
        rid, *inner = [each.removesuffix("$details") for each in rest]
        xid, resource = f"{path}/{rid}", members[rid]
        versions = _versions_of(resource)
        has_document = resources == "schemas" and not names[-1].endswith("$details")
        match inner:
            case ["meta"]:
                return self._meta(xid, resource)
            case ["versions"]:
                return {vid: self._version(xid, resource, vid) for vid in versions}
            case []:
                newest = versions[_newest(resource)].get("schema", {})
                return newest if has_document else self._resource(xid, resource, inline)
            case ["versions", vid]:
                document = versions[vid].get("schema", {})
                return document if has_document else self._version(xid, resource, vid)
        raise KeyError(names)

    def _root(self) -> Json:
        shown = {"specversion": _SPECVERSION, "registryid": self.registryid, **self._common("/")}
        for plural, groups in self.groups.items():
            shown |= {f"{plural}url": f"{self.url}/{plural}", f"{plural}count": len(groups)}
        return shown

    def _group(self, plural: str, gid: str, inline: list[str]) -> Json:
        body, xid, resources = self.groups[plural][gid], f"/{plural}/{gid}", _resources_of(plural)
        found = body.get(resources, {})
        shown = {
            f"{plural.removesuffix('s')}id": gid,
            **self._common(xid),
            **{name: value for name, value in body.items() if name != resources},
            f"{resources}url": f"{self.url}{xid}/{resources}",
            f"{resources}count": len(found),
        }
        if {each.partition(".")[0] for each in inline} & {"*", resources}:
            below = [each.partition(".")[2] for each in inline]
            path = f"{xid}/{resources}"
            shown[resources] = {
                rid: self._resource(f"{path}/{rid}", found[rid], below) for rid in found
            }
        return shown

    def _resource(self, xid: str, resource: Json, inline: list[str]) -> Json:
        versions = _versions_of(resource)
        shown = self._version(xid, resource, _newest(resource))
        shown |= {**self._common(xid), "epoch": shown["epoch"]}
        shown["metaurl"] = f"{self.url}{xid}/meta"
        shown["versionsurl"] = f"{self.url}{xid}/versions"
        shown["versionscount"] = len(versions)
        if {"meta", "*"} & {*inline}:
            shown["meta"] = self._meta(xid, resource)
        if {"versions", "*"} & {*inline}:
            shown["versions"] = {vid: self._version(xid, resource, vid) for vid in versions}
        return shown

    def _meta(self, xid: str, resource: Json) -> Json:
        newest = _newest(resource)
        return {
            **_id_of(xid),
            **self._common(xid),
            "xid": f"{xid}/meta",
            "self": f"{self.url}{xid}/meta",
            "readonly": True,
            "defaultversionid": newest,
            "defaultversionurl": f"{self.url}{xid}/versions/{newest}",
            "defaultversionsticky": False,
        }

    def _version(self, resource_xid: str, resource: Json, vid: str) -> Json:
        versions = _versions_of(resource)
        version, ids = versions[vid], list(versions)
        left_out = ("versions", "schema", "schemabase64")
        return {
            **_id_of(resource_xid),
            "versionid": vid,
            **self._common(f"{resource_xid}/versions/{vid}"),
            "isdefault": vid == _newest(resource),
            "ancestorid": ids[max(0, ids.index(vid) - 1)],
            **({"contenttype": "application/json"} if "schema" in version else {}),
            **{name: value for name, value in version.items() if name not in left_out},
        }

    def _common(self, xid: str) -> Json:
        return {
            "self": f"{self.url}{xid}",
            "xid": xid,
            "epoch": self.epochs.get(xid, 1),
            "createdat": _BEGAN,
            "modifiedat": _BEGAN,
        }


def _versions_of(resource: Json) -> dict[str, Json]:
    """The versions of a resource; in a document, the resource itself may be the only version."""
    versions: dict[str, Json] = resource.get("versions") or {"1": resource}
    return versions


def _newest(resource: Json) -> str:
    return list(_versions_of(resource))[-1]


def _id_of(resource_xid: str) -> Json:
    """The attribute with the id of a resource."""
    _, _, _, resources, rid = resource_xid.split("/")
    return {f"{resources.removesuffix('s')}id": rid}


@contextlib.asynccontextmanager
async def open_static_server(
    registryid: str, groups: dict[str, dict[str, Json]], port: int
) -> AsyncIterator[StaticServer]:
    """Serve documents on a port of this machine."""
    server = StaticServer(registryid, groups, f"http://127.0.0.1:{port}")
    runner = web.ServerRunner(web.Server(server.answer))
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port).start()
        yield server
    finally:
        await runner.cleanup()
