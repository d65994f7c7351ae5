"""The rule that names differences in plain Python: written without Spark, to test it against."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from catalog.model.entity import Origin
from replication.reconcile.findings import COPY_FINDINGS, Difference, FindingName
from replication.reconcile.signatures import DAMAGED, DETAILS, UNCHECKED, UNSIGNED
from replication.reconcile.topology import Topology, covers


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """The copy of an origin at one catalog: the entity or its tombstone."""

    catalog: int
    authority: str
    origin: str
    xid: str
    epoch: int
    deleted: bool
    digest: str
    changedat: int = 0
    signature: int = UNCHECKED


def classify(copies: Iterable[Copy], topology: Topology) -> list[Difference]:
    """Every difference among `copies`, ordered by authority, origin and catalog."""
    origins: dict[Origin, dict[int, Copy]] = defaultdict(dict)
    live: dict[tuple[int, str], list[Copy]] = defaultdict(list)
    for copy in copies:
        origins[Origin(copy.authority, copy.origin)][copy.catalog] = copy
        if not copy.deleted:
            live[copy.catalog, copy.xid].append(copy)
    return [
        difference
        for origin in sorted(origins, key=lambda one: (one.authority, one.xid))
        for difference in _differences(origin, origins[origin], live, topology)
    ]


def _differences(
    origin: Origin,
    copies: Mapping[int, Copy],
    live: Mapping[tuple[int, str], list[Copy]],
    topology: Topology,
) -> Iterator[Difference]:
    best = max(
        copies.values(), key=lambda copy: (copy.signature < UNSIGNED, copy.epoch, -copy.catalog)
    )
    owner: int | None = None
    reference: Copy | None = best
    if origin.authority in topology.authorities:
        owner = topology.authorities.index(origin.authority)
        own = copies.get(owner)
        is_spoilt = own is not None and own.signature >= UNSIGNED
        reference = best if is_spoilt and best.signature < UNSIGNED else own
    for catalog, name in enumerate(topology.names):
        copy = copies.get(catalog)
        coverage = topology.coverage[catalog].get(origin.authority)
        subtrees = coverage.subtrees if coverage else ()
        is_expected = any(covers(path, origin.xid) for path in subtrees)
        holders = live.get((catalog, copy.xid if copy else origin.xid), ())
        rivals = [one for one in holders if one.authority != origin.authority]
        rival = min(rivals, key=lambda one: (one.authority, one.origin), default=None)
        different = None if catalog == owner else _finding(copy, reference, is_expected, rival)
        for finding in (different, _copy_finding(copy)):
            if finding is None:
                continue
            shown = rival if finding == "collided" else None
            yield Difference(
                finding=finding,
                catalog=name,
                authority=origin.authority,
                origin=origin.xid,
                xid=copy.xid if copy else None,
                epoch=copy.epoch if copy else None,
                deleted=copy.deleted if copy else None,
                digest=copy.digest if copy else None,
                changedat=copy.changedat if copy else None,
                reference=topology.names[reference.catalog] if reference else None,
                reference_epoch=reference.epoch if reference else None,
                reference_deleted=reference.deleted if reference else None,
                reference_digest=reference.digest if reference else None,
                reference_changedat=reference.changedat if reference else None,
                rival_authority=shown.authority if shown else None,
                rival_origin=shown.origin if shown else None,
                detail=DETAILS[copy.signature - UNSIGNED]
                if copy and finding in COPY_FINDINGS
                else None,
            )


def _copy_finding(copy: Copy | None) -> FindingName | None:
    if copy is None or copy.signature < UNSIGNED:
        return None
    if copy.signature == DAMAGED:
        return "damaged"
    return "unsigned" if copy.signature == UNSIGNED else "forged"


def _finding(
    copy: Copy | None, reference: Copy | None, is_expected: bool, rival: Copy | None
) -> FindingName | None:
    if copy is None:
        if reference is None or reference.deleted or not is_expected:
            return None
        return "collided" if rival else "missing"
    if reference is None:
        return None if copy.deleted else "orphaned"
    if copy.deleted and reference.deleted:
        return None
    if copy.epoch != reference.epoch:
        return "stale" if copy.epoch < reference.epoch else "ahead"
    if copy.signature == DAMAGED:
        return None
    is_same = copy.digest == reference.digest and copy.deleted == reference.deleted
    return None if is_same else "diverged"
