"""Writes filters and sorts as jsonpath over the documents of the view `shown`.

A condition is a single text, bound as a parameter; clients' values are only in literals. The
statement lowers the case of the condition and of the documents, so strings compare without case. In
strict mode, jsonpath does not unwrap arrays, and a missing path is an error, which makes the
predicate false.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import reduce
from operator import ge, gt, le, lt, or_

import orjson

from catalog.model.attributereference import ABSENT, ANY, AttributeReference
from catalog.model.dotpath import Every, Index, Key, Step
from catalog.model.filter import FilterExpression, Operator, Sort, is_number, read_time
from catalog.model.schema import NUMBERS

_TRUE = "1 == 1"
_FALSE = "1 == 2"
_MOST_NAMES = 4  # As many as search_part takes.
_FACTS = frozenset({"xid", "epoch", "createdat", "modifiedat", "isdefault", "authority"})
_HAS_EPOCH = 'exists($."$meta"."epoch" ? (@ != null))'
_SPECIAL = re.compile(r"[\\^$.|?*+()\[\]{}]")


class JsonSource(Enum):
    """The part of a document that holds an attribute."""

    IDS = "ids"
    ATTRIBUTES = "attributes"
    FACTS = "facts"
    META = "meta"


@dataclass(frozen=True, slots=True, kw_only=True)
class PathPart:
    """The parts of documents that a condition needs.

    The parts are the attributes of the given names (`None`: all), the columns of rows, and meta
    entities.
    """

    names: tuple[str, ...] | None = ()
    facts: bool = False
    meta: bool = False

    def __or__(self, other: PathPart) -> PathPart:
        names = None
        if self.names is not None and other.names is not None:
            names = tuple(sorted({*self.names, *other.names}))
        return PathPart(
            names=None if names is None or len(names) > _MOST_NAMES else names,
            facts=self.facts or other.facts,
            meta=self.meta or other.meta,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A condition on the entities of a collection; every entity meets a condition without a `path`.

    `part` is the part of the documents that the condition needs. `lookup` is a condition by which
    the search index finds candidates; empty if the index cannot.
    """

    path: str | None = None
    part: PathPart = PathPart()
    lookup: str = ""

    @property
    def is_trivial(self) -> bool:
        return self.path is None


def condition_of(expressions: Iterable[FilterExpression]) -> Condition:
    """The condition that every expression holds."""
    written = list(expressions)
    if not written:
        return Condition()
    predicates = [_predicate(expression) for expression in written]
    found = [p for e, p in zip(written, predicates, strict=True) if _is_in_index(e)]
    return Condition(
        path=f"strict {_joined(predicates, '&&')}",
        part=reduce(or_, (_part(expression.reference) for expression in written), PathPart()),
        lookup=f"strict {_joined(found, '&&')}" if found else "",
    )


def any_of(conditions: Sequence[Condition]) -> Condition:
    """The condition that at least one of the given conditions holds."""
    if len(conditions) == 1:
        return conditions[0]
    paths = [condition.path.removeprefix("strict ") for condition in conditions if condition.path]
    # A condition without a path always holds, and so does the disjunction.
    if len(paths) < len(conditions):
        return Condition()
    lookups = [condition.lookup.removeprefix("strict ") for condition in conditions]
    return Condition(
        path=f"strict {_joined(paths, '||') or _FALSE}",
        part=reduce(or_, (condition.part for condition in conditions), PathPart()),
        lookup=f"strict {_joined(lookups, '||')}" if lookups and all(lookups) else "",
    )


def within(lookup: str, collection: str) -> str:
    """Limit a `lookup` to a collection and everything below the collection.

    Args:
        collection: a collection of groups, of resources, or of the versions of a resource.
    """
    parts = collection.split("/")
    place = f'$."$in" == {_quoted("/".join(parts[:4]))}'
    if len(parts) > 4:
        place += f' && $."$id" == {_quoted(parts[4])}'
    return f"strict ({lookup.removeprefix('strict ')}) && {place}"


def sort_path(sort: Sort) -> tuple[str, PathPart]:
    """The path of a sort's values, and the part of the document with the values."""
    steps, _ = _place(sort.reference)
    return f"strict ${''.join(map(_accessor, steps))}", _part(sort.reference)


def _joined(predicates: Sequence[str], operator: str) -> str:
    return f" {operator} ".join(f"({predicate})" for predicate in predicates)


def _place(reference: AttributeReference) -> tuple[list[Step], JsonSource]:
    """The path of an attribute in a document, and its source."""
    first, *rest = reference.steps
    assert isinstance(first, Key), "attributes are named"
    place = reference.place
    if place.kind != "registry" and first.name == f"{place.singular}id":
        return [Key("$id"), *rest], JsonSource.IDS
    if reference.is_meta:
        name = "$authority" if first.name == "authority" else first.name
        return [Key("$meta"), Key(name), *rest], JsonSource.META
    if place.resources and first.name == "versionid":
        return [Key("$vid"), *rest], JsonSource.IDS
    if first.name == "authority":
        return [Key("$authority"), *rest], JsonSource.FACTS
    return [first, *rest], JsonSource.FACTS if first.name in _FACTS else JsonSource.ATTRIBUTES


def _part(reference: AttributeReference) -> PathPart:
    steps, source = _place(reference)
    first = steps[0]
    if source is JsonSource.ATTRIBUTES and isinstance(first, Key):
        return PathPart(names=(first.name,))
    return PathPart(facts=source is JsonSource.FACTS, meta=source is JsonSource.META)


