"""The rule that names a difference, in plain Python.

`columns.py` says the same in Spark's columns, for 10^8 rows; a property test holds the two
together. This one judges the few rows that are read again before anything is reported.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from catalog.model.entity import Origin
from replication.reconcile.topology import Topology

FindingName = Literal["missing", "stale", "ahead", "orphaned", "diverged", "collided"]
FINDINGS: tuple[FindingName, ...] = get_args(FindingName)
REPAIRABLE: frozenset[FindingName] = frozenset({"missing", "stale", "diverged"})
"""What fetching again can settle. The others need a person: each has lost or doubled something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """What one catalog holds of an origin: the entity or its tombstone."""

    catalog: int
    authority: str
    origin: str
    xid: str
    epoch: int
    deleted: bool
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One origin at one catalog that is not as it should be.

    The reference is the authority's own catalog, or, where that is not among the inputs,
    the copy with the greatest epoch. A rival is who holds the place of a collided entity.
    """

    finding: FindingName
    catalog: str
    authority: str
    origin: str
    xid: str | None = None
    epoch: int | None = None
    deleted: bool | None = None
    digest: str | None = None
    reference: str | None = None
    reference_epoch: int | None = None
    reference_deleted: bool | None = None
    reference_digest: str | None = None
    rival_authority: str | None = None
    rival_origin: str | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        """What two passes have in common about it."""
        return self.authority, self.origin, self.catalog


def reference_of(copies: Mapping[int, Copy], owner: int | None) -> Copy | None:
    """The copy that the others are compared with: the owner's, else the newest one."""
    if owner is not None:
        return copies.get(owner)
    return max(copies.values(), key=lambda copy: (copy.epoch, -copy.catalog), default=None)


def classify_origin(
    copies: Mapping[int, Copy],
    *,
    owner: int | None,
    expected: Collection[int],
    contested: Collection[int],
    catalogs: int,
) -> dict[int, FindingName]:
    """Name what is wrong with one origin, by catalog; a catalog without a finding is right.

    Args:
        copies: what each catalog holds of it, tombstones included.
        owner: the authority's own catalog, `None` where it is not among the inputs.
        expected: the catalogs that are supposed to hold it.
        contested: the catalogs where another authority holds its place.
        catalogs: how many there are.
    """
    reference = reference_of(copies, owner)
    found: dict[int, FindingName] = {}
    for catalog in range(catalogs):
        if catalog == owner:
            continue
        finding = _judge(copies.get(catalog), reference, catalog in expected, catalog in contested)
        if finding is not None:
            found[catalog] = finding
    return found


def _judge(
    copy: Copy | None, reference: Copy | None, is_expected: bool, is_contested: bool
) -> FindingName | None:
    if copy is None:
        if reference is None or reference.deleted or not is_expected:
            return None
        return "collided" if is_contested else "missing"
    if is_contested and not copy.deleted:
        return "collided"
    if reference is None:
        return None if copy.deleted else "orphaned"
    return _compare(copy, reference)


def _compare(copy: Copy, reference: Copy) -> FindingName | None:
    if copy.deleted and reference.deleted:
        return None
    if copy.epoch < reference.epoch:
        return "stale"
    if copy.epoch > reference.epoch:
        return "ahead"
    same = copy.digest == reference.digest and copy.deleted == reference.deleted
    return None if same else "diverged"


def classify(
    copies: Iterable[Copy], topology: Topology, only: Collection[Origin] | None = None
) -> list[Difference]:
    """Every difference among `copies`, ordered by authority, origin and catalog.

    Args:
        copies: everything that all catalogs hold of the origins to judge, and who else
            holds their places.
        topology: who owns and who should carry what.
        only: judge these origins; the others are there as rivals. `None` judges all.
    """
    held: dict[Origin, dict[int, Copy]] = defaultdict(dict)
    places: dict[tuple[int, str], list[Copy]] = defaultdict(list)
    for copy in copies:
        held[Origin(copy.authority, copy.origin)][copy.catalog] = copy
        if not copy.deleted:
            places[copy.catalog, copy.xid].append(copy)
    judged = held if only is None else {key: held[key] for key in only if key in held}
    found = [
        difference
        for origin, by_catalog in judged.items()
        for difference in _classify(origin, by_catalog, places, topology)
    ]
    order = {name: place for place, name in enumerate(topology.names)}
    return sorted(found, key=lambda one: (one.authority, one.origin, order[one.catalog]))


def _classify(
    origin: Origin,
    copies: Mapping[int, Copy],
    places: Mapping[tuple[int, str], list[Copy]],
    topology: Topology,
) -> Iterable[Difference]:
    count = len(topology.names)
    owner = topology.owner(origin.authority)
    rivals = {
        catalog: rival
        for catalog in range(count)
        if (rival := _rival(origin, catalog, copies.get(catalog), places)) is not None
    }
    found = classify_origin(
        copies,
        owner=owner,
        expected={c for c in range(count) if topology.expects(c, origin.authority, origin.xid)},
        contested=rivals.keys(),
        catalogs=count,
    )
    reference = reference_of(copies, owner)
    for catalog, finding in found.items():
        rival = rivals.get(catalog) if finding == "collided" else None
        yield describe(finding, origin, topology, catalog, copies.get(catalog), reference, rival)


def _rival(
    origin: Origin,
    catalog: int,
    copy: Copy | None,
    places: Mapping[tuple[int, str], list[Copy]],
) -> Copy | None:
    """Who holds the origin's place at a catalog, the first by authority and origin."""
    place = copy.xid if copy is not None else origin.xid
    others = (one for one in places.get((catalog, place), ()) if one.authority != origin.authority)
    return min(others, key=lambda one: (one.authority, one.origin), default=None)


def describe(
    finding: FindingName,
    origin: Origin,
    topology: Topology,
    catalog: int,
    copy: Copy | None,
    reference: Copy | None,
    rival: Copy | None,
) -> Difference:
    """A difference with all that a person wants to see of it."""
    return Difference(
        finding=finding,
        catalog=topology.names[catalog],
        authority=origin.authority,
        origin=origin.xid,
        xid=copy.xid if copy else None,
        epoch=copy.epoch if copy else None,
        deleted=copy.deleted if copy else None,
        digest=copy.digest if copy else None,
        reference=topology.names[reference.catalog] if reference else None,
        reference_epoch=reference.epoch if reference else None,
        reference_deleted=reference.deleted if reference else None,
        reference_digest=reference.digest if reference else None,
        rival_authority=rival.authority if rival else None,
        rival_origin=rival.origin if rival else None,
    )
