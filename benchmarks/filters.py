"""Evaluations of one filter in each dialect, against those of `exact`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from benchmarks.figure import Aim, Figure, middle
from benchmarks.size import Size
from catalog.subscriptions.delivery.filters import Predicate, compile_filters

_TYPE = "io.xregistry.message.updated"
_EVENT = {
    "specversion": "1.0",
    "id": "0197-4.message.updated",
    "source": "https://catalog.example",
    "type": _TYPE,
    "subject": "/messagegroups/g/messages/m",
    "time": "2026-03-04T05:06:07Z",
    "epoch": "3",
}
_TIMES = 20_000
_EXACT = {"exact": {"type": _TYPE}}
_PREFIX = {"prefix": {"subject": "/messagegroups/"}}
_FILTERS: dict[str, dict[str, Any]] = {
    "exact": _EXACT,
    "prefix": _PREFIX,
    "suffix": {"suffix": {"type": ".updated"}},
    "all, of two": {"all": [_EXACT, _PREFIX]},
    "any, of two": {"any": [{"exact": {"type": "x"}}, _PREFIX]},
    "not": {"not": {"exact": {"type": "x"}}},
    "sql, =": {"sql": f"type = '{_TYPE}'"},
    "sql, LIKE": {"sql": "subject LIKE '/messagegroups/%'"},
    "sql, AND": {"sql": f"type = '{_TYPE}' AND subject LIKE '/messagegroups/%'"},
    "sql, with a cast": {"sql": "epoch > 2"},
}
_AIM = Aim(bound=1 / 3, of_ratio=True)


async def run(size: Size, _: Path) -> list[Figure]:
    """Measure evaluations a second of an event that matches; the baseline is `exact`."""
    predicates = {name: compile_filters([given]) for name, given in _FILTERS.items()}
    rates: dict[str, list[float]] = {name: [] for name in predicates}
    for turn in range(size.rounds + 1):
        for name, predicate in predicates.items():
            rate = _rate(predicate)
            if turn:
                rates[name].append(rate)
    return [
        Figure(
            name=f"Filter, {name}",
            unit="/s",
            value=middle(found),
            baseline=middle(rates["exact"]),
            aim=_AIM if name.startswith("sql") else None,
        )
        for name, found in rates.items()
    ]


def _rate(predicate: Predicate) -> float:
    begin = time.perf_counter()
    for _ in range(_TIMES):
        predicate(_EVENT)
    return _TIMES / (time.perf_counter() - begin)
