"""Takes parts out of a catalog or a document, with all that the parts refer to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any

from catalog.client import Client, JsonObject, Refused
from catalog.documents.asyncapi.fromentities import Exported, from_entities
from catalog.documents.asyncapi.schemadocuments import entities_named_in
from catalog.documents.asyncapi.toentities import KEPT
from catalog.documents.clean import clean

# A message refers to base messages and schemas, which refer to further schemas.
_MOST_ROUNDS = 32


async def export_with_references(
    client: Client,
    paths: Iterable[str],
    *,
    own: bool = False,
    further: Callable[[JsonObject], Awaitable[Iterable[str]]] | None = None,
) -> JsonObject:
    """Export parts of a catalog together with the parts that they refer to.

    References to entities that the catalog does not have are left as they are.

    Args:
        paths: the paths of the parts, as in `Client.export`; the whole catalog without any.
        own: leave out groups that other nodes are the authority of, among the parts.
        further: the paths of parts that belong to an exported document besides.
    """
    wanted = [f"/{path.strip('/')}" for path in paths if path.strip("/")]
    document = await client.export(*wanted, own=own)
    absent = set[str]()
    for _ in range(_MOST_ROUNDS if wanted else 0):
        named: Collection[str] = entities_named_in(document)
        if further is not None:
            named = {*named, *await further(document)}
        missing = {path for path in named if path not in absent and not is_in(document, path)}
        if not missing:
            break
        for path in sorted(missing):
            if await _is_absent(client, path):
                absent.add(path)
        wanted += sorted(missing - absent)
        document = await client.export(*wanted)
    return document


async def export_asyncapi(
    client: Client, paths: Iterable[str], *, own: bool, edition: str
) -> Exported:
    """Export parts of a catalog as an AsyncAPI document.

    Args:
        paths: the paths of the parts, as in `Client.export`; the whole catalog without any.
        own: leave out groups that other nodes are the authority of.
        edition: the edition of AsyncAPI.
    """
    wanted = [f"/{path.strip('/')}" for path in paths if path.strip("/")]
    title = wanted[0].rpartition("/")[2] if wanted else ""

    async def parts(document: JsonObject) -> list[str]:
        return await _parts(client, document, wanted)

    document = await export_with_references(client, wanted, own=own, further=parts)
    groups = clean(document, await client.model())
    title = str(document.get("name") or title or "Catalog")
    return from_entities(groups, title=title, edition=edition)


async def _parts(client: Client, document: JsonObject, wanted: Collection[str]) -> list[str]:
    """The groups of the AsyncAPI documents whose schema groups are named by the paths."""
    found = []
    for id, group in (document.get("schemagroups") or {}).items():
        kept = group.get(KEPT)
        if f"/schemagroups/{id}" in wanted and isinstance(kept, dict) and "info" in kept:
            for plural in ("endpoints", "messagegroups"):
                groups = client.items(f"/{plural}", filters=[f"{KEPT}.application={id}"])
                found += [f"/{plural}/{each}" async for each, _ in groups]
    return found


def is_in(document: Mapping[str, Any], path: str) -> bool:
    """Whether a document has the entity at a path."""
    found: Any = document
    for name in path.split("/")[1:]:
        found = found.get(name) if isinstance(found, dict) else None
    return found is not None


async def _is_absent(client: Client, path: str) -> bool:
    try:
        await client.get(f"{path}/meta" if path.count("/") == 4 else path)
    except Refused as error:
        if error.problem.status != 404:
            raise
        return True
    return False


def select(groups: Mapping[str, Any], paths: Iterable[str]) -> dict[str, Any]:
    """The groups and resources at paths, with all that they refer to.

    Args:
        groups: the groups by plural.
        paths: the paths of groups or resources; paths without an entity are left out.
    """
    found: dict[str, Any] = {}
    wanted = {f"/{path.strip('/')}" for path in paths}
    for _ in range(_MOST_ROUNDS):
        for path in sorted(wanted):
            _add(groups, path, found)
        wanted = {path for path in entities_named_in(found) if not is_in(found, path)}
        wanted = {path for path in wanted if is_in(groups, path)}
        if not wanted:
            break
    return found


def _add(groups: Mapping[str, Any], path: str, found: dict[str, Any]) -> None:
    names = path.split("/")[1:]
    if len(names) not in (2, 4) or not is_in(groups, path):
        return
    plural, gid = names[:2]
    group = groups[plural][gid]
    if len(names) == 2:
        found.setdefault(plural, {})[gid] = group
        return
    resources, rid = names[2:]
    others = {name: value for name, value in group.items() if name != resources}
    kept = found.setdefault(plural, {}).setdefault(gid, others)
    kept[resources] = {**kept.get(resources, {}), rid: group[resources][rid]}
