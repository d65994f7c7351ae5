"""Reads entities with all that a GET shows of them: single ones, pages and small subtrees."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from catalog.model.entity import Entity
from catalog.model.errors import NotFound, TooLarge
from catalog.model.schema import Model
from catalog.model.xid import Xid
from catalog.reading.loaded import Loaded
from catalog.store import entities as store
from catalog.store import subtrees
from catalog.store.database import Connection

MOST_DOCUMENT_BYTES = 64 * 1024 * 1024


async def read_subtree(connection: Connection, xid: Xid, *, follows: bool = True) -> Loaded:
    """Read an entity with everything below it, without documents.

    Raises:
        NotFound
    """
    rows = await store.load_subtrees(connection, [str(xid)])
    if not rows or rows[0].xid != str(xid):
        raise NotFound(str(xid))
    loaded = Loaded.of(rows)
    if follows:
        await follow(connection, loaded, versions=True)
    return loaded


async def read_entity(
    connection: Connection, model: Model, xid: Xid, *, follows: bool = True
) -> Loaded:
    """Read an entity with its counts, or with its default version.

    Args:
        follows: show a cross reference as its target.

    Raises:
        NotFound
    """
    loaded = await read_entities(connection, model, [xid], follows=follows)
    if str(xid) not in loaded.entities:
        raise NotFound(str(xid))
    return loaded


async def read_entities(
    connection: Connection, model: Model, xids: Sequence[Xid], *, follows: bool = True
) -> Loaded:
    """Read entities of one kind, each with its counts, or with its default version."""
    kind = xids[0].kind if xids else "registry"
    if kind == "resource":
        return await read_resources(connection, map(str, xids), follows=follows)
    resources = {str(xid.resource) for xid in xids} if kind == "version" else set()
    loaded = Loaded(entities=await store.load(connection, [*map(str, xids), *resources]))
    if kind != "version":
        loaded.counts = await store.count_collections(connection, collections_of(model, xids))
    elif follows:
        await follow(connection, loaded)
        await _follow_versions(connection, loaded, xids)
    return loaded


async def read_resources(
    connection: Connection, xids: Iterable[str], *, follows: bool = True
) -> Loaded:
    """Read resources, each with its default version and its number of versions."""
    loaded = Loaded.shown(await store.load_shown(connection, xids))
    if follows:
        await follow(connection, loaded)
    return loaded


async def _follow_versions(connection: Connection, loaded: Loaded, xids: Iterable[Xid]) -> None:
    """Add the versions that cross references show as their own."""
    wanted: dict[str, Entity] = {}
    for xid in xids:
        resource = loaded.entities.get(str(xid.resource))
        if resource is not None and "xref" in resource.attributes:
            wanted[f"{resource.attributes['xref']}/versions/{xid.vid}"] = resource
    for stored, version in (await store.load(connection, wanted)).items() if wanted else ():
        if "defaultversionid" in wanted[stored].attributes:
            loaded.see_version_through(wanted[stored], version)


async def read_page(
    connection: Connection,
    model: Model,
    owner: Xid,
    plural: str,
    after: str,
    limit: int | None,
    *,
    follows: bool = True,
) -> tuple[Loaded, list[str]]:
    """Read a page of a collection, and its entities' xids in order.

    Raises:
        NotFound: the owner does not exist.
    """
    collection = f"{str(owner).rstrip('/')}/{plural}"
    if owner.rid:
        return await _page_of_versions(connection, owner, after, limit, follows)
    if owner.gid:
        shown = await store.page_resources(connection, collection, after, limit)
        loaded, entities = Loaded.shown(shown), [s.resource for s in shown]
        if follows:
            await follow(connection, loaded)
    else:
        entities = await store.page(connection, collection, after, limit)
        loaded = Loaded(entities={entity.xid: entity for entity in entities})
        below = collections_of(model, (entity.path for entity in entities))
        loaded.counts = await store.count_collections(connection, below)
    if not entities and not await store.load(connection, [str(owner)]):
        raise NotFound(str(owner))
    return loaded, [entity.xid for entity in entities]


async def _page_of_versions(
    connection: Connection, owner: Xid, after: str, limit: int | None, follows: bool
) -> tuple[Loaded, list[str]]:
    loaded = await read_owner(connection, owner, follows=follows)
    resource = loaded.entities[str(owner)]
    stored = resource.attributes.get("xref", resource.xid)
    versions = await store.page(connection, f"{stored}/versions", after, limit)
    if stored != resource.xid:
        is_followed = "defaultversionid" in resource.attributes
        versions = [loaded.see_version_through(resource, v) for v in versions if is_followed]
    loaded.entities |= {version.xid: version for version in versions}
    return loaded, [version.xid for version in versions]


async def read_owner(connection: Connection, owner: Xid, *, follows: bool = True) -> Loaded:
    """Read the resource that owns a collection of versions.

    Raises:
        NotFound
    """
    loaded = Loaded(entities=await store.load(connection, [str(owner)]))
    if str(owner) not in loaded.entities:
        raise NotFound(str(owner))
    if follows:
        await follow(connection, loaded)
    return loaded


async def follow(connection: Connection, loaded: Loaded, *, versions: bool = False) -> None:
    """Show every loaded cross reference as its target, one level deep.

    Args:
        versions: with all versions, not just the default one.

    Source: core/spec.md, "Cross Referencing Resources".
    """
    # Other entities may have an extension of that name.
    resources = (each for each in loaded.entities.values() if each.kind == "resource")
    sources = [each for each in resources if "xref" in each.attributes]
    if not sources:
        return
    loaded.has_cross_references = True
    xids = {source.attributes["xref"] for source in sources}
    found = await store.load_shown(connection, xids)
    targets = {shown.resource.xid: shown for shown in found}
    below = Loaded.of(await store.load_subtrees(connection, xids)) if versions else Loaded()
    for source in sources:
        target = targets.get(source.attributes["xref"])
        if target is None or "xref" in target.resource.attributes:
            continue
        seen = loaded.see_through(source, target.resource)
        loaded.counts[f"{seen.xid}/versions"] = target.versionscount
        if versions:
            children = below.children(f"{target.resource.xid}/versions")
            shown = [loaded.see_version_through(seen, version) for version in children]
            loaded.add_children(f"{seen.xid}/versions", shown)
        elif target.default is not None:
            loaded.see_version_through(seen, target.default)


async def load_documents(
    connection: Connection, loaded: Loaded, entities: Iterable[Entity]
) -> None:
    """Load the documents of the versions among some entities.

    Raises:
        TooLarge: they are too large to be held at once.
    """
    stored = {
        loaded.stored.get(entity.xid, entity.xid)
        for entity in entities
        if entity.document_sha256 is not None
    }
    if not stored:
        return
    sizes = await subtrees.load_sizes(connection, stored)
    if sum(sizes.values()) > MOST_DOCUMENT_BYTES:
        raise TooLarge(min(stored), detail="Ask for its documents one by one.")
    loaded.documents |= await store.load_documents(connection, stored)


def collections_of(model: Model, owners: Iterable[Xid]) -> list[str]:
    """The paths of all collections that these registries and groups have."""
    return [
        f"{str(owner).rstrip('/')}/{plural}"
        for owner in owners
        for plural in (model.groups[owner.groups].resources if owner.gid else model.groups)
    ]
