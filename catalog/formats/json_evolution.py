"""Compares JSON schemas: whether the reader's schema accepts every value of the writer's schema.

No library fits: a library knows a single draft, misses changes or gives no reasons. Schemas
that cannot be proved compatible count as incompatible, with an exception: if the writer's
schema is open, properties that the schema does not name count as not written, so that an
optional property can be added to the reader's schema. Closing an open schema is not compatible.
`format` is an annotation and is not compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from catalog.formats.json_assertions import (
    EXACTLY,
    TYPES,
    Facts,
    SchemaPart,
    conjuncts,
    equal,
    exact_values,
    exactly,
    listed_values,
    property_facts,
    required,
    types,
)
from catalog.formats.json_keywords import CHECKS, Path, shown
from catalog.formats.json_sameness import same

# The claim that a reader's schema accepts every value with the given facts.
Claim = tuple[frozenset[SchemaPart], SchemaPart]
ONE_TYPE = {name: {"type": name} for name in TYPES}


def obstacle(writer: SchemaPart, reader: SchemaPart) -> str:
    """The reason why the reader may reject a value that the writer's schema accepts, or ""."""
    return Comparison().gap([writer.at(writer.schema)], reader.at(reader.schema), ())


class Comparison:
    """A comparison of two schemas, which may be recursive.

    A claim that is being proved about a value may be assumed for the smaller values inside of the
    value, at longer paths. Recursive schemas can therefore be compared, and no claim is proved by
    assuming itself.
    """

    def __init__(self) -> None:
        # Claims that are proved or being proved, each with the length of the path.
        self._shown: dict[Claim, int] = {}
        self._open: set[tuple[Claim, int]] = set()
        self._excluding: set[Claim] = set()
        # Parts are compared by the identity of the schema: made schemas must outlive the parts.
        self._made: dict[tuple[int, str, int], dict[Any, Any]] = {}

    def gap(self, writer: Facts, reader: SchemaPart, at: Path) -> str:
        """The reason why the reader may reject a value with the writer's facts, or ""."""
        facts = conjuncts(writer)
        claim, depth = (frozenset(facts), reader), len(at)
        if not types(facts) or self._shown.get(claim, depth) < depth:
            return ""
        if (claim, depth) in self._open:
            return f"{shown(at)}: refers to itself"
        before = dict(self._shown)
        self._shown[claim] = depth
        self._open.add((claim, depth))
        problem = self._direct_gap(facts, reader, at)
        if problem and (cases := self._cases(facts)):
            # The failed attempt may have assumed claims that do not hold.
            self._shown = before | {claim: depth}
            problem = self._first(self.gap(case, reader, at) for case in cases)
        self._open.discard((claim, depth))
        if problem:
            self._shown = before
        return problem

    def fits(self, writer: Facts, reader: SchemaPart, at: Path) -> bool:
        return not self.gap(writer, reader, at)

    def excluded(self, facts: Facts, part: SchemaPart, at: Path) -> bool:
        """Whether a part provably rejects every value with the facts."""
        facts, others = conjuncts(facts), conjuncts([part])
        claim = frozenset(facts), part
        # A claim that is being proved must not prove itself.
        if claim in self._excluding:
            return False
        self._excluding.add(claim)
        is_excluded = (
            not types(facts) & types(others)
            or any(self._is_ruled_out(fact, part, at) for fact in facts)
            or _differ_in_value(facts, others)
            or self._differ_in_property(facts, others, at)
        )
        self._excluding.discard(claim)
        return is_excluded

    def _direct_gap(self, facts: Facts, reader: SchemaPart, at: Path) -> str:
        left = types(facts)
        return self._first(
            problem
            for demand in conjuncts([reader])
            if not any(same(fact, demand) for fact in facts)
            for check, kinds in CHECKS
            if left & kinds
            for problem in check(self, facts, demand, at)
        )

    def _cases(self, facts: Facts) -> list[list[SchemaPart]]:
        """Split facts into cases that together cover every value; empty if nothing is to split."""
        # The facts include the targets of allOf and $ref already. With the keywords kept,
        # `conjuncts` would add the fact that is split below to every case again.
        facts = [self._without(fact, "allOf", "$ref") for fact in facts]
        for fact in facts:
            rest = [other for other in facts if other != fact]
            if several := self._cases_of(fact):
                remainder = self._without(fact, several[0])
                return [[*rest, remainder, *case] for case in several[1]]
        return self._cases_of_types(facts)

    def _cases_of(self, fact: SchemaPart) -> tuple[str, list[list[SchemaPart]]] | None:
        keywords = fact.says()
        if "const" in keywords:
            return "const", [[self._exact(fact, "const", 0, keywords["const"])]]
        if "enum" in keywords:
            values = enumerate(keywords["enum"])
            return "enum", [[self._exact(fact, "enum", i, value)] for i, value in values]
        if "anyOf" in keywords:
            return "anyOf", [[branch] for branch in fact.members("anyOf")]
        if "oneOf" in keywords:
            return "oneOf", [*self._only_one(fact)]
        return None

    def _cases_of_types(self, facts: Facts) -> list[list[SchemaPart]]:
        left = types(facts)
        if any(EXACTLY in fact.schema for fact in facts):
            return []
        if left == TYPES["boolean"]:
            values = enumerate((False, True))
            return [[*facts, self._exact(facts[0], "boolean", i, value)] for i, value in values]
        if left == TYPES["null"]:
            return [[*facts, self._exact(facts[0], "null", 0, None)]]
        kinds = [name for name, kind in TYPES.items() if kind & left and name != "integer"]
        if len(kinds) < 2:
            return []
        return [[*facts, facts[0].at(ONE_TYPE[name])] for name in kinds]

    def _only_one(self, fact: SchemaPart) -> Iterator[list[SchemaPart]]:
        branches = fact.members("oneOf")
        for chosen in branches:
            others = [i for i, branch in enumerate(branches) if branch is not chosen]
            yield [chosen, *(self._negation(fact, i, branches[i]) for i in others)]

    def _negation(self, fact: SchemaPart, index: int, branch: SchemaPart) -> SchemaPart:
        made = self._made.setdefault((id(fact.schema), "not", index), {"not": branch.schema})
        return fact.at(made)

    def _exact(self, fact: SchemaPart, keyword: str, index: int, value: Any) -> SchemaPart:
        key = (id(fact.schema), keyword, index)
        if key not in self._made:
            self._made[key] = exactly(value)
        return fact.at(self._made[key])

    def _without(self, fact: SchemaPart, *keywords: str) -> SchemaPart:
        said = fact.says()
        if not said.keys() & set(keywords):
            return fact
        # The schema is kept, because the identity of the schema tells parts apart.
        key = (id(fact.schema), f"without {keywords}", 0)
        if key not in self._made:
            self._made[key] = {name: said[name] for name in said if name not in keywords}
        return fact.at(self._made[key])

    def _is_ruled_out(self, fact: SchemaPart, part: SchemaPart, at: Path) -> bool:
        keywords = fact.says()
        return "not" in keywords and self.fits([part], fact.at(keywords["not"]), at)

    def _differ_in_property(self, facts: Facts, others: Facts, at: Path) -> bool:
        if types(facts) & types(others) != TYPES["object"]:
            return False
        for name in required(facts) | required(others):
            mine, theirs = property_facts(facts, name), property_facts(others, name)
            if not types(mine) or not types(theirs):
                return True
            if any(mine and self.excluded(mine, their, (*at, name)) for their in theirs):
                return True
        return False

    @staticmethod
    def _first(problems: Iterator[str]) -> str:
        return next((problem for problem in problems if problem), "")


def _differ_in_value(facts: Facts, others: Facts) -> bool:
    """Whether both sides list the accepted values, and the lists have no value in common."""
    return any(
        not any(equal(value, listed) for value in mine for listed in theirs)
        for mine in _listed(facts)
        for theirs in _listed(others)
    )


def _listed(facts: Facts) -> Iterator[list[Any]]:
    yield from ([value] for value in exact_values(facts))
    yield from (values for fact in facts for _, values in listed_values(fact))
