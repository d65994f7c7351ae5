"""Which version is newest, oldest and default, and what each one descends from.

These are the rules of the version mode `manual` (core/model.md, "versionmode").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(slots=True, kw_only=True)
class Lineage:
    """What these rules need to know of one version. Its ancestor may be itself: a root."""

    vid: str
    ancestor: str
    createdat: datetime


def newest(versions: Iterable[Lineage]) -> Lineage | None:
    """The last created version that is nobody's ancestor; by id where two are as new."""
    known = list(versions)
    ancestors = {version.ancestor for version in known if version.ancestor != version.vid}
    leaves = [version for version in known if version.vid not in ancestors] or known
    return max(leaves, key=lambda v: (v.createdat, v.vid.lower()), default=None)


def oldest(versions: Iterable[Lineage]) -> Lineage | None:
    """The first created root; by id where two are as old."""
    known = list(versions)
    roots = [version for version in known if version.ancestor == version.vid] or known
    return min(roots, key=lambda v: (v.createdat, v.vid.lower()), default=None)


def circle(ancestors: Mapping[str, str]) -> list[str]:
    """The ids of a circle among ancestors, if there is one: `{a: b, b: a}` → `[a, b]`.

    Args:
        ancestors: version id → its ancestor's id; a root is its own.
    """
    settled: set[str] = set()
    for start in ancestors:
        path: list[str] = []
        vid = start
        while vid not in settled and ancestors.get(vid, vid) != vid:
            if vid in path:
                return path[path.index(vid) :]
            path.append(vid)
            vid = ancestors[vid]
        settled.update(path, (vid,))
    return []
