"""Applies an interaction to one resource: the versions, the meta and the default version.

Source: core/spec.md, "Resource Processing Algorithm". The steps that read documents or look
beyond the resource are in `catalog.writing.checks`, between `ResourcePlan.upsert` and
`ResourcePlan.prune`.
"""

from __future__ import annotations

from collections.abc import Sequence

from catalog.model import errors
from catalog.model.confluentattribute import CONFLUENT, kept_names, schema_id_of
from catalog.model.dotpath import dotted, value_at
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
from catalog.writing import crossreferences, versionorder
from catalog.writing.documentupdate import keep_equal_document, update_document
from catalog.writing.drafts import Draft, Drafts

_SHOWN_THROUGH_REFERENCE = "It is shown through a cross reference; delete it where that refers to."


class ResourcePlan:
    """The steps for one resource.

    Args:
        deleted: the numbers that were ids of deleted versions.
        default: the `setdefaultversionid` flag.
    """

    def __init__(
        self, drafts: Drafts, xid: Xid, deleted: Sequence[range] = (), default: str | None = None
    ) -> None:
        kind = drafts.model.resource_type(xid.groups, xid.resources)
        assert kind is not None, "the interaction was read with the same model"
        self.drafts = drafts
        self.xid = xid
        self._key = str(xid)
        self.kind: ResourceType = kind
        self.deleted = deleted
        self.default = default
        self.is_new = drafts.live(self._key) is None
        # Written versions that must not be pruned at once, since the write would silently be lost.
        self._needed: list[Draft] = []

    @property
    def draft(self) -> Draft:
        return self.drafts.by_xid[self._key]

    @property
    def versions(self) -> list[Draft]:
        return self.drafts.versions_of(self._key)

    def upsert(self, upsert: ResourceUpsert) -> None:
        """Create or update the resource: every step except the checks and pruning."""
        referred = crossreferences.xref_after(self.drafts.live(self._key), upsert)
        if self.is_new:
            if upsert.default is None and upsert.meta is None and not upsert.versions:
                raise errors.MissingVersions(f"{self.xid}/versions")
            self.drafts.create(self.xid)
        if referred is not None:
            crossreferences.refer(self.drafts, self.draft, upsert, referred, self.default)
            self.review_reference()
            return
        if self.draft.xref is not None:
            crossreferences.stop_referring(self.drafts, self.draft)
            self.drafts.touch(self.draft)
            self.is_new = True
        if self.is_new:
            self.draft.attributes[versionorder.STICKY] = versionorder.initial_stickiness(self.kind)
        written = self._upsert_versions(upsert)
        if upsert.meta is not None or self.is_new:
            self._update_meta(upsert.meta or {}, patch=upsert.patch)
        self._settle(written)

    def review_reference(self) -> None:
        """Check `xref` against the model of the resource type."""
        self.drafts.check_decided(self.draft, self.kind.meta_narrowed)

    def review(self) -> None:
        """Settle the stored resource under a new model."""
        self._settle(self.versions)

    def delete_versions(self, deletes: Sequence[Delete]) -> None:
        """Delete versions, and the resource with the last version."""
        if self.draft.xref is not None:
            self._refuse_shown(self.draft.xref, deletes)
            return
        gone = {d.xid.vid for delete in deletes if (d := self.drafts.delete(delete)) is not None}
        if not gone and self.default is None:
            return
        if not self.versions:
            if self.default not in (None, NEWEST):
                raise errors.BadDefaultVersionId(
                    str(self.xid), value=str(self.default), error_detail="no version is left"
                )
            self.drafts.delete(Delete(xid=self.xid))
            return
        self._without(gone)
        self._settle([])

    def _refuse_shown(self, xref: str, deletes: Sequence[Delete]) -> None:
        """Refuse to delete versions of a cross reference, which shows versions of the target."""
        for delete in deletes:
            if f"{xref}/versions/{delete.xid.vid}" in self.drafts.referred:
                raise errors.Readonly(str(delete.xid), detail=_SHOWN_THROUGH_REFERENCE)
            if delete.must_exist:
                raise errors.NotFound(str(delete.xid))

    def _without(self, gone: set[str]) -> None:
        if self.kind.versionmode == versionorder.MANUAL:
            versionorder.disown(self.drafts, self.versions, gone)
        if self.draft.attributes.get(versionorder.ID) in gone:
            versionorder.forget_default(self.draft, self.kind)

    def _upsert_versions(self, upsert: ResourceUpsert) -> list[Draft]:
        """Steps 1 to 3: the versions, the default version, and the ancestors."""
        upserts = [*upsert.versions]
        if (default := self._default_upsert(upsert)) is not None:
            upserts.append(default)
        written = [self._upsert_version(each) for each in upserts]
        is_alone = len(written) == 1 and written[0].is_new and not self.is_new
        if is_alone or self.drafts.writes_only_changes:
            self._needed = written
        orphans = [draft for draft in written if "ancestorid" not in draft.attributes]
        versionorder.check_ancestors_exist(self.versions)
        if orphans and self.kind.versionmode == versionorder.MANUAL:
            versionorder.adopt(self.versions, orphans)
        return written

    def _default_upsert(self, upsert: ResourceUpsert) -> VersionUpsert | None:
        """The upsert of the version addressed by the resource's attributes, or `None` (step 2)."""
        in_versions = {version.vid for version in upsert.versions}
        body = upsert.default
        if self.drafts.writes_only_changes and in_versions and not (body or {}).get("versionid"):
            # The attributes repeat the default version in `versions`, even if the stored default
            # version is a different version.
            return None
        if body is None and self.is_new and not in_versions:
            body = {}
        if body is None:
            return None
        self.drafts.check_id(self.xid, self.kind.singular, self.xid.rid, body)
        vid = given = body.get("versionid")
        if not self.is_new:
            vid = self.draft.attributes[versionorder.ID]
            self.drafts.check_id(self.xid, "version", vid, body)
        elif given is None:
            vid = self.default
            if vid is None:
                vid = (upsert.meta or {}).get(versionorder.ID)
            elif vid in (NEWEST, THE_NEW_ONE):
                vid = None
        if self.is_new and vid is not None:
            check_version_id(self.xid, vid)
        if vid in in_versions or (vid is None and in_versions):
            return None
        return VersionUpsert(vid=vid or "", body=body, patch=upsert.patch, document=upsert.document)

    def _upsert_version(self, upsert: VersionUpsert) -> Draft:
        vid = upsert.vid or versionorder.next_version_id(self.versions, self.kind, self.deleted)
        xid = self.xid.version(vid)
        draft = self.drafts.live(xid)
        if draft is None:
            if upsert.vid and not self.kind.setversionid:
                raise errors.VersionIdNotAllowed(str(self.xid), plural=self.kind.plural)
            versionorder.check_new_id(xid, self.kind)
            draft = self.drafts.create(xid)
        self.drafts.check_id(xid, "version", xid.vid, upsert.body)
        self.drafts.check_id(xid, self.kind.singular, self.xid.rid, upsert.body)
        with self.drafts.updating(draft, upsert.body):
            self._update_attributes(draft, upsert)
            ancestor = upsert.body.get("ancestorid")
            # In modes other than manual, the server derives the ancestor of a stored version, so
            # a different ancestor in the request is no change.
            is_fixed = draft.is_new or self.kind.versionmode == versionorder.MANUAL
            if ancestor is not None and (is_fixed or not self.drafts.writes_only_changes):
                self._set_ancestor(draft, ancestor)
        return draft

    def _update_attributes(self, draft: Draft, upsert: VersionUpsert) -> None:
        rules = self.drafts.rules_of(self.xid.group)
        self.drafts.update(
            draft,
            upsert.body,
            self.kind.version_attributes,
            patch=upsert.patch,
            managed=self.kind.managed | kept_names(self.xid),
            complete=lambda attributes: rules.complete(attributes, self.kind.plural),
        )
        if self.kind.hasdocument:
            self.drafts.violations += update_document(
                draft, upsert.body, self.kind, patch=upsert.patch, document=upsert.document
            )
            has_id = draft.before is not None and schema_id_of(draft.before.attributes) is not None
            if self.drafts.writes_only_changes or has_id:
                stored = self.drafts.documents.get(str(draft.xid))
                keep_equal_document(draft, upsert.body, self.kind, stored)
            self._check_immutable(draft)
        if upsert.confluent is not None:
            draft.attributes[CONFLUENT] = dict(upsert.confluent)

    def _check_immutable(self, draft: Draft) -> None:
        """Refuse another text for a version whose id is in messages."""
        before = draft.before
        id = None if before is None else schema_id_of(before.attributes)
        if before is None or id is None or draft.content_sha256 == before.document_sha256:
            return
        detail = f"messages name its text by the schema id {id}; create a version instead"
        name = self.kind.singular
        self.drafts.violations.append(
            errors.InvalidAttribute(draft.key, name=name, error_detail=detail)
        )

    def _set_ancestor(self, draft: Draft, ancestor: object) -> None:
        if not isinstance(ancestor, str):
            raise errors.InvalidAttribute(
                str(draft.xid), name="ancestorid", error_detail="it needs to be a string"
            )
        is_root = ancestor == versionorder.ITSELF
        draft.attributes["ancestorid"] = draft.xid.vid if is_root else ancestor

    def _update_meta(self, meta: Body, *, patch: bool) -> None:
        """Update the meta of the resource (step 4).

        The epoch of a former cross reference is not checked: clients were shown the target's.
        """
        self.drafts.check_id(self.draft.shown_as, self.kind.singular, self.xid.rid, meta)
        if self.is_new:
            meta = {name: value for name, value in meta.items() if name != "epoch"}
        with self.drafts.updating(self.draft, meta):
            self.drafts.update(
                self.draft,
                meta,
                self.kind.meta_attributes,
                patch=patch,
                managed=self.kind.meta_managed,
            )
        versionorder.choose_default(self.draft, meta, self.kind, patch=patch)

    def _settle(self, written: Sequence[Draft]) -> None:
        """Apply the rules for the resource as a whole: steps 3, 5 and 8."""
        if self.default is not None:
            versionorder.force_default(self.draft, self.default, written, self.kind)
        self._order()
        self.drafts.check_decided(self.draft, self.kind.meta_narrowed)
        for draft in written:
            self.drafts.check_decided(draft, self.kind.narrowed)
        self._check_matching()

    def _order(self) -> None:
        draft, versions = self.draft, self.versions
        versionorder.derive_ancestors(self.drafts, versions, self.kind)
        versionorder.check_lineage(self.xid, versions, self.kind)
        versionorder.settle_default(draft, versions, self.kind)
        if not draft.is_new and versionorder.has_moved(draft):
            self.drafts.touch(self.draft)

    def _check_matching(self) -> None:
        """Check attributes that must be equal in all versions (core/model.md, "matchversions")."""
        for path in self.kind.matching:
            values = [value_at(draft.attributes, path) for draft in self.versions]
            if path[0] in CASELESS:
                values = [value and value.lower() for value in values]
            if any(value != values[0] for value in values):
                raise errors.MismatchedVersionAttribute(str(self.xid), name=dotted(path))

    def prune(self) -> None:
        """Delete the oldest versions beyond `maxversions` (step 10)."""
        if self.draft.xref is not None:
            return
        gone = versionorder.beyond_limit(
            self.versions, self.draft.attributes[versionorder.ID], self.kind
        )
        lost = next((draft for draft in gone if any(draft is each for each in self._needed)), None)
        if lost is not None:
            raise errors.BadRequest(
                str(lost.xid),
                error_detail=f"{lost.xid} would be deleted at once: it is the oldest, and "
                f"{self.kind.plural} keep {self.kind.maxversions} versions only",
            )
        if not gone:
            return
        for draft in gone:
            self.drafts.delete(Delete(xid=draft.xid))
        self._without({draft.xid.vid for draft in gone})
        self._order()
