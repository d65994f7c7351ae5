"""The commands `get`, `list`, `search` and `references`: what a catalog has."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Literal

import orjson
import typer

from catalog.commands.console import (
    DEFAULT_URL,
    NO,
    AsJson,
    CommandError,
    Url,
    call_node,
    cell,
    err,
    on_node,
    out,
    print_json,
    table,
    wanted,
)
from catalog.model.masking import printable, printable_lines

if TYPE_CHECKING:
    from catalog.client import Client, JsonObject
    from catalog.operations.search import FoundReference, Hit, SearchAnswer

app = typer.Typer()
_MOST_ROWS = 1000
_WIDEST = 60
_PAGE = 1000
_SHOWN_VALUES = 5
_HEADINGS = {"to": "Refers to it", "from": "It refers to"}


@app.command()
def get(
    path: Annotated[str, typer.Argument(metavar="XID", help="An xid or any path of the API.")] = (
        "/"
    ),
    inline: Annotated[
        list[str] | None,
        typer.Option(help="Show this collection, too; * shows all of them. Repeatable."),
    ] = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Show what is at a path as JSON, or the unchanged document of a schema.

    Every path of the API can be shown: /model, /capabilities, /-/counts, /replication/links.

    Example: concord get /messagegroups --inline '*'

    Example: concord get '/schemagroups/g/schemas/s$details'

    Exit codes: 0 shown; 1 the path does not exist; 2 the command could not do its work.
    """
    xid, _, query = path.partition("?")
    pairs = (pair.partition("=") for pair in query.split("&") if pair)
    params = [(name, value) for name, _, value in pairs]
    params += [("inline", ",".join(inline))] if inline else []
    answer = on_node(url, lambda client: client.request("GET", xid, params=params))
    if not answer.is_json:
        sys.stdout.buffer.write(answer.body)
        return
    print_json(orjson.loads(answer.body))


@app.command("list")
def list_(
    type: Annotated[
        str,
        typer.Argument(
            metavar="TYPE",
            help="A type of groups or resources, such as messages, or the path of a collection; "
            "the types that there are without any.",
        ),
    ] = "",
    filters: Annotated[
        list[str] | None,
        typer.Option(
            "--filter",
            help="Only those that this expression selects, such as envelope=CloudEvents/1.0 or "
            "name=*alarm*; commas mean and. Repeatable: any of them.",
            metavar="EXPRESSION",
        ),
    ] = None,
    output: Annotated[
        Literal["table", "json", "yaml", "ids"],
        typer.Option("--output", "-o", help="ids are xids, one in each line."),
    ] = "table",
    url: Url = DEFAULT_URL,
) -> None:
    """List the entities of a type in the whole catalog, or the entities of a collection.

    Example: concord list messages --filter 'name=*alarm*'

    Example: concord list /messagegroups/weather/messages -o ids

    Exit codes: 0 listed, even if the list is empty; 1 the path does not exist, or the catalog
    refuses the filter; 2 the command could not do its work.
    """
    most = _MOST_ROWS + 1 if output == "table" else None

    async def found(client: Client) -> list[JsonObject]:
        listed: list[JsonObject] = []
        async for entity in _entities(client, type.strip("/"), filters or []):
            listed.append(entity)
            if len(listed) == most:
                break
        return listed

    entities = on_node(url, found)
    match output:
        case "table":
            _show_table(entities, is_whole=len(entities) <= _MOST_ROWS)
        case "json":
            print_json(entities)
        case "yaml":
            from catalog.documents.serialization import to_yaml

            sys.stdout.write(printable_lines(to_yaml(entities).decode()))
        case "ids":
            sys.stdout.writelines(f"{printable(str(each.get('xid')))}\n" for each in entities)


async def _entities(client: Client, type: str, filters: list[str]) -> AsyncIterator[JsonObject]:
    """The entities of a type or of the collection at a path; without `type`, the group types."""
    groups = (await client.model())["groups"]
    if not type:
        root = await client.get("/")
        for plural, kind in groups.items():
            below = ", ".join(kind.get("resources") or {})
            described = {"description": f"groups of {below}"} if below else {}
            count = f"{plural}count"
            yield {"xid": f"/{plural}", **described, count: root.get(count)}
        return
    if "/" in type or type in groups:
        if type.count("/") % 2:
            raise CommandError(f"/{type} is no collection.", f"Show it: concord get /{type}")
        paths = [f"/{type}"]
    else:
        owners = [p for p, kind in groups.items() if type in (kind.get("resources") or {})]
        if not owners:
            resources = {name for kind in groups.values() for name in kind.get("resources") or {}}
            known = ", ".join([*groups, *sorted(resources)])
            raise CommandError(f"{type} is no type of this catalog.", f"There are {known}.")
        paths = [
            f"/{plural}/{id}/{type}"
            for plural in owners
            async for id, group in client.items(f"/{plural}")
            if group.get(f"{type}count") != 0
        ]
    for path in paths:
        async for _, entity in client.items(path, filters=filters, page_size=_PAGE):
            yield entity


