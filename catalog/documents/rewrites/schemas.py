"""Older names and shapes of schemas."""

from __future__ import annotations

from catalog.documents.rewriter import DocumentPart, RewriteRule
from catalog.documents.rewrites.attributes import trim_urls
from catalog.documents.rewrites.resources import rewrite_default_version, rewrite_versions

_URL = RewriteRule("the address of a document is its schemaurl", "rc3")
_URL_CASE = RewriteRule("names are in lower case", "0.5")
_INHERITED = RewriteRule("a version has the format of its schema", "0.5")
_SHARED = RewriteRule("the versions of a schema share one format")


def rewrite_schema(part: DocumentPart, key: str) -> None:
    """Rewrite a schema and the versions of the schema."""
    rewrite_versions(part, key, "schema", _rewrite_document)
    for _, version in part.entities("versions"):
        _inherit_format(part, version)
    _share_format(part)
    rewrite_default_version(part)


def _rewrite_document(part: DocumentPart) -> None:
    trim_urls(part)
    part.rename("schemauri", "schemaurl", _URL)
    part.rename("schemaUrl", "schemaurl", _URL_CASE)


def _inherit_format(part: DocumentPart, version: DocumentPart) -> None:
    """Give a version the format of the schema.

    In early editions the format of a version may only be more precise than the schema's format.
    """
    format = part.members.get("format")
    if not isinstance(format, str) or not format:
        return
    own = version.members.get("format")
    if own is None or (isinstance(own, str) and own != format and own.startswith(format)):
        version.set("format", format, _INHERITED)


def _share_format(part: DocumentPart) -> None:
    """Give the versions one common format, if the formats differ in the version number only."""
    versions = [version for _, version in part.entities("versions")]
    formats = {version.members.get("format") for version in versions}
    if len(formats) < 2 or not all(isinstance(format, str) for format in formats):
        return
    names = {str(format).partition("/")[0] for format in formats}
    if len({name.lower() for name in names}) == 1:
        for version in versions:
            version.set("format", min(names), _SHARED)
