"""Loads versions of definitions: every version, the latest version, and a version by URI.

Source: message catalog, 2.2, 2.2.2 and 4.4.3.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from catalog.context import Context
from catalog.dialects.messagecatalog.translate import authority_of
from catalog.dialects.messagecatalog.uris import (
    CATALOG_ROOT,
    GROUP_MESSAGES,
    MESSAGE_GROUPS,
    DefinitionUri,
    catalog_root,
    parse_uri,
)
from catalog.model.entity import Entity
from catalog.model.versions import Lineage, newest
from catalog.model.xid import Xid
from catalog.reading import entities
from catalog.reading.loaded import Loaded
from catalog.store import entities as store
from catalog.store import linksources
from catalog.store.database import Connection


async def latest_version(
    connection: Connection, context: Context, loaded: Loaded, resource: Entity
) -> Entity | None:
    """The newest version of a definition, which may differ from the native default (2.2)."""
    # A default version that is not sticky is the newest version.
    if not resource.attributes.get("defaultversionsticky"):
        return loaded.default_of(resource)
    versions = await all_versions(connection, context, resource.path)
    return versions[0] if versions else None


async def all_versions(connection: Connection, context: Context, xid: Xid) -> list[Entity]:
    """The versions of a definition: the newest version, then the rest by time of creation."""
    loaded, xids, _ = await entities.read_page(connection, context.model, xid, "versions", "", None)
    kind = context.model.resource_type(MESSAGE_GROUPS, GROUP_MESSAGES)
    versions = [loaded.entities[one] for one in xids]
    latest = newest(map(_lineage, versions), kind.versionmode if kind is not None else "manual")
    if latest is None:
        return []
    return sorted(
        versions,
        key=lambda one: (one.path.vid == latest.vid, one.createdat, one.path.vid),
        reverse=True,
    )


def _lineage(version: Entity) -> Lineage:
    return Lineage(
        vid=version.path.vid,
        ancestor=version.attributes.get("ancestorid", version.path.vid),
        createdat=version.createdat,
        modifiedat=version.modifiedat,
    )


async def find_by_uri(
    connection: Connection, context: Context, uri: str, bases: Collection[str]
) -> tuple[Entity, Entity] | None:
    """The version and definition of a URI; the latest version if the URI names no version.

    Args:
        bases: the URLs of the node's root.
    """
    reference = parse_uri(uri)
    if reference is None:
        return None
    lookup = _Lookup(context, reference, bases)
    await lookup.add_authorities_of_links(connection)
    for xid in await lookup.candidates(connection):
        loaded = await entities.read_entities(connection, context.model, [xid])
        resource, entity = loaded.entities.get(str(xid.resource)), loaded.entities.get(str(xid))
        if resource is None or entity is None:
            continue
        version = entity if xid.vid else loaded.default_of(resource)
        if version is not None and lookup.has_authority_of(version):
            if not xid.vid:
                version = await latest_version(connection, context, loaded, resource)
            return None if version is None else (version, resource)
    return None


class _Lookup:
    """The lookup of a URI: the candidate entities, and the names of the authority."""

    def __init__(self, context: Context, reference: DefinitionUri, bases: Iterable[str]) -> None:
        self._node = context.database.node.authority
        self._reference = reference
        self._own = {f"{base.rstrip('/')}{CATALOG_ROOT}" for base in bases} | {self._node}
        self._authorities = {reference.authority}

    async def add_authorities_of_links(self, connection: Connection) -> None:
        """Add the authority of a link's source if the URI has the URL of the source.

        A source without a public URL is the authority `urn:uuid:…`, but gives out URLs.
        """
        root = self._reference.authority
        if root.endswith(CATALOG_ROOT) and root not in self._own:
            found = await linksources.authorities_at(connection, root.removesuffix(CATALOG_ROOT))
            self._authorities |= {catalog_root(authority).rstrip("/") for authority in found}

    async def candidates(self, connection: Connection) -> list[Xid]:
        """The entities with the URI's path at the authority, regardless of the path here."""
        if not self._reference.group:
            return await self._in_any_group(connection)
        xid = Xid(MESSAGE_GROUPS, self._reference.group, GROUP_MESSAGES, self._reference.definition)
        if self._reference.vid:
            xid = xid.version(self._reference.vid)
        return [one.path for one in await store.load_by_path_at_authority(connection, str(xid))]

    async def _in_any_group(self, connection: Connection) -> list[Xid]:
        groups = await store.load_ids(connection, f"/{MESSAGE_GROUPS}")
        definition = self._reference.definition
        xids = [str(Xid(MESSAGE_GROUPS, group, GROUP_MESSAGES, definition)) for group in groups]
        found = await store.load(connection, xids)
        return [Xid.parse(xid) for xid in sorted(found)]

    def has_authority_of(self, version: Entity) -> bool:
        """Whether the URI's authority controls a version."""
        authority = authority_of(version, self._node)
        if authority is None:
            return self._reference.authority in self._own
        return authority.rstrip("/") in self._authorities
