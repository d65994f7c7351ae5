"""The paths of CloudEvents Registry 0.4."""

from __future__ import annotations

from aiohttp import web

from catalog.dialects.registry04 import delete, groupwriting, read, write
from catalog.dialects.registry04.names import REGISTRY04_ROOT
from catalog.http.deadline import bounded

_GROUPS = f"{REGISTRY04_ROOT}/{{groups}}"
_GROUP = f"{_GROUPS}/{{gid}}"
_RESOURCES = f"{_GROUP}/{{resources}}"
_RESOURCE = f"{_RESOURCES}/{{rid}}"
_VERSIONS = f"{_RESOURCE}/versions"
_VERSION = f"{_VERSIONS}/{{vid}}"

routes: list[web.RouteDef] = [
    web.get(REGISTRY04_ROOT, bounded(read.get_registry)),
    web.get(f"{REGISTRY04_ROOT}/", bounded(read.get_registry)),
    web.get(_GROUPS, bounded(read.get_groups)),
    web.post(_GROUPS, bounded(groupwriting.post_group)),
    web.delete(_GROUPS, bounded(delete.delete_groups)),
    web.get(_GROUP, bounded(read.get_group)),
    web.put(_GROUP, bounded(groupwriting.put_group)),
    web.delete(_GROUP, bounded(delete.delete_group)),
    web.get(_RESOURCES, bounded(read.get_resources)),
    web.post(_RESOURCES, bounded(write.post_resource)),
    web.delete(_RESOURCES, bounded(delete.delete_resources)),
    web.get(_RESOURCE, bounded(read.get_resource)),
    web.put(_RESOURCE, bounded(write.put_resource)),
    web.post(_RESOURCE, bounded(write.post_version)),
    web.delete(_RESOURCE, bounded(delete.delete_resource)),
    web.get(_VERSIONS, bounded(read.get_versions)),
    web.delete(_VERSIONS, bounded(delete.delete_versions)),
    web.get(_VERSION, bounded(read.get_version)),
    web.put(_VERSION, bounded(write.put_version)),
    web.delete(_VERSION, bounded(delete.delete_version)),
]
