"""The drafts of an interaction, and the rules common to every kind of entity: pure, no I/O.

Every rule works on drafts. Drafts keep the entities as stored, so that each epoch rises once. A
rule raises the error that refuses a step, and the plan of the interaction collects the error.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from catalog.model import errors
from catalog.model.attributes import MAX_ENTITY_BYTES, check_attributes
from catalog.model.concorderrors import LimitExceeded
from catalog.model.constraints import GroupRules
from catalog.model.digest import canonical
from catalog.model.entity import Entity
from catalog.model.interaction import Body, Delete, read_epoch
from catalog.model.schema import Attribute, Model, ResourceType
from catalog.model.timestamps import parse_time
from catalog.model.xid import Xid


@dataclass(slots=True)
class Draft:
    """The future state of an entity; `before` is the stored state, `None` for a new entity.

    `key` is the xid as a text, which most rules need.

    The new epoch will be above the epoch of `before` and above `least_epoch`. A draft that
    `is_noted` is written without counting as an update, so `modifiedat` stays. `named_time` is the
    `modifiedat` in a request that writes only changes. `is_erased`: a request erased the document
    of the version.
    """

    xid: Xid
    key: str
    before: Entity | None
    attributes: dict[str, Any]
    createdat: datetime
    modifiedat: datetime
    document_sha256: bytes | None = None
    document: bytes | None = None
    least_epoch: int = 0
    named_time: datetime | None = None
    is_touched: bool = False
    is_noted: bool = False
    is_deleted: bool = False
    is_erased: bool = False

    @classmethod
    def of(cls, entity: Entity) -> Draft:
        return cls(
            xid=entity.path,
            key=entity.xid,
            before=entity,
            attributes=dict(entity.attributes),
            createdat=entity.createdat,
            modifiedat=entity.modifiedat,
            document_sha256=entity.document_sha256,
        )

    @classmethod
    def new(cls, xid: Xid, now: datetime) -> Draft:
        return cls(xid=xid, key=str(xid), before=None, attributes={}, createdat=now, modifiedat=now)

    @property
    def is_new(self) -> bool:
        return self.before is None

    @property
    def is_written(self) -> bool:
        return self.is_touched or self.is_noted or self.is_new

    @property
    def shown_as(self) -> str:
        """The xid of the entity that shows the attributes: for a resource, its meta."""
        return f"{self.key}/meta" if self.xid.kind == "resource" else self.key

    @property
    def had_document(self) -> bool:
        return self.before is not None and self.before.document_sha256 is not None

    @property
    def content_sha256(self) -> bytes | None:
        """The digest of the document that the version will have; `None` without one."""
        if self.document is not None:
            return hashlib.sha256(self.document).digest()
        return self.document_sha256

    @property
    def is_changed(self) -> bool:
        """Whether the draft differs from `before` in more than epoch and `modifiedat`."""
        before = self.before
        return (
            before is None
            or self.createdat != before.createdat
            or self.content_sha256 != before.document_sha256
            or canonical(self.attributes) != canonical(before.attributes)
        )

    @property
    def xref(self) -> str | None:
        """The target of a cross reference; `None` if the entity is no cross reference."""
        return self.attributes.get("xref") if self.xid.kind == "resource" else None

    def has_new_content(self, kind: ResourceType) -> bool:
        """Whether the document, the format or the document URL of a version has changed."""
        before = self.before
        if before is None:
            return True
        names = ("format", f"{kind.singular}url")
        if any(before.attributes.get(name) != self.attributes.get(name) for name in names):
            return True
        return self.content_sha256 != before.document_sha256

    def set_document(self, body: bytes | None) -> None:
        """Give the version a document, or with `None` take the document away."""
        self.document = body
        self.document_sha256 = None

    def keep_document(self) -> None:
        """Leave the version's stored document in place."""
        assert self.before is not None, "a new version had no document"
        self.document = None
        self.document_sha256 = self.before.document_sha256


