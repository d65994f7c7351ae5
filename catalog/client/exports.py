"""Exports a catalog or parts of a catalog as a document, and imports documents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from catalog.client.connection import UNBOUNDED, JsonObject
from catalog.client.entities import EntityCalls, is_replica
from catalog.client.errors import ClientError

# The attributes that mark a document of the newest edition (documents/migration.py).
_ROOT_NAMES = ("specversion", "xid")
# Servers accept request lines of about 8 KiB, so filters have fewer characters before they are
# percent-encoded. A node accepts 32 expressions, and the filter of a resource has two.
_LONGEST_FILTERS = 5_000
_MOST_FILTERS = 16
_MOST_NAMES = 4


@dataclass(frozen=True, slots=True)
class ExportPart:
    """The part of a catalog at a path: groups or resources of a type, a group, or a resource."""

    names: tuple[str, ...]

    @classmethod
    def parse(cls, path: str) -> Self:
        """The part at a path; a path without names stands for the whole catalog.

        Raises:
            ClientError: the part at the path cannot be exported.
        """
        names = tuple(name for name in path.split("/") if name)
        if len(names) > _MOST_NAMES or "?" in path or "#" in path:
            raise ClientError(f"{path} cannot be exported on its own.", "Name a group or resource.")
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
        """The filter of the registry that selects the part, or a little more than the part."""
        kind = model["groups"][self.plural]
        conditions = [(f"{self.plural}.{kind['singular']}id", self.names[1])]
        if len(self.names) == _MOST_NAMES and self.names[2] in kind.get("resources", {}):
            singular = kind["resources"][self.names[2]]["singular"]
            conditions.append((f"{self.plural}.{self.names[2]}.{singular}id", self.names[3]))
        return ",".join(f"{name}={value}" for name, value in conditions)

    def cut(self, document: Mapping[str, Any], into: JsonObject) -> bool:
        """Copy the entities of the part from one document into a second document.

        Returns:
            whether the document has the part.
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


