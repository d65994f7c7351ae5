"""Finds the few subscribers whose filters an event can match, without trying every filter."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from catalog.subscriptions.stored.subscriptions import SubscriptionDefinition

_Subscriber = TypeVar("_Subscriber")


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
    first, *others = ([*_all_required([expression])] for expression in filters)
    for required in first:
        texts = [required.texts]
        for other in others:
            same = (
                each
                for each in other
                if (each.attribute, each.is_prefix) == (required.attribute, required.is_prefix)
            )
            match = next(same, None)
            if match is None:
                break
            texts.append(match.texts)
        else:
            yield Required(required.attribute, frozenset().union(*texts), required.is_prefix)


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
        self._by_attribute: dict[str, _Texts[_Subscriber]] = {
            "subject": _Texts(),
            "type": _Texts(),
        }
        self.unconditional: set[_Subscriber] = set()

    def add(self, subscriber: _Subscriber, required: Required | None) -> None:
        if required is None:
            self.unconditional.add(subscriber)
            return
        texts = self._by_attribute[required.attribute]
        found = texts.prefixes if required.is_prefix else texts.whole
        for text in required.texts:
            if required.is_prefix and text not in found:
                texts.lengths[len(text)] += 1
            found[text].add(subscriber)

    def remove(self, subscriber: _Subscriber, required: Required | None) -> None:
        """Remove a subscriber that was added with the same requirement."""
        if required is None:
            self.unconditional.discard(subscriber)
            return
        texts = self._by_attribute[required.attribute]
        found = texts.prefixes if required.is_prefix else texts.whole
        for text in required.texts:
            found[text].discard(subscriber)
            if not found[text]:
                del found[text]
                if required.is_prefix:
                    texts.lengths -= Counter([len(text)])

    def candidates(self, event: Mapping[str, str]) -> Iterator[_Subscriber]:
        """The subscribers whose requirement an event meets, each once or more often.

        Subscribers without a requirement are `unconditional`, and are left out.

        Args:
            event: the context attributes of the event as text.
        """
        for attribute, texts in self._by_attribute.items():
            text = event.get(attribute, "")
            yield from texts.whole.get(text, ())
            for length in texts.lengths:
                if length <= len(text):
                    yield from texts.prefixes.get(text[:length], ())