class Drafts:
    """The drafts of an interaction, by xid, and the rules common to every kind of entity.

    Args:
        before: the registry, and every touched group, resource and version.
        authority: the node's authority, which owns the entities that the node creates or may
            write.
        now: the time of the interaction, the same for each entity.
        referred: the entities shown by touched cross references before the interaction, by xid.
        writes_only_changes: leave entities alone that the interaction does not change.
        documents: stored documents to compare with documents of the interaction, by version.
    """

    def __init__(
        self,
        model: Model,
        before: Mapping[str, Entity],
        *,
        authority: str,
        now: datetime,
        referred: Mapping[str, Entity] | None = None,
        writes_only_changes: bool = False,
        documents: Mapping[str, bytes] | None = None,
    ) -> None:
        self.model = model
        self.before = before
        self.authority = authority
        self.now = now
        self.referred = referred or {}
        self.writes_only_changes = writes_only_changes
        self.documents = documents or {}
        self.violations = errors.FirstViolations()
        self.by_xid = {xid: Draft.of(entity) for xid, entity in before.items()}
        self._rules: dict[str, GroupRules] = {}
        self._versions: dict[str, list[Draft]] = {}
        self._by_group: dict[str, list[Draft]] = {}
        for draft in self.by_xid.values():
            if draft.xid.vid:
                self._versions.setdefault(str(draft.xid.resource), []).append(draft)

    def live(self, xid: Xid | str) -> Draft | None:
        draft = self.by_xid.get(xid if isinstance(xid, str) else str(xid))
        return None if draft is None or draft.is_deleted else draft

    def versions_of(self, resource: str) -> list[Draft]:
        return [v for v in self._versions.get(resource, ()) if not v.is_deleted]

    def is_replica(self, xid: Xid) -> bool:
        """Whether a live entity belongs to another authority."""
        draft = self.live(xid)
        before = draft.before if draft is not None else None
        return before is not None and before.authority != self.authority

    def rules_of(self, group: Xid) -> GroupRules:
        """The rules of a group, in its future state, for the versions in the group."""
        key = str(group)
        rules = self._rules.get(key)
        if rules is None:
            kind = self.model.groups[group.groups]
            rules = GroupRules.of(kind, group, self.by_xid[key].attributes)
            self._rules[key] = rules
        return rules

    def forget_rules(self, group: Xid) -> None:
        """Let `rules_of` read the attributes of an updated group again."""
        self._rules.pop(str(group), None)

    def create(self, xid: Xid) -> Draft:
        """Add the draft of a new entity; the parent gains a child and is touched."""
        if xid.kind == "resource" and self.live(xid.group) is None:
            raise errors.NotFound(str(xid.group))
        draft = Draft.new(xid, self.now)
        self.by_xid[draft.key] = draft
        if xid.vid:
            self._versions.setdefault(str(xid.resource), []).append(draft)
        self.touch(self.by_xid[str(xid.parent)])
        return draft

    def touch(self, draft: Draft) -> None:
        """Count an entity as updated at the time of the interaction."""
        self.check_writable(draft)
        # A parent is touched once for each child, and updated once.
        if not draft.is_touched:
            draft.is_touched = True
            draft.modifiedat = max(self.now, draft.named_time or self.now)

    def note(self, draft: Draft) -> None:
        """Have the commit write attributes that the server has set, such as the time of a check.

        The epoch and the time of modification stay, as no client has updated the entity
        (core/spec.md, "Attributes").
        """
        self.check_writable(draft)
        draft.is_noted = True

    def delete(self, delete: Delete) -> Draft | None:
        """Delete an entity with every entity below, and return the draft of an existing one."""
        draft = self.live(delete.xid)
        if draft is None:
            if delete.must_exist:
                raise errors.NotFound(str(delete.xid))
            return None
        self.check_epoch(draft, delete.epoch)
        self.check_writable(draft)
        self.delete_below(delete.xid)
        draft.is_deleted = True
        self.touch(self.by_xid[str(delete.xid.parent)])
        return draft

    def delete_below(self, xid: Xid) -> None:
        """Delete every entity below a group or a resource."""
        for draft in self._versions.get(str(xid), ()) if xid.rid else self._in_group(xid):
            self.check_writable(draft)
            draft.is_deleted = True

    def _in_group(self, group: Xid) -> Iterable[Draft]:
        # Made on first use, since few interactions delete groups.
        if not self._by_group:
            for draft in self.by_xid.values():
                if draft.xid.rid:
                    self._by_group.setdefault(str(draft.xid.group), []).append(draft)
        return self._by_group.get(str(group), ())

    def check_writable(self, draft: Draft) -> None:
        before = draft.before
        if before is not None and before.authority != self.authority:
            raise errors.Readonly(
                str(draft.xid),
                authority=before.authority,
                origin=before.origin,
                detail=f"It is a replica; only its authority, {before.authority}, may change it. "
                "?ignore=readonly leaves such entities out of a request.",
            )

    def check_id(self, xid: Xid | str, singular: str, expected: str, body: Body) -> None:
        given = body.get(f"{singular}id")
        if given is not None and given != expected:
            raise errors.MismatchedId(
                str(xid), singular=singular, invalid_id=str(given), expected_id=expected
            )

    def check_epoch(self, draft: Draft, expected: int | None, subject: str = "") -> None:
        """Refuse an update that expects a different epoch than clients were shown."""
        if expected is None or draft.before is None:
            return
        # Compared with the stored state: the draft may have been touched by the same request.
        current = self._shown_epoch(draft.before)
        if expected != current:
            raise errors.MismatchedEpoch(
                subject or str(draft.xid), bad_epoch=str(expected), epoch=str(current)
            )

    def _shown_epoch(self, stored: Entity) -> int:
        """The epoch that clients are shown: for a cross reference, the epoch of the target."""
        xref = stored.attributes.get("xref") if stored.kind == "resource" else None
        if xref is None:
            return stored.epoch
        target = self.referred.get(xref)
        return 0 if target is None or "xref" in target.attributes else target.epoch

    @contextlib.contextmanager
    def updating(self, draft: Draft, body: Body) -> Iterator[None]:
        """Count an entity as updated by the block, which applies a request's body to the draft.

        In an interaction that writes only changes, the entity counts as updated only if the draft
        changed. There, a `modifiedat` in the body is a lower bound: if the entity has a later
        `modifiedat` already, the body changes nothing.
        """
        before = draft.before
        if before is None:
            self.touch(draft)
            yield
            return
        epoch = read_epoch(draft.shown_as, body)
        if not self.writes_only_changes:
            self._begin_update(draft, epoch)
            yield
            return
        yield
        named = draft.named_time
        is_later = named is not None and named > before.modifiedat
        if is_later or draft.is_changed:
            self._begin_update(draft, epoch)
        if named is not None and draft.is_touched:
            draft.modifiedat = named if is_later else max(self.now, named)

    def _begin_update(self, draft: Draft, epoch: int | None) -> None:
        self.check_epoch(draft, epoch, draft.shown_as)
        self.touch(draft)

    def update(
        self,
        draft: Draft,
        body: Body,
        definitions: Mapping[str, Attribute],
        *,
        patch: bool,
        managed: frozenset[str],
        complete: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    ) -> None:
        """Check the attributes of a body against the model, and put the attributes into a draft.

        Must be called within `updating`.

        Args:
            definitions: the definitions of the attributes that a client may set on the entity.
            patch: keep the attributes that the body does not mention.
            managed: the names of attributes that the caller handles or only the server sets.
            complete: adds default values of attributes that the request left out.
        """
        self._update_times(draft, body)
        own = {k: v for k, v in draft.attributes.items() if k in managed}
        merged = {k: v for k, v in draft.attributes.items() if patch and k not in managed}
        merged |= {k: v for k, v in body.items() if k not in managed and k != "$schema"}
        if complete is not None:
            merged = complete({k: v for k, v in merged.items() if v is not None})
        checked, violations = check_attributes(
            merged, definitions, subject=draft.shown_as, model=self.model
        )
        self.violations += violations
        draft.attributes = checked | own
        if len(orjson.dumps(checked)) > MAX_ENTITY_BYTES:
            limit, things = str(MAX_ENTITY_BYTES), f"bytes of metadata in {draft.shown_as}"
            raise LimitExceeded(draft.shown_as, limit=limit, things=things, setting="fixed")

    def complete(
        self,
        draft: Draft,
        definitions: Mapping[str, Attribute],
        managed: frozenset[str],
        fill: Callable[[dict[str, Any]], dict[str, Any]] = dict,
    ) -> list[errors.XRegistryError]:
        """Add the default values that a new model demands; return the violations of an entity.

        Args:
            managed: the names of attributes that are not checked.
            fill: adds default values of a group.
        """
        own = {k: v for k, v in draft.attributes.items() if k in managed}
        given = {k: v for k, v in draft.attributes.items() if k not in managed}
        checked, violations = check_attributes(
            fill(given), definitions, subject=draft.key, model=self.model
        )
        if violations or checked == given:
            return violations
        if self.is_replica(draft.xid):
            names = sorted(name for name in checked if checked[name] != given.get(name))
            detail = "It is a replica, so it cannot get a default value here."
            return [errors.RequiredAttributeMissing(draft.key, list=",".join(names), detail=detail)]
        self.touch(draft)
        draft.attributes = checked | own
        return []

    def check_decided(self, draft: Draft, definitions: Mapping[str, Attribute]) -> None:
        """Check attributes that the server decides against narrower definitions of the model.

        Attributes that the entity lacks are not required.
        """
        if not definitions:
            return
        xid = draft.xid
        ids = {f"{self.model.singular_of(xid)}id": xid.rid or xid.gid}
        values = {**draft.attributes, **ids, **({"versionid": xid.vid} if xid.vid else {})}
        own = {name: values[name] for name in definitions if name in values}
        narrowed = {name: definitions[name] for name in own}
        _, violations = check_attributes(own, narrowed, subject=draft.shown_as, model=self.model)
        self.violations += violations

    def _update_times(self, draft: Draft, body: Body) -> None:
        """Set the times of an entity (core/spec.md, "createdat Attribute", "modifiedat Attribute").

        A `modifiedat` equal to the stored value counts as absent, so the entity gets the time of
        the interaction.
        """
        keeps = self.writes_only_changes and draft.before is not None
        if "createdat" in body:
            given = self._time(draft, body, "createdat")
            draft.createdat = given or (draft.createdat if keeps else self.now)
        given = self._time(draft, body, "modifiedat")
        if keeps:
            draft.named_time = given
            return
        is_news = draft.before is None or given != draft.before.modifiedat
        draft.modifiedat = given if given is not None and is_news else self.now

    def _time(self, draft: Draft, body: Body, name: str) -> datetime | None:
        value = body.get(name)
        if value is None:
            return None
        try:
            return parse_time(str(value))
        except ValueError as error:
            raise errors.InvalidAttribute(
                draft.shown_as, name=name, error_detail=str(error)
            ) from error
