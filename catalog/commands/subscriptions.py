"""The command group `subscription`, and its commands `add`, `list`, `show`, `remove`, `listen`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from catalog.commands import (
    deadletters,
    deliveryprotocols,
    keyexchange,
    subscriptionlife,
    verify,
)
from catalog.commands.console import (
    DEFAULT_URL,
    AsJson,
    Url,
    cell,
    err,
    fail,
    fields,
    json_of,
    on_node,
    out,
    print_json,
    table,
    wanted,
)
from catalog.commands.events import (
    EventFilters,
    EventTypes,
    filter_in,
    print_until_interrupted,
)
from catalog.commands.sinkoptions import (
    CredentialFile,
    Protocol,
    ProtocolSettings,
    Signature,
    User,
    credential_of,
    protocol_of,
    settings_of,
)
from catalog.commands.subscriptionlife import SubscriptionId
from catalog.model.masking import counted

if TYPE_CHECKING:
    from catalog.client import Client
    from catalog.operations.subscriptions import DeliveryStatus, TriedSubscription

app = typer.Typer(no_args_is_help=True, help="Send the changes of a catalog as CloudEvents.")

app.add_typer(deliveryprotocols.app)
app.add_typer(verify.app)
app.add_typer(subscriptionlife.app)
app.add_typer(deadletters.app, name="deadletters")
app.add_typer(keyexchange.app, name="keys")

Structured = Annotated[
    bool,
    typer.Option("--structured", help="Send an event as one JSON object, its attributes included."),
]

Interval = Annotated[
    float | None,
    typer.Option(
        help="Send at most one event in this time: the latest of those that occurred in it.",
        metavar="SECONDS",
        min=0,
    ),
]


@app.command()
def add(
    sink: Annotated[str, typer.Option(help="The URL that events are sent to.", metavar="URL")],
    types: EventTypes = None,
    filters: EventFilters = None,
    structured: Structured = False,
    interval: Interval = None,
    protocol: Protocol = None,
    settings: ProtocolSettings = None,
    signature: Signature = None,
    user: User = None,
    credential: CredentialFile = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Only tell which events of the latest changes it would have sent."
        ),
    ] = False,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Send an event for each change from now on to a sink.

    Example: concord subscription add --sink https://example.com/events --structured

    Signed: concord subscription add --sink https://example.com/events --signature ed25519

    To a topic of Kafka: concord subscription add --sink kafka://HOST:9092/TOPIC
    """
    from catalog.operations.subscriptions import NewSubscription

    chosen = {"contentmode": "structured"} if structured else {}
    definition = wanted(
        NewSubscription,
        sink=sink,
        protocol=protocol or protocol_of(sink),
        types=types or [],
        filters=[filter_in(text) for text in filters or []],
        protocolsettings=chosen | settings_of(settings or [], signature),
        sinkcredential=credential_of(user, credential),
        config={} if interval is None else {"interval": interval},
    )
    if dry_run:
        _print_trial(on_node(url, lambda client: client.try_subscription(definition)), as_json)
        return
    subscription = on_node(url, lambda client: client.subscribe(definition))
    if as_json:
        print_json(subscription)
    else:
        sent_to = cell(subscription.sink)
        once = " once this has consented" if subscription.status.state == "pending" else ""
        out.print(f"Subscription [bold]{cell(subscription.id)}[/] sends to {sent_to}{once}.")
        for key in subscription.signingkeys or ():
            keyexchange.print_key(key)


def _print_trial(found: TriedSubscription, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    changes = counted(found.changes, "latest changes")
    out.print(f"Of the {changes}, it would have sent {counted(found.events, 'events')}.")
    shown = table("time", "type", "subject")
    for each in found.first:
        shown.add_row(*(cell(each.get(name)) for name in ("time", "type", "subject")))
    if found.first:
        out.print(shown)


@app.command("list")
def list_(
    about: Annotated[
        str | None,
        typer.Option(metavar="XID", help="Only those that a change of this entity is sent to."),
    ] = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """List the subscriptions of a node with their state.

    "dead" counts undelivered events, "lag" counts changes that the subscription has not yet
    examined, and "lag (s)" is the age of the oldest unexamined change in seconds.

    Example: concord subscription list

    Example: concord subscription list --about /schemagroups/shop/schemas/Order
    """
    subscriptions = on_node(url, lambda client: client.subscriptions(about=about))
    if as_json:
        print_json(subscriptions)
        return
    shown = table("id", "state", "sink", "delivered", "dead", "lag", "lag (s)", "problem")
    for subscription in subscriptions:
        status, letters = subscription.status, subscription.status.deadletters
        shown.add_row(
            cell(subscription.id),
            cell(status.state),
            cell(subscription.sink),
            cell(status.delivered),
            cell(letters.dead + letters.waiting + letters.due),
            cell(status.lag),
            cell(round(status.lagseconds)),
            cell(_problem(status)),
        )
    nothing = "No subscription is sent its changes." if about else "This node has no subscriptions."
    out.print(shown if subscriptions else nothing)


@app.command()
def show(id: SubscriptionId, as_json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """Show the definition of a subscription and the status of the delivery.

    Example: concord subscription show 8f2c
    """
    subscription = json_of(on_node(url, lambda client: client.subscription(id)))
    if as_json:
        print_json(subscription)
        return
    status = subscription.pop("status")
    out.print(fields({**subscription, **status}, _STATUS))


_STATUS = {
    "protocolsettings": "protocol settings",
    "sinkcredential": "sink credential",
    "createdat": "created at",
    "failures": "failures in a row",
    "failingsince": "failing since",
    "error": "last error",
    "nextattemptat": "next attempt at",
    "deliveredat": "last delivered at",
    "failed": "failed events",
    "failedattempts": "failed attempts",
    "failedat": "last failed at",
    "failedcause": "last failed because",
    "lag": "lag (changes)",
    "lagseconds": "lag (seconds)",
    "oldestundelivered": "oldest undelivered",
    "deadletters": "dead letters",
    "initialevents": "initial events",
}


def _problem(status: DeliveryStatus) -> str | None:
    """The most urgent problem of a subscription: a loss, an error, or the reason for the state."""
    if status.lost:
        return f"changes were lost at {json_of(status.lost)['at']}"
    return status.error or status.reason


@app.command()
def remove(id: SubscriptionId, url: Url = DEFAULT_URL) -> None:
    """End a subscription.

    Example: concord subscription remove 8f2c
    """
    on_node(url, lambda client: client.unsubscribe(id))
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
    """Print events as they occur, until Ctrl-C.

    The command subscribes with a sink on this machine, and ends the subscription when it stops. A
    node that cannot reach this machine needs `concord subscription add` instead.

    Example: concord subscription listen --type io.xregistry.resource.created
    """
    parsed = [filter_in(text) for text in filters or []]
    on_node(url, lambda client: _listen(client, types or [], parsed, port, as_json=as_json))


async def _listen(
    client: Client, types: list[str], filters: list[Any], port: int, *, as_json: bool
) -> None:
    try:
        async with client.listen(types=types, filters=filters, port=port) as events:
            err.print(f"Listening to {client.url}; Ctrl-C ends it.")
            await print_until_interrupted(events, as_json=as_json)
    except OSError as error:
        fail(f"Port {port} cannot be used: {error.strerror}.", "Choose another with --port.")
