"""The paths of the Message Catalog API (message catalog, 4.1)."""

from __future__ import annotations

from aiohttp import web

from catalog.dialects.messagecatalog import read, write
from catalog.dialects.messagecatalog.uris import CATALOG_ROOT

_GROUP = f"{CATALOG_ROOT}/{{group}}"
_DEFINITIONS = f"{_GROUP}/messagedefinitions"
_DEFINITION = f"{_DEFINITIONS}/{{definition}}"
_VERSIONS = f"{_DEFINITION}/versions"
_VERSION = f"{_VERSIONS}/{{version}}"

routes: list[web.RouteDef] = [
    web.get(CATALOG_ROOT, read.list_groups),
    web.get(f"{CATALOG_ROOT}/", read.list_groups),
    web.get(_GROUP, read.get_group),
    web.put(_GROUP, write.put_group),
    web.delete(_GROUP, write.delete_group),
    web.get(_DEFINITIONS, read.list_definitions),
    web.post(_DEFINITIONS, write.post_version),
    web.delete(_DEFINITIONS, write.delete_definitions),
    # Section 4.3.3 posts to the path with a slash at its end.
    web.get(f"{_DEFINITIONS}/", read.list_definitions),
    web.post(f"{_DEFINITIONS}/", write.post_version),
    web.delete(f"{_DEFINITIONS}/", write.delete_definitions),
    web.get(_DEFINITION, read.get_definition),
    web.delete(_DEFINITION, write.delete_definition),
    web.get(_VERSIONS, read.list_versions),
    web.get(_VERSION, read.get_version),
    web.delete(_VERSION, write.delete_version),
    web.get("/messagedefinition", read.find_definition),
]
