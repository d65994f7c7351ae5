"""Pins: the versions and digests of the definitions that code is generated from. Pure.

A document has the entities of the default model. The definitions of a run are its messages and
schemas: of each the default version, unless the pins name another one, and further versions of
schemas that messages name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson

from catalog.commands.console import CommandError
from catalog.documents.asyncapi.schemadocuments import entities_named_in
from catalog.documents.losses import default_version
from catalog.model.timestamps import parse_time

RESOURCES = {"messagegroups": "messages", "endpoints": "messages", "schemagroups": "schemas"}
_FIRST_VERSION = "1"
# Members that a catalog assigns, or that do not change what is generated.
_ASSIGNED = frozenset(
    {"ancestor", "ancestorid", "authority", "createdat", "epoch", "isdefault", "messageid", "meta"}
    | {"metaurl", "modifiedat", "origin", "schemaid", "self", "shortself", "versionid", "versions"}
    | {"versionscount", "versionsurl", "xid"}
    | {f"{name}validated{end}" for name in ("format", "compatibility") for end in ("", "reason")}
)
_NAMED_VERSION = re.compile(
    rb"#?(/schemagroups/[^/\"#]+/schemas/[^/\"#]+)/versions/([A-Za-z0-9\-._~:@]+)"
)
_VERSION = 1
_LARGEST_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Pin:
    """The version of a message or schema, and the digest of its attributes and document."""

    version: str
    sha256: str

    def as_json(self) -> dict[str, str]:
        return {"version": self.version, "sha256": self.sha256}


Pins = Mapping[str, Pin]
"""The pins by the xid of the resource, or by that of a further version of a schema."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A message or schema of a document.

    Args:
        xid: the xid of the resource.
        versions: the attributes of each version, without those that a catalog assigns.
        default: the id of the default version.
        deprecated: the attribute `deprecated` of the resource, or else of the group.
    """

    xid: str
    versions: Mapping[str, Mapping[str, Any]]
    default: str
    deprecated: Mapping[str, Any] | None

    @property
    def is_deprecated(self) -> bool:
        """Whether the deprecation has an effect already."""
        if self.deprecated is None:
            return False
        try:
            return parse_time(str(self.deprecated["effective"])) <= datetime.now(UTC)
        # A deprecation without a time has an effect at once.
        except (KeyError, ValueError):
            return True

    def pin(self, version: str) -> Pin:
        text = orjson.dumps(self.versions[version], option=orjson.OPT_SORT_KEYS)
        return Pin(version, sha256(text).hexdigest())


def definitions_in(document: Mapping[str, Any]) -> dict[str, Definition]:
    """The messages and schemas of a document, by xid, in the order of the document."""
    return {each.xid: each for each in _definitions(document)}


def _definitions(document: Mapping[str, Any]) -> Iterator[Definition]:
    for plural, resources in RESOURCES.items():
        for gid, group in _objects(document, plural):
            for rid, resource in _objects(group, resources):
                meta = _object(resource, "meta")
                versions = dict(_objects(resource, "versions"))
                if not versions:
                    vid = resource.get("versionid")
                    versions = {vid if isinstance(vid, str) else _FIRST_VERSION: resource}
                default = default_version(versions, meta.get("defaultversionid"))
                deprecated = meta.get("deprecated") or group.get("deprecated")
                yield Definition(
                    xid=f"/{plural}/{gid}/{resources}/{rid}",
                    versions={vid: _own(version) for vid, version in versions.items()},
                    default=default,
                    deprecated=deprecated if isinstance(deprecated, dict) else None,
                )


def _own(version: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in version.items() if name not in _ASSIGNED}


def current_pins(definitions: Mapping[str, Definition], paths: Sequence[str]) -> dict[str, Pin]:
    """The pins of the default versions, and of further versions of schemas that these name.

    Args:
        paths: the paths of the run.
    """
    pins: dict[str, Pin] = {}
    waiting = [xid for xid in definitions if _is_generated(xid, paths)]
    while waiting:
        if (xid := waiting.pop()) in pins:
            continue
        found = definitions[xid]
        pins[xid] = found.pin(found.default)
        version = found.versions[found.default]
        waiting += [named for named in entities_named_in(version) if named in definitions]
        for text in _NAMED_VERSION.finditer(orjson.dumps(version)):
            of, vid = text[1].decode(), text[2].decode()
            schema = definitions.get(of)
            if schema is not None and vid in schema.versions and vid != schema.default:
                pins[f"{of}/versions/{vid}"] = schema.pin(vid)
    return pins


def _is_generated(xid: str, paths: Sequence[str]) -> bool:
    """Whether code is generated for a definition even if no other one names the definition."""
    return "/messages/" in xid or xid.startswith(tuple(f"/{path.strip('/')}/" for path in paths))


def violations(
    pins: Pins, definitions: Mapping[str, Definition], paths: Sequence[str]
) -> Iterator[str]:
    """What has become of pinned definitions so that they do not give the same code, as sentences.

    A newer version of a pinned definition is no violation, and neither is a schema that only the
    newer version names.

    Args:
        paths: the paths of the run.
    """
    for xid, pin in pins.items():
        found = definitions.get(xid.partition("/versions/")[0])
        if found is None or pin.version not in found.versions:
            yield f"{xid}: version {pin.version} is not there."
        elif found.pin(pin.version) != pin:
            yield f"{xid}: version {pin.version} has another content than when it was pinned."
    for xid in definitions:
        if xid not in pins and _is_generated(xid, paths):
            yield f"{xid} is new, and has no pin."


def deprecations(pins: Pins, definitions: Mapping[str, Definition]) -> Iterator[str]:
    """The pinned definitions that are deprecated, as sentences."""
    for xid, found in definitions.items():
        if xid in pins and found.is_deprecated and found.deprecated is not None:
            other = found.deprecated.get("alternative")
            yield f"{xid} is deprecated{f'; the alternative is {other}' if other else ''}."


def newer(pins: Pins, definitions: Mapping[str, Definition]) -> dict[str, str]:
    """The default versions that are others than those of the pins, by xid."""
    return {
        xid: found.default
        for xid, found in definitions.items()
        if xid in pins and pins[xid].version != found.default
    }


def pinned_document(document: Mapping[str, Any], pins: Pins) -> dict[str, Any]:
    """A document of the pinned versions only.

    A message has the attributes of its version itself, where generators look for them.
    """
    definitions = definitions_in(document)
    written: dict[str, Any] = {"specversion": document.get("specversion", "1.0-rc4")}
    for plural, resources in RESOURCES.items():
        groups: dict[str, Any] = {}
        for gid, group in _objects(document, plural):
            shown = {name: value for name, value in _own(group).items() if name != resources}
            shown[resources] = {
                rid: _written(definitions[f"/{plural}/{gid}/{resources}/{rid}"], pins)
                for rid, _ in _objects(group, resources)
                if f"/{plural}/{gid}/{resources}/{rid}" in pins
            }
            groups[gid] = shown
        if groups:
            written[plural] = groups
    return written


def _written(definition: Definition, pins: Pins) -> dict[str, Any]:
    version = pins[definition.xid].version
    own = dict(definition.versions[version])
    if not definition.xid.startswith("/schemagroups/"):
        return own
    named = [xid for xid in pins if xid.startswith(f"{definition.xid}/versions/")]
    kept = {pins[xid].version: definition.versions[pins[xid].version] for xid in named}
    format = {"format": own["format"]} if "format" in own else {}
    return {**format, "versions": {**kept, version: own}}


def _objects(owner: Mapping[str, Any], name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for key, value in _object(owner, name).items():
        if isinstance(value, dict):
            yield key, value


def _object(owner: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = owner.get(name)
    return value if isinstance(value, dict) else {}


@dataclass(frozen=True, slots=True)
class LockedRun:
    """The generator of a run, with the version of the generator, and the pins."""

    generator: str
    pins: Pins

    def as_json(self) -> dict[str, Any]:
        pins = {xid: pin.as_json() for xid, pin in sorted(self.pins.items())}
        return {"generator": self.generator, "definitions": pins}


@dataclass(slots=True)
class LockFile:
    """The runs of one repository.

    Args:
        path: the file, which need not exist.
        runs: the runs by their paths, with blanks between.
    """

    path: Path
    runs: dict[str, LockedRun] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> LockFile:
        """The lock file at a path; an empty one if there is no file."""
        try:
            if not path.exists():
                return cls(path)
            if path.stat().st_size > _LARGEST_BYTES:
                raise CommandError(f"{path} is too large for a lock file.")
            source: Any = orjson.loads(path.read_bytes())
            if source["lockversion"] != _VERSION:
                raise CommandError(f"{path} was written by another version of Concord.")
            return cls(path, {str(paths): _run(run) for paths, run in source["runs"].items()})
        except OSError as error:
            raise CommandError(f"{path} cannot be read: {error.strerror}.") from error
        except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError) as error:
            raise CommandError(
                f"{path} is no lock file.", "Restore it, or name another one with --lock."
            ) from error

    def run_of(self, paths: Sequence[str]) -> LockedRun | None:
        """The locked run of paths; `None` before the first one."""
        return self.runs.get(_key(paths))

    def write(self, paths: Sequence[str], run: LockedRun) -> None:
        """Replace the run of paths."""
        self.runs[_key(paths)] = run
        runs = {key: each.as_json() for key, each in sorted(self.runs.items())}
        document = {"lockversion": _VERSION, "runs": runs}
        try:
            self.path.write_bytes(orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n")
        except OSError as error:
            raise CommandError(f"{self.path} cannot be written: {error.strerror}.") from error


def _run(source: Any) -> LockedRun:
    pins = {
        str(xid): Pin(str(pin["version"]), str(pin["sha256"]))
        for xid, pin in source["definitions"].items()
    }
    return LockedRun(str(source["generator"]), pins)


def _key(paths: Sequence[str]) -> str:
    return " ".join(sorted(paths))
