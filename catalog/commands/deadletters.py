"""The commands `subscription deadletters list`, `causes`, `show`, `redeliver` and `remove`."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catalog.commands.console import (
    DEFAULT_URL,
    NO,
    AsJson,
    Url,
    cell,
    err,
    fail,
    json_of,
    on_node,
    out,
    print_json,
    progress_bar,
    table,
    wanted,
)
from catalog.commands.subscriptionlife import SubscriptionId

if TYPE_CHECKING:
    from catalog.client import Client
    from catalog.operations.subscriptions import DeliveryStatus

app = typer.Typer(
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
        help="Those with this reason, as `concord subscription deadletters causes` shows it.",
        metavar="TEXT",
    ),
]


@app.command("list")
def list_(
    id: SubscriptionId,
    limit: Annotated[int, typer.Option(help="At most so many dead letters.", min=1)] = 100,
    cause: Cause = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """List undelivered events with the reason, oldest first.

    A "waiting" event follows a dead letter of the same subject; a "due" event is being delivered
    again.

    Example: concord subscription deadletters list 8f2c
    """
    found = on_node(url, lambda client: client.dead_letters(id, limit, cause=cause))
    if as_json:
        print_json(found)
        return
    columns = ("number", "state", "subject", "attempts", "at", "reason")
    shown = table(*columns)
    for letter in map(json_of, found):
        shown.add_row(*(cell(letter.get(name)) for name in columns))
    out.print(shown if found else "This subscription has no dead letters.")


@app.command()
def causes(id: SubscriptionId, as_json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """Count undelivered events by the reason, the most frequent reason first.

    Example: concord subscription deadletters causes 8f2c
    """
    found = on_node(url, lambda client: client.dead_letter_causes(id))
    if as_json:
        print_json(found)
        return
    columns = ("dead", "waiting", "due", "first", "last", "reason")
    shown = table(*columns)
    for each in map(json_of, found):
        shown.add_row(*(cell(each.get(name)) for name in columns))
    out.print(shown if found else "This subscription has no dead letters.")


@app.command()
def show(id: SubscriptionId, number: Number, url: Url = DEFAULT_URL) -> None:
    """Print a dead letter with its event, as JSON.

    Example: concord subscription deadletters show 8f2c 17
    """
    print_json(on_node(url, lambda client: client.dead_letter(id, number)))


@app.command()
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
        _report(outcome)
    if outcome.get("failed"):
        raise typer.Exit(NO)


@app.command()
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
    out.print(f"{_events(removed)} removed.")


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


def _report(outcome: dict[str, Any]) -> None:
    accepted = _events(outcome["accepted"])
    if "due" not in outcome:
        out.print(f"{accepted} will be delivered again.")
        return
    if outcome["due"]:
        out.print(
            f"{_events(outcome['due'])} will be delivered again when the subscription is active; "
            f"it is {cell(outcome['state'])}."
        )
        return
    failed, waiting = outcome["failed"], outcome["waiting"]
    again = f"; [red]{failed} failed again[/]" if failed else ""
    behind = f", and {waiting} wait behind" if waiting else ""
    delivered = max(0, outcome["accepted"] - failed - waiting)
    out.print(f"{_events(delivered)} delivered{again}{behind}.")


def _events(count: int) -> str:
    return f"{count} event{'' if count == 1 else 's'}"
