"""The rule of the watch: what the changes of one origin at several catalogs say about the catalogs.

A feed shows the newest state of an entity, so it may skip epochs, and skipped epochs are no gap. A
gap is a stream that does not go on where it was read to: changes may have been missed there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Literal

import orjson

_MOST_TOLD = 20

StreamFindingName = Literal["gap", "regressed", "diverged", "late"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The state of an origin at a catalog, as the stream of the catalog shows it.

    Args:
        catalog: the name of the catalog.
        at: the time of the observation, in seconds since 1970.
        gap: why the stream does not go on where it was read to; then there is no origin.
    """

    catalog: str
    authority: str
    origin: str
    epoch: int
    deleted: bool
    digest: str
    at: float
    gap: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFinding:
    """A finding about a catalog; the same finding has the same id in every execution.

    Args:
        epoch: the epoch at the catalog; `None` if the catalog has shown no state.
        expected: the epoch that was to be expected.
    """

    id: str
    finding: StreamFindingName
    catalog: str
    authority: str
    origin: str
    epoch: int | None
    expected: int | None
    at: float
    detail: str


@dataclass(frozen=True, slots=True)
class _State:
    epoch: int
    deleted: bool
    digest: str
    at: float


@dataclass(slots=True)
class OriginWatch:
    """The last state of an origin at each catalog, and the ids of the findings about it."""

    states: dict[str, _State] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, text: str) -> OriginWatch:
        """Read back what `written` returns."""
        data = orjson.loads(text)
        return cls({name: _State(*state) for name, state in data["states"].items()}, data["told"])

    def written(self) -> str:
        states = {
            name: [one.epoch, one.deleted, one.digest, one.at] for name, one in self.states.items()
        }
        return orjson.dumps({"states": states, "told": self.told}).decode()

    def observe(self, seen: Observation) -> list[StreamFinding]:
        """Note a state; return the findings that the state is the cause of.

        A state that is shown again, as after a restart, changes nothing.
        """
        before = self.states.get(seen.catalog)
        found = []
        if before is not None and seen.epoch < before.epoch:
            detail = "the catalog may have lost data, or was restored from a backup"
            found.append(_finding("regressed", seen, before.epoch, detail))
        for name, other in self.states.items():
            is_same = (other.digest, other.deleted) == (seen.digest, seen.deleted)
            if name != seen.catalog and other.epoch == seen.epoch and not is_same:
                found.append(_finding("diverged", seen, other.epoch, f"{name} has another content"))
        if before is None or before.epoch != seen.epoch:
            self.states[seen.catalog] = _State(seen.epoch, seen.deleted, seen.digest, seen.at)
        else:
            self.states[seen.catalog] = replace(before, deleted=seen.deleted, digest=seen.digest)
        return self._untold(found)

    def late(
        self, owner: str, origin: tuple[str, str], expected: Collection[str], now: float, lag: float
    ) -> tuple[list[StreamFinding], float | None]:
        """The catalogs that have not shown the owner's epoch within `lag` seconds.

        Args:
            owner: the authority's own catalog.
            origin: the authority and the path.
            expected: the catalogs that should have the origin.

        Returns:
            the findings, and the seconds after which to look again; `None` if nobody is awaited.
        """
        own = self.states.get(owner)
        if own is None:
            return [], None
        behind = [
            name
            for name in sorted({*expected} - {owner})
            if name not in self.states or self.states[name].epoch < own.epoch
        ]
        # A replica that never had an entity needs no tombstone of it.
        behind = [name for name in behind if not own.deleted or name in self.states]
        if not behind or (left := own.at + lag - now) > 0:
            return [], left if behind else None
        found = []
        for name in behind:
            state = self.states.get(name)
            seen = Observation(
                catalog=name,
                authority=origin[0],
                origin=origin[1],
                epoch=-1 if state is None else state.epoch,
                deleted=False,
                digest="",
                at=now,
            )
            found.append(_finding("late", seen, own.epoch, f"{owner} has it since {own.at:.0f}"))
        return self._untold(found), None

    def _untold(self, found: list[StreamFinding]) -> list[StreamFinding]:
        # Several catalogs may contradict one state.
        distinct: dict[str, StreamFinding] = {}
        for each in found:
            distinct.setdefault(each.id, each)
        fresh = [each for each in distinct.values() if each.id not in self.told]
        # The ids of a few findings are enough: an older finding has a lower epoch.
        self.told = [*self.told, *(each.id for each in fresh)][-_MOST_TOLD:]
        return fresh


def gap_in(seen: Observation) -> StreamFinding:
    """The finding about a stream that does not go on where it was read to."""
    return _finding("gap", seen, None, seen.gap)


def _finding(
    name: StreamFindingName, seen: Observation, expected: int | None, detail: str
) -> StreamFinding:
    key = (name, seen.catalog, seen.authority, seen.origin, seen.epoch, expected)
    named = (*key, seen.at) if name == "gap" else key
    return StreamFinding(
        id=hashlib.sha256("\n".join(map(str, named)).encode()).hexdigest()[:32],
        finding=name,
        catalog=seen.catalog,
        authority=seen.authority,
        origin=seen.origin,
        epoch=None if seen.epoch < 0 else seen.epoch,
        expected=expected,
        at=seen.at,
        detail=detail,
    )
