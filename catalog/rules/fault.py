"""What the rules of the domains look at, and what they find."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from catalog.model.xid import Xid


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule under a name that stays, and the text that it is from."""

    name: str
    source: str

    def broken(self, pointer: str, message: str) -> Fault:
        return Fault(rule=self, pointer=pointer, message=message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A rule that an entity breaks.

    Args:
        pointer: a JSON pointer into the entity, to what is wrong.
        message: what is wrong and what to do about it, a sentence.
    """

    rule: Rule
    pointer: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A group, resource or version with its own attributes, as a catalog keeps them."""

    xid: Xid
    attributes: Mapping[str, Any]

    def text(self, name: str) -> str:
        return text(self.attributes.get(name))

    def object(self, name: str) -> Mapping[str, Any]:
        return as_object(self.attributes.get(name))


class EntityLookup(Protocol):
    """The other entities, as far as somebody knows them."""

    @property
    def bases(self) -> Sequence[str]:
        """URLs of the catalog's root, without a trailing slash."""
        ...

    def find(self, xid: Xid) -> Subject | None:
        """A group or a version; of a resource, the default version."""
        ...

    def is_absent(self, xid: Xid) -> bool:
        """Whether an entity is certainly not there: it may be unknown, as well."""
        ...


def text(value: Any) -> str:
    """A text, or the one in a property definition; empty if it is neither."""
    if isinstance(value, dict):
        value = value.get("value")
    return value if isinstance(value, str) else ""


def as_object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def is_blank(value: Any) -> bool:
    """Whether a value is a text, or a property definition with one, of nothing but blanks."""
    if isinstance(value, dict):
        value = value.get("value")
    return isinstance(value, str) and not value.strip()


def has_placeholder(value: str) -> bool:
    return "{" in value


def pointer(*steps: str | int) -> str:
    """A JSON pointer (RFC 6901)."""
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in steps)
