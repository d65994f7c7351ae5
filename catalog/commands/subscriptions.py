"""The commands `subscription add`, `list`, `show`, `remove` and `protocols`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from catalog.commands import deliveries, deliverysignatures
from catalog.commands.console import (
    DEFAULT_URL,
    AsJson,
    Url,
    call_node,
    cell,
    fail,
    fields,
    json_of,
    on_node,
    out,
    print_json,
    print_rows,
    table,
    wanted,
)
from catalog.commands.deliveries import SubscriptionId
from catalog.commands.events import EventFilters, EventTypes, filter_in
from catalog.commands.secretsources import secret_object, text_of
from catalog.model.masking import counted
from catalog.model.sinkterms import SignatureScheme, protocol_of

if TYPE_CHECKING:
    from catalog.operations.subscriptions import DeliveryStatus, TriedSubscription

SECRET_VARIABLE = "CONCORD_SINK_SECRET"
_CREDENTIAL = '{"credentialtype": "PLAIN", "identifier": "bob", "secret": "…"}'
_PREFIX = "protocolsettings."

app = typer.Typer(no_args_is_help=True, help="Send the changes of a catalog as CloudEvents.")

app.add_typer(deliverysignatures.app)
app.add_typer(deliveries.app)
app.add_typer(deliveries.deadletters_app, name="deadletters")
app.add_typer(deliverysignatures.keys_app, name="keys")


@app.command()
def add(
    sink: Annotated[str, typer.Option(help="The URL that events are sent to.", metavar="URL")],
    types: EventTypes = None,
    filters: EventFilters = None,
    structured: Annotated[
        bool,
        typer.Option(
            "--structured", help="Send an event as one JSON object, its attributes included."
        ),
    ] = False,
    interval: Annotated[
        float | None,
        typer.Option(
            help="Send at most one event in this time: the latest of those that occurred in it.",
            metavar="SECONDS",
            min=0,
        ),
    ] = None,
    protocol: Annotated[
        str | None,
        typer.Option(
            help="The delivery protocol, such as HTTP or KAFKA; `concord subscription protocols` "
            "lists them. Without it, the scheme of the sink's URL decides: kafka:// is KAFKA, "
            "mqtt:// MQTT5.",
            metavar="NAME",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--setting",
            help="A setting of the protocol, such as topicname=events. Repeatable. A value that is "
            "JSON counts as JSON, so a text of digits needs quotes: 'topicname=\"2026\"'.",
            metavar="NAME=VALUE",
        ),
    ] = None,
    signature: Annotated[
        SignatureScheme | None,
        typer.Option(
            help="Sign every request over HTTP, as Standard Webhooks say, with a key that the node "
            "makes. It is printed for the receiver, who checks requests with it: the public key "
            "for ed25519, the shared secret, this once, for hmac-sha256.",
        ),
    ] = None,
    user: Annotated[
        str | None,
        typer.Option(
            "--user",
            help=f"The user that the node proves to be, with the password that {SECRET_VARIABLE} "
            "has: a command line can be read by others on the machine.",
            metavar="NAME",
        ),
    ] = None,
    credential: Annotated[
        str | None,
        typer.Option(
            "--credential",
            help=f"A file with the sinkcredential in JSON, such as {_CREDENTIAL}; - is standard "
            "input.",
            metavar="FILE",
        ),
    ] = None,
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
    from catalog.operations.subscriptions import (
        TRY_SUBSCRIPTION,
        NewSubscription,
        NewSubscriptionQuery,
    )

    chosen = {"contentmode": "structured"} if structured else {}
    definition = wanted(
        NewSubscription,
        sink=sink,
        protocol=protocol or protocol_of(sink),
        types=types or [],
        filters=[filter_in(text) for text in filters or []],
        protocolsettings=chosen | _settings(settings or [], signature),
        sinkcredential=_credential(user, credential),
        config={} if interval is None else {"interval": interval},
    )
    if dry_run:
        query = NewSubscriptionQuery(dryrun=True)
        _print_trial(call_node(url, TRY_SUBSCRIPTION, definition, query=query), as_json)
        return
    subscription = on_node(url, lambda client: client.subscribe(definition))
    if as_json:
        print_json(subscription)
    else:
        sent_to = cell(subscription.sink)
        once = " once this has consented" if subscription.status.state == "pending" else ""
        out.print(f"Subscription [bold]{cell(subscription.id)}[/] sends to {sent_to}{once}.")
        for key in subscription.signingkeys or ():
            for line in deliverysignatures.key_lines(key):
                out.print(line)


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
def show(
    id: SubscriptionId,
    attempts: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Show the last N delivery attempts instead, newest first. Not every success in a "
            "row is kept.",
        ),
    ] = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Show the definition of a subscription, the status of the delivery, and its signing keys.

    The current key is the first one. Secrets are not shown.

    Example: concord subscription show 8f2c

    Example: concord subscription show 8f2c --attempts 20
    """
    if attempts is not None:
        print_rows(
            on_node(url, lambda client: client.delivery_attempts(id, attempts)),
            ("at", "outcome", "events", "milliseconds", "reason"),
            nothing="Nothing was sent to this sink yet.",
            as_json=as_json,
        )
        return
    subscription = json_of(on_node(url, lambda client: client.subscription(id)))
    if as_json:
        print_json(subscription)
        return
    status, keys = subscription.pop("status"), subscription.pop("signingkeys", ())
    out.print(fields({**subscription, **status}, _STATUS))
    if keys:
        columns = ("id", "signature", "publickey", "createdat", "endsat")
        shown = table(*columns, title="Signing keys")
        for key in keys:
            shown.add_row(*map(cell, map(key.get, columns)))
        out.print(shown)


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


