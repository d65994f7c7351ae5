"""Decides whether a placeholder can have the same text in every template of a message.

Matching patterns with repeated variables is NP-complete, so the search has a budget. Templates
written by people use little of the budget, because literals around most placeholders fix the
texts of the placeholders.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from catalog.messages.uritemplates import Gap, Part, fits

BUDGET = 60_000
_DEEPEST = 150
_CHARACTERS_OF_A_STEP = 32


class Exhausted(Exception):
    """The search spent its budget without an answer."""


@dataclass(frozen=True, slots=True)
class Demand:
    """A text that has to match the parts of a template, as a constraint of the search."""

    parts: tuple[Part, ...]
    text: str


class Search:
    """A search for the texts of the placeholders in templates."""

    def __init__(self, budget: int = BUDGET) -> None:
        self._left = budget

    def succeeds(self, demands: Sequence[Demand], depth: int = 0) -> bool:
        """Whether every demand can match with a single text for each placeholder.

        Raises:
            Exhausted: the budget is spent, or the search is too deep.
        """
        if not self._all_fit(demands):
            return False
        open_ = list(_relevant(demands))
        if not open_:
            return True
        if depth > _DEEPEST:
            raise Exhausted
        # The demand with the fewest gaps leaves the fewest texts to try.
        open_.sort(key=_gaps)
        chosen, others = open_[0], open_[1:]
        return any(
            self.succeeds([rest, *(_bind(other, gap, value) for other in others)], depth + 1)
            for gap, value, rest in _first_gap(chosen)
        )

    def _all_fit(self, demands: Sequence[Demand]) -> bool:
        for demand in demands:
            self._left -= len(demand.parts) + len(demand.text) // _CHARACTERS_OF_A_STEP + 1
            if self._left < 0:
                raise Exhausted
            if not fits(demand.parts, demand.text):
                return False
        return True


def _relevant(demands: Iterable[Demand]) -> Iterator[Demand]:
    """The demands with a repeated placeholder; demands without one fit already."""
    demands = list(demands)
    counts = Counter(name for demand in demands for name in _names(demand))
    return (demand for demand in demands if any(counts[name] > 1 for name in _names(demand)))


def _names(demand: Demand) -> Iterator[str]:
    return (part.name for part in demand.parts if isinstance(part, Gap) and part.name)


def _gaps(demand: Demand) -> int:
    return sum(isinstance(part, Gap) for part in demand.parts)


def _first_gap(demand: Demand) -> Iterator[tuple[Gap, str, Demand]]:
    """The texts that the first gap can have, each with the rest of the demand."""
    parts, text = demand.parts, demand.text
    if isinstance(first := parts[0], str):
        parts, text = parts[1:], text[len(first) :]
    gap, *rest = parts
    assert isinstance(gap, Gap)
    for end in _ends(gap, rest, text):
        value = text[:end]
        yield gap, value, _bind(Demand(tuple(rest), text[end:]), gap, value)


def _ends(gap: Gap, rest: Sequence[Part], text: str) -> Iterator[int]:
    following = rest[0] if rest else ""
    if isinstance(following, Gap):
        yield from range(gap.least, len(text) + 1)
    elif len(rest) < 2:
        yield len(text) - len(following)
    else:
        end = text.find(following, gap.least)
        while end >= 0:
            yield end
            end = text.find(following, end + 1)


def _bind(demand: Demand, gap: Gap, value: str) -> Demand:
    """Replace a placeholder by a text, and join adjacent literals."""
    if not gap.name or gap not in demand.parts:
        return demand
    parts: list[Part] = []
    for part in demand.parts:
        bound = value if part == gap else part
        if isinstance(bound, str) and parts and isinstance(last := parts[-1], str):
            parts[-1] = last + bound
        else:
            parts.append(bound)
    return Demand(tuple(parts), demand.text)