def _show_table(entities: Iterable[Mapping[str, Any]], *, is_whole: bool) -> None:
    shown = table("xid", "name or description", "below", "modified")
    for entity in islice(entities, _MOST_ROWS):
        name = str(entity.get("name") or entity.get("description") or "")
        counts = (
            f"{collection.removesuffix('count')} {count}"
            for collection, count in entity.items()
            if collection.endswith("count") and isinstance(count, int)
        )
        shown.add_row(
            cell(entity["xid"]),
            cell(name if len(name) <= _WIDEST else f"{name[:_WIDEST]}…"),
            cell(", ".join(counts)),
            cell(str(entity.get("modifiedat", ""))[:19]),
        )
    if shown.row_count:
        out.print(shown)
    if not is_whole:
        err.print("There are more: --filter selects some, and `concord list -o ids` lists all.")


@app.command()
def search(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="WORDS", help="Words, or beginnings of words, that all occur."),
    ] = None,
    type: Annotated[
        str | None,
        typer.Option(
            "--type",
            help="Only this type: `messages`, `messagegroups/messages`, `endpoints`, …",
            metavar="TYPE",
        ),
    ] = None,
    authority: Annotated[
        str | None, typer.Option(help="Only entities of this catalog.", metavar="URI")
    ] = None,
    format: Annotated[
        str | None,
        typer.Option("--format", help="Only schemas of this format, as `avro`.", metavar="FORMAT"),
    ] = None,
    deprecated: Annotated[
        bool, typer.Option("--deprecated", help="Only entities that are deprecated.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, max=100, help="At most so many hits.")] = 20,
    after: Annotated[int, typer.Option(min=0, max=2000, help="Leave out the first hits.")] = 0,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Find groups, endpoints, messages and schemas by words, the best hits first.

    Words are looked for in ids, names, descriptions, labels, types of events, and names of fields
    of schemas. Ids and names are split at humps and dots: `order` finds `OrderCreated`.

    Example: concord search order created

    Example: concord search customerId --type schemas --format avro
    """
    from catalog.operations.search import SEARCH, SearchQuery

    query = wanted(
        SearchQuery,
        q=" ".join(words or ()),
        type=type,
        authority=authority,
        format=format,
        deprecated="true" if deprecated else None,
        limit=limit,
        after=after,
    )
    answer = call_node(url, SEARCH, query=query)
    if as_json:
        print_json(answer)
    else:
        _print(answer, after)
    if not answer.count:
        raise typer.Exit(NO)


def _print(answer: SearchAnswer, after: int) -> None:
    if answer.hits:
        shown = table("entity", "format", "changed", "where", "text")
        for hit in answer.hits:
            shown.add_row(*_row(hit))
        out.print(shown)
        most = "" if answer.complete else "at least "
        last = after + len(answer.hits)
        out.print(f"Hits {after + 1:,} to {last:,} of {most}{answer.count:,}.")
        for facet in ("type", "format", "authority"):
            counts = getattr(answer.facets, facet)
            if len(counts) > 1:
                first = [f"{each.value} ({each.count:,})" for each in counts[:_SHOWN_VALUES]]
                more = ", …" if len(counts) > _SHOWN_VALUES else ""
                out.print(f"--{facet}: {cell(', '.join(first))}{more}")
    elif answer.count:
        out.print(f"There are only {answer.count:,} hits.")
    else:
        out.print("Nothing was found." if answer.complete else "Nothing was found yet.")


def _row(hit: Hit) -> list[str]:
    """The columns of a hit: its xid, format and time, and the first match outside of its id."""
    matches = [match for match in hit.matches if match.place not in ("id", "group")]
    where, text = (matches[0].place, matches[0].text) if matches else ("", hit.name or "")
    changed = hit.modifiedat.date().isoformat()
    xid = f"{hit.xid} (deprecated)" if hit.deprecated else hit.xid
    return [*map(cell, (xid, hit.format, changed, where)), cell(" ".join(text.split()))]


@app.command()
def references(
    of: Annotated[
        str,
        typer.Argument(metavar="XID", help="A group, resource or version, as /endpoints/orders."),
    ],
    direction: Annotated[
        str, typer.Option(help="References `to` the entity, `from` the entity, or `both`.")
    ] = "both",
    depth: Annotated[
        int, typer.Option(min=1, max=5, help="1 for direct references, more to follow them.")
    ] = 1,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Show what refers to an entity, and what the entity refers to.

    These are schemas of messages, base messages, groups of endpoints, cross references, and what
    documents name in `$ref` and imports. An entity is used through its group, too: with a depth of
    2, a schema shows the messages that use it, and the endpoints that use the messages.

    Example: concord references /schemagroups/shop/schemas/Order --direction to --depth 2
    """
    from catalog.operations.search import READ_REFERENCES, ReferencesQuery

    query = wanted(ReferencesQuery, of=of, direction=direction, depth=depth)
    answer = call_node(url, READ_REFERENCES, query=query)
    if as_json:
        print_json(answer)
    else:
        for way, heading in _HEADINGS.items():
            rows = [each for each in answer.references if each.direction == way]
            if rows:
                shown = table("depth", "source", "target", "where", title=heading)
                for each in rows:
                    shown.add_row(*map(cell, _reference_row(each)))
                out.print(shown)
        if not answer.references:
            out.print("There are no references.")
        if not answer.complete:
            out.print("There are more than could be followed.")
    if not answer.references:
        raise typer.Exit(NO)


def _reference_row(found: FoundReference) -> tuple[str, str, str, str]:
    target = found.target or f"{found.text} (not here)"
    places = ", ".join(place.removeprefix("/") for place in found.places)
    return str(found.depth), found.source, target, places
