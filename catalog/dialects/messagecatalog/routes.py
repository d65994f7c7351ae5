"""The paths of the Message Catalog API (message catalog, 4.1)."""

from __future__ import annotations

from aiohttp import web

from catalog.dialects.messagecatalog import read, write
from catalog.dialects.messagecatalog.events import CATALOG_ROOT
from catalog.dialects.messagecatalog.write import afresh
from catalog.http.deadline import bounded

_GROUP = f"{CATALOG_ROOT}/{{group}}"
_DEFINITIONS = f"{_GROUP}/messagedefinitions"
_DEFINITION = f"{_DEFINITIONS}/{{definition}}"
_VERSIONS = f"{_DEFINITION}/versions"
_VERSION = f"{_VERSIONS}/{{version}}"

routes: list[web.RouteDef] = [
    web.get(CATALOG_ROOT, bounded(read.list_groups)),
    web.get(f"{CATALOG_ROOT}/", bounded(read.list_groups)),
    web.get(_GROUP, bounded(read.get_group)),
    web.put(_GROUP, bounded(afresh(write.put_group))),
    web.delete(_GROUP, bounded(write.delete_group)),
    web.get(_DEFINITIONS, bounded(read.list_definitions)),
    web.post(_DEFINITIONS, bounded(afresh(write.post_version))),
    web.delete(_DEFINITIONS, bounded(write.delete_definitions)),
    # Section 4.3.3 posts to the path with a slash at its end.
    web.get(f"{_DEFINITIONS}/", bounded(read.list_definitions)),
    web.post(f"{_DEFINITIONS}/", bounded(afresh(write.post_version))),
    web.delete(f"{_DEFINITIONS}/", bounded(write.delete_definitions)),
    web.get(_DEFINITION, bounded(read.get_definition)),
    web.delete(_DEFINITION, bounded(write.delete_definition)),
    web.get(_VERSIONS, bounded(read.list_versions)),
    web.get(_VERSION, bounded(read.get_version)),
    web.delete(_VERSION, bounded(write.delete_version)),
    web.get("/messagedefinition", bounded(read.find_definition)),
]
