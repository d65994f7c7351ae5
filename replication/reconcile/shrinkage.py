"""Finds catalogs that have far fewer entities than at the comparison before.

A catalog that lost its database, or shows another one, would make its replicas look wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from replication.reconcile.catalogs import SurveyedCatalog

_LEAST_SHARE = 0.5
_LEAST_LOSS = 100
"""A small catalog may well lose most of its entities in a day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShrunkCatalog:
    """A catalog that had so many entities `before`, and has so many `now`."""

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
    """Find catalogs that are empty, or have less than half of the entities of the last comparison.

    Any of the catalogs may have been told of it: one that lost its database forgot.

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
