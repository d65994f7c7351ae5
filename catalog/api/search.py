"""Entities by words (`/-/search`), by references (`/-/references`), and their numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from aiohttp import web

from catalog.context import CONTEXT, Context, SchemaUnknown
from catalog.http.flags import next_page
from catalog.http.route import Route, model_response
from catalog.http.stream import in_search_time
from catalog.indexing.indexrow import Text, format_of, texts_of, type_of
from catalog.indexing.schemafields import field_names
from catalog.indexing.words import Mark, WantedWords
from catalog.load.workthread import aside
from catalog.model.entity import Entity
from catalog.model.errors import BadRequest, NotFound
from catalog.model.schema import Model
from catalog.model.xid import Xid, resource_of
from catalog.operations import search as declared
from catalog.operations.nodestate import COUNT_ENTITIES, EntityCount, EntityCounts
from catalog.operations.search import (
    READ_REFERENCES,
    FoundReference,
    ReferencesAnswer,
    ReferencesQuery,
)
from catalog.reading.references import Direction, ReferenceReader, SchemaAddresses
from catalog.store.database import Connection
from catalog.store.entities import load
from catalog.store.monitoring import count_all, count_seen
from catalog.store.searchindex import MOST_CANDIDATES, FoundEntities, WordSearch, find

_MOST_FACETS = 50
_MOST_MATCHES = 10
_LONGEST_MATCH = 200
_LONGEST_DESCRIPTION = 300
_ADVICE = "Give more letters of each word, more words, or a condition."
# The characters that a shortened text shows before its first mark.
_BEFORE = 40
_NEARER = "Follow references less far (`depth`), or in one direction."
_MOST_VALUES = 100
_ELSEWHERE = "The registry has the numbers of its groups: `GET /`."


async def search_entities(request: web.Request, query: declared.SearchQuery) -> web.Response:
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
            connection, search, query.after, query.limit, is_restricted=context.caller.is_restricted
        )
    answer = await aside(len(found.entities), _answer, found, search.wanted)
    following = query.after + query.limit
    has_more = following < found.count
    return model_response(answer, headers=next_page(request, after=following) if has_more else {})


def _types(model: Model, wanted: str) -> list[str]:
    """The types with a path of plurals, or with a last plural; an unknown type is itself."""
    known = {
        path
        for plural, group in model.groups.items()
        for path in (plural, *(f"{plural}/{below}" for below in group.resources))
    }
    return [path for path in known if path.rpartition("/")[2] == wanted] or [wanted]


def _answer(found: FoundEntities, wanted: WantedWords) -> declared.SearchAnswer:
    return declared.SearchAnswer(
        hits=[_hit(entity, wanted, found.deprecated) for entity in found.entities],
        count=found.count,
        complete=found.count < MOST_CANDIDATES,
        facets=declared.Facets(**{name: _facets(counts) for name, counts in found.facets.items()}),
    )


def _facets(counts: Mapping[str, int]) -> list[declared.Facet]:
    return [
        declared.Facet(value=v, count=count) for v, count in list(counts.items())[:_MOST_FACETS]
    ]


def _hit(entity: Entity, wanted: WantedWords, deprecated: Collection[str]) -> declared.Hit:
    attributes, format = entity.attributes, format_of(entity)
    name, description = (
        found if isinstance(found := attributes.get(each), str) else None
        for each in ("name", "description")
    )
    return declared.Hit(
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


def _matches(entity: Entity, wanted: WantedWords) -> Iterator[declared.SearchMatch]:
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


def _match(text: Text, marks: list[Mark]) -> declared.SearchMatch:
    """The part of a text that begins shortly before the first mark."""
    start = max(marks[0].start - _BEFORE, 0) if len(text.text) > _LONGEST_MATCH else 0
    end = start + _LONGEST_MATCH
    return declared.SearchMatch(
        place=text.place,
        text=text.text[start:end],
        marks=[
            declared.MarkedPart(start=mark.start - start, end=min(mark.end, end) - start)
            for mark in marks
            if mark.start < end
        ],
    )


async def list_references(request: web.Request, query: ReferencesQuery) -> ReferencesAnswer:
    """List what refers to an entity, and what the entity refers to, directly or through others."""
    context = request[CONTEXT]
    try:
        xid = str(Xid.parse(query.of))
    except ValueError as error:
        fault = '"of" needs to be an xid, as /schemagroups/g/schemas/s'
        raise BadRequest(request.path, error_detail=fault) from error
    directions: tuple[Direction, ...] = ("to", "from")
    if query.direction != "both":
        directions = (query.direction,)
    async with in_search_time(request, _NEARER), context.database.snapshot() as connection:
        entity = (await load(connection, [xid])).get(xid)
        if entity is None:
            raise NotFound(xid)
        bases = (context.base_url(request), context.public_base)
        reader = ReferenceReader(
            connection, context.database.node.authority, bases, _addresses(context, connection)
        )
        found = await reader.read(entity, directions, query.depth)
    references = [FoundReference.model_validate(each) for each in found.edges]
    return ReferencesAnswer(of=xid, references=references, complete=found.are_complete)


def _addresses(context: Context, connection: Connection) -> SchemaAddresses | None:
    """The addresses of the node's dialect that name schemas."""
    if (dialect := context.shared.schema_dialect) is None:
        return None

    async def find(path: str, authority: str) -> Xid | None:
        try:
            return await dialect.find(context, connection, path, authority)
        except SchemaUnknown:
            return None

    async def of_schema(schema: Xid, authority: str) -> Sequence[str]:
        return await dialect.addresses(context, connection, schema, authority)

    return SchemaAddresses(root=dialect.root, find=find, of_schema=of_schema)


async def count_entities(request: web.Request) -> EntityCounts:
    """Count the groups and resources that the caller sees, by type, authority and format."""
    context = request[CONTEXT]
    count = count_seen if context.caller.is_restricted else count_all
    async with in_search_time(request, _ELSEWHERE), context.database.acquire() as connection:
        found = await count(connection)
    return EntityCounts(
        basis=found.basis,
        count=found.number,
        type=_most(found.by_type),
        authority=_most(found.by_authority),
        format=_most(found.by_format),
    )


def _most(counts: Counter[str]) -> list[EntityCount]:
    """The most frequent values, equally frequent ones in their order."""
    ranked = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    return [EntityCount(value=value, count=number) for value, number in ranked[:_MOST_VALUES]]


routes = (
    Route(declared.SEARCH, search_entities),
    Route(READ_REFERENCES, list_references),
    Route(COUNT_ENTITIES, count_entities),
)
