"""The search for groups and resources by words: `GET /-/search`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from urllib.parse import urlencode

from aiohttp import web

from catalog.context import CONTEXT
from catalog.http.route import Route, model_response
from catalog.http.stream import in_search_time
from catalog.indexing.indexrow import Text, format_of, texts_of, type_of
from catalog.indexing.schemafields import field_names
from catalog.indexing.words import Mark, WantedWords
from catalog.load.longwork import aside
from catalog.model.entity import Entity
from catalog.model.errors import BadRequest
from catalog.model.schema import Model
from catalog.model.xid import resource_of
from catalog.operations.search import (
    SEARCH,
    Facet,
    Facets,
    Hit,
    MarkedPart,
    SearchAnswer,
    SearchMatch,
    SearchQuery,
)
from catalog.store.searchindex import MOST_CANDIDATES, FoundEntities, WordSearch, find

_MOST_FACETS = 50
_MOST_MATCHES = 10
_LONGEST_MATCH = 200
_LONGEST_DESCRIPTION = 300
_ADVICE = "Give more letters of each word, more words, or a condition."
# The characters that a shortened text shows before its first mark.
_BEFORE = 40


async def search_entities(request: web.Request, query: SearchQuery) -> web.Response:
    """Search groups and resources by words of their ids, texts and schemas."""
    search = WordSearch(
        words=query.q,
        types=None if query.type is None else _types(request[CONTEXT].model, query.type),
        authority=query.authority,
        format=query.format,
        deprecated=query.deprecated is not None,
    )
    if search.is_empty:
        fault = 'it needs "q" with a word, or a condition ("type", "authority", "format", …)'
        raise BadRequest(request.path, error_detail=fault)
    context = request[CONTEXT]
    async with in_search_time(request, _ADVICE), context.database.acquire() as connection:
        found = await find(
            connection,
            search,
            query.after,
            query.limit,
            is_restricted=context.caller.is_restricted,
        )
    answer = await aside(len(found.entities), _answer, found, search.wanted)
    headers = {}
    following = query.after + query.limit
    if following < found.count:
        kept = {name: value for name, value in request.query.items() if name != "after"}
        following_page = urlencode({**kept, "after": following})
        headers["Link"] = f"<{context.base_url(request)}/-/search?{following_page}>;rel=next"
    return model_response(answer, headers=headers)


routes = (Route(SEARCH, search_entities),)


def _types(model: Model, wanted: str) -> list[str]:
    """The types with a path of plurals, or with a last plural; an unknown type is itself."""
    known = {
        path
        for plural, group in model.groups.items()
        for path in (plural, *(f"{plural}/{below}" for below in group.resources))
    }
    return [path for path in known if path.rpartition("/")[2] == wanted] or [wanted]


def _answer(found: FoundEntities, wanted: WantedWords) -> SearchAnswer:
    return SearchAnswer(
        hits=[_hit(entity, wanted, found.deprecated) for entity in found.entities],
        count=found.count,
        complete=found.count < MOST_CANDIDATES,
        facets=Facets(**{name: _facets(counts) for name, counts in found.facets.items()}),
    )


def _facets(counts: Mapping[str, int]) -> list[Facet]:
    return [Facet(value=v, count=count) for v, count in list(counts.items())[:_MOST_FACETS]]


def _hit(entity: Entity, wanted: WantedWords, deprecated: Collection[str]) -> Hit:
    attributes, format = entity.attributes, format_of(entity)
    name, description = (
        found if isinstance(found := attributes.get(each), str) else None
        for each in ("name", "description")
    )
    return Hit(
        xid=resource_of(entity.xid),
        type=type_of(entity.xid),
        name=name,
        description=description and description[:_LONGEST_DESCRIPTION],
        authority=entity.authority,
        format=format,
        epoch=entity.epoch,
        modifiedat=entity.modifiedat,
        deprecated=entity.xid in deprecated,
        xref=attributes.get("xref") if entity.kind == "resource" else None,
        matches=list(_matches(entity, wanted)),
    )


def _matches(entity: Entity, wanted: WantedWords) -> Iterator[SearchMatch]:
    number = 0
    for text in _texts(entity):
        marks = wanted.marks_in(text.text)
        if marks and number < _MOST_MATCHES:
            number += 1
            yield _match(text, marks)


def _texts(entity: Entity) -> Iterator[Text]:
    yield from texts_of(entity)
    if entity.document is not None:
        for name in field_names(entity.document):
            yield Text(place="fields", text=name)


def _match(text: Text, marks: list[Mark]) -> SearchMatch:
    """The part of a text that begins shortly before the first mark."""
    start = max(marks[0].start - _BEFORE, 0) if len(text.text) > _LONGEST_MATCH else 0
    end = start + _LONGEST_MATCH
    return SearchMatch(
        place=text.place,
        text=text.text[start:end],
        marks=[
            MarkedPart(start=mark.start - start, end=min(mark.end, end) - start)
            for mark in marks
            if mark.start < end
        ],
    )
