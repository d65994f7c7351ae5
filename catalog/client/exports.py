"""Catalogs as documents: exported as a whole or in parts, and imported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from catalog.client.connection import UNBOUNDED, JsonObject
from catalog.client.entities import EntityCalls, is_replica
from catalog.client.errors import ClientError
from catalog.client.parts import ExportPart

# They say that names are to be read as those of the newest edition (documents/editions.py).
_ITSELF = ("specversion", "xid")
# Servers read request lines of about 8 KiB, to which percent-encoding adds, and a node takes 32
# expressions, of which a resource needs two.
_LONGEST_FILTERS = 5_000
_MOST_FILTERS = 16


class ExportCalls(EntityCalls):
    """Documents that `import_groups` and `concord import` take."""

    async def export(self, *paths: str, own: bool = False) -> JsonObject:
        """A catalog, or parts of it inside of what they belong to, in document view.

        The whole catalog is shown as it is at one moment, and so are parts as far as their names
        fit into one request. Parts cost what they hold, not what the catalog holds.

        Args:
            paths: of groups of a type, a group, its resources of a type, or one of these; the
                whole catalog if there is none.
            own: leave out the groups that another node is the authority of. Such a group holds
                nothing of this node's, since only its authority can put resources into it.

        Raises:
            Refused: there is nothing at one of the paths.
            ClientError: one of them is no such path, or of another authority although `own`.
        """
        parts = list(_uncovered(ExportPart.parse(path) for path in paths or ["/"]))
        is_whole = not parts[0].names
        if is_whole and not own:
            return await self._unbounded("/export")
        model = await self.get("/model")
        if is_whole:
            parts = [ExportPart((plural,)) for plural in model["groups"]]
        for part in parts:
            if part.plural not in model["groups"]:
                await self.get(part.path)  # The node says what is wrong with it.
        wanted, asked = await self._own(parts) if own else (parts, parts)
        root = await self.get("/")
        exported = {name: root[name] for name in _ITSELF} | {part.plural: {} for part in parts}
        documents = [await self._read_parts(each, model) for each in _requests(asked, model)]
        for part in wanted:
            is_there = any(part.cut(document, exported) for document in documents)
            if not is_there and part in parts:
                await self._explain(part)
        return exported

    async def import_groups(
        self, groups: Mapping[str, Any], *, overwrite: bool = False, dry_run: bool = False
    ) -> JsonObject:
        """Create or change groups and all below them, all or nothing (`POST /apply`).

        What is as the groups say already is not written.

        Args:
            groups: by the plural of their type and their id.
            overwrite: whatever epochs the entities have.
            dry_run: write nothing; the answer and the errors are what they would be.

        Returns:
            how many entities were `created` and `updated`, and the `changes` of each.
        """
        flags = [("ignore", "epoch")] if overwrite else []
        return await self.post("/apply", groups, [*flags, ("dryrun", "")] if dry_run else flags)

    async def _own(self, parts: Sequence[ExportPart]) -> tuple[list[ExportPart], list[ExportPart]]:
        """The parts to export, and the parts to read for that.

        A type is read as a whole if most of its groups are wanted, else group by group.

        Raises:
            ClientError: one that is named belongs to another authority.
        """
        wanted: list[ExportPart] = []
        asked: list[ExportPart] = []
        for part in parts:
            if len(part.names) == 1:
                found = [
                    (ExportPart((part.plural, id)), g) async for id, g in self.items(part.path)
                ]
                own = [each for each, group in found if not is_replica(group)]
                wanted += own
                asked += [part] if 2 * len(own) > len(found) else own
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
        """The document view of the registry with these parts, and a few more at most."""
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
        """Let the node say why there is nothing at a path."""
        await self.get(f"{part.path}/meta" if len(part.names) == 4 else part.path)
        raise ClientError(f"{part.path} came and went meanwhile.", "Export it again.")


def _uncovered(parts: Iterable[ExportPart]) -> Iterator[ExportPart]:
    """The parts that are not within another one of them."""
    last: ExportPart | None = None
    for part in sorted(set(parts), key=lambda part: part.names):
        if last is None or not last.covers(part):
            last = part
            yield part


def _requests(
    parts: Sequence[ExportPart], model: Mapping[str, Any]
) -> Iterator[Sequence[ExportPart]]:
    """Parts that can be read together: whole types, which need no filter, or some others."""
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
