"""What a resource says of its default version, and of itself besides its versions."""

from __future__ import annotations

from catalog.documents.trail import Part, Rule

_RESOURCE = frozenset(
    {"meta", "metaurl", "self", "shortself", "versions", "versionscount", "versionsurl", "xid"}
    | {"messageid", "schemaid", "versionid", "epoch", "isdefault", "createdat", "modifiedat"}
    | {"ancestorid", "older", "rc4attributes"}
)
_META = Rule("the default version is an attribute of meta", "0.5")
_ONLY = Rule("the only version is the default version", "0.5")
# Of these, a version has one.
_DOCUMENTS = frozenset({"schema", "schemabase64", "schemaurl"})
_OWN = Rule("what a resource says of itself belongs to its default version")


def rewrite_default_version(part: Part) -> None:
    """Rewrite which version is the default, and give it what was said beside it."""
    versions = part.inside("versions")
    if versions is None or not versions.members:
        return
    part.drop("defaultversionurl", _META)
    if (id := part.members.get("defaultversionid")) is not None:
        _move_default(part, versions, id)
    default = versions.inside(_default_id(part, versions))
    if default is None:
        return
    default.entity = part.entity = default
    for name in [name for name in part.members if name not in _RESOURCE]:
        if part.members[name] == default.members.get(name):
            continue
        if name in default.members or _is_elsewhere(name, default):
            part.leave_out(name, "its default version has another")
        else:
            part.move(name, default, name, _OWN)


def _move_default(part: Part, versions: Part, id: object) -> None:
    if len(versions.members) == 1 and not part.members.get("defaultversionsticky"):
        part.drop("defaultversionid", _ONLY)
        part.drop("defaultversionsticky", _ONLY)
    elif (meta := part.opened("meta")) is not None:
        part.move("defaultversionid", meta, "defaultversionid", _META)
        part.move("defaultversionsticky", meta, "defaultversionsticky", _META)
        if "defaultversionsticky" not in meta.members:
            meta.set("defaultversionsticky", True, _META)


def _default_id(part: Part, versions: Part) -> str:
    """The default version: as it says, else the greatest (0.4, "Resource: schemas")."""
    meta = part.members.get("meta")
    stated = meta.get("defaultversionid") if isinstance(meta, dict) else None
    if isinstance(stated, str) and stated in versions.members:
        return stated
    longest = max(map(len, versions.members))
    return max(versions.members, key=lambda id: id.rjust(longest))


def _is_elsewhere(name: str, default: Part) -> bool:
    """A document of the resource, where its default version has one already."""
    return name in _DOCUMENTS and not _DOCUMENTS.isdisjoint(default.members)
