"""The paths of CloudEvents Registry 0.4."""

from __future__ import annotations

from aiohttp import web

from catalog.dialects.registry04 import delete, read, write
from catalog.dialects.registry04.names import REGISTRY04_ROOT

_GROUPS = f"{REGISTRY04_ROOT}/{{groups}}"
_GROUP = f"{_GROUPS}/{{gid}}"
_RESOURCES = f"{_GROUP}/{{resources}}"
_RESOURCE = f"{_RESOURCES}/{{rid}}"
_VERSIONS = f"{_RESOURCE}/versions"
_VERSION = f"{_VERSIONS}/{{vid}}"

routes: list[web.RouteDef] = [
    web.get(REGISTRY04_ROOT, read.get_registry),
    web.get(f"{REGISTRY04_ROOT}/", read.get_registry),
    web.get(_GROUPS, read.get_groups),
    web.post(_GROUPS, write.post_group),
    web.delete(_GROUPS, delete.delete_groups),
    web.get(_GROUP, read.get_group),
    web.put(_GROUP, write.put_group),
    web.delete(_GROUP, delete.delete_group),
    web.get(_RESOURCES, read.get_resources),
    web.post(_RESOURCES, write.post_resource),
    web.delete(_RESOURCES, delete.delete_resources),
    web.get(_RESOURCE, read.get_version),
    web.put(_RESOURCE, write.put_version),
    web.post(_RESOURCE, write.post_version),
    web.delete(_RESOURCE, delete.delete_resource),
    web.get(_VERSIONS, read.get_versions),
    web.delete(_VERSIONS, delete.delete_versions),
    web.get(_VERSION, read.get_version),
    web.put(_VERSION, write.put_version),
    web.delete(_VERSION, delete.delete_version),
]
