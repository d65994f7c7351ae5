"""Writes expressions of filters and sorts as jsonpath over what the view `shown` has.

A condition is one text, bound as a parameter: what users write is in its literals only. The
statement puts it into lower case, as the documents are, so strings compare without case.
Strict mode keeps `jsonpath` from looking into arrays unasked; a path that leads nowhere is
then an error, which counts as false where it occurs: each predicate is true or false alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import reduce
from operator import or_

import orjson

from catalog.model.attributereference import ABSENT, ANY, AttributeReference
from catalog.model.dotpath import Every, Index, Key, Step
from catalog.model.filter import Expression, Operator, Sort, is_number, read_time
from catalog.model.schema import NUMBERS

_TRUE = "1 == 1"
_FALSE = "1 == 2"
_MOST_NAMES = 4  # As many as search_part takes.
_FACTS = frozenset({"xid", "epoch", "createdat", "modifiedat", "isdefault", "authority"})
_HAS_EPOCH = 'exists($."$meta"."epoch" ? (@ != null))'
_SPECIAL = re.compile(r"[\\^$.|?*+()\[\]{}]")


class JsonSource(Enum):
    """Where something is said of an entity."""

    IDS = "ids"
    ATTRIBUTES = "attributes"
    FACTS = "facts"
    META = "meta"


@dataclass(frozen=True, slots=True, kw_only=True)
class PathPart:
    """As much of entities as is needed: the attributes of these names (`None`: all of them),
    what their rows' columns say, and their meta entities."""

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
    """What entities of one collection have to meet; without a `path` all of them do.

    `part` is what it is about. `lookup` is a condition that the search index finds the
    candidates by; nothing if it can find none.
    """

    path: str | None = None
    part: PathPart = PathPart()
    lookup: str = ""

    @property
    def is_trivial(self) -> bool:
        return self.path is None


def condition_of(expressions: Iterable[Expression]) -> Condition:
    """All of these hold."""
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
    """One of these is met."""
    if len(conditions) == 1:
        return conditions[0]
    paths = [condition.path.removeprefix("strict ") for condition in conditions if condition.path]
    if len(paths) < len(conditions):
        return Condition()
    lookups = [condition.lookup.removeprefix("strict ") for condition in conditions]
    return Condition(
        path=f"strict {_joined(paths, '||') or _FALSE}",
        part=reduce(or_, (condition.part for condition in conditions), PathPart()),
        lookup=f"strict {_joined(lookups, '||')}" if lookups and all(lookups) else "",
    )


def within(lookup: str, collection: str) -> str:
    """A `lookup` of what is in a collection, or below it.

    Args:
        collection: of groups or resources, or the versions of one resource.
    """
    parts = collection.split("/")
    place = f'$."$in" == {_quoted("/".join(parts[:4]))}'
    if len(parts) > 4:
        place += f' && $."$id" == {_quoted(parts[4])}'
    return f"strict ({lookup.removeprefix('strict ')}) && {place}"


def sort_path(sort: Sort) -> tuple[str, PathPart]:
    """Where a sort's values are, and what that is part of."""
    steps, _ = _place(sort.reference)
    return f"strict ${''.join(map(_accessor, steps))}", _part(sort.reference)


def _joined(predicates: Sequence[str], operator: str) -> str:
    return f" {operator} ".join(f"({predicate})" for predicate in predicates)


def _place(reference: AttributeReference) -> tuple[list[Step], JsonSource]:
    """The path of an attribute in what is searched."""
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
    match source, steps[0]:
        case JsonSource.ATTRIBUTES, Key(name):
            return PathPart(names=(name,))
        case JsonSource.FACTS, _:
            return PathPart(facts=True)
        case JsonSource.META, _:
            return PathPart(meta=True)
    return PathPart()


def _is_in_index(expression: Expression) -> bool:
    """Whether the search index has the places of its matches: equalities at plain paths."""
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


def _predicate(expression: Expression) -> str:
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


def _readonly(expression: Expression) -> str:
    """What has an epoch is read-only or not; a cross reference that dangles shows neither."""
    if expression.operator in ("absent", "!="):
        return f"!({_HAS_EPOCH}) || ({_is_readonly(expression)})"
    return f"{_HAS_EPOCH} && ({_is_readonly(expression)})"


def _is_readonly(expression: Expression) -> str:
    """Replicas are read-only: those whose authority is another one."""
    names = {True: "true", False: "false"}
    fitting = {value for value, name in names.items() if _fits(expression, value, name)}
    match sorted(fitting):
        case [False, True]:
            return _TRUE
        case []:
            return _FALSE
        case [is_readonly]:
            sign = "!=" if is_readonly else "=="
            return f'exists($."$meta"."$authority" ? (@ {sign} $own))'
    raise AssertionError("there are two truth values")


def _fits(expression: Expression, value: bool, name: str) -> bool:
    other = expression.pieces[0] == "true"
    match expression.operator:
        case "present":
            return True
        case "absent":
            return False
        case "=":
            return expression.pieces == (name,)
        case "!=":
            return expression.pieces != (name,)
        case "<":
            return value < other
        case "<=":
            return value <= other
        case ">":
            return value > other
        case ">=":
            return value >= other


def _exists(root: str, steps: Sequence[Step], test: str) -> str:
    """Something at a path passes a test. What lies beyond a wildcard is looked for in each
    item alone: one that has no such thing must not spoil the others."""
    path = root
    for number, step in enumerate(steps, 1):
        path += _accessor(step)
        if isinstance(step, Every) and number < len(steps):
            return f"exists({path} ? ({_exists('@', steps[number:], test)}))"
    return f"exists({path} ? ({test}))"


def _accessor(step: Step) -> str:
    match step:
        case Key(name):
            return f".{_quoted(name)}"
        case Index(number):
            return f"[{number}]"
        case _:
            return step.value


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
    """Times are kept in UTC without trailing zeros, as texts that end with a Z.

    So texts are in the order of time but where one has more digits than the other: of the
    times in the same second, those that are cut shorter are named one by one.
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
    match operator:
        case "<":
            return before
        case "<=":
            return f"{before} || {equal}"
        case ">":
            return f"@ > {_quoted(second)} && !({before} || {equal})"
        case ">=":
            return f"@ >= {_quoted(second)} && !({before})"
        case _:
            return equal


def _quoted(text: str) -> str:
    return orjson.dumps(text).decode()
