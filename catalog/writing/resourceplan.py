"""What an interaction does to one resource: its versions, its meta, its default version.

The steps are those of core/spec.md, "Resource Processing Algorithm". Those that need the
content of documents or look beyond the resource are taken by `catalog.writing.formatcheck`
and `catalog.writing.constraintcheck`, between `ResourcePlan.upsert` and `ResourcePlan.prune`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from catalog.model.dotpath import dotted, value_at
from catalog.model.errors import (
    BadDefaultVersionId,
    BadRequest,
    InvalidAttribute,
    MismatchedId,
    MismatchedVersionAttribute,
    MissingVersions,
    NotFound,
    Readonly,
    VersionIdNotAllowed,
)
from catalog.model.interaction import (
    NEWEST,
    THE_NEW_ONE,
    Body,
    Delete,
    ResourceUpsert,
    VersionUpsert,
    check_version_id,
)
from catalog.model.schema import CASELESS, ResourceType
from catalog.model.xid import Xid
from catalog.writing import ancestors, crossreferences, defaultversion
from catalog.writing.documentforms import update_document
from catalog.writing.draft import Draft
from catalog.writing.equaldocuments import keep_equal_document
from catalog.writing.plan import Plan
from catalog.writing.versionorder import adopt, beyond_limit

SHOWN_THROUGH_REFERENCE = "It is shown through a cross reference; delete it where that refers to."


class ResourcePlan:
    """One resource's part of a plan.

    Args:
        plan: the interaction's.
        xid: the resource's.
        given: the numbers that were ids of versions that are deleted.
        default: the `setdefaultversionid` flag.
    """

    def __init__(
        self,
        plan: Plan,
        xid: Xid,
        given: Sequence[range] = (),
        default: str | None = None,
    ) -> None:
        kind = plan.model.resource_type(xid.groups, xid.resources)
        assert kind is not None, "the interaction was parsed against the same model"
        self.plan = plan
        self.xid = xid
        self._key = str(xid)
        self.kind: ResourceType = kind
        self.given = given
        self.default = default
        self.is_new = plan.live(xid) is None
        # What must not be too old to be kept.
        self._needed: list[Draft] = []

    @property
    def draft(self) -> Draft:
        return self.plan.drafts[self._key]

    @property
    def versions(self) -> list[Draft]:
        return self.plan.versions_at(self._key)

    def upsert(self, upsert: ResourceUpsert) -> None:
        """Create or update the resource: all steps but the checks of others, and pruning."""
        referred = crossreferences.xref_after(self.plan.live(self.xid), upsert)
        if self.is_new:
            if upsert.default is None and upsert.meta is None and not upsert.versions:
                raise MissingVersions(f"{self.xid}/versions")
            self.plan.create(self.xid)
        if referred is not None:
            crossreferences.refer(self.plan, self.draft, upsert, referred, self.default)
            self.review_reference()
            return
        if self.draft.xref is not None:
            crossreferences.stop_referring(self.draft, self.plan.target_epoch(self.draft.xref))
            self.plan.touch(self.xid)
            self.is_new = True
        if self.is_new:
            self.draft.attributes[defaultversion.STICKY] = defaultversion.initial_stickiness(
                self.kind
            )
        written = self._upsert_versions(upsert)
        if upsert.meta is not None or self.is_new:
            self._update_meta(upsert.meta or {}, patch=upsert.patch)
        self._settle(written)

    def review_reference(self) -> None:
        """Hold a cross reference to what its type's model makes of `xref`."""
        self.plan.check_decided(self.draft, self.kind.meta_narrowed)

    def review(self) -> None:
        """Settle what is there, under a model that it was not written under."""
        self._settle(self.versions)

    def delete_versions(self, deletes: Sequence[Delete]) -> None:
        """Delete versions; the resource goes with the last one."""
        if self.draft.xref is not None:
            self._refuse_shown(self.draft.xref, deletes)
            return
        gone = {d.xid.vid for delete in deletes if (d := self.plan.delete(delete)) is not None}
        if not gone and self.default is None:
            return
        if not self.versions:
            if self.default not in (None, NEWEST):
                raise BadDefaultVersionId(
                    str(self.xid), value=str(self.default), error_detail="no version is left"
                )
            self.plan.delete(Delete(xid=self.xid))
            return
        self._without(gone)
        self._settle([])

    def _refuse_shown(self, xref: str, deletes: Sequence[Delete]) -> None:
        """A cross reference shows the versions of another resource, and has none."""
        for delete in deletes:
            if f"{crossreferences}/versions/{delete.xid.vid}" in self.plan.referred:
                raise Readonly(str(delete.xid), detail=SHOWN_THROUGH_REFERENCE)
            if delete.must_exist:
                raise NotFound(str(delete.xid))

    def _without(self, gone: set[str]) -> None:
        if self.kind.versionmode == ancestors.MANUAL:
            ancestors.disown(self.plan, self.versions, gone)
        if self.draft.attributes.get(defaultversion.ID) in gone:
            defaultversion.forget_default(self.draft, self.kind)

    def _upsert_versions(self, upsert: ResourceUpsert) -> list[Draft]:
        """Steps 1 to 3: the versions, the default one, and who follows whom."""
        upserts = [*upsert.versions]
        if (default := self._default_upsert(upsert)) is not None:
            upserts.append(default)
        written = [self._upsert_version(each) for each in upserts]
        is_alone = len(written) == 1 and written[0].is_new and not self.is_new
        if is_alone or self.plan.writes_only_changes:
            self._needed = written
        orphans = [draft for draft in written if "ancestorid" not in draft.attributes]
        ancestors.check_ancestors_exist(self.versions)
        if self.kind.versionmode == ancestors.MANUAL:
            adopt(self.versions, orphans)
        return written

    def _default_upsert(self, upsert: ResourceUpsert) -> VersionUpsert | None:
        """Which version the resource's own attributes are for, if any (step 2)."""
        in_versions = {version.vid for version in upsert.versions}
        body = upsert.default
        if self.plan.writes_only_changes and in_versions and not (body or {}).get("versionid"):
            # Whatever is there, they mean the default one of these versions.
            return None
        if body is None and self.is_new and not in_versions:
            body = {}
        if body is None:
            return None
        self.plan.check_id(self.xid, self.kind.singular, self.xid.rid, body)
        if self.is_new:
            vid = body.get("versionid")
            vid = self._default_named(upsert) if vid is None else vid
            if vid is not None:
                check_version_id(self.xid, vid)
            if vid in in_versions or (vid is None and in_versions):
                return None
        else:
            vid = self.draft.attributes[defaultversion.ID]
            given = body.get("versionid")
            if given is not None and given != vid:
                raise MismatchedId(
                    str(self.xid), singular="version", invalid_id=str(given), expected_id=vid
                )
            if vid in in_versions:
                return None
        return VersionUpsert(vid=vid or "", body=body, patch=upsert.patch, document=upsert.document)

    def _default_named(self, upsert: ResourceUpsert) -> Any:
        """The version that a new resource is to have as its default one."""
        if self.default is None:
            return (upsert.meta or {}).get(defaultversion.ID)
        return None if self.default in (NEWEST, THE_NEW_ONE) else self.default

    def _upsert_version(self, upsert: VersionUpsert) -> Draft:
        xid = self.xid.version(upsert.vid or self._next_version_id())
        draft = self.plan.live(xid)
        if draft is None:
            if upsert.vid and not self.kind.setversionid:
                raise VersionIdNotAllowed(str(self.xid), plural=self.kind.plural)
            ancestors.check_new_id(xid, self.kind)
            draft = self.plan.create(xid)
        self.plan.check_id(xid, "version", xid.vid, upsert.body)
        self.plan.check_id(xid, self.kind.singular, self.xid.rid, upsert.body)
        with self.plan.updating(draft, upsert.body):
            self._update_attributes(draft, upsert)
            ancestor = upsert.body.get("ancestorid")
            if ancestor is not None and not self._keeps_ancestor(draft):
                self._set_ancestor(draft, ancestor)
        return draft

    def _keeps_ancestor(self, draft: Draft) -> bool:
        """Whether what a request says of it makes no difference, so that it is no change."""
        is_derived = self.kind.versionmode != ancestors.MANUAL
        return self.plan.writes_only_changes and is_derived and not draft.is_new

    def _update_attributes(self, draft: Draft, upsert: VersionUpsert) -> None:
        rules = self.plan.rules_of(self.xid.group)
        self.plan.update(
            draft,
            upsert.body,
            self.kind.version_attributes,
            patch=upsert.patch,
            managed=self.kind.managed,
            complete=lambda attributes: rules.complete(attributes, self.kind.plural),
        )
        if self.kind.hasdocument:
            self.plan.violations += update_document(
                draft, upsert.body, self.kind, patch=upsert.patch, document=upsert.document
            )
            if self.plan.writes_only_changes:
                held = self.plan.documents.get(str(draft.xid))
                keep_equal_document(draft, upsert.body, self.kind, held)

    def _next_version_id(self) -> str:
        return ancestors.next_version_id(self.versions, self.kind, self.given)

    def _set_ancestor(self, draft: Draft, ancestor: object) -> None:
        if not isinstance(ancestor, str):
            raise InvalidAttribute(
                str(draft.xid), name="ancestorid", error_detail="it needs to be a string"
            )
        draft.attributes["ancestorid"] = draft.xid.vid if ancestor == ancestors.ITSELF else ancestor

    def _update_meta(self, meta: Body, *, patch: bool) -> None:
        """Step 4. What was a cross reference showed the epoch of another resource."""
        self.plan.check_id(self.draft.shown_as, self.kind.singular, self.xid.rid, meta)
        if self.is_new:
            meta = {name: value for name, value in meta.items() if name != "epoch"}
        with self.plan.updating(self.draft, meta):
            self.plan.update(
                self.draft,
                meta,
                self.kind.meta_attributes,
                patch=patch,
                managed=self.kind.meta_managed,
            )
        defaultversion.choose_default(self.draft, meta, self.kind, patch=patch)

    def _settle(self, written: Sequence[Draft]) -> None:
        """What holds for a resource as a whole once its parts were written: steps 3, 5 and 8."""
        if self.default is not None:
            defaultversion.force_default(self.draft, self.default, written, self.kind)
        self._order()
        self.plan.check_decided(self.draft, self.kind.meta_narrowed)
        for draft in written:
            self.plan.check_decided(draft, self.kind.narrowed)
        self._check_matching()

    def _order(self) -> None:
        ancestors.derive_ancestors(self.plan, self.versions, self.kind)
        ancestors.check_lineage(self.xid, self.versions, self.kind)
        defaultversion.settle_default(self.draft, self.versions, self.kind)
        if not self.draft.is_new and defaultversion.has_moved(self.draft):
            self.plan.touch(self.xid)

    def _check_matching(self) -> None:
        """core/model.md, "matchversions": some attributes are the same in all versions."""
        for path in self.kind.matching:
            values = [value_at(draft.attributes, path) for draft in self.versions]
            if path[0] in CASELESS:
                values = [value and value.lower() for value in values]
            if any(value != values[0] for value in values):
                raise MismatchedVersionAttribute(str(self.xid), name=dotted(path))

    def prune(self) -> None:
        """Delete the oldest versions beyond `maxversions` (step 10)."""
        if self.draft.xref is not None:
            return
        gone = beyond_limit(self.versions, self.draft.attributes[defaultversion.ID], self.kind)
        lost = next((draft for draft in gone if any(draft is each for each in self._needed)), None)
        if lost is not None:
            raise BadRequest(
                str(lost.xid),
                error_detail=f"{lost.xid} would go at once: it is the oldest, and "
                f"{self.kind.plural} keep {self.kind.maxversions} versions only",
            )
        for draft in gone:
            self.plan.delete(Delete(xid=draft.xid))
        self._without({draft.xid.vid for draft in gone})
        if gone:
            self._order()
