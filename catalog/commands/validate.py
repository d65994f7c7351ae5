"""The command `validate`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from catalog.commands.console import (
    CANNOT,
    DEFAULT_URL,
    NO,
    AsJson,
    Url,
    cell,
    fail,
    on_node,
    out,
    print_json,
    table,
)

if TYPE_CHECKING:
    from catalog.client import Client

app = typer.Typer()


@app.command()
def validate(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="MESSAGE",
            help="A file with a CloudEvent in JSON, or a message of AMQP, MQTT, Kafka, HTTP or "
            "NATS as JSON; - for standard input.",
        ),
    ],
    message: Annotated[
        str,
        typer.Option(
            "--message",
            help="The definition: a message of a message group or an endpoint, or one version.",
            metavar="XID",
        ),
    ],
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Check whether a message conforms to a definition, and list the broken rules.

    A CloudEvent is a JSON object with a specversion. Every other object is a message of a
    protocol: the members have the names of a definition's protocoloptions, and the body is
    `payload` (a JSON value or text) or `payload_base64`:

    {"protocol": "KAFKA", "key": "k", "headers": {"ce_type": "a.b"}, "payload": {"n": 1}}

    Example: concord validate event.json --message /messagegroups/shop/messages/order.placed

    Exit codes: 0 the message conforms; 1 it does not conform; 2 the check could not be made.
    """
    answer = on_node(url, lambda client: _ask(client, _read(file), message))
    if as_json:
        print_json(answer)
    else:
        _show(answer)
    raise typer.Exit(0 if answer["valid"] else NO)


def _read(file: Path) -> bytes:
    try:
        text = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        orjson.loads(text)
    except OSError as error:
        fail(f"{file} cannot be read: {error.strerror}.")
    except orjson.JSONDecodeError as error:
        fail(f"{file} is no JSON: {error}.")
    return text


async def _ask(client: Client, body: bytes, message: str) -> Any:
    from catalog.client import Refused

    if not message.startswith("/"):
        hint = "It looks like this: /messagegroups/shop/messages/order.placed"
        fail(f"{message} is no xid.", hint)
    try:
        return await client.validate(message, body)
    except Refused as refused:
        # Exit code 1 is reserved for a message that was checked and does not conform.
        fail(refused.message, refused.hint, code=CANNOT)


def _show(answer: Any) -> None:
    verdict = "[green]conforms[/]" if answer["valid"] else "[red]does not conform[/]"
    schema = f", and its payload was held to {cell(answer['schema'])}" if "schema" in answer else ""
    out.print(f"The message {verdict} to {cell(answer['definition'])}{schema}.")
    if answer["violations"]:
        shown = table("where", "rule", "detail")
        for one in answer["violations"]:
            where = one["pointer"] or "the message"
            shown.add_row(cell(where), cell(one["rule"]), cell(one["detail"]))
        out.print(shown)
    for one in answer["unchecked"]:
        uri = f" ({cell(one['uri'])})" if "uri" in one else ""
        out.print(f"[yellow]Not checked:[/] {cell(one['part'])}{uri}: {cell(one['reason'])}")
