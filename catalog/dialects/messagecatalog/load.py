"""Finds a message definition version by its URI (message catalog, 2.2.2 and 4.4.3)."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from catalog.context import Context
from catalog.dialects.messagecatalog.address import GROUP_MESSAGES, MESSAGE_GROUPS
from catalog.dialects.messagecatalog.events import CATALOG_ROOT
from catalog.dialects.messagecatalog.translate import authority_of
from catalog.dialects.messagecatalog.uris import DefinitionUri, catalog_root, parse_uri
from catalog.model.entity import Entity, Origin
from catalog.model.xid import Xid
from catalog.reading import read
from catalog.reading.loaded import Loaded
from catalog.store import entities as store
from catalog.store import links
from catalog.store.database import Connection

_NOTHING = Xid()


async def find(
    connection: Connection, context: Context, uri: str, bases: Collection[str]
) -> tuple[Loaded, Xid]:
    """The definition or version that a URI identifies, with what is known of it.

    Args:
        bases: the URLs that this node's root is reached at.

    Returns:
        the xid of the registry where there is none.
    """
    reference = parse_uri(uri)
    if reference is None:
        return Loaded(), _NOTHING
    seeker = _Seeker(context, reference, bases)
    await seeker.ask_links(connection)
    for xid in await seeker.candidates(connection):
        known = await read.read_entities(connection, context.model, [xid])
        version = seeker.version_in(known, xid)
        if version is not None and seeker.is_meant(version):
            return known, xid
    return Loaded(), _NOTHING


class _Seeker:
    """One look-up: where the definition can be, and whether it is the right one."""

    def __init__(self, context: Context, reference: DefinitionUri, bases: Iterable[str]) -> None:
        self.node = context.database.node.authority
        self.reference = reference
        self.own = {f"{base.rstrip('/')}{CATALOG_ROOT}" for base in bases} | {self.node}
        self.authorities = {reference.authority}

    async def ask_links(self, connection: Connection) -> None:
        """Take a URL that the source of a link answers to for one of that source's authority.

        A source without a public URL is the authority `urn:uuid:…`, but gives out URLs.
        """
        root = self.reference.authority
        if root.endswith(CATALOG_ROOT) and root not in self.own:
            found = await links.authorities_at(connection, root.removesuffix(CATALOG_ROOT))
            self.authorities |= {catalog_root(authority).rstrip("/") for authority in found}

    async def candidates(self, connection: Connection) -> list[Xid]:
        """Where an entity of this name is here, be it under another name than at its origin."""
        if not self.reference.group:
            return await self._in_any_group(connection)
        xid = Xid(MESSAGE_GROUPS, self.reference.group, GROUP_MESSAGES, self.reference.definition)
        if self.reference.vid:
            xid = xid.version(self.reference.vid)
        origins = [
            Origin(one, str(xid))
            for authority in self.authorities
            for one in (authority, authority.removesuffix(CATALOG_ROOT))
        ]
        copies = await store.load_by_origin(connection, origins)
        return [*dict.fromkeys([xid, *(copy.path for copy in copies.values())])]

    async def _in_any_group(self, connection: Connection) -> list[Xid]:
        groups = await store.load_ids(connection, f"/{MESSAGE_GROUPS}")
        definition = self.reference.definition
        xids = [str(Xid(MESSAGE_GROUPS, group, GROUP_MESSAGES, definition)) for group in groups]
        found = await store.load(connection, xids)
        return [Xid.parse(xid) for xid in sorted(found)]

    def version_in(self, known: Loaded, xid: Xid) -> Entity | None:
        entity = known.entities.get(str(xid))
        return known.default_of(entity) if entity is not None and not xid.vid else entity

    def is_meant(self, version: Entity) -> bool:
        """Whether the URI's authority is the one that controls a definition."""
        authority = authority_of(version, self.node)
        if authority is None:
            return self.reference.authority in self.own
        return authority.rstrip("/") in self.authorities
