"""The pages of the catalog: its types, collections and entities, each at `/console/e` + path."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import orjson
from aiohttp import hdrs, web
from yarl import URL

from catalog.client.errors import BadAnswer, Refused
from catalog.console.accesspages import group_access
from catalog.console.actions import Offers, offers
from catalog.console.changepage import changes_for, days_of, own_authority
from catalog.console.difference import ShownDifference
from catalog.console.entityforms import CREATE, DELETE, EDIT, NEW_VERSION
from catalog.console.entitytypes import EntityType, type_of
from catalog.console.fieldtree import FieldRow, fields_of
from catalog.console.newsubscription import TELL_ME
from catalog.console.page import ENTITIES, ConsolePage, entity_url, local_path, page_route, render
from catalog.console.placedcopies import copies_of
from catalog.console.startpage import group_counts
from catalog.context import CONTEXT
from catalog.load.longwork import in_thread
from catalog.model.errors import NotFound
from catalog.model.roles import Permission
from catalog.model.xid import Xid, is_valid_id
from catalog.operations.authoritycards import LIST_AUTHORITIES
from catalog.operations.diff import READ_DIFF, DiffQuery
from catalog.operations.federation import READ_FRESHNESS, FreshnessQuery
from catalog.operations.followers import READ_ARRIVALS, ArrivalsQuery
from catalog.operations.references import DEEPEST, READ_REFERENCES, ReferencesQuery
from catalog.operations.subscriptions import (
    LIST_SUBSCRIPTIONS,
    SubscriptionAnswer,
    SubscriptionsQuery,
)

_SHOWN = 50
_LARGEST_TEXT = 256 * 1024
_MOST_REFERENCES = 500
_MOST_TOLD = 100
_TABS = ("about", "schema", "versions", "changes", "uses", "copies", "access", "raw")
# Shown in other places of the page, or only of use to programs.
_ELSEWHERE = frozenset(
    {"self", "shortself", "xid", "epoch", "name", "description", "documentation", "icon", "labels"}
    | {"createdat", "modifiedat", "authority", "origin", "isdefault", "versionid"}
    | {"deprecated", "metaurl", "versionsurl", "versionscount", "meta"}
)
_LONG_NUMBER = re.compile(rb"\d{16}")
_PART_OF_ID = re.compile(r"[A-Za-z0-9\-._~:@*]*")
# The names of types in the older draft.
_REGISTRY04 = {
    "endpoints": "endpoints",
    "messagegroups": "definitionGroups",
    "messages": "definitions",
    "schemagroups": "schemaGroups",
    "schemas": "schemas",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownAttribute:
    """An attribute of an entity, with what the model says of it."""

    name: str
    value: Any
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownSchema:
    """The path, the format, the fields and the text of a schema.

    Args:
        text: the document; `None` if the document is no text, or too large for a page.
    """

    path: str
    format: str
    fields: list[FieldRow]
    text: str | None
    size: int


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
        offers=offers(page, [CREATE], {"in": path}, within=path if example.rid else ""),
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
    return rows, URL(answer.next_page).query.get("after", "") if answer.next_page else ""


async def _show_entity(page: ConsolePage, xid: Xid, kind: EntityType) -> web.Response:
    entity = await page.node.get(kind.address_of(xid))
    tab = page.request.query.get("tab", "about")
    meta, owner, schema = await asyncio.gather(
        page.node.found(f"{xid.resource}/meta") if xid.rid else _nothing(),
        page.node.call(READ_FRESHNESS, query=FreshnessQuery(of=str(xid))),
        _schema_of(page, xid, kind, entity),
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
            values |= await _versions_of(page, xid)
            if "authority" not in entity:
                given = {"in": f"{xid.resource}/versions"}
                values["versioning"] = offers(page, [NEW_VERSION], given, within=str(xid))
        case "changes":
            values |= await _changes_of(page, xid)
        case "uses":
            values |= await _uses_of(page, xid)
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
            values |= await _raw_of(page, xid, kind, entity)
        case "about" if xid.kind == "group":
            values["collections"] = await _collections_of(page, xid, kind, entity)
    lines = _lines_in(values.get("json", "")) + len(values.get("days", ()))
    if (difference := values.get("difference")) is not None:
        lines += difference.size
    if schema is not None:
        lines += len(schema.fields) + _lines_in(schema.text or "")
    return await render(page, "entity.html", items=lines, **values)


def _edits(page: ConsolePage, xid: Xid) -> Offers:
    return offers(page, [EDIT, DELETE], within=str(xid), path=str(xid).removeprefix("/"))


def _event_type(entity: Mapping[str, Any]) -> str:
    """The type of the CloudEvents that a message defines, if it is one text."""
    metadata = entity.get("envelopemetadata")
    found = metadata.get("type") if isinstance(metadata, Mapping) else None
    value = found.get("value") if isinstance(found, Mapping) else None
    return value if isinstance(value, str) and "{" not in value else ""


def _lines_in(text: str) -> int:
    return text.count("\n")


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


async def _schema_of(
    page: ConsolePage, xid: Xid, kind: EntityType, entity: Mapping[str, Any]
) -> ShownSchema | None:
    """The schema that an entity is, or that the payload of a message has, if the schema is here."""
    if kind.has_document and xid.rid:
        return await _read_schema(page, str(xid), str(entity.get("format", "")))
    inline = entity.get("dataschema")
    if inline is not None:
        format = str(entity.get("dataschemaformat", ""))
        text = inline if isinstance(inline, str) else orjson.dumps(inline).decode()
        return await in_thread(_shown_schema, "", format, text.encode())
    target = local_path(entity.get("dataschemaxid") or entity.get("dataschemauri"))
    if target is None:
        return None
    found = await page.node.found(f"{target}$details")
    if found is None:
        return None
    return await _read_schema(page, target, str(found.get("format", "")))


async def _read_schema(page: ConsolePage, path: str, format: str) -> ShownSchema | None:
    try:
        document = await page.node.document(path)
        return await in_thread(_shown_schema, path, format, document)
    except BadAnswer:
        # The document is elsewhere, or too large.
        return None
    except Refused as error:
        if error.problem.status in (401, 403, 404):
            return None
        raise


def _shown_schema(path: str, format: str, document: bytes) -> ShownSchema | None:
    if not document:
        return None
    return ShownSchema(
        path=path,
        format=format,
        fields=fields_of(format, document),
        text=_as_text(document),
        size=len(document),
    )


def _as_text(document: bytes) -> str | None:
    """A document as a page shows it: JSON with indents, other texts as they are."""
    if len(document) > _LARGEST_TEXT or b"\0" in document:
        return None
    # JSON with numbers that a double cannot hold, or nested too deeply, is shown as it is.
    if not _LONG_NUMBER.search(document):
        with contextlib.suppress(orjson.JSONDecodeError, orjson.JSONEncodeError):
            return orjson.dumps(orjson.loads(document), option=orjson.OPT_INDENT_2).decode()
    try:
        return document.decode()
    except UnicodeDecodeError:
        return None


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


async def _uses_of(page: ConsolePage, xid: Xid) -> dict[str, Any]:
    """What refers to an entity, and what it refers to: directly, or through others."""
    try:
        query = ReferencesQuery(of=str(xid), depth=DEEPEST)
        found = await page.node.call(READ_REFERENCES, query=query)
    except Refused as error:
        if error.problem.name != "search_too_costly":
            raise
        direct = await page.node.call(READ_REFERENCES, query=ReferencesQuery(of=str(xid)))
        found = direct.model_copy(update={"complete": False})
    shown = found.references[:_MOST_REFERENCES]
    return {
        "used_by": [each for each in shown if each.direction == "to"],
        "uses": [each for each in shown if each.direction == "from"],
        "are_all": found.complete and len(shown) == len(found.references),
        "depth": DEEPEST,
        "told": await _told_of(page, xid),
    }


async def _told_of(page: ConsolePage, xid: Xid) -> list[SubscriptionAnswer] | None:
    """The first subscriptions that are sent changes of an entity; `None` if they are not told."""
    if not page.may(Permission.SUBSCRIBE):
        return None
    query = SubscriptionsQuery(about=str(xid), limit=_MOST_TOLD)
    try:
        return (await page.node.call(LIST_SUBSCRIPTIONS, query=query)).root
    except Refused as error:
        if error.problem.status != 403 and error.problem.name != "search_too_costly":
            raise
        return None


async def _versions_of(page: ConsolePage, xid: Xid) -> dict[str, Any]:
    """The versions of a resource, and the difference between two of them."""
    asked = page.request.query
    params = {"limit": str(_SHOWN)}
    if after := asked.get("after", "")[:1024]:
        params["after"] = after
    path = f"{xid.resource}/versions"
    answer = await page.node.request("GET", path, params=params)
    versions = list(orjson.loads(answer.body).values())
    older, newer = asked.get("older", "")[:128], asked.get("newer", "")[:128]
    if not older and not newer and len(versions) > 1:
        older, newer = versions[-2]["versionid"], versions[-1]["versionid"]
    difference = None
    if is_valid_id(older) and is_valid_id(newer):
        difference = await _difference_of(page, xid.resource.version(older), newer)
    following = URL(answer.next_page).query.get("after", "") if answer.next_page else ""
    return {
        "versions": versions,
        "next": following,
        "older": older,
        "newer": newer,
        "difference": difference,
    }


async def _difference_of(page: ConsolePage, xid: Xid, newer: str) -> ShownDifference | None:
    """The difference of a version to another one of the resource; `None` if one is not there."""
    try:
        found = await page.node.call(READ_DIFF, query=DiffQuery(of=str(xid), to=newer))
    except Refused as error:
        if error.problem.status != 404:
            raise
        return None
    return ShownDifference(found)


async def _changes_of(page: ConsolePage, xid: Xid) -> dict[str, Any]:
    """The changes of an entity and of what is below it."""
    given = {"path": str(xid), "before": page.request.query.get("before", "")[:100]}
    (entries, following, fault), own = await asyncio.gather(
        changes_for(page, given), own_authority(page)
    )
    return {
        "days": days_of(entries),
        "next": following,
        "fault": fault,
        "own": own,
        "names": await page.node.names(sorted({each.authority for each in entries})),
    }


async def _raw_of(
    page: ConsolePage, xid: Xid, kind: EntityType, entity: Mapping[str, Any]
) -> dict[str, Any]:
    """The JSON of an entity, and how to read it by each API."""
    base = page.request[CONTEXT].base_url(page.request)
    candidates = []
    if xid.groups in _REGISTRY04:
        names = {"groups": _REGISTRY04[xid.groups], "resources": _REGISTRY04.get(xid.resources, "")}
        older = xid._replace(**names)
        candidates.append(("CloudEvents Registry 0.4", f"/registry/0.4{older}"))
    if xid.kind == "group" and xid.groups == "endpoints":
        name = quote(str(entity.get("name", xid.gid)), safe="")
        candidates.append(("Discovery", f"/services?name={name}"))
    if xid.rid and xid.groups == "messagegroups":
        candidates.append(
            ("Message Catalog", f"/messagecatalog/{xid.gid}/messagedefinitions/{xid.rid}")
        )
    if xid.rid and xid.groups == "schemagroups":
        subject = f":.{xid.gid}:{xid.rid}"
        version = "latest" if xid.kind == "resource" else xid.vid
        candidates.append(
            ("Confluent Schema Registry", f"/confluent/subjects/{subject}/versions/{version}")
        )
    answers = await asyncio.gather(*(page.node.found(path) for _, path in candidates))
    suffix = "$details" if kind.has_document else ""
    return {
        "json": orjson.dumps(entity, option=orjson.OPT_INDENT_2).decode(),
        "base": base,
        "suffix": suffix,
        "dialects": [
            named for named, answer in zip(candidates, answers, strict=True) if answer is not None
        ],
    }


def _crumbs(path: str) -> list[tuple[str, str]]:
    """The steps from the catalog to a path: the text of each, and the page of each but the last."""
    parts = path.split("/")[1:]
    steps = [(part, entity_url("/" + "/".join(parts[: i + 1]))) for i, part in enumerate(parts)]
    return [("Catalog", ENTITIES), *steps]


entity_routes = (
    page_route(ENTITIES, show_catalog),
    page_route(f"{ENTITIES}/{{path:.*}}", show_path),
)
