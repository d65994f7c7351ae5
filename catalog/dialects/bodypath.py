"""Paths of attributes in a request's body, and checks of their JSON types."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from catalog.model.errors import InvalidAttribute, RequiredAttributeMissing

_MOST_MEMBERS = 500


@dataclass(frozen=True, slots=True)
class BodyPath:
    """The path of a value in a request's body, empty for the body; `subject` names the entity."""

    subject: str
    path: str = ""

    def at(self, name: str) -> BodyPath:
        """The path of a member."""
        return BodyPath(self.subject, f"{self.path}.{name[:64]}".removeprefix("."))

    def item(self, index: int) -> BodyPath:
        """The path of an item of an array."""
        return BodyPath(self.subject, f"{self.path}[{index}]")

    def fault(self, detail: str) -> InvalidAttribute:
        return InvalidAttribute(self.subject, name=self.path, error_detail=detail)

    def missing(self) -> RequiredAttributeMissing:
        return RequiredAttributeMissing(self.subject, list=self.path)


def checked_object(value: Any, place: BodyPath) -> Mapping[str, Any]:
    """A JSON object with a bounded number of members.

    Raises:
        InvalidAttribute: the value is no object, or has more than 500 members.
    """
    if not isinstance(value, dict):
        raise place.fault("it needs to be an object")
    if len(value) > _MOST_MEMBERS:
        raise place.fault(f"it has more than {_MOST_MEMBERS} members")
    return value


def checked_members(value: Any, names: Collection[str], place: BodyPath) -> Mapping[str, Any]:
    """A JSON object with members of the given names only; raises `InvalidAttribute`."""
    found = checked_object(value, place)
    for name in found:
        if name not in names:
            raise place.at(name).fault(f"there are only these: {', '.join(names)}")
    return found


def text_in(values: Mapping[str, Any], name: str, place: BodyPath) -> str | None:
    """A string member, or `None` for an absent member; raises `InvalidAttribute`."""
    value = values.get(name)
    if value is not None and not isinstance(value, str):
        raise place.at(name).fault("it needs to be a string")
    return value
