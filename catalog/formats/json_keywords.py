"""The checks of the keywords of a reader's schema against the facts of the writer's values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol

from catalog.formats.json_assertions import (
    ANY_TYPE,
    ANYTHING,
    IMPOSSIBLE,
    NUMBERS,
    TYPES,
    Facts,
    SchemaPart,
    bound,
    conjuncts,
    divides,
    element_facts,
    element_of,
    elements,
    equal,
    exact_values,
    finds,
    limits_of,
    listed_values,
    named_properties,
    named_types,
    numbers,
    other_properties,
    property_facts,
    property_of,
    required,
    types,
)
from catalog.formats.json_sameness import same_keywords

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


class Prover(Protocol):
    """The comparison of two schemas, as the checks of keywords use the comparison."""

    def gap(self, writer: Facts, reader: SchemaPart, at: Path) -> str: ...
    def fits(self, writer: Facts, reader: SchemaPart, at: Path) -> bool: ...
    def excluded(self, facts: Facts, part: SchemaPart, at: Path) -> bool: ...


Check = Callable[[Prover, Facts, SchemaPart, Path], Iterator[str]]


def shown(at: Path) -> str:
    return "/" + "/".join(at)


def _type(prover: Prover, facts: Facts, demand: SchemaPart, at: Path) -> Iterator[str]:
    if "type" in (keywords := demand.says()):
        more = types(facts) - named_types(keywords["type"])
        if more:
            names = sorted("number" if name == "fraction" else name for name in more)
            yield f"{shown(at)}: may be of type {', '.join(names)}, which is not accepted"


def _values(prover: Prover, facts: Facts, demand: SchemaPart, at: Path) -> Iterator[str]:
    exact = exact_values(facts)
    for keyword, listed in listed_values(demand):
        if not any(equal(value, allowed) for value in exact for allowed in listed):
            what = f"may be {exact[0]!r}" if exact else "may have another value"
            yield f"{shown(at)}: {what}, which {keyword} does not accept"


def _limits(prover: Prover, facts: Facts, demand: SchemaPart, at: Path) -> Iterator[str]:
    for side in ("minimum", "maximum"):
        has = bound(facts, side)
        for limit, is_exclusive in limits_of(demand.says(), side):
            if has is None or _is_looser(side, has, limit, is_exclusive):
                yield f"{shown(at)}: may be beyond the {side} of {limit}"


def _is_looser(side: str, has: tuple[Any, bool], limit: Any, is_exclusive: bool) -> bool:
    if has[0] == limit:
        return is_exclusive and not has[1]
    return bool(has[0] < limit) is (side == "minimum")


def _multiple(prover: Prover, facts: Facts, demand: SchemaPart, at: Path) -> Iterator[str]:
    divisor = demand.says().get("multipleOf")
    has = numbers(facts, "multipleOf") + exact_values(facts)
    has += [1] if types(facts) & NUMBERS == {"integer"} else []
    if divisor is not None and not any(divides(divisor, value) for value in has):
        yield f"{shown(at)}: may be no multiple of {divisor}"


def _sizes(prover: Prover, facts: Facts, demand: SchemaPart, at: Path) -> Iterator[str]:
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


def _pattern(prover: Prover, facts: Facts, demand: SchemaPart, at: Path) -> Iterator[str]:
    pattern = demand.says().get("pattern")
    if pattern is None or any(fact.says().get("pattern") == pattern for fact in facts):
        return
    if not any(finds(pattern, value) for value in exact_values(facts)):
        yield f"{shown(at)}: may not match the pattern {pattern}"


def _unique(prover: Prover, facts: Facts, demand: SchemaPart, at: Path) -> Iterator[str]:
    if demand.says().get("uniqueItems") is not True:
        return
    is_unique = any(fact.says().get("uniqueItems") is True for fact in facts)
    if not is_unique and not any(most <= 1 for most in numbers(facts, "maxItems")):
        yield f"{shown(at)}: may have equal items"


def _required(prover: Prover, facts: Facts, demand: SchemaPart, at: Path) -> Iterator[str]:
    for name in sorted(set(demand.says().get("required", ())) - required(facts)):
        yield f"{shown(at)}: {name} is required and may be missing"


def _properties(prover: Prover, facts: Facts, demand: SchemaPart, at: Path) -> Iterator[str]:
    always = required(facts)
    for name in sorted(named_properties(facts) | named_properties([demand])):
        written = property_facts(facts, name)
        for read in property_of(demand, name):
            if written or name in always or read.schema is IMPOSSIBLE:
                yield _gap_or_refusal(prover, written, read, (*at, "properties", name))


def _other_properties(prover: Prover, facts: Facts, demand: SchemaPart, at: Path) -> Iterator[str]:
    patterns = demand.says().get("patternProperties", {})
    matched, rest = [*_matched(facts)], other_properties(facts)
    for pattern, schema in patterns.items():
        # Whether a name can match two patterns is not analysed: every pair counts as overlapping.
        for written in [[part] for _, part in matched] + ([rest] if rest else []):
            yield prover.gap(written, demand.at(schema), (*at, "patternProperties", pattern))
    for read in other_properties([demand]):
        where = (*at, "additionalProperties")
        for pattern, part in matched:
            if pattern not in patterns:
                yield _gap_or_refusal(prover, [part], read, where)
        yield _gap_or_refusal(prover, rest, read, where)


def _matched(facts: Facts) -> Iterator[tuple[str, SchemaPart]]:
    for fact in facts:
        for pattern, schema in fact.says().get("patternProperties", {}).items():
            yield pattern, fact.at(schema)


def _elements(prover: Prover, facts: Facts, demand: SchemaPart, at: Path) -> Iterator[str]:
    first, rest = elements(demand)
    count = max([len(first), *(len(elements(fact)[0]) for fact in facts)])
    most = min(numbers(facts, "maxItems"), default=count + 1)
    for index in range(min(count, most) if first or rest else 0):
        for read in element_of(demand, index):
            written = element_facts(facts, index)
            yield _gap_or_refusal(prover, written, read, (*at, "items", str(index)))
    if most > count:
        written = [part for fact in facts for part in elements(fact)[1]]
        for read in rest:
            yield _gap_or_refusal(prover, written, read, (*at, "items"))


def _gap_or_refusal(prover: Prover, written: Facts, read: SchemaPart, at: Path) -> str:
    if read.schema is not IMPOSSIBLE:
        return prover.gap(written or [read.at(ANYTHING)], read, at)
    return f"{shown(at)}: may be there and is not accepted" if types(conjuncts(written)) else ""


def _not(prover: Prover, facts: Facts, demand: SchemaPart, at: Path) -> Iterator[str]:
    keywords = demand.says()
    if "not" in keywords and not prover.excluded(facts, demand.at(keywords["not"]), at):
        yield f"{shown(at)}: may be what not excludes"


def _any_of(prover: Prover, facts: Facts, demand: SchemaPart, at: Path) -> Iterator[str]:
    if "anyOf" in demand.says() and not any(
        prover.fits(facts, branch, at) for branch in demand.members("anyOf")
    ):
        yield f"{shown(at)}: cannot be shown to match one of anyOf"


def _one_of(prover: Prover, facts: Facts, demand: SchemaPart, at: Path) -> Iterator[str]:
    if "oneOf" not in demand.says():
        return
    open_branches = [
        branch for branch in demand.members("oneOf") if not prover.excluded(facts, branch, at)
    ]
    if len(open_branches) != 1 or not prover.fits(facts, open_branches[0], at):
        yield f"{shown(at)}: cannot be shown to match exactly one of oneOf"


def _reference(prover: Prover, facts: Facts, demand: SchemaPart, at: Path) -> Iterator[str]:
    reference = demand.says().get("$ref")
    if reference is None or demand.target() is not None:
        return
    if not any(fact.says().get("$ref") == reference for fact in facts):
        yield f"{shown(at)}: refers to {reference}, and nothing but the document itself is read"


def _whole(prover: Prover, facts: Facts, demand: SchemaPart, at: Path) -> Iterator[str]:
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
