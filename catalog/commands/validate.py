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
        str | None,
        typer.Option(
            "--message",
            help="The definition: a message of a message group or an endpoint, or one version. "
            "Without it, the definition is found by the type of the CloudEvent.",
            metavar="XID",
        ),
    ] = None,
    type: Annotated[
        str | None,
        typer.Option(
            "--type",
            help="The type of the CloudEvent, if the file has only its data.",
            metavar="TYPE",
        ),
    ] = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Find the definition of a message, check whether it conforms, and list the broken rules.

    A CloudEvent is a JSON object with a specversion. Every other object is a message of a
    protocol: the members have the names of a definition's protocoloptions, and the body is
    `payload` (a JSON value or text) or `payload_base64`:

    {"protocol": "KAFKA", "key": "k", "headers": {"ce_type": "a.b"}, "payload": {"n": 1}}

    Example: concord validate event.json

    Example: concord validate data.json --type com.example.order.placed

    Example: concord validate event.json --message /messagegroups/shop/messages/order.placed

    Exit codes: 0 the message conforms; 1 it does not conform; 2 the check could not be made.
    """
    answer = on_node(url, lambda client: _ask(client, _read(file), message, type))
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


async def _ask(client: Client, body: bytes, message: str | None, type: str | None) -> Any:
    from catalog.client import Refused

    if message is not None and type is not None:
        fail("--message and --type exclude each other.", "The definition knows its type.")
    if message is not None and not message.startswith("/"):
        hint = "It looks like this: /messagegroups/shop/messages/order.placed"
        fail(f"{message} is no xid.", hint)
    try:
        if message is None:
            return await client.validate_by_type(body, type)
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
            line = f" (line {one['line']})" if "line" in one else ""
            where = f"{one['pointer'] or 'the message'}{line}"
            shown.add_row(cell(where), cell(one["rule"]), cell(one["detail"]))
        out.print(shown)
    for other in answer.get("candidates", [])[1:]:
        fits = "fits as well" if other["matches"] else "does not match"
        why = "; ".join(f"{one['pointer']}: {one['detail']}" for one in other["violations"])
        out.print(f"{cell(other['definition'])} has the type, too: it {fits}. {cell(why)}".rstrip())
    for one in answer["unchecked"]:
        uri = f" ({cell(one['uri'])})" if "uri" in one else ""
        out.print(f"[yellow]Not checked:[/] {cell(one['part'])}{uri}: {cell(one['reason'])}")
