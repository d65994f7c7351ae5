"""Compares JSON schemas: whether a reader's schema accepts every value of a writer's schema.

No library fits: a library knows a single draft, misses changes or gives no reasons. Schemas that
cannot be proved compatible count as incompatible, with an exception: if the writer's schema is
open, properties that the schema does not name count as not written, so that an optional property
can be added to the reader's schema. Closing an open schema is not compatible. `format` is an
annotation and is not compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from catalog.formats.json_assertions import (
    ANY_TYPE,
    ANYTHING,
    EXACTLY,
    IMPOSSIBLE,
    NUMBERS,
    TYPES,
    Facts,
    SchemaPart,
    bound,
    conjuncts,
    divides,
    element_facts,
    elements,
    equal,
    exact_values,
    exactly,
    finds,
    limits_of,
    listed_values,
    named_properties,
    named_types,
    numbers,
    other_properties,
    property_facts,
    required,
    same,
    same_keywords,
    types,
)

# Keywords that are not analysed: the writer meets the keywords only with the same values.
WHOLE_KEYWORDS = (
    ("$dynamicRef",),
    ("$recursiveRef",),
    ("contains", "minContains", "maxContains"),
    ("dependencies",),
    ("dependentRequired",),
    ("dependentSchemas",),
    ("if", "then", "else"),
    ("propertyNames",),
)
# Keywords that depend on the whole schema: the writer meets the keywords only with the same schema.
UNEVALUATED = ("unevaluatedItems", "unevaluatedProperties")
SIZES = {
    "minLength": "string",
    "maxLength": "string",
    "minItems": "array",
    "maxItems": "array",
    "minProperties": "object",
    "maxProperties": "object",
}

# The path to a part of the value.
Path = tuple[str, ...]
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
            or any(
                "not" in fact.says() and self.fits([part], fact.at(fact.says()["not"]), at)
                for fact in facts
            )
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
            others = [(i, branch) for i, branch in enumerate(branches) if branch is not chosen]
            negations = [
                self._made.setdefault((id(fact.schema), "not", i), {"not": branch.schema})
                for i, branch in others
            ]
            yield [chosen, *map(fact.at, negations)]

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


Check = Callable[[Comparison, Facts, SchemaPart, Path], Iterator[str]]


def shown(at: Path) -> str:
    return "/" + "/".join(at)


def _type(comparison: Comparison, facts: Facts, demand: SchemaPart, at: Path) -> Iterator[str]:
    if "type" in (keywords := demand.says()):
        more = types(facts) - named_types(keywords["type"])
        if more:
            names = sorted("number" if name == "fraction" else name for name in more)
            yield f"{shown(at)}: may be of type {', '.join(names)}, which is not accepted"


def _values(comparison: Comparison, facts: Facts, demand: SchemaPart, at: Path) -> Iterator[str]:
    exact = exact_values(facts)
    for keyword, listed in listed_values(demand):
        if not any(equal(value, allowed) for value in exact for allowed in listed):
            what = f"may be {exact[0]!r}" if exact else "may have another value"
            yield f"{shown(at)}: {what}, which {keyword} does not accept"


def _limits(comparison: Comparison, facts: Facts, demand: SchemaPart, at: Path) -> Iterator[str]:
    for side in ("minimum", "maximum"):
        has = bound(facts, side)
        for limit, is_exclusive in limits_of(demand.says(), side):
            if has is None or _is_looser(side, has, limit, is_exclusive):
                yield f"{shown(at)}: may be beyond the {side} of {limit}"


def _is_looser(side: str, has: tuple[Any, bool], limit: Any, is_exclusive: bool) -> bool:
    if has[0] == limit:
        return is_exclusive and not has[1]
    return bool(has[0] < limit) is (side == "minimum")


def _multiple(comparison: Comparison, facts: Facts, demand: SchemaPart, at: Path) -> Iterator[str]:
    divisor = demand.says().get("multipleOf")
    has = numbers(facts, "multipleOf") + exact_values(facts)
    has += [1] if types(facts) & NUMBERS == {"integer"} else []
    if divisor is not None and not any(divides(divisor, value) for value in has):
        yield f"{shown(at)}: may be no multiple of {divisor}"


def _sizes(comparison: Comparison, facts: Facts, demand: SchemaPart, at: Path) -> Iterator[str]:
    keywords, left = demand.says(), types(facts)
    for keyword, kind in SIZES.items():
        if keyword not in keywords or kind not in left:
            continue
        limit, has = keywords[keyword], numbers(facts, keyword)
        if keyword == "minProperties":
            has.append(len(required(facts)))
        is_least = keyword.startswith("min")
        met = any(value >= limit if is_least else value <= limit for value in has)
        if not met and not (is_least and limit == 0):
            yield f"{shown(at)}: may not keep to {keyword} {limit}"


def _pattern(comparison: Comparison, facts: Facts, demand: SchemaPart, at: Path) -> Iterator[str]:
    pattern = demand.says().get("pattern")
    if pattern is None or any(fact.says().get("pattern") == pattern for fact in facts):
        return
    if not any(finds(pattern, value) for value in exact_values(facts)):
        yield f"{shown(at)}: may not match the pattern {pattern}"


def _unique(comparison: Comparison, facts: Facts, demand: SchemaPart, at: Path) -> Iterator[str]:
    if demand.says().get("uniqueItems") is not True:
        return
    is_unique = any(fact.says().get("uniqueItems") is True for fact in facts)
    if not is_unique and not any(most <= 1 for most in numbers(facts, "maxItems")):
        yield f"{shown(at)}: may have equal items"


def _required(comparison: Comparison, facts: Facts, demand: SchemaPart, at: Path) -> Iterator[str]:
    for name in sorted(set(demand.says().get("required", ())) - required(facts)):
        yield f"{shown(at)}: {name} is required and may be missing"


def _properties(
    comparison: Comparison, facts: Facts, demand: SchemaPart, at: Path
) -> Iterator[str]:
    always = required(facts)
    for name in sorted(named_properties(facts) | named_properties([demand])):
        written = property_facts(facts, name)
        for read in property_facts([demand], name):
            if written or name in always or read.schema is IMPOSSIBLE:
                yield _gap_or_refusal(comparison, written, read, (*at, "properties", name))


def _other_properties(
    comparison: Comparison, facts: Facts, demand: SchemaPart, at: Path
) -> Iterator[str]:
    patterns = demand.says().get("patternProperties", {})
    matched = [
        (pattern, fact.at(schema))
        for fact in facts
        for pattern, schema in fact.says().get("patternProperties", {}).items()
    ]
    rest = other_properties(facts)
    for pattern, schema in patterns.items():
        # Whether a name can match two patterns is not analysed: every pair counts as overlapping.
        for written in [[part] for _, part in matched] + ([rest] if rest else []):
            yield comparison.gap(written, demand.at(schema), (*at, "patternProperties", pattern))
    for read in other_properties([demand]):
        where = (*at, "additionalProperties")
        for pattern, part in matched:
            if pattern not in patterns:
                yield _gap_or_refusal(comparison, [part], read, where)
        yield _gap_or_refusal(comparison, rest, read, where)


def _elements(comparison: Comparison, facts: Facts, demand: SchemaPart, at: Path) -> Iterator[str]:
    first, rest = elements(demand)
    count = max([len(first), *(len(elements(fact)[0]) for fact in facts)])
    most = min(numbers(facts, "maxItems"), default=count + 1)
    for index in range(min(count, most) if first or rest else 0):
        for read in element_facts([demand], index):
            written = element_facts(facts, index)
            yield _gap_or_refusal(comparison, written, read, (*at, "items", str(index)))
    if most > count:
        written = [part for fact in facts for part in elements(fact)[1]]
        for read in rest:
            yield _gap_or_refusal(comparison, written, read, (*at, "items"))


def _gap_or_refusal(comparison: Comparison, written: Facts, read: SchemaPart, at: Path) -> str:
    if read.schema is not IMPOSSIBLE:
        return comparison.gap(written or [read.at(ANYTHING)], read, at)
    return f"{shown(at)}: may be there and is not accepted" if types(conjuncts(written)) else ""


def _not(comparison: Comparison, facts: Facts, demand: SchemaPart, at: Path) -> Iterator[str]:
    keywords = demand.says()
    if "not" in keywords and not comparison.excluded(facts, demand.at(keywords["not"]), at):
        yield f"{shown(at)}: may be what not excludes"


def _any_of(comparison: Comparison, facts: Facts, demand: SchemaPart, at: Path) -> Iterator[str]:
    if "anyOf" in demand.says() and not any(
        comparison.fits(facts, branch, at) for branch in demand.members("anyOf")
    ):
        yield f"{shown(at)}: cannot be shown to match one of anyOf"


def _one_of(comparison: Comparison, facts: Facts, demand: SchemaPart, at: Path) -> Iterator[str]:
    if "oneOf" not in demand.says():
        return
    open_branches = [
        branch for branch in demand.members("oneOf") if not comparison.excluded(facts, branch, at)
    ]
    if len(open_branches) != 1 or not comparison.fits(facts, open_branches[0], at):
        yield f"{shown(at)}: cannot be shown to match exactly one of oneOf"


def _reference(comparison: Comparison, facts: Facts, demand: SchemaPart, at: Path) -> Iterator[str]:
    reference = demand.says().get("$ref")
    if reference is None or demand.target() is not None:
        return
    if not any(fact.says().get("$ref") == reference for fact in facts):
        yield f"{shown(at)}: refers to {reference}, and nothing but the document itself is read"


def _whole(comparison: Comparison, facts: Facts, demand: SchemaPart, at: Path) -> Iterator[str]:
    keywords = demand.says()
    for group in WHOLE_KEYWORDS:
        if group[0] in keywords and not any(same_keywords(fact, demand, group) for fact in facts):
            yield f"{shown(at)}: {group[0]} is not the same"
    for keyword in UNEVALUATED:
        if keyword in keywords and keywords[keyword] is not True:
            yield f"{shown(at)}: {keyword} cannot be compared"


# The checks, each with the types of the values to which the check applies.
CHECKS: Final[tuple[tuple[Check, frozenset[str]], ...]] = (
    (_reference, ANY_TYPE),
    (_type, ANY_TYPE),
    (_values, ANY_TYPE),
    (_limits, NUMBERS),
    (_multiple, NUMBERS),
    (_sizes, ANY_TYPE),
    (_pattern, TYPES["string"]),
    (_unique, TYPES["array"]),
    (_required, TYPES["object"]),
    (_properties, TYPES["object"]),
    (_other_properties, TYPES["object"]),
    (_elements, TYPES["array"]),
    (_not, ANY_TYPE),
    (_any_of, ANY_TYPE),
    (_one_of, ANY_TYPE),
    (_whole, ANY_TYPE),
)