def _settings(texts: list[str], signature: SignatureScheme | None) -> dict[str, Any]:
    """The protocol settings of `NAME=VALUE` texts, with the signature."""
    given = dict(map(_setting, texts))
    if signature is None:
        return given
    if "signature" in given:
        fail("--signature and --setting signature=… exclude each other.")
    return {**given, "signature": signature}


def _setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        # The message does not quote the text, which may be a secret.
        fail("A setting needs a name and a value.", "Write it like --setting topicname=events.")
    try:
        return name, orjson.loads(value)
    except orjson.JSONDecodeError:
        return name, value


def _credential(user: str | None, file: str | None) -> dict[str, Any] | None:
    """The credential of a user with a password, or of a file; `None` without either."""
    if user is not None and file is not None:
        fail("--user and --credential exclude each other.")
    if user is not None:
        return _password_of(user)
    return None if file is None else secret_object(text_of(file), file, _CREDENTIAL)


def _password_of(user: str) -> dict[str, Any]:
    secret = os.environ.get(SECRET_VARIABLE)
    if not secret:
        fail(
            f"The variable {SECRET_VARIABLE} has no password for {user}.",
            f"Set it for this command: read -rs {SECRET_VARIABLE}; export {SECRET_VARIABLE}",
        )
    return {"credentialtype": "PLAIN", "identifier": user, "secret": secret}


@app.command()
def protocols(as_json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """List the protocols by which a node can send events, with the settings of each protocol.

    Example: concord subscription protocols
    """
    described = on_node(url, lambda client: client.get("/openapi.json"))
    found = list(_protocols_in(described))
    if as_json:
        print_json(found)
        return
    overview = table("protocol", "installed", "URLs")
    settings = table("protocol", "setting", "default", "meaning")
    for protocol in found:
        name = cell(protocol["name"])
        schemes = ", ".join(f"{scheme}://" for scheme in protocol["schemes"])
        overview.add_row(name, cell(protocol.get("missing", "yes")), cell(schemes))
        for setting in protocol["settings"]:
            default = "(required)" if setting["required"] else cell(setting["default"])
            settings.add_row(name, cell(setting["name"]), default, cell(setting["description"]))
    out.print(overview)
    out.print(settings)


def _protocols_in(described: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The delivery protocols in the OpenAPI document of a node."""
    for name, schema in described["components"]["schemas"].items():
        if name.startswith(_PREFIX):
            required = schema.get("required", ())
            yield {
                **schema["x-delivery-protocol"],
                "settings": [
                    {
                        "name": setting,
                        "required": setting in required,
                        "default": about.get("default"),
                        "description": about.get("description", ""),
                    }
                    for setting, about in schema.get("properties", {}).items()
                ],
            }
