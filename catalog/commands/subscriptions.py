"""`subscription`: who is told of a node's changes."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from catalog.commands.console import (
    DEFAULT_URL,
    EXIT_CODES,
    AsJson,
    Url,
    cell,
    err,
    fail,
    out,
    print_json,
    run,
    table,
)

if TYPE_CHECKING:
    from catalog.client import Events

app = typer.Typer(
    no_args_is_help=True, help=f"Be told of every change as a CloudEvent. {EXIT_CODES}"
)

SubscriptionId = Annotated[
    str, typer.Argument(metavar="ID", help="The subscription's id; `concord subscription list`.")
]
EventTypes = Annotated[
    list[str] | None,
    typer.Option("--type", help="Only events of this type. Repeatable.", metavar="TYPE"),
]
EventFilters = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        help="""Only what this filter admits, such as '{"prefix": {"subject": "/endpoints/"}}'. """
        "Repeatable: all need to admit it.",
        metavar="JSON",
    ),
]
Structured = Annotated[
    bool, typer.Option("--structured", help="Send an event as one JSON object, no ce- headers.")
]

Interval = Annotated[
    float | None,
    typer.Option(
        help="At most one event in so many seconds; of those that come meanwhile, the latest.",
        metavar="SECONDS",
        min=0,
    ),
]


@app.command()
def add(
    sink: Annotated[str, typer.Option(help="Where the events go.", metavar="URL")],
    types: EventTypes = None,
    filters: EventFilters = None,
    structured: Structured = False,
    interval: Interval = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Send every change from now on to an HTTP sink.

    Example: concord subscription add --sink https://example.com/events --structured
    """
    definition = _definition(sink, types, filters, structured=structured)
    if interval is not None:
        definition["config"] = {"interval": interval}
    subscription = run(lambda: _add(definition, url))
    if as_json:
        print_json(subscription)
    else:
        sent_to = cell(subscription["sink"])
        out.print(f"Subscription [bold]{cell(subscription['id'])}[/] sends to {sent_to}.")


@app.command("list")
def list_(as_json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """Show every subscription of a node.

    Example: concord subscription list
    """
    subscriptions = run(lambda: _list(url))
    if as_json:
        print_json(subscriptions)
        return
    shown = table("id", "sink", "types", "state", "delivered", "lag", "error")
    for subscription in subscriptions:
        status = subscription.get("status", {})
        first = (cell(subscription.get(name)) for name in ("id", "sink", "types"))
        rest = (cell(status.get(name)) for name in ("state", "delivered", "lag", "error"))
        shown.add_row(*first, *rest)
    out.print(shown if subscriptions else "Nobody subscribes to this node.")


@app.command()
def show(id: SubscriptionId, url: Url = DEFAULT_URL) -> None:
    """Show one subscription as the API has it.

    Example: concord subscription show 8f2c
    """
    print_json(run(lambda: _show(id, url)))


@app.command()
def remove(id: SubscriptionId, url: Url = DEFAULT_URL) -> None:
    """End a subscription.

    Example: concord subscription remove 8f2c
    """
    run(lambda: _remove(id, url))
    out.print(f"Subscription [bold]{cell(id)}[/] is removed.")


@app.command()
def listen(
    types: EventTypes = None,
    filters: EventFilters = None,
    port: Annotated[
        int, typer.Option(help="The port to listen on; any free one if 0.", min=0, max=65535)
    ] = 0,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Print events as they come, until Ctrl-C; nothing is left behind.

    The node has to reach this machine: it runs here too, or see `concord subscription add`.

    Example: concord subscription listen --type io.xregistry.resource.created
    """
    parsed = [_filter(text) for text in filters or []]
    run(lambda: _listen(types or [], parsed, port, url, as_json=as_json))


def _definition(
    sink: str, types: list[str] | None, filters: list[str] | None, *, structured: bool
) -> dict[str, Any]:
    definition: dict[str, Any] = {"sink": sink, "protocol": "HTTP"}
    if types:
        definition["types"] = types
    if filters:
        definition["filters"] = [_filter(text) for text in filters]
    if structured:
        definition["protocolsettings"] = {"contentmode": "structured"}
    return definition


def _filter(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        fail(
            f"The filter {text!r} is not JSON.",
            """Write it like '{"prefix": {"subject": "/messagegroups/"}}'.""",
        )


async def _add(definition: dict[str, Any], url: str) -> Any:
    from catalog.client import Client

    async with Client.open(url) as client:
        return await client.subscribe(definition)


async def _list(url: str) -> list[dict[str, Any]]:
    from catalog.client import Client

    async with Client.open(url) as client:
        return await client.subscriptions()


async def _show(id: str, url: str) -> Any:
    from catalog.client import Client

    async with Client.open(url) as client:
        return await client.subscription(id)


async def _remove(id: str, url: str) -> None:
    from catalog.client import Client

    async with Client.open(url) as client:
        await client.unsubscribe(id)


async def _listen(
    types: list[str], filters: list[Any], port: int, url: str, *, as_json: bool
) -> None:
    from catalog.client import Client

    async with Client.open(url) as client:
        try:
            async with client.listen(types=types, filters=filters, port=port) as events:
                err.print(f"Listening to {url}; Ctrl-C ends it.")
                async with asyncio.TaskGroup() as tasks:
                    printing = tasks.create_task(_print(events, as_json=as_json))
                    await _interrupted()
                    printing.cancel()
        except OSError as error:
            fail(f"Port {port} cannot be used: {error.strerror}.", "Choose another with --port.")


async def _print(events: Events, *, as_json: bool) -> None:
    async for event in events:
        if as_json:
            print(orjson.dumps(dict(event)).decode(), flush=True)
        else:
            out.print(event_line(event))


async def _interrupted() -> None:
    stop = asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    await stop.wait()


def event_line(event: Any) -> str:
    """One event on one line: when, what, to which entity."""
    time = str(event.get("time", ""))[11:23]
    changed = (event.get("data") or {}).get("changed") or []
    what = f" [dim]{cell(list(changed))}[/]" if changed else ""
    return f"[dim]{time}[/] [cyan]{cell(event.get('type'))}[/] {cell(event.get('subject'))}{what}"
