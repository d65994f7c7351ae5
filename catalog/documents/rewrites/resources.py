"""Older names and shapes of message definitions and schemas, and of resources with versions."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from catalog.documents.losses import default_version
from catalog.documents.rewriter import OLDER, RC4_ATTRIBUTES, DocumentPart, RewriteRule
from catalog.documents.rewrites.attributes import (
    leave_out_other_id,
    lower_names,
    newer_reference,
    rewrite_entity,
    rewrite_references,
    trim_urls,
)
from catalog.documents.rewrites.protocols import (
    rewrite_envelope_types,
    rewrite_format,
    rewrite_message_options,
)

_ASSIGNED = frozenset(
    {"meta", "metaurl", "self", "shortself", "versions", "versionscount", "versionsurl", "xid"}
    | {"messageid", "schemaid", "versionid", "epoch", "isdefault", RC4_ATTRIBUTES}
)
_META = RewriteRule("the default version is an attribute of meta", "0.5", is_evidence=False)
_ONLY = RewriteRule("the only version is the default version", "0.5", is_evidence=False)
_STICKY = RewriteRule("a default version that is not the newest has to stick")
_NUMBERS = RewriteRule("versions with numbers as ids follow each other in their order", "0.5")
# Alternative ways to give the single document of a version.
DOCUMENT_ATTRIBUTES = frozenset({"schema", "schemabase64", "schemaurl"})
_OWN = RewriteRule("attributes beside versions belong to the default version")
_OWN_TIMES = RewriteRule("when a resource was made and changed is an attribute of meta")
_TIMES = frozenset({"createdat", "modifiedat"})
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
_URL = RewriteRule("the address of a document is its schemaurl", "rc3")
_URL_CASE = RewriteRule("names are in lower case", "0.5")
_INHERITED = RewriteRule("a version has the format of its schema", "0.5")
_SHARED = RewriteRule("the versions of a schema share one format")


def rewrite_versions(
    part: DocumentPart, key: str, singular: str, rewrite_content: Callable[[DocumentPart], None]
) -> None:
    """Rewrite the attributes of a resource and of the resource's versions.

    Args:
        part: the resource.
        key: the id of the resource, which is its key in the collection.
        singular: the type of the resource, such as `message`.
        rewrite_content: rewrites the attributes of the type, in a resource or a version.
    """
    lower_names(part)
    rewrite_content(part)
    rewrite_entity(part, key, singular)
    if (meta := part.inside("meta")) is not None:
        leave_out_other_id(meta, key, f"{singular}id")
    for id, version in part.entities("versions"):
        lower_names(version)
        leave_out_other_id(version, key, f"{singular}id")
        rewrite_content(version)
        rewrite_entity(version, id, "version")


def rewrite_default_version(part: DocumentPart) -> None:
    """Move the choice of the default version to meta, and other attributes to the version."""
    versions = part.inside("versions")
    if versions is None or not versions.members:
        return
    part.drop("defaultversionurl", _META)
    if part.members.get("defaultversionid") is not None:
        _move_default(part, versions)
    default = versions.inside(_default_id(part, versions))
    if default is None:
        return
    if (kept := part.members.pop(OLDER, None)) is not None:
        default.members[OLDER] = _merged(kept, default.members.get(OLDER))
    # `older` keeps members that are left out below in the version that the members describe.
    default.entity = part.entity = default
    for name in [name for name in part.members if name not in _ASSIGNED]:
        if part.members[name] != default.members.get(name):
            _move_own(part, default, name, is_only=len(versions.members) == 1)


def _move_own(part: DocumentPart, default: DocumentPart, name: str, *, is_only: bool) -> None:
    # A version has a single document, whatever the name of the attribute.
    documents = DOCUMENT_ATTRIBUTES if name in DOCUMENT_ATTRIBUTES else {name}
    if not documents.isdisjoint(default.members):
        part.leave_out(name, "its default version has another")
    elif name not in _TIMES or is_only:
        part.move(name, default, name, _OWN)
    elif (meta := part.opened("meta")) is not None:
        # Times order the versions of a resource: a time that only the default version had would
        # change the order.
        part.move(name, meta, name, _OWN_TIMES)


def _move_default(part: DocumentPart, versions: DocumentPart) -> None:
    if len(versions.members) == 1 and not part.members.get("defaultversionsticky"):
        part.drop("defaultversionid", _ONLY)
        part.drop("defaultversionsticky", _ONLY)
    elif (meta := part.opened("meta")) is not None:
        part.move("defaultversionid", meta, "defaultversionid", _META)
        part.move("defaultversionsticky", meta, "defaultversionsticky", _META)
        if "defaultversionsticky" not in meta.members:
            meta.set("defaultversionsticky", True, _META)


def _default_id(part: DocumentPart, versions: DocumentPart) -> str:
    """The id of the default version: the stated version, else the newest version."""
    meta = part.inside("meta")
    stated = meta.members.get("defaultversionid") if meta is not None else None
    if part.rewriter.stated in ("0.4", "0.5") and stated is None:
        _follow_numbers(versions)
    default = default_version(versions.members, stated)
    if meta is not None and stated == default != default_version(versions.members, None):
        meta.set("defaultversionsticky", True, _STICKY)
    return default


def _follow_numbers(versions: DocumentPart) -> None:
    """Chain numbered versions: the greatest number is the latest (0.4, "Resource: schemas")."""
    ids = sorted(versions.members, key=lambda id: (len(id), id))
    found = [version for _, version in versions.parts()]
    if all(map(str.isdecimal, ids)) and ids[-1] != default_version(versions.members, None):
        if any("ancestorid" in version.members for version in found) or len(found) < len(ids):
            return
        for id, following in pairwise([ids[0], *ids]):
            if (version := versions.inside(following)) is not None:
                version.set("ancestorid", id, _NUMBERS)


def _merged(older: object, own: object) -> object:
    if isinstance(older, dict) and isinstance(own, dict):
        return {**older, **{name: _merged(older.get(name), value) for name, value in own.items()}}
    return older if own is None else own


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
