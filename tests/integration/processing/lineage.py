"""Which of some versions is the newest, and which the oldest (core/model.md, "versionmode")."""

from __future__ import annotations

from typing import Any

from tests.integration.processing.entities import Json, Kind


def ordered(kind: Kind, versions: Json) -> list[str]:
    """The ids from the oldest to the newest, as far as the mode tells without ancestors."""
    if kind.mode == "semver":
        return sorted(versions, key=_precedence)
    time = "modifiedat" if kind.mode == "modifiedat" else "createdat"
    return sorted(versions, key=lambda vid: (versions[vid][time], vid.lower()))


def newest(kind: Kind, versions: Json) -> str:
    if kind.mode == "manual":
        followed = {x["ancestorid"] for vid, x in versions.items() if x["ancestorid"] != vid}
        leaves = {vid: x for vid, x in versions.items() if vid not in followed}
        versions = leaves or versions  # There is none in a circle, which is refused later.
    return ordered(kind, versions)[-1]


def oldest(kind: Kind, versions: Json) -> str:
    """The first root; where there is none, the first whose ancestor is not among them."""
    if kind.mode == "manual":
        roots = {vid: x for vid, x in versions.items() if x["ancestorid"] == vid}
        heirs = {vid: x for vid, x in versions.items() if x["ancestorid"] not in versions}
        versions = roots or heirs
    return ordered(kind, versions)[0]


def is_placed(versions: Json, vid: str | None) -> bool:
    """Whether the line of a version's ancestors is known: not where one has none so far."""
    seen: set[str] = set()
    while vid and vid not in seen:
        seen.add(vid)
        vid = versions[vid]["ancestorid"]
    return vid is not None


def is_circular(versions: Json) -> bool:
    """Whether the ancestors of some version lead to no root."""
    for vid in versions:
        for _ in versions:
            vid = versions[vid]["ancestorid"]
        if versions[vid]["ancestorid"] != vid:
            return True
    return False


def _precedence(vid: str) -> tuple[Any, ...]:
    core, _, pre = vid.partition("-")
    parts = [(not part.isdigit(), part.isdigit() and int(part), part) for part in pre.split(".")]
    return [int(number) for number in core.split(".")], not pre, parts
