"""Older names and shapes of message definitions."""

from __future__ import annotations

from catalog.documents.rewriter import DocumentPart, RewriteRule
from catalog.documents.rewrites.attributes import trim_urls
from catalog.documents.rewrites.protocols import (
    rewrite_envelope_types,
    rewrite_format,
    rewrite_message_options,
)
from catalog.documents.rewrites.references import newer_reference, rewrite_references
from catalog.documents.rewrites.resources import rewrite_default_version, rewrite_versions

_SCHEMA = RewriteRule("the schema of a message is its dataschema", "0.5")
_RENAMED = {
    "basemessageurl": ("basemessage", RewriteRule("the base message is called basemessage", "rc2")),
    "schemaformat": ("dataschemaformat", _SCHEMA),
    "schema": ("dataschema", _SCHEMA),
    "schemauri": ("dataschemauri", _SCHEMA),
    "schemaurl": ("dataschemauri", _SCHEMA),
    "dataschemaurl": (
        "dataschemauri",
        RewriteRule("the address of a schema is its dataschemauri", "rc2"),
    ),
}
_REFERENCES = ("basemessage", "basemessageuri", "dataschemauri")
_METADATA = RewriteRule("metadata is that of the envelope, or the options of the protocol", "0.5")
_WRAPPED = RewriteRule("the attributes of an event are members of envelopemetadata", "0.5")
_PROTOCOL_METADATA = RewriteRule("the metadata of a protocol is called protocoloptions", "rc2")
_NAME = RewriteRule("the name of an attribute of an event is its key", "0.5")
_XREF = RewriteRule("a message that is defined elsewhere is a cross reference", "0.5")


def rewrite_message(part: DocumentPart, key: str) -> None:
    """Rewrite a message definition and the versions of the definition."""
    rewrite_versions(part, key, "message", _rewrite_content)
    rewrite_default_version(part)
    _rewrite_xref(part)


def _rewrite_content(part: DocumentPart) -> None:
    trim_urls(part)
    rewrite_format(part)
    _rewrite_metadata(part)
    for old, (new, rule) in _RENAMED.items():
        part.rename(old, new, rule)
    rewrite_references(part, *_REFERENCES)
    if (metadata := part.inside("envelopemetadata")) is not None:
        for name, attribute in metadata.parts():
            if attribute.members.get("name") == name:
                attribute.drop("name", _NAME)
            attribute.leave_out("name", _NAME.text)
        rewrite_envelope_types(metadata)
    rewrite_message_options(part)


def _rewrite_metadata(part: DocumentPart) -> None:
    metadata = part.inside("metadata")
    if metadata is not None:
        is_event = "attributes" in metadata.members or "protocol" not in part.members
        is_event |= "envelope" in part.members
        name = "envelopemetadata" if is_event else "protocoloptions"
        part.rename("metadata", name, _METADATA)
    part.rename("protocolmetadata", "protocoloptions", _PROTOCOL_METADATA)
    envelope = part.inside("envelopemetadata")
    attributes = envelope.inside("attributes") if envelope is not None else None
    if envelope is not None and attributes is not None and [*envelope.members] == ["attributes"]:
        # An event may have an attribute with the name `attributes`.
        values = attributes.members.values()
        if values and all(isinstance(value, dict) for value in values):
            envelope.lift("attributes", envelope, _WRAPPED)


def _rewrite_xref(part: DocumentPart) -> None:
    """Rewrite a definition that another group owns as a cross reference."""
    for name in ("uri", "xref"):
        target = part.members.get(name)
        if not isinstance(target, str):
            continue
        xid = newer_reference(target).removeprefix("#")
        if not xid.startswith("/messagegroups/"):
            part.leave_out(name, "a cross reference has to be to a message of this catalog")
        elif (meta := part.opened("meta")) is not None:
            part.move(name, meta, "xref", _XREF)
            meta.set("xref", xid, _XREF)
            for other in [name for name in part.members if name not in ("messageid", "meta")]:
                part.leave_out(other, "a cross reference shows the attributes of its target")
