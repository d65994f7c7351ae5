"""The filters of subscriptions (subscriptions-spec.md 3.2.4): compiled to predicates, and indexed.

The index finds the few subscribers whose filters an event can match, without trying every filter.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from catalog import cesql
from catalog.subscriptions.stored.subscriptions import SubscriptionDefinition

Predicate = Callable[[Mapping[str, str]], bool]
"""Takes the context attributes of an event as text."""

MAX_DEPTH = 16
MAX_TEXT = 2048

_COMPARISONS: Mapping[str, Callable[[str, str], bool]] = {
    "exact": str.__eq__,
    "prefix": str.startswith,
    "suffix": str.endswith,
}
_DIALECTS = (*_COMPARISONS, "all", "any", "not", "sql")
_ATTRIBUTE_NAME = re.compile(r"[a-z0-9]{1,64}")
_Subscriber = TypeVar("_Subscriber")


class FilterError(ValueError):
    """A filter that is malformed, too deep, or of an unsupported dialect."""


def count_conditions(filters: Any) -> int:
    """The number of expressions in filters, plus the number of compared attributes.

    The depth of `filters`, JSON of arbitrary form, is bounded by the body of a request.
    """
    if isinstance(filters, Mapping):
        return sum(1 + count_conditions(value) for value in filters.values())
    if isinstance(filters, list):
        return sum(map(count_conditions, filters))
    return 0


def compile_filters(
    filters: Sequence[Any], *, types: Sequence[str] = (), source: str | None = None
) -> Predicate:
    """A predicate that tells whether an event is to be delivered.

    Args:
        filters: filter expressions that an event has to match; if empty, every event passes.
        types: the event types that pass; if empty, every type passes.
        source: the event source that passes; `None` lets every source pass.

    Raises:
        FilterError: the reason, as a sentence for the user.
    """
    wanted = [_compiled(expression) for expression in filters]
    if types:
        wanted.insert(0, _is_one_of("type", frozenset(types)))
    if source is not None:
        wanted.insert(0, _is_one_of("source", frozenset({source})))
    return _all(wanted)


def _compiled(expression: Any, depth: int = 1) -> Predicate:
    if depth > MAX_DEPTH:
        raise FilterError(f"filters can't be nested deeper than {MAX_DEPTH}")
    if not isinstance(expression, Mapping) or len(expression) != 1:
        raise FilterError("a filter expression is an object with one dialect as its only key")
    [(dialect, value)] = expression.items()
    match dialect:
        case "exact" | "prefix" | "suffix":
            return _comparison(dialect, _COMPARISONS[dialect], value)
        case "all" | "any":
            if not isinstance(value, list) or not value:
                raise FilterError(f'"{dialect}" needs an array of at least one filter expression')
            predicates = [_compiled(each, depth + 1) for each in value]
            return _all(predicates) if dialect == "all" else _any(predicates)
        case "not":
            return _not(_compiled(value, depth + 1))
        case "sql":
            return _sql(value)
    raise FilterError(
        f'filter dialect "{dialect[:64]}" is not supported; these are: {", ".join(_DIALECTS)}'
    )


def _comparison(dialect: str, compare: Callable[[str, str], bool], value: Any) -> Predicate:
    if not isinstance(value, Mapping) or not value:
        raise FilterError(f'"{dialect}" needs an object with at least one attribute')
    for name, text in value.items():
        if not _ATTRIBUTE_NAME.fullmatch(name):
            raise FilterError(f'"{name[:64]}" is not the name of a CloudEvents attribute')
        if not isinstance(text, str) or not 0 < len(text) <= MAX_TEXT:
            raise FilterError(
                f'"{dialect}" compares "{name}" with text of 1 to {MAX_TEXT} characters'
            )
    wanted = tuple(value.items())
    if len(wanted) == 1:
        # Most filters compare one attribute, and each is asked about many events.
        [(only, its_text)] = wanted
        return lambda event: only in event and compare(event[only], its_text)
    return lambda event: all(name in event and compare(event[name], text) for name, text in wanted)


def _sql(value: Any) -> Predicate:
    if not isinstance(value, str):
        raise FilterError('"sql" needs the text of a CloudEvents SQL expression')
    try:
        expression = cesql.parse(value)
    except cesql.ParseError as error:
        raise FilterError(f'"sql": {error}') from None
    if expression.unknown_functions:
        names = ", ".join(expression.unknown_functions)
        raise FilterError(f'"sql": there is no function {names} that takes these arguments')
    return expression.matches


def _is_one_of(name: str, values: frozenset[str]) -> Predicate:
    return lambda event: event.get(name) in values


def _all(predicates: Sequence[Predicate]) -> Predicate:
    if len(predicates) == 1:
        return predicates[0]
    return lambda event: all(predicate(event) for predicate in predicates)


def _any(predicates: Sequence[Predicate]) -> Predicate:
    return lambda event: any(predicate(event) for predicate in predicates)


def _not(predicate: Predicate) -> Predicate:
    return lambda event: not predicate(event)


@dataclass(frozen=True, slots=True)
class Required:
    """The texts that an attribute of every matching event equals, or begins with."""

    attribute: str
    texts: frozenset[str]
    is_prefix: bool = False


def required_of(definition: SubscriptionDefinition) -> Required | None:
    """The requirement of a subscription that the fewest events meet; `None` without requirements.

    Only subjects and types tell events apart: an id or a time belongs to a single event, unknown in
    advance, and the source is the same for every event.
    """
    found = [*_all_required(definition.filters)]
    if definition.types:
        found.append(Required("type", frozenset(definition.types)))
    return min(found, key=_rank, default=None)


def _rank(required: Required) -> tuple[bool, bool, int]:
    """The order of requirements, with the rarest matches first."""
    return required.attribute != "subject", required.is_prefix, len(required.texts)


def _all_required(filters: Iterable[Mapping[str, Any]]) -> Iterator[Required]:
    """The requirements of filters that have to match together."""
    for expression in filters:
        for dialect, value in expression.items():
            if dialect in ("exact", "prefix"):
                yield from (
                    Required(name, frozenset({text}), dialect == "prefix")
                    for name, text in value.items()
                    if name in ("subject", "type")
                )
            elif dialect == "all":
                yield from _all_required(value)
            elif dialect == "any":
                yield from _any_required(value)


def _any_required(filters: Sequence[Mapping[str, Any]]) -> Iterator[Required]:
    """The requirements common to alternative filters."""
    alternatives = [
        {(each.attribute, each.is_prefix): each.texts for each in _all_required([expression])}
        for expression in filters
    ]
    for attribute, is_prefix in {*alternatives[0]}.intersection(*alternatives[1:]):
        texts = frozenset[str]().union(*(each[attribute, is_prefix] for each in alternatives))
        yield Required(attribute, texts, is_prefix)


@dataclass(slots=True)
class _Texts(Generic[_Subscriber]):
    """The subscribers that require a text of an attribute."""

    whole: dict[str, set[_Subscriber]] = field(default_factory=lambda: defaultdict(set))
    prefixes: dict[str, set[_Subscriber]] = field(default_factory=lambda: defaultdict(set))
    # The number of prefixes of each length.
    lengths: Counter[int] = field(default_factory=Counter)


class FilterIndex(Generic[_Subscriber]):
    """Subscribers by the requirements on events."""

    def __init__(self) -> None:
        self._by_attribute: dict[str, _Texts[_Subscriber]] = {"subject": _Texts(), "type": _Texts()}
        self.unconditional: set[_Subscriber] = set()

    def add(self, subscriber: _Subscriber, required: Required | None) -> None:
        if required is None:
            self.unconditional.add(subscriber)
            return
        texts, found = self._texts_of(required)
        for text in required.texts:
            if required.is_prefix and text not in found:
                texts.lengths[len(text)] += 1
            found[text].add(subscriber)

    def remove(self, subscriber: _Subscriber, required: Required | None) -> None:
        """Remove a subscriber that was added with the same requirement."""
        if required is None:
            self.unconditional.discard(subscriber)
            return
        texts, found = self._texts_of(required)
        for text in required.texts:
            found[text].discard(subscriber)
            if not found[text]:
                del found[text]
                if required.is_prefix:
                    texts.lengths -= Counter([len(text)])

    def _texts_of(
        self, required: Required
    ) -> tuple[_Texts[_Subscriber], dict[str, set[_Subscriber]]]:
        texts = self._by_attribute[required.attribute]
        return texts, texts.prefixes if required.is_prefix else texts.whole

    def candidates(self, event: Mapping[str, str]) -> Iterator[_Subscriber]:
        """The subscribers whose requirement an event meets, each once or more often.

        The `unconditional` subscribers are left out. `event` has the context attributes as text.
        """
        for attribute, texts in self._by_attribute.items():
            text = event.get(attribute, "")
            yield from texts.whole.get(text, ())
            for length in texts.lengths:
                if length <= len(text):
                    yield from texts.prefixes.get(text[:length], ())
