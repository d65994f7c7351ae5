"""Parses the values of `?filter` and `?sort` against a model.

Sources: core/spec.md, "Filter Flag" and "Sort Flag"; core/http.md, "?filter Flag". A comma in
a value is written `\\,`, since a plain comma ends the expression.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

from catalog.model.attributereference import ABSENT, ANY, AttributeReference, EntityKind, resolve
from catalog.model.dotpath import Every, Key, Step, read_path, write_path
from catalog.model.errors import BadFilter, BadSort
from catalog.model.schema import NUMBERS, SCALARS
from catalog.model.timestamps import normal_time

EXCLUDE_ALL = "excludeall"
MOST_FILTERS = 32
MOST_EXPRESSIONS = 64
MOST_WILDCARDS = 16
LONGEST = 4096
_LONGEST_TIME = 40

Operator: TypeAlias = Literal["present", "absent", "=", "!=", "<", "<=", ">", ">="]

_OPERATOR = re.compile(r"!=|<>|<=|>=|=|<|>")
_VALUE = re.compile(r"(?:[^,\\]|\\.|\\$)*", re.DOTALL)
_ESCAPE = re.compile(r"\\([*,\\])|(\*)")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,39})(?:\.[0-9]{1,40})?(?:[eE][+-]?[0-9]{1,2})?")


def is_number(text: str) -> bool:
    """Whether a value is a number in the syntax of JSON."""
    return _NUMBER.fullmatch(text) is not None


def read_time(text: str) -> str:
    """Convert a timestamp to UTC, without trailing zeros.

    Raises:
        ValueError: the text is no timestamp.
    """
    if len(text) > _LONGEST_TIME:
        raise ValueError("it is longer than any timestamp that is kept")
    return normal_time(text)


@dataclass(frozen=True, slots=True)
class FilterExpression:
    """A comparison; `condition` is the text of operator and value.

    `pieces` is the value, cut at the wildcards: a single piece is the whole value.
    """

    reference: AttributeReference
    operator: Operator
    pieces: tuple[str, ...]
    condition: str

    @property
    def depth(self) -> int:
        return len(self.reference.chain)

    def text_below(self, depth: int) -> str:
        """The text of the expression for a request to a collection `depth` levels further down."""
        chain: list[Step] = [Key(name) for name in self.reference.chain[depth:]]
        meta: list[Step] = [Key("meta")] if self.reference.is_meta else []
        return write_path([*chain, *meta, *self.reference.steps]) + self.condition


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """Expressions combined by AND, along a chain of collections.

    Level 0 is the entity at which paths begin; matches are on the level of the end of `chain`.
    Collections of different chains have no entities in common: a clause with expressions about both
    is not `is_possible`.
    """

    chain: tuple[str, ...]
    expressions: tuple[FilterExpression, ...]
    is_possible: bool

    def at(self, depth: int) -> list[FilterExpression]:
        return [e for e in self.expressions if e.depth == depth]

    def text_below(self, depth: int) -> str:
        """The text of the clause for the URL of the collection `depth` steps down the chain."""
        return ",".join(e.text_below(depth) for e in self.expressions if e.depth >= depth)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """The filters of a request: one matching clause is enough. Without clauses, nothing matches."""

    clauses: tuple[Clause, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether the only clause is about the entities themselves."""
        return len(self.clauses) == 1 and not self.clauses[0].chain


@dataclass(frozen=True, slots=True, kw_only=True)
class Sort:
    """The order of a collection; ties are in the order of ids."""

    reference: AttributeReference
    is_descending: bool = False

    @property
    def key(self) -> str:
        """The name of an own attribute of the entity, else an empty text."""
        steps = self.reference.steps
        is_own = len(steps) == 1 and not self.reference.is_meta
        return steps[0].name if is_own and isinstance(steps[0], Key) else ""

    @property
    def is_by_id(self) -> bool:
        place = self.reference.place
        return self.key == ("versionid" if place.versions else f"{place.singular}id")


def parse_filters(
    texts: Sequence[str], place: EntityKind, *, meta: bool = False, subject: str = "/"
) -> Filters:
    """Parse the values of `?filter` of one request for entities of a kind.

    Args:
        meta: whether the request is for the meta entity of a resource.

    Raises:
        BadFilter: an expression is wrong; the error quotes the expression.
    """
    if len(texts) > MOST_FILTERS:
        detail = f"a request has at most {MOST_FILTERS}"
        raise BadFilter(subject, value=_quotable(texts[MOST_FILTERS]), error_detail=detail)
    # Beside other expressions, the word would be read as the name of an attribute.
    if any(EXCLUDE_ALL in text.split(",") for text in texts):
        if list(texts) != [EXCLUDE_ALL]:
            raise BadFilter(subject, value=EXCLUDE_ALL, error_detail="it is used alone")
        return Filters()
    start: list[Step] = [Key("meta")] if meta else []
    clauses: list[Clause] = []
    count = 0
    for text in texts:
        expressions = tuple(_read_expressions(text, place, subject, start))
        count += len(expressions)
        if count > MOST_EXPRESSIONS:
            detail = f"a request has at most {MOST_EXPRESSIONS} expressions"
            raise BadFilter(subject, value=_quotable(text), error_detail=detail)
        chain = max((e.reference.chain for e in expressions), key=len)
        is_possible = all(chain[: e.depth] == e.reference.chain for e in expressions)
        clauses.append(Clause(chain=chain, expressions=expressions, is_possible=is_possible))
    return Filters(clauses=tuple(clauses))


