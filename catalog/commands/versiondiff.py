"""The command `compare`: what differs between two versions, or two revisions of an entity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import orjson
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
    from collections.abc import Iterable

    from catalog.operations.changes import DiffAnswer, DiffLine

app = typer.Typer()

_STYLES = {"-": "red", "+": "green"}


@app.command()
def compare(
    of: Annotated[
        str, typer.Argument(metavar="XID", help="The older version, or a resource's default one.")
    ],
    to: Annotated[
        str | None,
        typer.Argument(metavar="[VERSION]", help="The id of the newer version, or its xid."),
    ] = None,
    from_epoch: Annotated[
        int | None, typer.Option(min=0, help="The epoch of a former content, to begin with.")
    ] = None,
    to_epoch: Annotated[
        int | None, typer.Option(min=0, help="The epoch of a former content, to end with.")
    ] = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Show what differs between two versions, and whether the newer one breaks readers.

    With epochs, two contents of one entity are compared; without one of them its present content.

    Attributes are compared, and documents by line and by field. Of Avro, JSON Schema and Protobuf
    the compatibility is told: backward, if readers with the newer schema can read older data;
    forward, if readers with the older schema can read newer data.

    Example: concord compare /schemagroups/shop/schemas/Order/versions/1 2

    Example: concord compare /schemagroups/shop/schemas/Order --from-epoch 3

    Exit codes: 0 equal; 1 different; 2 the command could not do its work.
    """
    from catalog.operations.changes import DiffQuery

    query = wanted(DiffQuery, of=of, to=to, ofepoch=from_epoch, toepoch=to_epoch)
    answer = on_node(url, lambda client: client.diff(query))
    if as_json:
        print_json(answer)
    else:
        print_difference(answer)
    if answer.changed:
        raise typer.Exit(NO)


def print_difference(answer: DiffAnswer) -> None:
    """Print a difference for people."""
    if not answer.changed:
        out.print("They are equal.")
        return
    out.print(f"Different: {cell(answer.changed)}.")
    if answer.values:
        shown = table("attribute", "old", "new")
        for value in answer.values:
            shown.add_row(cell(".".join(value.path)), *map(_json, (value.old, value.new)))
        out.print(shown)
    if answer.fields:
        shown = table("field", "old", "new")
        for field in answer.fields:
            shown.add_row(*map(cell, (field.path, field.old, field.new)))
        out.print(shown)
    print_lines(answer.lines or ())
    for way, verdict in (("Backward", answer.backward), ("Forward", answer.forward)):
        if verdict is not None:
            told = "compatible" if verdict.compatible else f"incompatible: {cell(verdict.reason)}"
            out.print(f"{way} {told}")
    if not answer.complete:
        out.print("The documents are too large to be compared.")


def print_lines(lines: Iterable[DiffLine]) -> None:
    """Print lines with their signs."""
    for line in lines:
        sign = " " if line.sign == "=" else line.sign
        style = _STYLES.get(line.sign)
        text = f"{sign} {cell(line.text)}" if line.text else sign
        out.print(f"[{style}]{text}[/]" if style else text)


def _json(value: object) -> str:
    return cell(value if value is None or isinstance(value, str) else orjson.dumps(value).decode())
