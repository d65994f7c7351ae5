"""What a resource says of its default version, and of itself besides its versions."""

from __future__ import annotations

from itertools import pairwise

from catalog.documents.losses import default_version
from catalog.documents.rewriter import OLDER, RC4_ATTRIBUTES, DocumentPart, RewriteRule

_ASSIGNED = frozenset(
    {"meta", "metaurl", "self", "shortself", "versions", "versionscount", "versionsurl", "xid"}
    | {"messageid", "schemaid", "versionid", "epoch", "isdefault", RC4_ATTRIBUTES}
)
_META = RewriteRule("the default version is an attribute of meta", "0.5", is_evidence=False)
_ONLY = RewriteRule("the only version is the default version", "0.5", is_evidence=False)
_STICKY = RewriteRule("a default version that is not the newest has to stick")
_LINE = RewriteRule("versions whose ids are numbers follow each other in the order of these", "0.5")
# Of these, a version has one.
_DOCUMENTS = frozenset({"schema", "schemabase64", "schemaurl"})
_OWN = RewriteRule("what a resource says of itself belongs to its default version")
_LIFE = RewriteRule("when a resource was made and changed is an attribute of meta")
_TIMES = frozenset({"createdat", "modifiedat"})


def rewrite_default_version(part: DocumentPart) -> None:
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
    _move_kept(part, default)
    default.entity = part.entity = default
    for name in [name for name in part.members if name not in _ASSIGNED]:
        if part.members[name] != default.members.get(name):
            _move_own(part, default, name, is_only=len(versions.members) == 1)


def _move_own(part: DocumentPart, default: DocumentPart, name: str, *, is_only: bool) -> None:
    if name in default.members or _is_elsewhere(name, default):
        part.leave_out(name, "its default version has another")
    elif name not in _TIMES or is_only:
        part.move(name, default, name, _OWN)
    elif (meta := part.opened("meta")) is not None:
        # The times of versions put them into order, so one of them alone gets none.
        part.move(name, meta, name, _LIFE)


def _move_default(part: DocumentPart, versions: DocumentPart, id: object) -> None:
    if len(versions.members) == 1 and not part.members.get("defaultversionsticky"):
        part.drop("defaultversionid", _ONLY)
        part.drop("defaultversionsticky", _ONLY)
    elif (meta := part.opened("meta")) is not None:
        part.move("defaultversionid", meta, "defaultversionid", _META)
        part.move("defaultversionsticky", meta, "defaultversionsticky", _META)
        if "defaultversionsticky" not in meta.members:
            meta.set("defaultversionsticky", True, _META)


def _default_id(part: DocumentPart, versions: DocumentPart) -> str:
    """The default version: as it says, else the newest."""
    meta = part.inside("meta")
    stated = meta.members.get("defaultversionid") if meta is not None else None
    if part.trail.stated in ("0.4", "0.5") and stated is None:
        _follow_numbers(versions)
    default = default_version(versions.members, stated)
    if meta is not None and stated == default != default_version(versions.members, None):
        meta.set("defaultversionsticky", True, _STICKY)
    return default


def _follow_numbers(versions: DocumentPart) -> None:
    """In early editions the greatest number is the latest (0.4, "Resource: schemas")."""
    line = sorted(versions.members, key=lambda id: (len(id), id))
    found = [version for _, version in versions.parts()]
    if all(map(str.isdecimal, line)) and line[-1] != default_version(versions.members, None):
        if any("ancestorid" in version.members for version in found) or len(found) < len(line):
            return
        for id, following in pairwise([line[0], *line]):
            if (version := versions.inside(following)) is not None:
                version.set("ancestorid", id, _LINE)


def _move_kept(part: DocumentPart, default: DocumentPart) -> None:
    """What was kept aside of the resource is kept of its default version."""
    kept = part.members.pop(OLDER, None)
    if kept is not None:
        default.members[OLDER] = _merged(kept, default.members.get(OLDER))


def _merged(older: object, own: object) -> object:
    if isinstance(older, dict) and isinstance(own, dict):
        return {**older, **{name: _merged(older.get(name), value) for name, value in own.items()}}
    return older if own is None else own


def _is_elsewhere(name: str, default: DocumentPart) -> bool:
    """A document of the resource, where its default version has one already."""
    return name in _DOCUMENTS and not _DOCUMENTS.isdisjoint(default.members)
