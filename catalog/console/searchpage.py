"""The search page: hits with the words marked, and facets that narrow them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from aiohttp import web
from markupsafe import Markup

from catalog.client.errors import Refused
from catalog.console.page import ConsolePage, page_route, render, short_authority
from catalog.operations import search
from catalog.operations.search import READ_REFERENCES, ReferencesQuery

_SHOWN = 20
_FURTHEST = 2000
_CONDITIONS = ("type", "authority", "format", "deprecated")
_PLACES = {"type": "event type", "fields": "field"}
# Shown in the head of a hit, so that they need no line of their own.
_HEAD = ("id", "name", "description")


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundEntity:
    """A hit as the page shows it.

    Args:
        id: the last part of the path, with the words marked; `name` and `description` likewise.
        place: the path of the group of a resource; empty for a group.
        others: further places with the words, each with its texts.
    """

    hit: search.Hit
    id: Markup
    name: Markup
    description: Markup
    place: str
    others: dict[str, list[Markup]]


async def show_search(page: ConsolePage) -> web.Response:
    """The hits of a search, which the browser asks for as one types."""
    asked = page.request.query
    words = asked.get("q", "")[: search.LONGEST_WORDS]
    given = {name: asked.get(name, "")[:2048] for name in _CONDITIONS}
    after = asked.get("after", "")[:4]
    found, fault, first = (
        search.SearchAnswer(hits=[], count=0, complete=True, facets=search.Facets()),
        "",
        0,
    )
    is_asked = bool(words.strip() or any(given.values()))
    if is_asked:
        query = search.SearchQuery(
            q=words,
            type=given["type"] or None,
            authority=given["authority"] or None,
            format=given["format"] or None,
            deprecated="true" if given["deprecated"] else None,
            limit=_SHOWN,
            after=min(int(after), _FURTHEST) if after.isascii() and after.isdigit() else 0,
        )
        asking = page.node.call(search.SEARCH, query=query)
        answer, fault = await page.node.told(asking, 400)
        found, first = answer or found, query.after
    owners = [facet.value for facet in found.facets.authority]
    names = await page.node.names([*filter(None, {given["authority"], *owners})])
    return await render(
        page,
        "search.html",
        q=words,
        names=names,
        given=given,
        is_asked=is_asked,
        found=found,
        fault=fault,
        hits=[_shown(hit) for hit in found.hits],
        users=await _users_of(page, found.hits) if given["deprecated"] else {},
        facets=_facets(found.facets, names),
        several_authorities=len(owners) > 1,
        next=first + _SHOWN if first + _SHOWN < found.count else 0,
        before=max(0, first - _SHOWN) if first else None,
    )


async def _users_of(page: ConsolePage, hits: Sequence[search.Hit]) -> dict[str, int]:
    """How many entities refer to each hit; hits whose references take too long are left out.

    One hit after another is looked at, so that a page takes one connection of the database.
    """
    users = {}
    for hit in hits:
        with suppress(Refused):
            query = ReferencesQuery(of=hit.xid, direction="to")
            answer = await page.node.call(READ_REFERENCES, query=query)
            users[hit.xid] = len({each.source for each in answer.references})
    return users


def _shown(hit: search.Hit) -> FoundEntity:
    id = hit.xid.rpartition("/")[2]
    heads = {match.place: match for match in hit.matches if match.place in _HEAD}
    others: dict[str, list[Markup]] = {}
    for match in hit.matches:
        if match.place not in (*_HEAD, "group"):
            others.setdefault(_PLACES.get(match.place, match.place), []).append(_marked(match))
    return FoundEntity(
        hit=hit,
        id=_or_plain(heads.get("id"), id),
        name=_or_plain(heads.get("name"), hit.name or ""),
        description=_or_plain(heads.get("description"), hit.description or ""),
        place="/".join(hit.xid.split("/")[:3]) if hit.xid.count("/") > 2 else "",
        others=others,
    )


def _or_plain(match: search.SearchMatch | None, text: str) -> Markup:
    return Markup("{}").format(text) if match is None else _marked(match)


def _marked(match: search.SearchMatch) -> Markup:
    """A text with its marked parts; the text itself never becomes HTML."""
    parts, end, text = [], 0, match.text
    for mark in match.marks:
        marked = text[mark.start : mark.end]
        parts.append(Markup("{}<mark>{}</mark>").format(text[end : mark.start], marked))
        end = mark.end
    return Markup("").join([*parts, text[end:]])


def _facets(
    facets: search.Facets, names: Mapping[str, str]
) -> list[tuple[str, str, list[tuple[search.Facet, str]]]]:
    """The facets that the reader can choose from: parameter, title, and values with their texts."""
    shown: list[tuple[str, str, Sequence[search.Facet]]] = [
        ("type", "Type", facets.type),
        ("format", "Format", facets.format),
        ("authority", "Owner", facets.authority),
        ("deprecated", "Deprecated", [each for each in facets.deprecated if each.value == "true"]),
    ]
    return [
        (name, title, [(each, _value_text(name, each.value, names)) for each in values[:12]])
        for name, title, values in shown
        if values
    ]


def _value_text(name: str, value: str, names: Mapping[str, str]) -> str:
    if name == "deprecated":
        return "deprecated only"
    if name != "authority":
        return value
    return names.get(value) or short_authority(value)


search_routes = (page_route("/console/search", show_search),)
