"""The commands `get` for an entity, and `list` for the entities of a type or collection."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Literal

import orjson
import typer

from catalog.commands.console import (
    DEFAULT_URL,
    AsJson,
    CommandError,
    Url,
    cell,
    err,
    on_node,
    out,
    print_json,
    table,
)
from catalog.model.masking import printable, printable_lines

if TYPE_CHECKING:
    from catalog.client import Client, JsonObject

app = typer.Typer()
_MOST_ROWS = 1000
_WIDEST = 60
_PAGE = 1000


@app.command()
def get(
    path: Annotated[str, typer.Argument(metavar="XID", help="An xid or any path of the API.")] = (
        "/"
    ),
    inline: Annotated[
        list[str] | None,
        typer.Option(help="Show this collection, too; * shows all of them. Repeatable."),
    ] = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Show the entity at a path as JSON, or the unchanged document of a schema.

    On a terminal, a collection is shown as a table, unless --inline or --json is given.

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
    found = orjson.loads(answer.body)
    if out.is_terminal and not (inline or as_json) and _is_collection(found):
        _show_table(found.values(), is_whole=not answer.next_page)
    else:
        print_json(found)


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


def _is_collection(found: Any) -> bool:
    return isinstance(found, dict) and all(
        isinstance(each, dict) and "xid" in each for each in found.values()
    )


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
