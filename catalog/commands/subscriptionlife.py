"""The commands `subscription pause`, `resume`, `replay`, `test` and `attempts`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from catalog.commands.console import (
    DEFAULT_URL,
    NO,
    AsJson,
    Url,
    cell,
    json_of,
    on_node,
    out,
    print_json,
    table,
)

if TYPE_CHECKING:
    from catalog.operations.subscriptions import SubscriptionAnswer

app = typer.Typer()

SubscriptionId = Annotated[
    str,
    typer.Argument(
        metavar="ID", help="The subscription's id, as `concord subscription list` shows it."
    ),
]


@app.command()
def pause(
    id: SubscriptionId,
    reason: Annotated[
        str | None, typer.Option(help="Why, for others who look at it.", metavar="TEXT")
    ] = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Deliver nothing until the subscription is resumed. The cursor stays, so no event is missed.

    Example: concord subscription pause 8f2c --reason "the sink moves"
    """
    subscription = on_node(url, lambda client: client.pause_subscription(id, reason))
    _report(subscription, "is paused", as_json=as_json)


@app.command()
def resume(id: SubscriptionId, as_json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """Continue deliveries at the place where the subscription was paused.

    A subscription that waits after a failure tries again at once.

    Example: concord subscription resume 8f2c
    """
    subscription = on_node(url, lambda client: client.resume_subscription(id))
    _report(subscription, "delivers", as_json=as_json)


@app.command()
def replay(
    id: SubscriptionId,
    start: Annotated[
        str,
        typer.Option(
            "--from",
            help="`earliest`, the `sequence` of an event, after which it goes on, a time, or `now`"
            " to leave out what was not delivered.",
            metavar="PLACE",
        ),
    ],
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Deliver the events again from a place in the log, in order.

    Example: concord subscription replay 8f2c --from 2026-03-01T12:00:00Z
    """
    subscription = on_node(url, lambda client: client.replay_subscription(id, start))
    lag = subscription.status.lag
    count = f"{lag} or more" if lag >= 1000 else lag
    _report(subscription, f"goes on from {start}: {count} changes to look at", as_json=as_json)


@app.command("test")
def send_example(id: SubscriptionId, as_json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """Send an example event to the sink now, and show the sink's answer.

    The event has the type concord.subscription.test. The subscription does not change. The exit
    code is 1 if the sink does not accept the event.

    Example: concord subscription test 8f2c
    """
    found = on_node(url, lambda client: client.test_subscription(id))
    is_accepted = found.outcome == "delivered"
    if as_json:
        print_json(found)
    else:
        colour, verb = ("green", "accepted") if is_accepted else ("red", "did not accept")
        answer = cell(found.answer)
        out.print(
            f"[{colour}]The sink {verb} the example event[/] after {found.milliseconds} ms: "
            f"{answer}."
        )
    if not is_accepted:
        raise typer.Exit(NO)


@app.command()
def attempts(
    id: SubscriptionId,
    limit: Annotated[int, typer.Option(help="The most attempts to show.", min=1)] = 20,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """List the last delivery attempts, newest first. Not every success in a row is kept.

    Example: concord subscription attempts 8f2c --limit 5
    """
    found = on_node(url, lambda client: client.delivery_attempts(id, limit))
    if as_json:
        print_json(found)
        return
    columns = ("at", "outcome", "events", "milliseconds", "reason")
    shown = table(*columns)
    for attempt in map(json_of, found):
        shown.add_row(*(cell(attempt.get(name)) for name in columns))
    out.print(shown if found else "Nothing was sent to this sink yet.")


def _report(subscription: SubscriptionAnswer, done: str, *, as_json: bool) -> None:
    """Print a subscription after a command as JSON, or a sentence on the command's effect."""
    if as_json:
        print_json(subscription)
        return
    state = subscription.status.state
    but = " It is still paused." if state == "paused" and done != "is paused" else ""
    if state == "pending":
        but = " But first its sink has to consent."
    out.print(f"Subscription [bold]{cell(subscription.id)}[/] {cell(done)}.{but}")
