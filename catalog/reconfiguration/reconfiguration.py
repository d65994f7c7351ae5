"""Puts a configuration in force: adapts the affected entities, or refuses the configuration.

Source: core/model.md, "Creating or Updating the Registry Model". Entities of the node get the
default values of attributes that became required, as in an update by a client; every further
mismatch is a violation. Unchecked versions are checked if the new configuration supports the check.
Checked versions stay unchanged, since `formatvalidated` says whether the version was checked
(core/spec.md).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from catalog.keys.entitysignature import EntitySigner
from catalog.model import errors
from catalog.model.caller import node_caller
from catalog.model.capabilities import Capabilities
from catalog.model.concorderrors import LimitExceeded
from catalog.model.configuration import Configuration
from catalog.model.entity import Entity
from catalog.model.modelsource import points_to_types
from catalog.model.schema import GroupType, Model, ResourceType
from catalog.model.standardattributes import collection
from catalog.model.xid import Xid
from catalog.store import configuration as store
from catalog.store import entities
from catalog.store.configuration import StoredConfiguration
from catalog.store.database import Connection
from catalog.store.writes import write
from catalog.writing import versionorder
from catalog.writing.checks import run_checks
from catalog.writing.content import StoredContent
from catalog.writing.documentchecks import KnownResults
from catalog.writing.drafts import Draft, Drafts
from catalog.writing.outcome import Outcome, outcome_of
from catalog.writing.resourceplan import ResourcePlan

# Building and showing a model of the largest size takes a second.
_MOST_TYPES = 250
_MOST_VALUES = 20_000


def check_model_size(source: Mapping[str, Any]) -> None:
    """Refuse a model that would take long to build and to show, before the build.

    An import counts as much as the largest type that could be imported. `source` is unchecked.

    Raises:
        LimitExceeded
    """
    groups = _objects(source.get("groups"))
    kinds = [kind for group in groups for kind in _objects(group.get("resources"))]
    named = (group.get("ximportresources") for group in groups)
    imports = sum(len(each) for each in named if isinstance(each, list))
    if len(groups) + len(kinds) + imports > _MOST_TYPES:
        raise _too_large(_MOST_TYPES, "types in its model")
    values = _values_in(source)
    if imports:
        values += imports * max(map(_values_in, kinds), default=0)
    if values > _MOST_VALUES:
        raise _too_large(_MOST_VALUES, "values in its model")


def _objects(value: Any) -> list[Mapping[str, Any]]:
    """The values of the members of an object, restricted to objects."""
    members = value.values() if isinstance(value, Mapping) else ()
    return [member for member in members if isinstance(member, Mapping)]


def _values_in(value: Any) -> int:
    found = [value]
    for each in found:
        if isinstance(each, Mapping):
            found += each.values()
        elif isinstance(each, list):
            found += each
    return len(found)


def _too_large(limit: int, things: str) -> LimitExceeded:
    return LimitExceeded(limit=str(limit), things=things, setting="fixed")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationChange:
    """The configuration that a request asks for.

    `differences` names the parts that differ from the configuration in force, `offered` has the
    capabilities that the server supports, and `authority` is the authority of the node.
    """

    configuration: Configuration
    differences: frozenset[str]
    offered: Capabilities
    authority: str

    async def put_in_force(
        self,
        connection: Connection,
        before: Configuration,
        written: Outcome,
        *,
        results: KnownResults,
        signer: EntitySigner | None,
    ) -> None:
        """Put the configuration in force, after the writes of the interaction.

        The caller holds the lock on the whole catalog. Reads only the entities whose type differs,
        or whose documents become checkable.

        Raises:
            ModelComplianceError, CapabilityError, ChecksDue: as `Revalidation.run`.
        """
        after, capabilities = self.configuration, self.configuration.capabilities
        await Revalidation(
            connection=connection,
            before=before,
            after=after,
            authority=self.authority,
            results=results,
            written=written,
            signer=signer,
        ).run()
        # Stored as `None`, so that the node gets the capabilities that a later release adds.
        is_initial = capabilities == self.offered.initially
        stored = StoredConfiguration(
            modelsource=after.model.source,
            resolved=after.resolved,
            capabilities=None if is_initial else capabilities.as_json(),
            revision=after.revision,
        )
        await store.save(connection, stored)


_EMPTY = sha256(b"").digest()
_OF_DEFAULT = {versionorder.ID, versionorder.STICKY}


def _taken(
    xid: str, attributes: Mapping[str, Any], names: Iterable[str]
) -> list[errors.XRegistryError]:
    """The errors of extensions of an entity with names that a model needs."""
    return [errors.UnknownAttribute(xid, name=name) for name in names if name in attributes]


def _displaced(
    xid: str, attributes: Mapping[str, Any], plurals: Iterable[str]
) -> list[errors.XRegistryError]:
    return _taken(xid, attributes, (name for plural in plurals for name in collection(plural)))


def review_group(drafts: Drafts, draft: Draft, kind: GroupType) -> None:
    """Add the violations of a group to the violations of the drafts."""
    drafts.violations += drafts.complete(draft, kind.own_attributes, kind.managed)
    drafts.check_decided(draft, kind.narrowed)
    drafts.violations += _displaced(str(draft.xid), draft.attributes, kind.resources)
    with drafts.violations.collecting():
        drafts.rules_of(draft.xid)


def has_rules(drafts: Drafts, group: Xid) -> bool:
    """Whether the constraints of a group fit the model; `review_group` has reported a misfit."""
    try:
        drafts.rules_of(group)
    except errors.XRegistryError:
        return False
    return True


def review_resource(resource: ResourcePlan) -> None:
    """Add the violations of a resource and its versions to the violations of the drafts."""
    drafts, kind = resource.drafts, resource.kind
    if resource.draft.xref is not None:
        resource.review_reference()
        return
    managed = kind.meta_managed | _OF_DEFAULT
    drafts.violations += drafts.complete(resource.draft, kind.meta_attributes, managed)
    for draft in resource.versions:
        _review_version(resource, draft)
    with drafts.violations.collecting():
        _check_number(resource)
        resource.review()


def _review_version(resource: ResourcePlan, draft: Draft) -> None:
    drafts, kind = resource.drafts, resource.kind
    is_empty = not kind.hasdocument and draft.document_sha256 == _EMPTY
    if is_empty and not drafts.is_replica(draft.xid):
        draft.set_document(None)
        drafts.touch(draft)
    if kind.hasdocument:
        documents = (kind.singular, f"{kind.singular}base64")
        drafts.violations += _taken(str(draft.xid), draft.attributes, documents)
    has_document = draft.document_sha256 is not None or f"{kind.singular}url" in draft.attributes
    if has_document and not kind.hasdocument:
        drafts.violations.append(errors.HasDocumentViolation(str(draft.xid), plural=kind.plural))
        return
    rules = drafts.rules_of(resource.xid.group)
    drafts.violations += drafts.complete(
        draft,
        kind.version_attributes,
        kind.managed | {"ancestorid"},
        lambda attributes: rules.complete(attributes, kind.plural),
    )
    with drafts.violations.collecting():
        versionorder.check_new_id(draft.xid, kind)


def _check_number(resource: ResourcePlan) -> None:
    """Refuse a limit below the number of versions: a change of the model deletes no versions."""
    limit, number = resource.kind.maxversions, len(resource.versions)
    if limit == 1 and resource.draft.attributes.get(versionorder.STICKY):
        raise errors.SetDefaultVersionStickyFalse(str(resource.xid))
    if limit and number > limit:
        raise errors.ModelComplianceError(
            str(resource.xid),
            detail=f"It has {number} versions, and {resource.kind.plural} can have {limit}.",
        )


# The node is the caller, since documents are checked that the client may not see.
_REVALIDATION = node_caller()
# Errors that core/model.md names for "hasdocument" and "maxversions".
_NAMED = (errors.HasDocumentViolation, errors.SetDefaultVersionStickyFalse)


@dataclass(slots=True, kw_only=True)
class Revalidation:
    """One pass over the entities of the types whose definition differs.

    Args:
        before: the configuration in force; `after` is the new configuration.
        authority: the authority of the node.
        written: the interaction that changes the configuration.
        signer: signs the adapted entities.
    """

    connection: Connection
    before: Configuration
    after: Configuration
    authority: str
    results: KnownResults
    written: Outcome
    signer: EntitySigner | None
    violations: list[errors.XRegistryError] = field(default_factory=list)

    async def run(self) -> None:
        """Adapt groups first, since resources have to comply with their constraints.

        Raises:
            ModelComplianceError: entities do not comply; has a limited number of violations.
            CapabilityError: entities do not comply, although the model stays the same.
            ChecksDue: documents have to be checked first.
        """
        old, new = self.before.model, self.after.model
        impact = ModelImpact(old, new)
        if impact.registry:
            await self._registry(new)
        await self._vanished(old, new)
        # Targets of cross references may have changed or lost their type.
        if old.groups != new.groups:
            await self._cross_references(new)
        self._refuse()
        kept = [(old.groups[name], new.groups[name]) for name in old.groups if name in new.groups]
        # All groups before the first resource: `rules_of` reads the adapted constraints.
        for _, after in kept:
            if impact.group(after.plural):
                await self._groups(after)
        checks_more = self.after.capabilities.checks_more_than(self.before.capabilities)
        for group, after in kept:
            for name in group.resources.keys() & after.resources.keys():
                kind = after.resources[name]
                if impact.resource(after, kind):
                    await self._resources(after, kind)
                elif checks_more and kind.validateformat:
                    await self._unchecked(after, kind)
        self.results.raise_due()
        self._refuse()

    def _refuse(self, at_least: int = 1) -> None:
        if len(self.violations) < at_least:
            return
        named = [each for each in self.violations if isinstance(each, _NAMED)]
        error = named[0] if named else self._error()
        error.detail = "Nothing was changed. Change the listed entities, or the request."
        error.violations = tuple(self.violations[: errors.MOST_VIOLATIONS])
        raise error

    def _error(self) -> errors.XRegistryError:
        if self.after.differences(self.before).isdisjoint({"model", "modelsource"}):
            fault = "versions that could be checked then do not pass"
            return errors.CapabilityError("/capabilities", error_detail=fault)
        return errors.ModelComplianceError("/model")

    async def _registry(self, new: Model) -> None:
        """Check the registry, to which the interaction has added default values."""
        drafts = self._drafts(await entities.load(self.connection, ["/"]))
        registry = drafts.by_xid["/"]
        self.violations += drafts.complete(registry, new.own_attributes, new.managed)
        self.violations += _displaced("/", registry.attributes, new.groups)

    async def _vanished(self, old: Model, new: Model) -> None:
        for groups, group in old.groups.items():
            if groups not in new.groups:
                async for batch in store.groups_of_type(self.connection, groups):
                    self.violations += [errors.UnknownGroupType(e.xid, name=groups) for e in batch]
                    self._refuse(errors.MOST_VIOLATIONS)
                continue
            for resources in group.resources.keys() - new.groups[groups].resources.keys():
                async for batch in store.resources_of_type(self.connection, groups, resources):
                    self.violations += [
                        errors.UnknownResourceType(e.xid, group=groups, name=resources)
                        for e in batch
                    ]
                    self._refuse(errors.MOST_VIOLATIONS)

    async def _cross_references(self, new: Model) -> None:
        """Check that targets have the type of the source, also if the type is imported."""
        async for batch in entities.all_references(self.connection):
            for source, target in batch:
                at, to = Xid.parse(source), Xid.parse(target)
                kind = new.resource_type(at.groups, at.resources)
                if kind is not None and kind != new.resource_type(to.groups, to.resources):
                    fault = "its resource type would be another one, or none"
                    self.violations.append(
                        errors.MalformedXref(source, xref=target, error_detail=fault)
                    )
            self._refuse(errors.MOST_VIOLATIONS)

    async def _groups(self, kind: GroupType) -> None:
        async for batch in store.groups_of_type(self.connection, kind.plural):
            drafts = self._drafts({group.xid: group for group in batch})
            for group in batch:
                review_group(drafts, drafts.by_xid[group.xid], kind)
            await self._finish(drafts, [])

    async def _resources(self, group: GroupType, kind: ResourceType) -> None:
        async for batch in store.resources_of_type(self.connection, group.plural, kind.plural):
            drafts = self._drafts(await self._stored(batch))
            ruled = [each.path for each in batch if has_rules(drafts, each.path.group)]
            resources = [ResourcePlan(drafts, path) for path in ruled]
            for resource in resources:
                review_resource(resource)
            await self._finish(drafts, resources)

    async def _unchecked(self, group: GroupType, kind: ResourceType) -> None:
        """Check unchecked versions of the node; replicas show the results of their authority."""
        types = (group.plural, kind.plural)
        async for batch in store.unchecked_resources(self.connection, *types, self.authority):
            drafts = self._drafts(await self._stored(batch))
            await self._finish(drafts, [ResourcePlan(drafts, resource.path) for resource in batch])

    async def _stored(self, batch: Sequence[Entity]) -> dict[str, Entity]:
        """Resources with their groups and versions, and the targets of cross references."""
        groups = {str(resource.path.group) for resource in batch}
        wanted = {resource.xid for resource in batch}
        wanted |= {xref for each in batch if (xref := each.attributes.get("xref"))}
        rows = await entities.load_subtrees(self.connection, wanted)
        return await entities.load(self.connection, groups) | {row.xid: row for row in rows}

    def _drafts(self, before: Mapping[str, Entity]) -> Drafts:
        return Drafts(self.after.model, before, authority=self.authority, now=self.written.at)

    async def _finish(self, drafts: Drafts, resources: Sequence[ResourcePlan]) -> None:
        """Collect violations and due checks; without violations and checks, write the entities."""
        try:
            await run_checks(
                StoredContent(self.connection, _REVALIDATION),
                drafts,
                resources,
                self.after.capabilities,
                self.results,
                is_exclusive=True,
                is_referred=True,
                tries_again=True,
            )
        except errors.XRegistryError as error:
            self.violations += error.violations or [error]
        self._refuse(errors.MOST_VIOLATIONS)
        # Bounds the memory of the documents that wait for a check outside of the transaction.
        self.results.raise_part()
        if self.violations or not self.results.are_complete:
            return
        # Each batch is written before the next is read, so that memory holds one batch. A violation
        # further on rolls everything back.
        outcome = outcome_of(drafts, self.written.interaction, self.written.author)
        if outcome.after:
            await write(self.connection, outcome, signer=self.signer)


@dataclass(frozen=True, slots=True)
class ModelImpact:
    """Which entities of the types that stay have to be checked against a new model."""

    old: Model
    new: Model

    @property
    def lost(self) -> bool:
        """Whether a type is removed, so that types with attributes that name types are checked."""
        return not _types(self.old) <= _types(self.new)

    @property
    def registry(self) -> bool:
        old, new = self.old, self.new
        differs = (old.own_attributes, old.managed) != (new.own_attributes, new.managed)
        return differs or self.lost

    def group(self, name: str) -> bool:
        old, new = self.old.groups[name], self.new.groups[name]
        # The constraints of groups may name attributes of resources.
        kept = old.resources.keys() & new.resources
        differs = _checked(old, kept) != _checked(new, kept)
        return differs or (self.lost and points_to_types(new.own_attributes))

    def resource(self, group: GroupType, kind: ResourceType) -> bool:
        old = self.old.groups[group.plural]
        before = replace(old.resources[kind.plural], about={})
        differs = before != replace(kind, about={}) or old.constraints != group.constraints
        attributes = kind.version_attributes, kind.meta_attributes
        return differs or (self.lost and any(map(points_to_types, attributes)))


def _checked(group: GroupType, kept: Collection[str]) -> tuple[Any, ...]:
    attributes = {name: group.resources[name].version_attributes for name in kept}
    return group.own_attributes, group.managed, group.narrowed, group.constraints, attributes


def _types(model: Model) -> set[tuple[str, str]]:
    return {
        (name, plural) for name, group in model.groups.items() for plural in ("", *group.resources)
    }
