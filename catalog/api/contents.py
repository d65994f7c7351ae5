"""Finds the contents of entities that requests name by an xid and an epoch."""

from __future__ import annotations

from dataclasses import replace

from aiohttp import web

from catalog.access.authentication import AUTHENTICATION
from catalog.access.identity import identity_of
from catalog.indexing.schemafields import MOST_BYTES
from catalog.model.caller import EVERYTHING
from catalog.model.entity import Entity
from catalog.model.errors import BadRequest, NotFound
from catalog.model.roles import Permission
from catalog.model.xid import Xid
from catalog.store.database import Connection
from catalog.store.entities import load, load_documents
from catalog.store.revisions import (
    ContentPurged,
    Knowledge,
    ToldChange,
    content_after,
    read_last_change,
)

META = "/meta"
_KEPT = (
    "Contents are kept while the change log lasts, and up to CONCORD_REVISION_BYTES in all; "
    "`concord revisions list` names those that are."
)


def xid_of(request: web.Request, text: str) -> tuple[Xid, bool]:
    """Read the xid of an entity, and whether the meta of a resource is meant.

    Raises:
        BadRequest
    """
    try:
        xid = Xid.parse(text.removesuffix(META))
    except ValueError as error:
        fault = f'"{text[:200]}" needs to be an xid, as /schemagroups/g/schemas/s'
        raise BadRequest(request.path, error_detail=fault) from error
    is_meta = text.endswith(META)
    if is_meta and xid.kind != "resource":
        raise BadRequest(request.path, error_detail=f'"{text[:200]}": only a resource has a meta')
    return xid, is_meta


async def stored_xid(connection: Connection, xid: Xid, *, is_meta: bool = False) -> str:
    """The xid of the row that is meant: for a resource that of its default version.

    Raises:
        NotFound: there is no such resource.
    """
    if xid.kind != "resource" or is_meta:
        return str(xid)
    resource = (await load(connection, [str(xid)])).get(str(xid))
    if resource is None:
        raise NotFound(str(xid))
    return f"{xid}/versions/{resource.attributes.get('defaultversionid')}"


async def knowledge_of(request: web.Request) -> Knowledge:
    """What the caller of a request may know of the authors of changes."""
    identity = identity_of(request)
    if Permission.GRANT not in identity.permissions:
        # The door looks for roles in groups only if the request needs them.
        identity = await request.app[AUTHENTICATION].with_rules(identity)
    scope = identity.scope_of(Permission.GRANT)
    if scope is EVERYTHING:
        return Knowledge(all=True)
    return Knowledge(all=False, rules=scope.rules)


async def content_at(
    connection: Connection, xid: str, epoch: int, known: Knowledge
) -> tuple[Entity, ToldChange | None]:
    """The content of an entity at an epoch, with its document, and the change that made it.

    Raises:
        NotFound: the content is not kept, or was purged.
    """
    told = await read_last_change(connection, xid, epoch, known)
    try:
        found = None if told is None else await content_after(connection, told)
    except ContentPurged as error:
        raise NotFound(xid, detail=f"The content of epoch {epoch} was purged.") from error
    if found is None and (present := (await load(connection, [xid])).get(xid)) is not None:
        documents = await load_documents(connection, [xid])
        if present.epoch == epoch:
            found = replace(present, document=documents.get(xid))
    if found is None:
        raise NotFound(xid, detail=f"It has no content of epoch {epoch}. {_KEPT}")
    return found, told


def with_small_document(entity: Entity) -> Entity:
    """An entity without its document if that is too large to be compared."""
    if entity.document is None or len(entity.document) <= MOST_BYTES:
        return entity
    return replace(entity, document=None)