class ExportCalls(EntityCalls):
    """The calls for documents, as taken by `import_groups` and `concord import`."""

    async def export(
        self, *paths: str, own: bool = False, wait_for: str = "", wait_seconds: int | None = None
    ) -> JsonObject:
        """A catalog, or parts of a catalog within their ancestors, in document view.

        The whole catalog is read in one snapshot. Parts are read in one snapshot as far as their
        names fit into one request. The cost of a part depends on the size of the part, not of the
        catalog.

        Args:
            paths: the paths of groups of a type, a group, resources of a type in a group, or a
                resource; without paths, the whole catalog.
            own: leave out the groups of different authorities. Such a group has no resource of the
                node, since only the authority of a group can create resources in the group.
            wait_for, wait_seconds: the position of a write that the answer has to show; see
                `request`.

        Raises:
            Refused: a path has no entity.
            ClientError: a path cannot be exported, or belongs to a different authority with `own`.
        """
        parts = list(_uncovered(ExportPart.parse(path) for path in paths or ["/"]))
        is_whole = not parts[0].names
        if wait_for:
            await self.get("/", wait_for=wait_for, wait_seconds=wait_seconds)
        if is_whole and not own:
            return await self._unbounded("/export")
        model = await self.get("/model")
        if is_whole:
            parts = [ExportPart((plural,)) for plural in model["groups"]]
        for part in parts:
            if part.plural not in model["groups"]:
                await self.get(part.path)  # The node refuses with the reason.
        wanted, asked = await self._own(parts) if own else (parts, parts)
        root = await self.get("/")
        exported = {name: root[name] for name in _ROOT_NAMES} | {part.plural: {} for part in parts}
        documents = [await self._read_parts(each, model) for each in _requests(asked, model)]
        for part in wanted:
            is_there = any(part.cut(document, exported) for document in documents)
            if not is_there and part in parts:
                await self._explain(part)
        return exported

    async def import_groups(
        self, groups: Mapping[str, Any], *, overwrite: bool = False, dry_run: bool = False
    ) -> JsonObject:
        """Create or change groups with the entities below, in one transaction (`POST /apply`).

        Entities that are equal already are not written.

        Args:
            groups: the groups by plural of the type and by id.
            overwrite: ignore every epoch in `groups`, also those of resources and versions.
            dry_run: do not write, but return the same answer and errors.

        Returns:
            the numbers of entities `created` and `updated`, and the `changes` of each entity.
        """
        flags = [("ignore", "epoch")] if overwrite else []
        return await self.post("/apply", groups, [*flags, ("dryrun", "")] if dry_run else flags)

    async def _own(self, parts: Sequence[ExportPart]) -> tuple[list[ExportPart], list[ExportPart]]:
        """The parts to export, and the parts to read for the export.

        A type is read as a whole if the node is the authority of most groups, or else group by
        group.
        """
        wanted: list[ExportPart] = []
        asked: list[ExportPart] = []
        for part in parts:
            if len(part.names) == 1:
                groups = [item async for item in self.items(part.path)]
                own = [ExportPart((part.plural, id)) for id, g in groups if not is_replica(g)]
                wanted += own
                asked += [part] if 2 * len(own) > len(groups) else own
                continue
            group = await self.get("/" + "/".join(part.names[:2]))
            if is_replica(group):
                raise ClientError(
                    f"{group['xid']} is a replica: {group['authority']} is its authority.",
                    "Export it there, or together with what this node has from others.",
                )
            wanted.append(part)
            asked.append(part)
        return wanted, asked

    async def _read_parts(
        self, parts: Sequence[ExportPart], model: Mapping[str, Any]
    ) -> JsonObject:
        """The document view of the registry with the parts, and possibly a few more entities."""
        plurals = dict.fromkeys(part.plural for part in parts)
        return await self._unbounded(
            "/",
            [
                ("doc", ""),
                *(("inline", f"{plural}.*") for plural in plurals),
                *(("filter", part.condition(model)) for part in parts if len(part.names) > 1),
            ],
        )

    async def _unbounded(self, path: str, params: Sequence[tuple[str, str]] = ()) -> JsonObject:
        return await self._json("GET", path, params=params, largest=UNBOUNDED)

    async def _explain(self, part: ExportPart) -> None:
        """Raise the error of the node for a path without an entity."""
        await self.get(f"{part.path}/meta" if len(part.names) == 4 else part.path)
        raise ClientError(f"{part.path} was deleted and created meanwhile.", "Export it again.")


def _uncovered(parts: Iterable[ExportPart]) -> Iterator[ExportPart]:
    """The parts without the parts that a larger part covers."""
    last: ExportPart | None = None
    for part in sorted(set(parts), key=lambda part: part.names):
        if last is None or not last.covers(part):
            last = part
            yield part


def _requests(
    parts: Sequence[ExportPart], model: Mapping[str, Any]
) -> Iterator[Sequence[ExportPart]]:
    """Group the parts that one request can read: parts with and parts without a filter."""
    # With a filter, a registry shows what matches alone: types as a whole need another request.
    types = [part for part in parts if len(part.names) == 1]
    if types:
        yield types
    batch: list[ExportPart] = []
    room = _LONGEST_FILTERS
    for part in parts:
        if len(part.names) > 1:
            length = len(part.condition(model))
            if batch and (length > room or len(batch) == _MOST_FILTERS):
                yield batch
                batch, room = [], _LONGEST_FILTERS
            batch.append(part)
            room -= length
    if batch:
        yield batch


def _without_collections(group: JsonObject) -> JsonObject:
    plurals = [name for name in group if f"{name}url" in group and f"{name}count" in group]
    names = {name + suffix for name in plurals for suffix in ("", "url", "count")}
    return {name: value for name, value in group.items() if name not in names}
