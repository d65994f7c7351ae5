"""The paths of the Message Catalog API (message catalog, 4.1)."""

from __future__ import annotations

from collections.abc import Sequence

from catalog.dialects.messagecatalog import read, write
from catalog.dialects.messagecatalog.uris import CATALOG_ROOT
from catalog.http.route import Route, reads, writes

_GROUP = f"{CATALOG_ROOT}/{{group}}"
_DEFINITIONS = f"{_GROUP}/messagedefinitions"
_DEFINITION = f"{_DEFINITIONS}/{{definition}}"
_VERSIONS = f"{_DEFINITION}/versions"
_VERSION = f"{_VERSIONS}/{{version}}"

routes: Sequence[Route] = (
    reads(CATALOG_ROOT, read.list_groups),
    reads(f"{CATALOG_ROOT}/", read.list_groups),
    reads(_GROUP, read.get_group),
    writes("PUT", _GROUP, write.put_group),
    writes("DELETE", _GROUP, write.delete_group),
    reads(_DEFINITIONS, read.list_definitions),
    writes("POST", _DEFINITIONS, write.post_version),
    writes("DELETE", _DEFINITIONS, write.delete_definitions),
    # Section 4.3.3 posts to the path with a trailing slash.
    reads(f"{_DEFINITIONS}/", read.list_definitions),
    writes("POST", f"{_DEFINITIONS}/", write.post_version),
    writes("DELETE", f"{_DEFINITIONS}/", write.delete_definitions),
    reads(_DEFINITION, read.get_definition),
    writes("DELETE", _DEFINITION, write.delete_definition),
    reads(_VERSIONS, read.list_versions),
    reads(_VERSION, read.get_version),
    writes("DELETE", _VERSION, write.delete_version),
    reads("/messagedefinition", read.find_definition),
)
