"""Decides whether a link may delete entities without being allowed to. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class BrakeLimits:
    """The most that a link deletes without asking: entities, or a share of those it brought."""

    share: float
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletions:
    """The deletions of a link that count together.

    Args:
        deleted: entities that are gone already.
        about: entities that would go now.
        allowed: as many as an operator allowed, those that are gone already included.
    """

    deleted: int
    about: int
    allowed: int = 0

    @property
    def total(self) -> int:
        return self.deleted + self.about


def must_stop(deletions: Deletions, held: int, limits: BrakeLimits) -> bool:
    """Whether a link has to stop and ask before it deletes any more.

    Args:
        held: the entities that the link may bring and that are here now.
    """
    if not deletions.about or deletions.total <= max(limits.count, deletions.allowed):
        return False
    return deletions.total > limits.share * (held + deletions.deleted)
