"""The survey of the catalogs: the identity, links and bucket fingerprints of each catalog.

A catalog that lost its database, or serves a different database, would make its replicas look
wrong: the survey also finds catalogs that have far fewer entities than at the last comparison.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from catalog.model.confluentattribute import SchemaIdConflict
from catalog.model.digest import DIGEST_VERSION
from catalog.model.timestamps import format_time
from catalog.operations.links import LinkAnswer
from catalog.operations.reconciliations import Reconciliation
from replication.reconcile.errors import CatalogUnread, ReconcileError

if TYPE_CHECKING:
    from replication.reconcile.inputs.input import Input, OpenedInput
    from replication.reconcile.inputs.nodeinput import NodeInput

MOST_CATALOGS = 62
"""The most catalogs of a comparison: a signed 64-bit mask has a bit for each catalog that should
carry an origin."""
# No id begins with a hyphen, so the path covers no entity.
_NOTHING = ("/-",)
_LEAST_SHARE = 0.5
_LEAST_LOSS = 100
"""The least loss that counts: a small catalog may well lose most of its entities in a day."""

Fingerprints = Mapping[int, tuple[int, int]]
"""For each non-empty bucket: the number of live entities, and the xor of the fingerprints."""


def expected_paths(
    scope: Sequence[str], types: Sequence[str], labels: Sequence[str]
) -> tuple[str, ...]:
    """The paths at and below which a link has to bring everything; an empty tuple is no limit.

    For a type of resources, a link has to bring the whole type of groups: `messagegroups/messages`
    gives `/messagegroups`. The entities that labels select are unknown to the comparison, so a link
    with labels gets a path without entities, and no entity counts as missing.
    """
    by_type = {f"/{type.partition('/')[0]}" for type in types}
    if labels:
        return _NOTHING
    if not (scope and types):
        return (*scope, *sorted(by_type))
    return tuple(path for path in scope if f"/{path.split('/')[1]}" in by_type) or _NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedLink:
    """A link from the URL `source` to the URL `target`, as reported by the source or the target.

    Args:
        authorities: the authorities whose entities the link brings; if empty, the source's own.
        scope: the paths at and below which the link has to bring everything; if empty, everywhere.
        id: the id of the link at the reporting catalog, which has the URL `reporter`.
        pinned: the authority of the other catalog, if known.
        state: the state of the link at the reporter.
        currentat: the time at which the link last had every change of the source.
        since: the time of the last event in the history of the link, as " since …"; "" if unknown.
        reason: why the link is paused, asks or fails.
        conflicts: the number of copies that the link could not apply.
        params: the selection of the link, as parameters for digests.
    """

    source: str
    target: str
    authorities: tuple[str, ...]
    scope: tuple[str, ...]
    id: str = ""
    mode: str = "pull"
    reporter: str = ""
    pinned: str | None = None
    state: str = ""
    currentat: str | None = None
    since: str = ""
    reason: str = ""
    conflicts: int = 0
    params: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, link: LinkAnswer, listed_by: str) -> ReportedLink:
        """The link as a catalog shows it; `listed_by` is the URL of the catalog."""
        source = link.source or listed_by
        if link.mode == "accept":
            # An accepting catalog knows no URL of the catalog that pushes, only the authority.
            source = link.authority or ""
        selectors = (("scope", link.scope), ("type", link.types), ("label", link.labels))
        selected = [(name, each) for name, given in selectors for each in given]
        return cls(
            source=source,
            target=link.target or listed_by,
            authorities=tuple(link.authorities),
            scope=expected_paths(link.scope, link.types, link.labels),
            id=link.id,
            mode=link.mode,
            reporter=listed_by,
            pinned=link.authority,
            state=link.state,
            currentat=None if link.currentat is None else format_time(link.currentat),
            since=f" since {format_time(link.history[0].at)}" if link.history else "",
            reason=link.reason or link.error or "",
            conflicts=link.conflicts,
            params=tuple(selected),
        )

    @property
    def sends(self) -> bool:
        """Whether the source of the link reports the link."""
        return self.reporter == self.source

    def brings(self, authority: str, source: SurveyedCatalog | None) -> bool:
        """Whether the link is to bring entities of an authority from `source`."""
        own = source.authority if source is not None else self.pinned
        return "*" in self.authorities or authority in (self.authorities or (own,))


@dataclass(frozen=True, slots=True)
class Moment:
    """The times between which all rows of a catalog were read."""

    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyedCatalog:
    """A catalog at the time of the survey.

    Args:
        as_of: the cursor of the catalog, if the catalog reported a cursor.
        told: the reports of earlier comparisons, as the catalog keeps them.
        schemaids: the schema ids for Kafka that name several schemas, as the catalog tells.
        moment: the time that the rows show, if that is not the time of the comparison.
    """

    input: OpenedInput
    authority: str
    instance: str
    links: tuple[ReportedLink, ...]
    fingerprints: Fingerprints = field(repr=False)
    as_of: str | None = None
    told: Sequence[Reconciliation] = ()
    schemaids: Sequence[SchemaIdConflict] = ()
    moment: Moment | None = None

    @property
    def name(self) -> str:
        return self.input.name

    @property
    def node(self) -> NodeInput | None:
        """The running node of the catalog, which takes repairs and reports; `None` if unknown."""
        from replication.reconcile.inputs.nodeinput import NodeInput

        return self.input if isinstance(self.input, NodeInput) else None

    @property
    def entities(self) -> int:
        """The number of live entities, as the catalog counts them."""
        return sum(count for count, _ in self.fingerprints.values())


def check_digest_version(name: str, version: object) -> None:
    """Check that a catalog computes digests as this job compares them.

    Raises:
        CatalogUnread
    """
    if version != DIGEST_VERSION:
        raise CatalogUnread(
            f"Catalog {name} computes digests of version {version}, "
            f"this job compares version {DIGEST_VERSION}.",
            "Bring both to the same version of Concord first.",
            name,
        )


def survey(
    inputs: Sequence[OpenedInput], unread: list[CatalogUnread] | None = None
) -> list[SurveyedCatalog]:
    """Ask the catalogs in parallel for identity, links and fingerprints; keep the order.

    Args:
        unread: receives the faults of unreadable catalogs, and the survey goes on without the
            catalogs; `None` makes a fault an error.

    Raises:
        ReconcileError: fewer than two catalogs can be read, or the catalogs can't be compared.
    """
    check_given(inputs)

    def survey_one(input: OpenedInput) -> SurveyedCatalog | CatalogUnread:
        try:
            return input.survey()
        except CatalogUnread as fault:
            return fault

    with ThreadPoolExecutor(max_workers=min(16, len(inputs))) as pool:
        found = list(pool.map(survey_one, inputs))
    catalogs = [each for each in found if isinstance(each, SurveyedCatalog)]
    faults = [each for each in found if isinstance(each, CatalogUnread)]
    if faults and (unread is None or len(catalogs) < 2):
        raise ReconcileError(" ".join(each.message for each in faults), faults[0].hint)
    if unread is not None:
        unread += faults
    _check_identities(catalogs)
    return catalogs


def check_given(inputs: Sequence[Input | OpenedInput]) -> None:
    """Check the names and the number of the given catalogs.

    Raises:
        ReconcileError
    """
    names = [each.name for each in inputs]
    if len(set(names)) < len(names):
        raise ReconcileError(
            f"Two catalogs have the same name: {', '.join(names)}.", "Give each its own name."
        )
    if not 2 <= len(inputs) <= MOST_CATALOGS:
        hint = f"Give at least two and at most {MOST_CATALOGS}."
        raise ReconcileError(f"{len(inputs)} catalogs were given.", hint)


def _check_identities(catalogs: Sequence[SurveyedCatalog]) -> None:
    seen: dict[str, SurveyedCatalog] = {}
    for catalog in catalogs:
        for identity in {catalog.authority, catalog.instance}:
            if identity in seen:
                raise ReconcileError(
                    f"Catalogs {seen[identity].name} and {catalog.name} are both {identity}.",
                    "Give every catalog once, and every catalog its own public URL.",
                )
            seen[identity] = catalog


@dataclass(frozen=True, slots=True, kw_only=True)
class ShrunkCatalog:
    """A catalog, and the numbers of its entities at the previous comparison and `now`."""

    name: str
    before: int
    now: int

    @property
    def has_shrunk(self) -> bool:
        if not self.now:
            return self.before > 0
        loss = self.before - self.now
        return self.now < _LEAST_SHARE * self.before and loss >= _LEAST_LOSS

    @property
    def text(self) -> str:
        return f"{self.name} has {self.now:,} entities. It had {self.before:,} the last time."

    @property
    def advice(self) -> str:
        return (
            "No repair reads from it. Find out what it lost; if nothing, compare once with "
            f"--allow-smaller {self.name}."
        )


def find_shrunk(
    catalogs: Sequence[SurveyedCatalog], allowed: Collection[str]
) -> tuple[ShrunkCatalog, ...]:
    """Find catalogs that have lost most of their entities since the last comparison.

    A catalog has shrunk if it has become empty, or has lost more than half of its entities and at
    least `_LEAST_LOSS`. The last comparison is the latest report at any of the catalogs, since a
    catalog that lost its database has lost its reports, too.

    Args:
        allowed: the names of catalogs that may have shrunk.
    """
    before: dict[str, int] = {}
    told = [report for each in catalogs for report in each.told if report.outcome != "failed"]
    for report in sorted(told, key=lambda report: report.endedat):
        before |= report.entities
    found = (
        ShrunkCatalog(name=each.name, before=before.get(each.authority, 0), now=each.entities)
        for each in catalogs
        if each.name not in allowed
    )
    return tuple(each for each in found if each.has_shrunk)