def _is_in_index(expression: FilterExpression) -> bool:
    """Whether the search index finds the matches: equalities at plain paths."""
    steps, source = _place(expression.reference)
    is_minus = is_number(expression.pieces[0]) and expression.pieces[0].startswith("-")
    return (
        expression.operator == "="
        and len(expression.pieces) == 1
        and source in (JsonSource.IDS, JsonSource.ATTRIBUTES)
        and not is_minus
        and Every.KEY not in steps
        and expression.reference.type != ABSENT
    )


def _predicate(expression: FilterExpression) -> str:
    reference = expression.reference
    if reference.is_meta and reference.steps == (Key("readonly"),):
        return _readonly(expression)
    operator = expression.operator
    negated = operator in ("absent", "!=")
    found = _FALSE
    if reference.type != ABSENT:
        test = _test(reference.type, _POSITIVE.get(operator, operator), expression.pieces)
        if reference.steps == (Key("authority"),):
            test = f"@ != $own && ({test})"
        found = _exists("$", _place(reference)[0], test)
    return f"!(exists($ ? ({found})))" if negated else found


_POSITIVE: dict[Operator, Operator] = {"absent": "present", "!=": "="}


def _readonly(expression: FilterExpression) -> str:
    """The predicate for `readonly`, which a dangling cross reference (no epoch) does not show."""
    if expression.operator in ("absent", "!="):
        return f"!({_HAS_EPOCH}) || ({_is_readonly(expression)})"
    return f"{_HAS_EPOCH} && ({_is_readonly(expression)})"


def _is_readonly(expression: FilterExpression) -> str:
    """The predicate for the value of `readonly`: true unless this node is the authority."""
    fitting = [value for value in (False, True) if _fits(expression, value)]
    if len(fitting) != 1:
        return _TRUE if fitting else _FALSE
    sign = "!=" if fitting[0] else "=="
    return f'exists($."$meta"."$authority" ? (@ {sign} $own))'


_COMPARISONS = {"<": lt, "<=": le, ">": gt, ">=": ge}


def _fits(expression: FilterExpression, value: bool) -> bool:
    operator, pieces = expression.operator, expression.pieces
    if operator in ("present", "absent"):
        return operator == "present"
    if operator in ("=", "!="):
        return (pieces == ("true" if value else "false",)) == (operator == "=")
    return bool(_COMPARISONS[operator](value, pieces[0] == "true"))


def _exists(root: str, steps: Sequence[Step], test: str) -> str:
    """The predicate that a value at a path passes a test.

    Below a wildcard, each item is tested alone, so that an item without the path is no error for
    the rest of the items.
    """
    path = root
    for number, step in enumerate(steps, 1):
        path += _accessor(step)
        if isinstance(step, Every) and number < len(steps):
            return f"exists({path} ? ({_exists('@', steps[number:], test)}))"
    return f"exists({path} ? ({test}))"


def _accessor(step: Step) -> str:
    if isinstance(step, Key):
        return f".{_quoted(step.name)}"
    return f"[{step.number}]" if isinstance(step, Index) else step.value


def _test(type: str, operator: Operator, pieces: tuple[str, ...]) -> str:
    if operator == "present":
        return "@ != null"
    sign = "==" if operator == "=" else operator
    value = pieces[0]
    if len(pieces) > 1:
        return _FALSE if type in NUMBERS or type == "boolean" else _like(pieces)
    if type in NUMBERS:
        return f"@ {sign} {value}" if is_number(value) else _FALSE
    if type == "boolean":
        return f"@ {sign} {value}" if value in ("true", "false") else _FALSE
    if type == "timestamp":
        return _time(operator, value)
    as_text = f"@ {sign} {_quoted(value)}"
    if type == ANY and (is_number(value) or value in ("true", "false")):
        return f"@ {sign} {value} || {as_text}"
    return as_text


def _like(pieces: tuple[str, ...]) -> str:
    if len(pieces) == 2 and not pieces[1]:
        return f"@ starts with {_quoted(pieces[0])}"
    pattern = ".*".join(_SPECIAL.sub(r"\\\g<0>", piece) for piece in pieces)
    return f'@ like_regex {_quoted(f"^{pattern}$")} flag "s"'


def _time(operator: Operator, value: str) -> str:
    """The test of a time. Times are stored as texts in UTC, without trailing zeros, ending in Z.

    Texts sort as times unless one text has more digits than the other: so the shorter times within
    the same second are compared individually.
    """
    try:
        exact = read_time(value)
    except ValueError:
        return _FALSE
    second, _, fraction = exact.removesuffix("Z").partition(".")
    shorter = [f"{second}.{fraction[:n]}Z" for n in range(1, len(fraction))]
    earlier = [*([f"{second}Z"] if fraction else []), *shorter]
    equal = f"@ == {_quoted(exact)}"
    before = " || ".join(
        f"@ {sign} {_quoted(text)}"
        for sign, text in [("<", exact.removesuffix("Z")), *(("==", time) for time in earlier)]
    )
    tests = {
        "<": before,
        "<=": f"{before} || {equal}",
        ">": f"@ > {_quoted(second)} && !({before} || {equal})",
        ">=": f"@ >= {_quoted(second)} && !({before})",
    }
    return tests.get(operator, equal)


def _quoted(text: str) -> str:
    return orjson.dumps(text).decode()
