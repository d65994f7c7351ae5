"""The commands about deliveries: `subscription pause`, `resume`, `replay`, `deadletters`, …"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catalog.commands.console import (
    DEFAULT_URL,
    NO,
    AsJson,
    Url,
    call_node,
    cell,
    err,
    fail,
    on_node,
    out,
    print_json,
    print_rows,
    progress_bar,
    wanted,
)
from catalog.model.masking import counted

if TYPE_CHECKING:
    from catalog.client import Client
    from catalog.operations.subscriptions import DeliveryStatus, SubscriptionAnswer

app = typer.Typer()

SubscriptionId = Annotated[
    str,
    typer.Argument(
        metavar="ID", help="The subscription's id, as `concord subscription list` shows it."
    ),
]

deadletters_app = typer.Typer(
    no_args_is_help=True,
    help="Events that a subscription's sink did not take: dead letters.",
)
_LOOK_SECONDS = 0.2
Number = Annotated[
    int,
    typer.Argument(
        metavar="NUMBER", help="Its number, as `concord subscription deadletters list` shows it."
    ),
]
Numbers = Annotated[
    list[int] | None,
    typer.Argument(metavar="NUMBER", help="Their numbers; without any, use an option."),
]
All = Annotated[bool, typer.Option("--all", help="All dead letters of the subscription.")]
Cause = Annotated[
    str | None,
    typer.Option(
        help="Those with this reason, as `deadletters list --causes` shows it.",
        metavar="TEXT",
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


@deadletters_app.command("list")
def list_(
    id: SubscriptionId,
    limit: Annotated[int, typer.Option(help="At most so many dead letters.", min=1)] = 100,
    cause: Cause = None,
    causes: Annotated[
        bool,
        typer.Option("--causes", help="Count them by the reason, the most frequent first."),
    ] = False,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """List undelivered events with the reason, oldest first.

    A "waiting" event follows a dead letter of the same subject; a "due" event is being delivered
    again.

    Example: concord subscription deadletters list 8f2c --causes
    """
    from catalog.operations.deliveries import LIST_CAUSES

    columns: tuple[str, ...]
    found: Sequence[Any]
    if causes:
        columns = ("dead", "waiting", "due", "first", "last", "reason")
        found = call_node(url, LIST_CAUSES, id=id).causes
    else:
        columns = ("number", "state", "subject", "attempts", "at", "reason")
        found = on_node(url, lambda client: client.dead_letters(id, limit, cause=cause))
    print_rows(
        found,
        columns,
        nothing="This subscription has no dead letters.",
        as_json=as_json,
    )


@deadletters_app.command()
def show(id: SubscriptionId, number: Number, url: Url = DEFAULT_URL) -> None:
    """Print a dead letter with its event, as JSON.

    Example: concord subscription deadletters show 8f2c 17
    """
    print_json(on_node(url, lambda client: client.dead_letter(id, number)))


@deadletters_app.command()
def redeliver(
    id: SubscriptionId,
    numbers: Numbers = None,
    since: Annotated[
        str | None,
        typer.Option(help="Those that failed at this time or later.", metavar="TIME"),
    ] = None,
    cause: Cause = None,
    all_: All = False,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Do not wait until they are delivered.")
    ] = False,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Deliver dead letters and the events that wait behind them again, and wait for the outcome.

    The exit code is 1 if an event failed again.

    Example: concord subscription deadletters redeliver 8f2c --since 2026-03-01T12:00:00Z

    Of one cause: concord subscription deadletters redeliver 8f2c --cause "the sink answered 503"
    """
    from catalog.operations.deliveries import Redelivery

    _check_choice(numbers, since is not None, cause is not None, all_)
    moment = wanted(Redelivery, since=since).since
    outcome = on_node(
        url, lambda client: _redeliver(client, id, numbers, moment, cause, waits=not no_wait)
    )
    if as_json:
        print_json(outcome)
    else:
        _report_outcome(outcome)
    if outcome.get("failed"):
        raise typer.Exit(NO)


@deadletters_app.command()
def remove(
    id: SubscriptionId,
    numbers: Numbers = None,
    cause: Cause = None,
    all_: All = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Delete dead letters without delivery; the events that wait behind them are delivered.

    Example: concord subscription deadletters remove 8f2c 17
    """
    _check_choice(numbers, cause is not None, all_)
    removed = on_node(url, lambda client: _remove(client, id, numbers or [], cause))
    out.print(f"{counted(removed, 'events')} removed.")


def _check_choice(numbers: list[int] | None, *options: bool) -> None:
    if sum((bool(numbers), *options)) != 1:
        fail("Name dead letters by their numbers, or use one of the options.", "See --help.")


async def _remove(client: Client, id: str, numbers: list[int], cause: str | None) -> int:
    if not numbers:
        return await client.remove_dead_letters(id, cause=cause)
    for number in numbers:
        await client.remove_dead_letter(id, number)
    return len(numbers)


async def _redeliver(
    client: Client,
    id: str,
    numbers: list[int] | None,
    since: datetime | None,
    cause: str | None,
    *,
    waits: bool,
) -> dict[str, Any]:
    """Redeliver dead letters; return the number of events and, if awaited, the outcome."""
    if numbers:
        answers = [await client.redeliver(id, number) for number in numbers]
    else:
        answers = [await client.redeliver(id, since=since, cause=cause)]
    accepted = sum(answer.accepted for answer in answers)
    if not waits:
        return {"accepted": accepted}
    left = await _wait(client, id)
    before, after = answers[-1].deadletters, left.deadletters
    # Dead letters may be removed meanwhile, so the differences can be negative.
    return {
        "accepted": accepted,
        "failed": max(0, after.dead - before.dead),
        "waiting": max(0, after.waiting - before.waiting),
        "due": after.due,
        "state": left.state,
    }


async def _wait(client: Client, id: str) -> DeliveryStatus:
    """Wait until no event is due, or the subscription is not active; return the last status."""
    told, most = None, 0
    with progress_bar() as progress:
        task = progress.add_task("Delivering", total=None)
        while True:
            status = (await client.subscription(id)).status
            due = status.deadletters.due
            most = max(most, due)
            progress.update(task, total=most, completed=most - due)
            if not due or status.state != "active":
                return status
            if status.error not in (None, told):
                told = status.error
                err.print(f"Waiting for the sink: {cell(told)}. Ctrl-C ends this command only.")
            await asyncio.sleep(_LOOK_SECONDS)


def _report_outcome(outcome: dict[str, Any]) -> None:
    accepted = counted(outcome["accepted"], "events")
    if "due" not in outcome:
        out.print(f"{accepted} will be delivered again.")
        return
    if outcome["due"]:
        out.print(
            f"{counted(outcome['due'], 'events')} will be delivered again when the subscription is "
            f"active; it is {cell(outcome['state'])}."
        )
        return
    failed, waiting = outcome["failed"], outcome["waiting"]
    again = f"; [red]{failed} failed again[/]" if failed else ""
    behind = f", and {waiting} wait behind" if waiting else ""
    delivered = max(0, outcome["accepted"] - failed - waiting)
    out.print(f"{counted(delivered, 'events')} delivered{again}{behind}.")
