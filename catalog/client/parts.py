"""A part of an exported catalog: how it is asked for, and how it is cut out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from catalog.client.connection import JsonObject
from catalog.client.errors import ClientError

_MOST_NAMES = 4


@dataclass(frozen=True, slots=True)
class ExportPart:
    """Groups of a type, a group, its resources of a type, or one of these: names of a path."""

    names: tuple[str, ...]

    @classmethod
    def parse(cls, path: str) -> Self:
        """The part at a path; without a name it is the whole catalog.

        Raises:
            ClientError: nothing of that kind can be exported.
        """
        names = tuple(name for name in path.split("/") if name)
        if len(names) > _MOST_NAMES or "?" in path or "#" in path:
            raise ClientError(
                f"{path} is no part that can be exported.", "Name a group or resource."
            )
        return cls(names)

    @property
    def path(self) -> str:
        return "/" + "/".join(self.names)

    @property
    def plural(self) -> str:
        return self.names[0]

    def covers(self, other: ExportPart) -> bool:
        return other.names[: len(self.names)] == self.names

    def condition(self, model: Mapping[str, Any]) -> str:
        """The filter of the registry that selects the entities of a part, or a few more."""
        kind = model["groups"][self.plural]
        conditions = [(f"{self.plural}.{kind['singular']}id", self.names[1])]
        if len(self.names) == _MOST_NAMES and self.names[2] in kind.get("resources", {}):
            singular = kind["resources"][self.names[2]]["singular"]
            conditions.append((f"{self.plural}.{self.names[2]}.{singular}id", self.names[3]))
        return ",".join(f"{name}={value}" for name, value in conditions)

    def cut(self, document: Mapping[str, Any], into: JsonObject) -> bool:
        """Put what a document has of this part where it belongs in another one.

        Returns:
            whether there is something.
        """
        found: Any = document
        for name in self.names:
            found = found.get(name)
            if not isinstance(found, dict):
                return False
        groups = into.setdefault(self.plural, {})
        if len(self.names) == 1:
            groups.update(found)
        elif len(self.names) == 2:
            groups[self.names[1]] = found
        else:
            self._cut_resources(document[self.plural][self.names[1]], found, groups)
        return True

    def _cut_resources(self, group: JsonObject, found: JsonObject, groups: JsonObject) -> None:
        plural = self.names[2]
        kept = groups.setdefault(self.names[1], _without_collections(group))
        resources = kept.setdefault(plural, {})
        resources.update(found if len(self.names) == 3 else {self.names[3]: found})
        kept[f"{plural}url"] = group[f"{plural}url"]
        kept[f"{plural}count"] = len(resources)


def _collections(group: Mapping[str, Any]) -> list[str]:
    return [name for name in group if f"{name}url" in group and f"{name}count" in group]


def _without_collections(group: JsonObject) -> JsonObject:
    plurals = _collections(group)
    names = {*plurals, *(f"{each}url" for each in plurals), *(f"{each}count" for each in plurals)}
    return {name: value for name, value in group.items() if name not in names}
