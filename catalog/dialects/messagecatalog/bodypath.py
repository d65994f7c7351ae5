"""Where in a request something is wrong, and how it is said."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from catalog.model.errors import InvalidAttribute

MOST_MEMBERS = 500


@dataclass(frozen=True, slots=True)
class BodyPath:
    """An attribute of a request's body: the entity's path, and the attribute's own."""

    subject: str
    path: str

    def at(self, name: str) -> BodyPath:
        return BodyPath(self.subject, f"{self.path}.{name[:64]}")

    def fault(self, detail: str) -> InvalidAttribute:
        return InvalidAttribute(self.subject, name=self.path, error_detail=detail)


def as_object(value: Any, place: BodyPath) -> Mapping[str, Any]:
    """A JSON object with a bounded number of members.

    Raises:
        InvalidAttribute: it is something else.
    """
    if not isinstance(value, dict):
        raise place.fault("it needs to be an object")
    if len(value) > MOST_MEMBERS:
        raise place.fault(f"it has more than {MOST_MEMBERS} members")
    return value


def only(value: Any, names: Collection[str], place: BodyPath) -> Mapping[str, Any]:
    """A JSON object with members of these names, and no other.

    Raises:
        InvalidAttribute
    """
    for name in as_object(value, place):
        if name not in names:
            raise place.at(name).fault(f"there are only these: {', '.join(names)}")
    found: Mapping[str, Any] = value
    return found


def text_in(values: Mapping[str, Any], name: str, place: BodyPath) -> str | None:
    """A member that is a string, where it is there at all.

    Raises:
        InvalidAttribute
    """
    value = values.get(name)
    if value is not None and not isinstance(value, str):
        raise place.at(name).fault("it needs to be a string")
    return value
