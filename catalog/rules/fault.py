"""The rules of the domains, the entities to check, and the faults that a check finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from catalog.model.record import record
from catalog.model.xid import Xid


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule with a stable name, and the section of the specification that states the rule."""

    name: str
    source: str

    def broken(self, pointer: str, message: str) -> Fault:
        return Fault(rule=self, pointer=pointer, message=message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A rule that an entity breaks.

    Args:
        pointer: the JSON pointer of the faulty attribute in the entity.
        message: the fault and its correction, in a sentence.
    """

    rule: Rule
    pointer: str
    message: str


@record
class Subject:
    """A group, resource or version to check, with its attributes as a catalog stores them."""

    xid: Xid
    attributes: Mapping[str, Any]

    def text(self, name: str) -> str:
        return text(self.attributes.get(name))

    def object(self, name: str) -> Mapping[str, Any]:
        return as_object(self.attributes.get(name))


class EntityLookup(Protocol):
    """Finds the entities that a subject refers to."""

    @property
    def bases(self) -> Sequence[str]:
        """URLs of the catalog's root, without a trailing slash."""
        ...

    def find(self, xid: Xid) -> Subject | None:
        """A group or version, or the default version of a resource; `None` if it is not known."""
        ...

    def is_absent(self, xid: Xid) -> bool:
        """Whether an entity certainly does not exist; `False` if the lookup does not know."""
        ...


def text(value: Any) -> str:
    """A text, or the value of a property definition if the value is a text; else an empty text."""
    if isinstance(value, dict):
        value = value.get("value")
    return value if isinstance(value, str) else ""


def as_object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def is_blank(value: Any) -> bool:
    """Whether a value, or the value of a property definition, is a text of blanks only."""
    if isinstance(value, dict):
        value = value.get("value")
    return isinstance(value, str) and not value.strip()


def has_placeholder(value: str) -> bool:
    return "{" in value
