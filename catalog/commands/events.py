"""The command `events`, and the options that choose events."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from catalog.commands.console import DEFAULT_URL, AsJson, Url, cell, err, fail, on_node, out, wanted
from catalog.model.masking import printable_json

if TYPE_CHECKING:
    from catalog.client import Client
    from catalog.operations.events import EventsQuery

app = typer.Typer()

EventTypes = Annotated[
    list[str] | None,
    typer.Option("--type", help="Only events of this type. Repeatable.", metavar="TYPE"),
]
EventFilters = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        help="""Only events that this filter admits, such as """
        """'{"prefix": {"subject": "/endpoints/"}}'. Repeatable: all of them must admit it.""",
        metavar="JSON",
    ),
]


@app.command()
def events(
    types: EventTypes = None,
    filters: EventFilters = None,
    path: Annotated[
        str | None,
        typer.Option("--path", help="Only events of this path and below it.", metavar="PATH"),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--source",
            help="Only events of this source: the URL of the node, or of one of its dialects.",
            metavar="URL",
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="Begin with `earliest`, after the `sequence` of an event, or at a time.",
            metavar="POSITION",
        ),
    ] = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Print the events of changes as they happen, until Ctrl-C.

    The node sends them over the connection of the command: nothing has to reach this machine, and
    nothing stays at the node. After a loss of the connection, no event is missed.

    Example: concord events --path /messagegroups/shop

    Example: concord events --from 2030-01-01T00:00:00Z --json
    """
    from catalog.operations.events import EventsQuery

    chosen = [orjson.dumps(filter_in(text)).decode() for text in filters or []]
    if path is not None:
        chosen.append(orjson.dumps({"prefix": {"subject": path}}).decode())
    query = wanted(EventsQuery, type=types or [], filter=chosen, source=source, **{"from": start})
    on_node(url, lambda client: _follow(client, query, as_json=as_json))


async def _follow(client: Client, query: EventsQuery, *, as_json: bool) -> None:
    def begun() -> None:
        err.print(f"Following {client.url}; Ctrl-C ends it.")

    following = asyncio.current_task()
    assert following is not None, "a command runs in a task"
    # A signal ends the stream, not the process, so that the client leaves the node in order.
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, following.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        async with contextlib.aclosing(client.events(query, begun=begun)) as events:
            async for event in events:
                if as_json:
                    print(printable_json(orjson.dumps(dict(event)).decode()), flush=True)
                else:
                    out.print(event_line(event))


def filter_in(text: str) -> Any:
    """The filter that an option gives as JSON."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        fail(
            f"The filter {text!r} is not JSON.",
            """Write it like '{"prefix": {"subject": "/messagegroups/"}}'.""",
        )


def event_line(event: Any) -> str:
    """Return an event as a line with time, type, subject and changed attributes."""
    time = cell(str(event.get("time", ""))[11:23])
    changed = (event.get("data") or {}).get("changed") or []
    names = f" [dim]{cell(list(changed))}[/]" if changed else ""
    return f"[dim]{time}[/] [cyan]{cell(event.get('type'))}[/] {cell(event.get('subject'))}{names}"
