"""The rules that a message breaks, and the parts of a definition that could not be checked.

A placeholder must have the same text in every template of a message. Matching patterns with
repeated variables is NP-complete, so the search has a budget. Templates written by people use
little of the budget, because literals around most placeholders fix the texts of the placeholders.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from catalog.messages.definition import Property
from catalog.messages.uritemplates import Gap, Part, Template, fits
from catalog.messages.values import is_now, is_same, media_type_fits, read

BUDGET = 60_000
_DEEPEST = 150


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


EFFORT = 1_000_000
MOST_VIOLATIONS = 1000
_EFFORT_OF_A_CHECK = 16
_CHARACTERS_OF_A_STEP = 32
_MOST_SHOWN = 200


class TooMuch(Exception):
    """The check of a message takes too long, or finds too many violations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleViolation:
    """A rule that a message breaks, with a JSON pointer into the message."""

    pointer: str
    rule: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unchecked:
    """A part of the definition that was not checked; `uri` is the reference in the part, if any."""

    part: str
    reason: str
    uri: str = ""


@dataclass(slots=True)
class Violations:
    """Checks values, and collects violations; `finish` compares the placeholders of the templates.

    The effort for a message is bounded, because the checks cannot be interrupted.
    """

    violations: list[RuleViolation] = field(default_factory=list)
    unchecked: list[Unchecked] = field(default_factory=list)
    _effort: int = EFFORT
    _demands: list[tuple[str, Template, Demand]] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        """Whether the number of violations is at the limit."""
        return len(self.violations) >= MOST_VIOLATIONS

    def object(self, pointer: str, rule: str, detail: str) -> None:
        """Add a violation.

        Raises:
            TooMuch: the number of violations is at the limit.
        """
        if self.is_full:
            raise TooMuch
        self.violations.append(RuleViolation(pointer=pointer, rule=rule, detail=detail))

    def leave(self, part: str, reason: str, uri: str = "") -> None:
        """Add a part of the definition that was not checked."""
        self.unchecked.append(Unchecked(part=part, reason=reason, uri=uri))

    def spend(self, effort: int) -> None:
        """Count effort.

        Raises:
            TooMuch: the effort for the message is spent.
        """
        self._effort -= effort
        if self._effort < 0:
            raise TooMuch

    def admits(self, wanted: Property, value: Any) -> bool:
        """Whether a value conforms to a property's definition, shared placeholders excepted."""
        self.spend(_effort_for(wanted.value, value))
        trial = Violations()
        trial.check(wanted, value, "")
        return not trial.violations

    def check(self, wanted: Property, value: Any, pointer: str) -> None:
        """Check a value by the definition of a property; `None` is an absent value.

        Raises:
            TooMuch: the effort is spent, or the number of violations is at the limit.
        """
        self.spend(_effort_for(wanted.value, value))
        if value is None:
            if wanted.required:
                self.object(pointer, "required", "it is missing")
            return
        try:
            # Definitions give media types the type symbol, which admits no slash.
            type = "string" if wanted.is_media_type else wanted.type
            found = read(type, value, is_text=wanted.is_text)
        except ValueError as error:
            self.object(pointer, "type", f"it is no {wanted.type}: {error}")
            return
        if wanted.value in (None, "") or is_now(wanted.type, wanted.value):
            return
        template = Template.parse(wanted.value) if isinstance(wanted.value, str) else None
        if template is not None and not template.is_constant:
            self._demand(template, value if isinstance(value, str) else _text(value), pointer)
        elif wanted.is_media_type and isinstance(wanted.value, str):
            if not media_type_fits(wanted.value, found):
                self._differs(pointer, wanted.value, value)
        elif not is_same(wanted.type, wanted.value, found):
            self._differs(pointer, wanted.value, value)

    def finish(self) -> None:
        """Check that equal placeholders have equal texts."""
        try:
            if not Search().succeeds([demand for _, _, demand in self._demands]):
                self._find_disagreeing()
        except Exhausted:
            pointer = self._demands[-1][0]
            reason = "the texts of its placeholders could not be compared in bounded time"
            self.object(pointer, "placeholder", reason)

    def _find_disagreeing(self) -> None:
        """Add a violation for each property that disagrees with the previous properties."""
        search, agreeing, used = Search(), list[Demand](), set[str]()
        for pointer, template, demand in self._demands:
            if search.succeeds([*agreeing, demand]):
                agreeing.append(demand)
                used |= template.names
            else:
                shared = ", ".join(sorted(template.names & (used | template.repeated)))
                self.object(pointer, "placeholder", f"{shared}: it has another text elsewhere")

    def _demand(self, template: Template, text: str, pointer: str) -> None:
        if template.fits(text):
            self._demands.append((pointer, template, Demand(template.parts, text)))
        else:
            detail = f"{_shown(text)} does not match {_shown(template.text)}"
            self.object(pointer, "template", detail)

    def _differs(self, pointer: str, wanted: Any, value: Any) -> None:
        self.object(pointer, "value", f"it must be {_shown(wanted)}, and is {_shown(value)}")


def _effort_for(*values: Any) -> int:
    characters = sum(len(value) for value in values if isinstance(value, str))
    return _EFFORT_OF_A_CHECK + characters // _CHARACTERS_OF_A_STEP


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _shown(value: Any) -> str:
    text = _text(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"
