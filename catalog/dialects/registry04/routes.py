"""The paths of CloudEvents Registry 0.4."""

from __future__ import annotations

from collections.abc import Sequence

from catalog.dialects.registry04 import read, write
from catalog.dialects.registry04.names import REGISTRY04_ROOT
from catalog.http.route import Route, reads, writes

_GROUPS = f"{REGISTRY04_ROOT}/{{groups}}"
_GROUP = f"{_GROUPS}/{{gid}}"
_RESOURCES = f"{_GROUP}/{{resources}}"
_RESOURCE = f"{_RESOURCES}/{{rid}}"
_VERSIONS = f"{_RESOURCE}/versions"
_VERSION = f"{_VERSIONS}/{{vid}}"

routes: Sequence[Route] = (
    reads(REGISTRY04_ROOT, read.get_registry),
    reads(f"{REGISTRY04_ROOT}/", read.get_registry),
    reads(_GROUPS, read.get_groups),
    writes("POST", _GROUPS, write.post_group),
    writes("DELETE", _GROUPS, write.delete_groups),
    reads(_GROUP, read.get_group),
    writes("PUT", _GROUP, write.put_group),
    writes("DELETE", _GROUP, write.delete_group),
    reads(_RESOURCES, read.get_resources),
    writes("POST", _RESOURCES, write.post_resource),
    writes("DELETE", _RESOURCES, write.delete_resources),
    reads(_RESOURCE, read.get_version),
    writes("PUT", _RESOURCE, write.put_version),
    writes("POST", _RESOURCE, write.post_version),
    writes("DELETE", _RESOURCE, write.delete_resource),
    reads(_VERSIONS, read.get_versions),
    writes("DELETE", _VERSIONS, write.delete_versions),
    reads(_VERSION, read.get_version),
    writes("PUT", _VERSION, write.put_version),
    writes("DELETE", _VERSION, write.delete_version),
)
