"""The published editions of the document format, and the migration of older ones to the newest.

Every rewrite is recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import orjson

from catalog.documents.rewriter import (
    RC4_ATTRIBUTES,
    DocumentPart,
    LeftOut,
    Rewrite,
    Rewriter,
    RewriteRule,
)
from catalog.documents.rewrites.attributes import lower_names, rewrite_description
from catalog.documents.rewrites.groups import rewrite_group
from catalog.documents.rewrites.resources import rewrite_message, rewrite_schema

EDITIONS = ("0.4", "0.5", "rc1", "rc2", "rc3", "rc4")
NEWEST_EDITION = "rc4"
DOCUMENT_SCHEMA = "https://cloudevents.io/schemas/registry"

SPECVERSIONS = {
    "0.4": "0.4-wip",
    "0.5": "0.5-wip",
    "rc1": "1.0-rc1",
    "rc2": "1.0-rc2",
    "rc3": "1.0-rc3",
    "rc4": "1.0-rc4",
}
_COLLECTIONS = {
    "definitiongroups": "messagegroups",
    "messagegroups": "messagegroups",
    "schemagroups": "schemagroups",
    "endpoints": "endpoints",
}
RESOURCES = {"endpoints": "messages", "messagegroups": "messages", "schemagroups": "schemas"}
_RENAMED = RewriteRule("collections have other names now", "0.5")
_DERIVED = RewriteRule("the URL and count of a collection are named after it", "0.5")
_RESTORED = RewriteRule("an extension restores what the older edition cannot express")
_UNDEPLOYED = RewriteRule(
    "an endpoint is deployed unless it says otherwise; it was not", "rc2", is_evidence=False
)
# A document with an older name that states a newer edition may mean either edition.
_UNDEPLOYED_EDITIONS = frozenset(EDITIONS[: EDITIONS.index("rc3")])
_FILE = RewriteRule("a registry has no schema, edition and id of a file")


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedEdition:
    """The edition of a document, and the reason to assume the edition."""

    edition: str
    reason: str


def stated_edition(document: Mapping[str, Any]) -> str | None:
    """The edition that a document states; published documents often state a wrong edition."""
    stated = document.get("specversion", document.get("specVersion"))
    if not isinstance(stated, str):
        return None
    spellings = (stated.lower(), f"{stated.lower()}-wip")
    return next((name for name, known in SPECVERSIONS.items() if known in spellings), None)


def is_certainly_newest(document: Mapping[str, Any]) -> bool:
    """Whether a catalog of the newest edition wrote the document, so that no older names occur.

    A catalog writes the newest specversion and an `xid` at the root; hand-written documents have
    no `xid`.
    """
    return document.get("xid") == "/" and stated_edition(document) == NEWEST_EDITION


@dataclass(frozen=True, slots=True, kw_only=True)
class Migrated:
    """A document in the newest edition, and every difference from the source."""

    document: dict[str, Any]
    found: StatedEdition
    rewrites: tuple[Rewrite, ...]
    left_out: tuple[LeftOut, ...]

    @property
    def older(self) -> tuple[Rewrite, ...]:
        """The rewrites of forms that were right in an older edition."""
        return tuple(rewrite for rewrite in self.rewrites if rewrite.rule.edition)


def migrate(document: Mapping[str, Any], *, keep_unknown: bool = False) -> Migrated:
    """Rewrite a document to the newest edition; a document of that edition stays unchanged.

    Args:
        document: the object of a JSON or YAML file.
        keep_unknown: keep members that cannot be rewritten in the extension attribute `older` of
            the entity, under the former names.
    """
    copy: dict[str, Any] = orjson.loads(orjson.dumps(document))
    base = document.get("self")
    rewriter = Rewriter(
        keep_unknown=keep_unknown,
        stated=stated_edition(document),
        base=base.rstrip("/") if isinstance(base, str) else "",
    )
    root = DocumentPart(copy, "", rewriter)
    if not is_certainly_newest(document):
        _rewrite_groups(root)
    found = _found(document, rewriter.rewrites)
    if {found.edition, rewriter.stated or found.edition} <= _UNDEPLOYED_EDITIONS:
        _keep_undeployed(root)
    return Migrated(
        document=copy,
        found=found,
        rewrites=tuple(rewriter.rewrites),
        left_out=tuple(rewriter.left_out),
    )


def _keep_undeployed(root: DocumentPart) -> None:
    """Mark endpoints as not deployed, which is the default of older editions.

    Options that `rc4attributes` restored are left alone: the newest edition's default applies.
    """
    restored = {each.pointer for each in root.rewriter.rewrites if each.rule is _RESTORED}
    for _, endpoint in root.entities("endpoints"):
        options = endpoint.inside("protocoloptions")
        if options is None or options.pointer in restored or "deployed" in options.members:
            continue
        options.set("deployed", False, _UNDEPLOYED)


def root_of(document: dict[str, Any]) -> dict[str, Any]:
    """A migrated document as a registry, without the members that only a file has.

    The `id` of an early edition names the document, not the registry that imports the document.
    """
    part = DocumentPart(dict(document), "", Rewriter())
    for name in ("$schema", "id", "specVersion", "specversion"):
        part.drop(name, _FILE)
    rewrite_description(part)
    _rename_derived(part)
    return part.members


def _found(document: Mapping[str, Any], rewrites: list[Rewrite]) -> StatedEdition:
    stated = stated_edition(document)
    evidence = [
        (EDITIONS.index(rewrite.rule.edition), f"{rewrite.pointer}: {rewrite.rule.text}")
        for rewrite in rewrites
        if rewrite.rule.edition and rewrite.rule.is_evidence
    ]
    if not evidence:
        reason = f"it says so: {SPECVERSIONS[stated]}" if stated else "it has no older names"
        return StatedEdition(edition=stated or NEWEST_EDITION, reason=reason)
    oldest, reason = min(evidence, key=itemgetter(0))
    if stated == "0.4" and EDITIONS[oldest] == "0.5":
        return StatedEdition(edition=stated, reason=reason)
    return StatedEdition(edition=EDITIONS[oldest], reason=reason)


def _rewrite_groups(root: DocumentPart) -> None:
    for name in list(root.members):
        plural = _COLLECTIONS.get(name.lower())
        if plural is not None and name != plural:
            _rename_collection(root, name, plural)
    for plural, resources in RESOURCES.items():
        for key, group in root.entities(plural):
            _rewrite_whole_group(plural, resources, key, group)
    _rename_derived(root)


def _rename_collection(owner: DocumentPart, name: str, plural: str) -> None:
    """Rename a collection, or merge it into the collection with the newer name."""
    newer = owner.inside(plural)
    if newer is None or owner.inside(name) is None:
        owner.rename(name, plural, _RENAMED)
    else:
        owner.lift(name, newer, _RENAMED)


def _rewrite_whole_group(plural: str, resources: str, key: str, group: DocumentPart) -> None:
    _rename_derived(group)
    lower_names(group)
    if resources == "messages" and "definitions" in group.members:
        _rename_collection(group, "definitions", "messages")
    rewrite_group(plural, key, group)
    rewrite = rewrite_schema if resources == "schemas" else rewrite_message
    for id, resource in group.entities(resources):
        _rename_derived(resource)
        rewrite(resource, id)
        _restore_newest(resource)
        for _, version in resource.entities("versions"):
            _restore_newest(version)
    _restore_newest(group)


def _rename_derived(owner: DocumentPart) -> None:
    """Rename the URLs and counts of collections; the names contain the collection's name."""
    for name in list(owner.members):
        for suffix in ("Url", "URL", "Count"):
            if name.endswith(suffix):
                collection = name.removesuffix(suffix).lower()
                collection = _COLLECTIONS.get(collection, collection)
                collection = "messages" if collection == "definitions" else collection
                owner.rename(name, collection + suffix.lower(), _DERIVED)


def _restore_newest(entity: DocumentPart) -> None:
    """Give an entity the attributes that a downgrade kept in the extension `rc4attributes`."""
    attributes = entity.members.get(RC4_ATTRIBUTES)
    if not isinstance(attributes, dict):
        return
    entity.drop(RC4_ATTRIBUTES, _RESTORED)
    for name, value in attributes.items():
        if value is None:
            entity.drop(name, _RESTORED)
        elif name != RC4_ATTRIBUTES:
            entity.set(name, value, _RESTORED)
    # The restored attributes replace members that the rewrites left out: nothing is lost.
    rewriter, within = entity.rewriter, f"{entity.pointer}/"
    rewriter.left_out = [each for each in rewriter.left_out if not each.pointer.startswith(within)]