def _read_expressions(
    text: str, place: EntityKind, subject: str, start: Sequence[Step]
) -> Iterator[FilterExpression]:
    if len(text) > LONGEST:
        raise BadFilter(subject, value=f"{_quotable(text[:60])}…", error_detail="it is too long")
    at = 0
    while at <= len(text):
        rest = _VALUE.match(text, at)
        try:
            if not _is_storable(text):
                raise ValueError("it has a character that no value can have")
            steps, end = read_path(text, at)
            expression, at = _read_condition(text, end, resolve(place, [*start, *steps]))
        except ValueError as error:
            shown = rest[0] if rest else text
            raise BadFilter(subject, value=_quotable(shown), error_detail=str(error)) from error
        yield expression
        at += 1


def _read_condition(
    text: str, at: int, reference: AttributeReference
) -> tuple[FilterExpression, int]:
    """Read an operator and a value, and return the end: at a comma, or at the end of the text."""
    operator = _OPERATOR.match(text, at)
    if operator is None:
        if text[at : at + 1] not in ("", ","):
            raise ValueError(f'it has "{text[at]}" where an operator belongs')
        return FilterExpression(reference, "present", ("",), ""), at
    value = _VALUE.match(text, operator.end())
    assert value is not None, "it matches the empty text"
    condition = operator[0] + value[0]
    match operator[0], value[0]:
        case "=", "null":
            found = FilterExpression(reference, "absent", ("",), condition)
        case "!=" | "<>", "null":
            found = FilterExpression(reference, "present", ("",), condition)
        case "=" | "!=" | "<>" as sign, written:
            found = _equality(reference, "=" if sign == "=" else "!=", written, condition)
        case _, written:
            found = _comparison(reference, operator[0], written, condition)
    return found, value.end()


def _equality(
    reference: AttributeReference, operator: Operator, written: str, condition: str
) -> FilterExpression:
    pieces = _pieces(written)
    if len(pieces) > 1 and not any(pieces):
        existence: Operator = "present" if operator == "=" else "absent"
        return FilterExpression(reference, existence, ("",), condition)
    _check_scalar(reference)
    return FilterExpression(reference, operator, pieces, condition)


def _comparison(
    reference: AttributeReference, sign: str, written: str, condition: str
) -> FilterExpression:
    pieces = _pieces(written)
    if written == "null":
        raise ValueError("null has no order")
    if len(pieces) > 1:
        raise ValueError(f'wildcards have no meaning after "{sign}"')
    _check_scalar(reference)
    if not _is_comparable(reference.type, pieces[0]):
        raise ValueError(f"it compares a value of type {reference.type} with another one")
    return FilterExpression(reference, cast(Operator, sign), pieces, condition)


def _check_scalar(reference: AttributeReference) -> None:
    if reference.type not in {*SCALARS, ANY, ABSENT}:
        raise ValueError(f"it compares a value with an attribute of type {reference.type}")


def _is_comparable(type: str, value: str) -> bool:
    if type in NUMBERS:
        return is_number(value)
    if type == "timestamp":
        try:
            read_time(value)
        except ValueError:
            return False
    return type != "boolean" or value in ("true", "false")


def _pieces(written: str) -> tuple[str, ...]:
    """Cut a value at the wildcards, and undo escapes."""
    pieces = [""]
    at = 0
    for found in _ESCAPE.finditer(written):
        pieces[-1] += written[at : found.start()] + (found[1] or "")
        if found[2]:
            pieces.append("")
        at = found.end()
    pieces[-1] += written[at:]
    if len(pieces) > MOST_WILDCARDS + 1:
        raise ValueError(f"a value has at most {MOST_WILDCARDS} wildcards")
    return tuple(pieces)


def parse_sort(text: str, place: EntityKind, *, subject: str = "/") -> Sort:
    """Parse the value of `?sort` of a request for a collection; a wrong value is a BadSort."""
    try:
        if len(text) > LONGEST or not _is_storable(text):
            raise ValueError("it is too long, or has a character that no name can have")
        steps, end = read_path(text)
        if text[end:] not in ("", "=asc", "=desc"):
            raise ValueError('only "=asc" or "=desc" may follow the attribute')
        reference = resolve(place, steps)
        if reference.chain:
            raise ValueError("it leads into another collection")
        if any(isinstance(step, Every) for step in reference.steps):
            raise ValueError("it names more than one value")
        if reference.type not in {*SCALARS, ANY}:
            raise ValueError("it names no scalar attribute")
    except ValueError as error:
        raise BadSort(subject, value=_quotable(text), error_detail=str(error)) from error
    return Sort(reference=reference, is_descending=text[end:] == "=desc")


def _is_storable(text: str) -> bool:
    return "\x00" not in text and not any("\ud800" <= char <= "\udfff" for char in text)


def _quotable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
