"""Orders the versions of a resource: the newest version, and the ancestor of each version.

Source: core/model.md, "versionmode". In the mode `manual` clients name ancestors; in the remaining
modes each version descends from the preceding version in the order of the mode.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import semver


@dataclass(slots=True, kw_only=True)
class Lineage:
    """The id, ancestor and times of a version. A root version is its own ancestor."""

    vid: str
    ancestor: str
    createdat: datetime
    modifiedat: datetime


def newest(versions: Iterable[Lineage], mode: str = "manual") -> Lineage | None:
    """The last version in the order of the mode.

    In the mode `manual`, the newest version is the last created version without descendants; ids
    decide between versions of the same time.
    """
    known = list(versions)
    if mode == "manual":
        ancestors = {version.ancestor for version in known if version.ancestor != version.vid}
        # In a circle, every version is the ancestor of a version.
        known = [version for version in known if version.vid not in ancestors] or known
    return max(known, key=_ORDERS[mode], default=None)


def assign_ancestors(versions: Iterable[Lineage], mode: str) -> dict[str, str]:
    """The ancestor of each version by the mode, by version id; `manual` keeps the ancestors."""
    if mode == "manual":
        return {version.vid: version.ancestor for version in versions}
    vids = [version.vid for version in sorted(versions, key=_ORDERS[mode])]
    # Each follows the one before, and the first is its own ancestor.
    return dict(zip(vids, [*vids[:1], *vids], strict=False))


def is_semantic(vid: str) -> bool:
    """Whether a version id is a semantic version, as the mode `semver` requires."""
    return semver.Version.is_valid(vid)


def circle(ancestors: Mapping[str, str]) -> list[str]:
    """Find the ids of a circle among ancestors, if any: `{a: b, b: a}` → `[a, b]`.

    A root is its own ancestor.
    """
    settled: set[str] = set()
    for start in ancestors:
        path: dict[str, None] = {}
        vid = start
        while vid not in settled and ancestors.get(vid, vid) != vid:
            if vid in path:
                return [*path][[*path].index(vid) :]
            path[vid] = None
            vid = ancestors[vid]
        # Paths that have led to a root are not walked again, so that the time stays linear.
        settled.update(path, (vid,))
    return []


def _precedence(vid: str) -> tuple[bool, semver.Version]:
    """Ids that are no semantic versions come first; build metadata has no precedence."""
    is_valid = is_semantic(vid)
    return is_valid, semver.Version.parse(vid) if is_valid else semver.Version(0)


_ORDERS: Mapping[str, Callable[[Lineage], Any]] = {
    "manual": lambda version: (version.createdat, version.vid.lower(), version.vid),
    "createdat": lambda version: (version.createdat, version.vid.lower(), version.vid),
    "modifiedat": lambda version: (version.modifiedat, version.vid.lower(), version.vid),
    "semver": lambda version: (*_precedence(version.vid), version.vid.lower(), version.vid),
}
