"""The pages of the catalog: its types, collections and entities, each at `/console/e` + path."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from aiohttp import hdrs, web

from catalog.console.accesspages import group_access
from catalog.console.actions import Offers, offers
from catalog.console.entityforms import NEW_VERSION, create, delete, edit
from catalog.console.entityschema import ShownSchema, schema_of
from catalog.console.entitytabs import changes_of, copies_of, raw_of, uses_of, versions_of
from catalog.console.entitytypes import EntityType, type_of
from catalog.console.nodecalls import place_after
from catalog.console.page import ENTITIES, ConsolePage, entity_url, page_route, render
from catalog.console.startpage import group_counts
from catalog.console.subscriptionpages import TELL_ME
from catalog.model.errors import NotFound
from catalog.model.xid import Xid
from catalog.operations.authoritycards import LIST_AUTHORITIES
from catalog.operations.federation import READ_FRESHNESS, FreshnessQuery
from catalog.operations.followers import READ_ARRIVALS, ArrivalsQuery

_SHOWN = 50
_TABS = ("about", "schema", "versions", "changes", "uses", "copies", "access", "raw")
# Shown in other places of the page, or only of use to programs.
_ELSEWHERE = frozenset(
    {"self", "shortself", "xid", "epoch", "name", "description", "documentation", "icon", "labels"}
    | {"createdat", "modifiedat", "authority", "origin", "isdefault", "versionid"}
    | {"deprecated", "metaurl", "versionsurl", "versionscount", "meta"}
)
_PART_OF_ID = re.compile(r"[A-Za-z0-9\-._~:@*]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownAttribute:
    """An attribute of an entity, with what the model says of it."""

    name: str
    value: Any
    description: str


async def show_catalog(page: ConsolePage) -> web.Response:
    """The types of groups."""
    return await render(page, "catalog.html", types=await group_counts(page))


async def show_path(page: ConsolePage) -> web.Response:
    """A collection or an entity."""
    path = f"/{page.request.match_info['path']}".rstrip("/") or "/"
    if path == "/":
        return await show_catalog(page)
    parts = path.split("/")[1:]
    try:
        parent = Xid.parse("/" + "/".join(parts[: len(parts) // 2 * 2]) if len(parts) > 1 else "/")
    except ValueError:
        raise NotFound(path) from None
    model = await page.node.get("/model")
    if len(parts) % 2:
        if len(parts) == 5:
            target = f"{entity_url(str(parent))}?tab=versions"
            return web.Response(status=303, headers={hdrs.LOCATION: target})
        return await _show_collection(page, path, parent.child(parts[-1], "_"), model)
    return await _show_entity(page, parent, type_of(model, parent))


async def _show_collection(
    page: ConsolePage, path: str, example: Xid, model: Mapping[str, Any]
) -> web.Response:
    kind = type_of(model, example)
    asked = page.request.query
    wanted, after = asked.get("id", "").strip()[:128], asked.get("after", "")[:1024]
    rows, following = await _rows_at(page, path, kind, wanted, after)
    return await render(
        page,
        "collection.html",
        path=path,
        crumbs=_crumbs(path),
        kind=kind,
        rows=rows,
        wanted=wanted,
        next=following,
        is_continued=bool(after),
        offers=offers(page, [create], {"in": path}, within=path if example.rid else ""),
    )


async def _rows_at(
    page: ConsolePage, path: str, kind: EntityType, wanted: str = "", after: str = ""
) -> tuple[list[dict[str, Any]], str]:
    """A page of a collection, and the place after which the next page begins, if there is one."""
    if not _PART_OF_ID.fullmatch(wanted):
        return [], ""
    params = {"limit": str(_SHOWN)}
    if wanted:
        params["filter"] = f"{kind.singular}id=*{wanted}*"
    if after:
        params["after"] = after
    answer = await page.node.request("GET", path, params=params)
    found = orjson.loads(answer.body)
    rows = [{"id": id, **entity} for id, entity in found.items()]
    return rows, place_after(answer)


async def _show_entity(page: ConsolePage, xid: Xid, kind: EntityType) -> web.Response:
    entity = await page.node.get(kind.address_of(xid))
    tab = page.request.query.get("tab", "about")
    meta, owner, schema = await asyncio.gather(
        page.node.found(f"{xid.resource}/meta") if xid.rid else _nothing(),
        page.node.call(READ_FRESHNESS, query=FreshnessQuery(of=str(xid))),
        schema_of(page, xid, kind, entity),
    )
    values: dict[str, Any] = {
        "xid": str(xid),
        "crumbs": _crumbs(str(xid)),
        "kind": kind,
        "level": xid.kind,
        "entity": entity,
        "meta": meta or {},
        "attributes": list(_attributes(entity, kind)),
        "owner": owner,
        "schema": schema,
        "resource": str(xid.resource) if xid.rid else "",
        "tabs": _tabs(xid, schema),
        "tab": tab if tab in _TABS else "about",
        "offers": offers(page, [TELL_ME], {"about": str(xid.resource if xid.rid else xid)}),
        "event_type": _event_type(entity),
        "edits": None if "authority" in entity else _edits(page, xid),
    }
    match tab:
        case "versions" if xid.rid:
            values |= await versions_of(page, xid)
            if "authority" not in entity:
                given = {"in": f"{xid.resource}/versions"}
                values["versioning"] = offers(page, [NEW_VERSION], given, within=str(xid))
        case "changes":
            values |= await changes_of(page, xid)
        case "uses":
            values |= await uses_of(page, xid)
        case "access":
            values |= await group_access(page, str(xid.group))
        case "copies":
            arrivals, known = await asyncio.gather(
                page.node.call(READ_ARRIVALS, query=ArrivalsQuery(of=str(xid))),
                page.node.call(LIST_AUTHORITIES),
            )
            here = known.authorities[0]
            values["copies"] = copies_of(owner, arrivals, here, page.request.host)
        case "raw":
            values |= await raw_of(page, xid, kind, entity)
        case "about" if xid.kind == "group":
            values["collections"] = await _collections_of(page, xid, kind, entity)
    return await render(page, "entity.html", **values)


def _edits(page: ConsolePage, xid: Xid) -> Offers:
    return offers(page, [edit, delete], within=str(xid), path=str(xid).removeprefix("/"))


def _event_type(entity: Mapping[str, Any]) -> str:
    """The type of the CloudEvents that a message defines, if it is one text."""
    metadata = entity.get("envelopemetadata")
    found = metadata.get("type") if isinstance(metadata, Mapping) else None
    value = found.get("value") if isinstance(found, Mapping) else None
    return value if isinstance(value, str) and "{" not in value else ""


async def _nothing() -> None:
    return None


def _tabs(xid: Xid, schema: ShownSchema | None) -> list[tuple[str, str]]:
    tabs = [("about", "About")]
    if schema is not None:
        tabs.append(("schema", "Schema"))
    if xid.rid:
        tabs.append(("versions", "Versions"))
    return [
        *tabs,
        ("changes", "Changes"),
        ("uses", "Used by"),
        ("copies", "Copies"),
        ("access", "Access"),
        ("raw", "API"),
    ]


def _attributes(entity: Mapping[str, Any], kind: EntityType) -> Iterator[ShownAttribute]:
    hidden = {*_ELSEWHERE, f"{kind.singular}id"}
    for plural in kind.children:
        hidden |= {plural, f"{plural}url", f"{plural}count"}
    for name, value in entity.items():
        if name not in hidden:
            described = kind.attributes.get(name, {})
            yield ShownAttribute(
                name=name, value=value, description=str(described.get("description", ""))
            )


async def _collections_of(
    page: ConsolePage, xid: Xid, kind: EntityType, entity: Mapping[str, Any]
) -> list[dict[str, Any]]:
    found = []
    for plural, resource in kind.children.items():
        path = f"{xid}/{plural}"
        child = EntityType(singular=resource["singular"], children={}, attributes={})
        rows, following = await _rows_at(page, path, child)
        number = entity.get(f"{plural}count", len(rows))
        found.append(
            {"path": path, "plural": plural, "rows": rows, "number": number, "more": following}
        )
    return found


def _crumbs(path: str) -> list[tuple[str, str]]:
    """The steps from the catalog to a path: the text of each, and the page of each but the last."""
    parts = path.split("/")[1:]
    steps = [(part, entity_url("/" + "/".join(parts[: i + 1]))) for i, part in enumerate(parts)]
    return [("Catalog", ENTITIES), *steps]


entity_routes = (
    page_route(ENTITIES, show_catalog),
    page_route(f"{ENTITIES}/{{path:.*}}", show_path),
)
