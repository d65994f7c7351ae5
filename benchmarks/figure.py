"""A measured figure with its physical baseline and its aim."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """A bound for a figure's value, or for its ratio to the baseline."""

    bound: float
    of_ratio: bool = False
    is_most: bool = False

    def is_met(self, figure: Figure) -> bool:
        reached = figure.ratio if self.of_ratio else figure.value
        if reached is None:
            return False
        return reached <= self.bound if self.is_most else reached >= self.bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One row of the result. `note` describes the measurement in a few words."""

    name: str
    unit: str
    value: float
    baseline: float | None = None
    aim: Aim | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """The value divided by the baseline: 1 is the best that the machine allows."""
        return self.value / self.baseline if self.baseline else None

    def as_json(self) -> dict[str, Any]:
        met = self.aim.is_met(self) if self.aim else None
        return {**asdict(self), "ratio": self.ratio, "met": met}


def middle(values: Sequence[float]) -> float:
    """The median of interleaved rounds: one disturbed round does not move it."""
    return median(values)


def percentile(values: Sequence[float], percent: float) -> float:
    """The value that `percent` of all values do not exceed (nearest rank)."""
    ordered = sorted(values)
    rank = max(0, -(-len(ordered) * percent // 100) - 1)
    return ordered[int(rank)]


def spread(values: Sequence[float], baselines: Sequence[float]) -> str:
    """The range of the ratios of single rounds; it is wide on a machine that is not idle."""
    ratios = [value / baseline for value, baseline in zip(values, baselines, strict=True)]
    return f"rounds {min(ratios):.2f} to {max(ratios):.2f}"
