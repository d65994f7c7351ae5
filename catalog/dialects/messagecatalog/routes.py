"""The paths of the Message Catalog API (message catalog, 4.1)."""

from __future__ import annotations

from aiohttp import web

from catalog.dialects.messagecatalog import reading, writing
from catalog.dialects.messagecatalog.writing import afresh
from catalog.dialects.serving import bounded
from catalog.events.messagecatalog import ROOT

_GROUP = f"{ROOT}/{{group}}"
_DEFINITIONS = f"{_GROUP}/messagedefinitions"
_DEFINITION = f"{_DEFINITIONS}/{{definition}}"
_VERSIONS = f"{_DEFINITION}/versions"
_VERSION = f"{_VERSIONS}/{{version}}"

routes: list[web.RouteDef] = [
    web.get(ROOT, bounded(reading.list_groups)),
    web.get(f"{ROOT}/", bounded(reading.list_groups)),
    web.get(_GROUP, bounded(reading.get_group)),
    web.put(_GROUP, bounded(afresh(writing.put_group))),
    web.delete(_GROUP, bounded(writing.delete_group)),
    web.get(_DEFINITIONS, bounded(reading.list_definitions)),
    web.post(_DEFINITIONS, bounded(afresh(writing.post_version))),
    web.delete(_DEFINITIONS, bounded(writing.delete_definitions)),
    # Section 4.3.3 posts to the path with a slash at its end.
    web.get(f"{_DEFINITIONS}/", bounded(reading.list_definitions)),
    web.post(f"{_DEFINITIONS}/", bounded(afresh(writing.post_version))),
    web.delete(f"{_DEFINITIONS}/", bounded(writing.delete_definitions)),
    web.get(_DEFINITION, bounded(reading.get_definition)),
    web.delete(_DEFINITION, bounded(writing.delete_definition)),
    web.get(_VERSIONS, bounded(reading.list_versions)),
    web.get(_VERSION, bounded(reading.get_version)),
    web.delete(_VERSION, bounded(writing.delete_version)),
    web.get("/messagedefinition", bounded(reading.find_definition)),
]
