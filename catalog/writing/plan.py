"""Turns an interaction and what is there into what will be there: pure, no I/O.

A plan keeps a draft of each entity that the interaction reaches. Every rule works on
drafts; `finish` seals those that were touched, raising each epoch once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from catalog.model.attributes import check_attributes
from catalog.model.entity import Entity, Origin, Tombstone
from catalog.model.errors import (
    InvalidAttribute,
    MismatchedEpoch,
    MismatchedId,
    NotFound,
    Readonly,
    XRegistryError,
)
from catalog.model.interaction import (
    Body,
    Delete,
    GroupUpsert,
    RegistryUpsert,
    read_epoch,
)
from catalog.model.schema import Attribute, Model
from catalog.model.timestamps import parse_time
from catalog.model.xid import Xid
from catalog.writing.draft import Draft
from catalog.writing.grouprules import GroupRules


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What an interaction leads to."""

    after: dict[str, Entity | Tombstone]
    dropped_documents: list[str]


def _as_given(attributes: dict[str, Any]) -> dict[str, Any]:
    return attributes


class Plan:
    """The drafts of one interaction and the rules that all kinds of entities share.

    Args:
        model: the registry's model.
        before: the registry, and every group, resource and version that is touched.
        authority: this node's: what it creates, and all that it may write.
        now: the time of the interaction, one for all its entities.
        referred: what touched cross references show now, by xid.
        writes_only_changes: leave alone what the interaction would leave as it is.
        documents: of versions that are to be compared with what the interaction has, by xid.
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
        self.authority = authority
        self.now = now
        self.referred = referred or {}
        self.writes_only_changes = writes_only_changes
        self.documents = documents or {}
        self._rules: dict[str, GroupRules] = {}
        self.violations: list[XRegistryError] = []
        self.drafts = {xid: Draft.of(entity) for xid, entity in before.items()}
        self._versions: dict[str, list[Draft]] = {}
        self._by_group: dict[str, list[Draft]] = {}
        for draft in self.drafts.values():
            if draft.xid.vid:
                self._versions.setdefault(str(draft.xid.resource), []).append(draft)

    def live(self, xid: Xid) -> Draft | None:
        draft = self.drafts.get(str(xid))
        return None if draft is None or draft.is_deleted else draft

    def versions_of(self, resource: Xid) -> list[Draft]:
        return self.versions_at(str(resource))

    def versions_at(self, resource: str) -> list[Draft]:
        return [v for v in self._versions.get(resource, ()) if not v.is_deleted]

    def target_epoch(self, xref: str) -> int:
        """The epoch of what a touched cross reference refers to; 0 if that is gone."""
        target = self.referred.get(xref)
        return target.epoch if target is not None else 0

    def _shown_epoch(self, draft: Draft) -> int:
        """The epoch that clients know: that of the target, where a cross reference shows one."""
        assert draft.before is not None, "what is new was shown to nobody"
        xref = draft.before.attributes.get("xref") if draft.xid.kind == "resource" else None
        if xref is None:
            return draft.before.epoch
        target = self.referred.get(xref)
        return 0 if target is None or "xref" in target.attributes else target.epoch

    def rules_of(self, group: Xid) -> GroupRules:
        """What a group demands of the versions in it, as it is going to be."""
        rules = self._rules.get(str(group))
        if rules is None:
            kind = self.model.groups[group.groups]
            rules = GroupRules.of(kind, group, self.drafts[str(group)].attributes)
            self._rules[str(group)] = rules
        return rules

    def create(self, xid: Xid) -> Draft:
        """A new entity's draft; its parent gains a child, so that one is touched too.

        Raises:
            NotFound: its group had to exist, and does not.
        """
        if xid.kind == "resource" and self.live(xid.group) is None:
            raise NotFound(str(xid.group))
        draft = self.drafts[str(xid)] = Draft.new(xid, self.now)
        if xid.vid:
            self._versions.setdefault(str(xid.resource), []).append(draft)
        self.touch(xid.parent)
        return draft

    def touch(self, xid: Xid) -> Draft:
        """Count an entity as updated now.

        Raises:
            Readonly: it belongs to another authority.
        """
        draft = self.drafts[str(xid)]
        self.check_writable(draft)
        if not draft.is_touched:
            draft.is_touched = True
            draft.modifiedat = max(self.now, draft.named_time or self.now)
        return draft

    def note(self, draft: Draft) -> None:
        """Write down what the server found out: that is no update, so its time stays.

        Source: core/spec.md, "Attributes".

        Raises:
            Readonly: it belongs to another authority.
        """
        self.check_writable(draft)
        draft.is_noted = True

    def check_writable(self, draft: Draft) -> None:
        before = draft.before
        if before is not None and before.authority != self.authority:
            raise Readonly(
                str(draft.xid),
                authority=before.authority,
                detail=f"It is a replica; only its authority, {before.authority}, may change it. "
                "?ignore=readonly leaves such entities out of a request.",
            )

    def check_epoch(self, draft: Draft, expected: int | None, subject: str = "") -> None:
        current = self._shown_epoch(draft) if draft.before else None
        if expected is not None and current is not None and expected != current:
            raise MismatchedEpoch(
                subject or str(draft.xid), bad_epoch=str(expected), epoch=str(current)
            )

    def check_id(self, xid: Xid | str, singular: str, expected: str, body: Body) -> None:
        given = body.get(f"{singular}id")
        if given is not None and given != expected:
            raise MismatchedId(
                str(xid), singular=singular, invalid_id=str(given), expected_id=expected
            )

    @contextlib.contextmanager
    def updating(self, draft: Draft, body: Body) -> Iterator[None]:
        """Count an entity as updated by what a request's body does to its draft inside of this.

        Where only changes are written, it is updated only if it became another one. There, a
        `modifiedat` in the body is the least that it will have: a later one that it has already
        is no change.

        Raises:
            MismatchedEpoch
            Readonly: it belongs to another authority.
        """
        before = draft.before
        if before is None:
            self.touch(draft.xid)
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
        self.touch(draft.xid)

    def update(
        self,
        draft: Draft,
        body: Body,
        definitions: Mapping[str, Attribute],
        *,
        patch: bool,
        managed: frozenset[str],
        complete: Callable[[dict[str, Any]], dict[str, Any]] = _as_given,
    ) -> None:
        """Put a body's attributes into a draft, after checking them against the model.

        Call it inside of `updating`.

        Args:
            definitions: what a client may set on this kind of entity.
            patch: keep what the body does not mention.
            managed: names that the caller has dealt with, or that the server alone sets.
            complete: adds the values that an attribute has where nobody gave it one.
        """
        self._update_times(draft, body)
        own = {k: v for k, v in draft.attributes.items() if k in managed}
        kept = {k: v for k, v in draft.attributes.items() if patch and k not in managed}
        given = {k: v for k, v in body.items() if k not in managed and k != "$schema"}
        merged = complete({k: v for k, v in (kept | given).items() if v is not None})
        checked, violations = check_attributes(
            merged, definitions, subject=draft.shown_as, model=self.model
        )
        self.violations += violations
        draft.attributes = checked | own

    def check_decided(self, draft: Draft, definitions: Mapping[str, Attribute]) -> None:
        """What the server decides or examines is as restricted by the model as all else.

        Args:
            definitions: of what the model narrows; what the entity lacks is not asked for.
        """
        if not definitions:
            return
        xid = draft.xid
        ids = {f"{self.model.singular_of(xid)}id": xid.rid or xid.gid}
        known = {**draft.attributes, **ids, **({"versionid": xid.vid} if xid.vid else {})}
        own = {name: known[name] for name in definitions if name in known}
        narrowed = {name: definitions[name] for name in own}
        _, violations = check_attributes(own, narrowed, subject=draft.shown_as, model=self.model)
        self.violations += violations

    def _update_times(self, draft: Draft, body: Body) -> None:
        """core/spec.md, "createdat Attribute" and "modifiedat Attribute"."""
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
            raise InvalidAttribute(draft.shown_as, name=name, error_detail=str(error)) from error

    def upsert_registry(self, upsert: RegistryUpsert) -> None:
        draft = self.drafts["/"]
        if upsert.body is None:
            self._complete_registry(draft)
            return
        registry_id = draft.attributes["registryid"]
        self.check_id(draft.xid, "registry", registry_id, upsert.body)
        with self.updating(draft, upsert.body):
            self.update(
                draft,
                upsert.body,
                self.model.own_attributes,
                patch=upsert.patch,
                managed=self.model.managed,
            )

    def _complete_registry(self, draft: Draft) -> None:
        """Give it the default values of a new model; what does not comply is told later."""
        self.touch(draft.xid)
        own = {k: v for k, v in draft.attributes.items() if k in self.model.managed}
        given = {k: v for k, v in draft.attributes.items() if k not in own}
        checked, violations = check_attributes(
            given, self.model.own_attributes, subject="/", model=self.model
        )
        if not violations:
            draft.attributes = checked | own

    def upsert_group(self, upsert: GroupUpsert) -> None:
        kind = self.model.groups[upsert.xid.groups]
        draft = self.live(upsert.xid)
        if draft is not None and upsert.body is None:
            return
        if draft is None and upsert.must_exist:
            raise NotFound(str(upsert.xid))
        if draft is None:
            draft = self.create(upsert.xid)
        draft.least_epoch = max(draft.least_epoch, upsert.least_epoch)
        body = upsert.body or {}
        self.check_id(upsert.xid, kind.singular, upsert.xid.gid, body)
        with self.updating(draft, body):
            self.update(draft, body, kind.own_attributes, patch=upsert.patch, managed=kind.managed)
        self.check_decided(draft, kind.narrowed)
        self._rules.pop(str(upsert.xid), None)
        self.rules_of(upsert.xid)

    def delete(self, delete: Delete) -> Draft | None:
        """Delete an entity with everything below it.

        Returns:
            its draft, or `None` where there was nothing to delete.
        """
        draft = self.live(delete.xid)
        if draft is None:
            if delete.must_exist:
                raise NotFound(str(delete.xid))
            return None
        self.check_epoch(draft, delete.epoch)
        self.check_writable(draft)
        self.delete_below(delete.xid)
        draft.is_deleted = True
        self.touch(delete.xid.parent)
        return draft

    def delete_below(self, xid: Xid) -> None:
        """Delete everything that an entity holds."""
        for draft in self._versions.get(str(xid), ()) if xid.rid else self._in_group(xid):
            self.check_writable(draft)
            draft.is_deleted = True

    def _in_group(self, group: Xid) -> Iterable[Draft]:
        if not self._by_group:
            for draft in self.drafts.values():
                if draft.xid.rid:
                    self._by_group.setdefault(str(draft.xid.group), []).append(draft)
        return self._by_group.get(str(group), ())

    def is_replica(self, xid: Xid) -> bool:
        """Whether an entity is here, but another authority's."""
        draft = self.live(xid)
        return (
            draft is not None
            and draft.before is not None
            and draft.before.authority != self.authority
        )

    def created(self) -> list[Origin]:
        """The origins of what will be new, whose earlier lives the caller looks up."""
        return [
            Origin(self.authority, str(draft.xid))
            for draft in self.drafts.values()
            if draft.before is None and not draft.is_deleted
        ]

    def finish(self, tombstones: Mapping[Origin, Tombstone]) -> Planned:
        """Seal what was touched.

        Args:
            tombstones: of those among `created` that lived before; they begin above them.
        """
        after: dict[str, Entity | Tombstone] = {}
        dropped: list[str] = []
        for xid, draft in self.drafts.items():
            if draft.is_deleted:
                if draft.before is not None:
                    after[xid] = self._bury(draft.before)
            elif draft.is_written:
                after[xid] = sealed = self._seal(draft, tombstones)
                if draft.had_document and sealed.document_sha256 is None:
                    dropped.append(xid)
        return Planned(after=after, dropped_documents=dropped)

    def _seal(self, draft: Draft, tombstones: Mapping[Origin, Tombstone]) -> Entity:
        xid = str(draft.xid)
        earlier = draft.before or tombstones.get(Origin(self.authority, xid))
        epoch = max(earlier.epoch if earlier is not None else 0, draft.least_epoch) + 1
        return Entity.sealed(
            xid=xid,
            kind=draft.xid.kind,
            authority=self.authority,
            origin=xid,
            epoch=epoch,
            attributes=draft.attributes,
            createdat=draft.createdat,
            modifiedat=draft.modifiedat,
            document_sha256=draft.document_sha256,
            document=draft.document,
        )

    def _bury(self, entity: Entity) -> Tombstone:
        return Tombstone(
            xid=entity.xid,
            kind=entity.kind,
            authority=entity.authority,
            origin=entity.origin,
            epoch=entity.epoch + 1,
            deletedat=self.now,
        )
