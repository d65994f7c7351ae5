"""The commands `search`, groups and resources by words, and `counts`, what there is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from catalog.commands.console import (
    DEFAULT_URL,
    NO,
    AsJson,
    Url,
    cell,
    on_node,
    out,
    print_json,
    table,
    wanted,
)

if TYPE_CHECKING:
    from catalog.operations.search import Hit, SearchAnswer

app = typer.Typer()

_SHOWN_VALUES = 5


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
    from catalog.operations.search import SearchQuery

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
    answer = on_node(url, lambda client: client.search(query))
    if as_json:
        print_json(answer)
    else:
        _print(answer, after)
    if not answer.count:
        raise typer.Exit(NO)


@app.command()
def counts(as_json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """Count the groups and resources by type, owner and format.

    Of a catalog with more than some 40,000, the numbers are estimated from a sample.

    Example: concord counts --url http://127.0.0.1:8080
    """
    from catalog.operations.nodestate import COUNT_ENTITIES

    found = on_node(url, lambda client: client.call(COUNT_ENTITIES))
    if as_json:
        print_json(found)
        return
    shown = table("", "value", "number")
    for name, values in (
        ("type", found.type),
        ("authority", found.authority),
        ("format", found.format),
    ):
        for each in values:
            shown.add_row(name, cell(each.value), f"{each.count:,}")
    out.print(shown)
    basis = {"all": "", "sample": ", estimated from a sample", "first": ", the first ones"}
    out.print(f"{found.count:,} groups and resources{basis[found.basis]}.")


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
