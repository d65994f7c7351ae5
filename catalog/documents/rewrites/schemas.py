"""Older names and shapes of schemas."""

from __future__ import annotations

from catalog.documents.rewriter import DocumentPart, RewriteRule
from catalog.documents.rewrites.attributes import (
    leave_out_other_id,
    lower_names,
    rewrite_entity,
    trim_urls,
)
from catalog.documents.rewrites.defaultversion import rewrite_default_version

_URL = RewriteRule("the address of a document is its schemaurl", "rc3")
_URL_CASE = RewriteRule("names are in lower case", "0.5")
_INHERITED = RewriteRule("a version has the format of its schema", "0.5")
_SHARED = RewriteRule("the versions of a schema share one format")


def rewrite_schema(part: DocumentPart, key: str) -> None:
    """Rewrite a schema with its versions."""
    lower_names(part)
    _rewrite_document(part)
    rewrite_entity(part, key, "schema")
    if (meta := part.inside("meta")) is not None:
        leave_out_other_id(meta, key, "schemaid")
    for id, version in part.entities("versions"):
        lower_names(version)
        leave_out_other_id(version, key, "schemaid")
        _rewrite_document(version)
        rewrite_entity(version, id, "version")
        _inherit_format(part, version)
    _share_format(part)
    rewrite_default_version(part)


def _rewrite_document(part: DocumentPart) -> None:
    trim_urls(part)
    part.rename("schemauri", "schemaurl", _URL)
    part.rename("schemaUrl", "schemaurl", _URL_CASE)


def _inherit_format(part: DocumentPart, version: DocumentPart) -> None:
    """Versions may repeat the format of their schema, and could not have another."""
    format = part.members.get("format")
    if not isinstance(format, str) or not format:
        return
    own = version.members.get("format")
    if own is None or (isinstance(own, str) and own != format and own.startswith(format)):
        version.set("format", format, _INHERITED)


def _share_format(part: DocumentPart) -> None:
    """Formats that differ in their versions only have their name in common."""
    versions = [version for _, version in part.entities("versions")]
    formats = {version.members.get("format") for version in versions}
    if len(formats) < 2 or not all(isinstance(format, str) for format in formats):
        return
    names = {str(format).partition("/")[0] for format in formats}
    if len({name.lower() for name in names}) == 1:
        for version in versions:
            version.set("format", min(names), _SHARED)
