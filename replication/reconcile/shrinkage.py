"""Finds catalogs that have far fewer entities than at the previous comparison.

A catalog that lost its database, or serves a different database, would make its replicas look
wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from replication.reconcile.catalogs import SurveyedCatalog

_LEAST_SHARE = 0.5
_LEAST_LOSS = 100
"""The least loss that counts: a small catalog may well lose most of its entities in a day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShrunkCatalog:
    """A catalog, and the numbers of its entities at the previous comparison and `now`."""

    name: str
    before: int
    now: int

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
    found = (
        ShrunkCatalog(name=each.name, before=_before(each, catalogs), now=each.entities)
        for each in catalogs
        if each.name not in allowed
    )
    return tuple(each for each in found if _has_shrunk(each))


def _before(catalog: SurveyedCatalog, catalogs: Sequence[SurveyedCatalog]) -> int:
    reports = (
        report
        for each in catalogs
        for report in each.told
        if report.outcome != "failed" and catalog.authority in report.entities
    )
    last = max(reports, key=lambda report: report.endedat, default=None)
    return 0 if last is None else last.entities[catalog.authority]


def _has_shrunk(catalog: ShrunkCatalog) -> bool:
    if not catalog.now:
        return catalog.before > 0
    loss = catalog.before - catalog.now
    return catalog.now < _LEAST_SHARE * catalog.before and loss >= _LEAST_LOSS
