"""What an interaction does to a resource: its versions, their lineage, its meta, its default.

The steps are those of core/spec.md, "Resource Processing Algorithm".
"""

from __future__ import annotations

from collections.abc import Mapping

from catalog.model.errors import (
    AncestorCircularReference,
    InvalidAttribute,
    MismatchedId,
    MismatchedVersionAttribute,
    MissingVersions,
    MultipleRoots,
    SetDefaultVersionStickyFalse,
    UnknownId,
    VersionIdNotAllowed,
)
from catalog.model.interaction import (
    Body,
    Delete,
    ResourceUpsert,
    VersionUpsert,
    check_version_id,
)
from catalog.model.schema import ResourceType
from catalog.model.versions import Lineage, circle, newest, oldest
from catalog.model.xid import Xid
from catalog.registry.documents import update_document
from catalog.registry.draft import Draft
from catalog.registry.plan import Plan

_ITSELF = "request"


class ResourcePlan:
    """One resource's part of a plan.

    Args:
        plan: the interaction's.
        xid: the resource's.
        last_version_number: the highest number that a deleted version of it had as its id.
    """

    def __init__(self, plan: Plan, xid: Xid, last_version_number: int = 0) -> None:
        kind = plan.model.resource_type(xid.groups, xid.resources)
        assert kind is not None, "the interaction was parsed against the same model"
        self.plan = plan
        self.xid = xid
        self.kind: ResourceType = kind
        self.last_version_number = last_version_number
        self.is_new = plan.live(xid) is None

    @property
    def draft(self) -> Draft:
        return self.plan.drafts[str(self.xid)]

    @property
    def versions(self) -> list[Draft]:
        return self.plan.versions_of(self.xid)

    def upsert(self, upsert: ResourceUpsert) -> None:
        if self.is_new:
            if upsert.default is None and upsert.meta is None and not upsert.versions:
                raise MissingVersions(str(self.xid))
            self.plan.create(self.xid)
            self.draft.attributes["defaultversionsticky"] = False
        orphans = [d for version in upsert.versions if (d := self._upsert_version(version))]
        if (default := self._default_upsert(upsert)) is not None and (
            draft := self._upsert_version(default)
        ):
            orphans.append(draft)
        self._find_ancestors(orphans)
        if upsert.meta is not None:
            self._update_meta(upsert.meta, patch=upsert.patch)
        self._settle()

    def delete_version(self, delete: Delete) -> None:
        """Delete a version; the resource goes with its last one."""
        if self.plan.delete(delete) is None:
            return
        if not self.versions:
            self.plan.delete(Delete(xid=self.xid))
            return
        for draft in self.versions:
            if draft.attributes["ancestorid"] == delete.xid.vid:
                draft.attributes["ancestorid"] = draft.xid.vid
                self.plan.touch(draft.xid)
        if self.draft.attributes["defaultversionid"] == delete.xid.vid:
            self.draft.attributes["defaultversionsticky"] = False
        self._settle()

    def _default_upsert(self, upsert: ResourceUpsert) -> VersionUpsert | None:
        """Which version the resource's own attributes are for, if any."""
        body = upsert.default
        if body is None:
            return None
        in_versions = {version.vid for version in upsert.versions}
        if self.is_new:
            vid = body.get("versionid") or (upsert.meta or {}).get("defaultversionid") or ""
            if vid:
                check_version_id(self.xid, vid)
            if vid in in_versions or (not vid and in_versions):
                return None
        else:
            vid = self.draft.attributes["defaultversionid"]
            given = body.get("versionid", vid)
            if given != vid:
                raise MismatchedId(
                    str(self.xid), singular="version", invalid_id=str(given), expected_id=vid
                )
            touches_only_others = upsert.patch and not body and (upsert.meta or in_versions)
            if vid in in_versions or touches_only_others:
                return None
        return VersionUpsert(vid=vid, body=body, patch=upsert.patch, document=upsert.document)

    def _upsert_version(self, upsert: VersionUpsert) -> Draft | None:
        """Create or update a version; answer with its draft if it needs an ancestor."""
        xid = self.xid.version(upsert.vid or self._next_version_id())
        draft = self.plan.live(xid)
        is_new = draft is None
        if draft is None:
            if upsert.vid and not self.kind.setversionid:
                raise VersionIdNotAllowed(str(self.xid), plural=self.kind.plural)
            draft = self.plan.create(xid)
        self.plan.check_id(xid, "version", xid.vid, upsert.body)
        self.plan.check_id(xid, self.kind.singular, self.xid.rid, upsert.body)
        self._update_attributes(draft, upsert)
        ancestor = upsert.body.get("ancestorid")
        if ancestor is not None:
            self._set_ancestor(draft, ancestor)
        return draft if is_new and ancestor is None else None

    def _update_attributes(self, draft: Draft, upsert: VersionUpsert) -> None:
        self.plan.update(
            draft,
            upsert.body,
            self.kind.version_attributes,
            patch=upsert.patch,
            managed=self.kind.managed,
        )
        if self.kind.hasdocument:
            self.plan.violations += update_document(
                draft, upsert.body, self.kind, patch=upsert.patch, document=upsert.document
            )

    def _next_version_id(self) -> str:
        taken = {draft.xid.vid for draft in self.versions}
        highest = max((int(vid) for vid in taken if vid.isdigit() and len(vid) < 16), default=0)
        return str(max(highest, self.last_version_number) + 1)

    def _set_ancestor(self, draft: Draft, ancestor: object) -> None:
        if not isinstance(ancestor, str):
            raise InvalidAttribute(
                str(draft.xid), name="ancestorid", error_detail="it needs to be a string"
            )
        draft.attributes["ancestorid"] = draft.xid.vid if ancestor == _ITSELF else ancestor

    def _find_ancestors(self, orphans: list[Draft]) -> None:
        """New versions that named no ancestor follow the newest, in the order of their ids."""
        new = {draft.xid.vid for draft in orphans}
        lineages = [_lineage(draft) for draft in self.versions if draft.xid.vid not in new]
        for draft in sorted(orphans, key=lambda d: d.xid.vid.lower()):
            parent = newest(lineages)
            draft.attributes["ancestorid"] = parent.vid if parent else draft.xid.vid
            lineages.append(_lineage(draft))

    def _update_meta(self, meta: Body, *, patch: bool) -> None:
        draft = self.draft
        if meta.get("xref") is not None:
            raise InvalidAttribute(
                str(self.xid), name="meta.xref", error_detail="this server has no cross references"
            )
        self.plan.check_id(self.xid, self.kind.singular, self.xid.rid, meta)
        self.plan.update(
            draft,
            meta,
            self.kind.meta_attributes,
            patch=patch,
            managed=self.kind.meta_managed,
        )
        self._choose_default(meta, patch=patch)

    def _choose_default(self, meta: Body, *, patch: bool) -> None:
        """core/spec.md, "defaultversionid Attribute" and "defaultversionsticky Attribute"."""
        attributes = self.draft.attributes
        sticky = meta.get("defaultversionsticky")
        chosen = meta.get("defaultversionid")
        for name, value, wanted in (
            ("defaultversionsticky", sticky, bool),
            ("defaultversionid", chosen, str),
        ):
            if value is not None and not isinstance(value, wanted):
                raise InvalidAttribute(
                    f"{self.xid}/meta", name=name, error_detail=f"it needs to be {wanted.__name__}"
                )
        was_sticky = attributes["defaultversionsticky"]
        if not patch or "defaultversionsticky" in meta:
            attributes["defaultversionsticky"] = bool(sticky)
        elif "defaultversionid" in meta:
            attributes["defaultversionsticky"] = chosen is not None
        if attributes["defaultversionsticky"] and self.kind.maxversions == 1:
            raise SetDefaultVersionStickyFalse(str(self.xid))
        if chosen is not None and attributes["defaultversionsticky"]:
            attributes["defaultversionid"] = chosen
        elif sticky is True and not (patch and was_sticky and "defaultversionid" not in meta):
            attributes.pop("defaultversionid", None)

    def _settle(self) -> None:
        """Everything that holds for a resource as a whole once its parts were written."""
        self._check_lineage()
        self._set_default()
        self._prune()
        self._check_match()

    def _check_lineage(self) -> None:
        ancestors = {d.xid.vid: d.attributes["ancestorid"] for d in self.versions}
        for vid, ancestor in ancestors.items():
            if ancestor not in ancestors:
                raise UnknownId(str(self.xid.version(vid)), singular="version", id=str(ancestor))
        if vids := circle(ancestors):
            raise AncestorCircularReference(str(self.xid), list=",".join(vids))
        roots = [vid for vid, ancestor in ancestors.items() if vid == ancestor]
        if self.kind.singleversionroot and len(roots) > 1:
            raise MultipleRoots(str(self.xid), plural=self.kind.plural)

    def _set_default(self) -> None:
        attributes = self.draft.attributes
        before = self.draft.before
        versions = {draft.xid.vid for draft in self.versions}
        if not attributes["defaultversionsticky"] or "defaultversionid" not in attributes:
            leaf = newest(map(_lineage, self.versions))
            if leaf is None:
                raise MissingVersions(str(self.xid))
            attributes["defaultversionid"] = leaf.vid
        if attributes["defaultversionid"] not in versions:
            raise UnknownId(
                str(self.xid), singular="version", id=str(attributes["defaultversionid"])
            )
        if before is not None and _default_of(attributes) != _default_of(before.attributes):
            self.plan.touch(self.xid)

    def _prune(self) -> None:
        """Delete the oldest versions beyond `maxversions`, but never the default one."""
        limit = self.kind.maxversions
        while limit and len(self.versions) > limit:
            default = self.draft.attributes["defaultversionid"]
            candidates = [d for d in self.versions if d.xid.vid != default]
            last = oldest(map(_lineage, candidates))
            assert last is not None, "there are more versions than the one that is default"
            self.delete_version(Delete(xid=self.xid.version(last.vid)))

    def _check_match(self) -> None:
        """core/model.md, "matchversions": some attributes are the same in all versions."""
        matching = (a.name for a in self.kind.attributes.values() if a.matchversions)
        for name in matching:
            values = {repr(draft.attributes.get(name)) for draft in self.versions}
            if len(values) > 1:
                raise MismatchedVersionAttribute(str(self.xid), name=name)


def _lineage(draft: Draft) -> Lineage:
    return Lineage(
        vid=draft.xid.vid,
        ancestor=draft.attributes.get("ancestorid", draft.xid.vid),
        createdat=draft.createdat,
        modifiedat=draft.modifiedat,
    )


def _default_of(attributes: Mapping[str, object]) -> tuple[object, object]:
    return attributes.get("defaultversionid"), attributes.get("defaultversionsticky")
