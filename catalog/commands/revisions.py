"""The commands `revisions`: the contents that an entity had, and how to purge them."""

from __future__ import annotations

import sys
from typing import Annotated

import orjson
import typer

from catalog.commands.changes import who_in
from catalog.commands.console import (
    DEFAULT_URL,
    AsJson,
    Url,
    cell,
    fail,
    on_node,
    out,
    print_json,
    table,
    wanted,
)
from catalog.model.masking import printable_json
from catalog.model.timestamps import format_time

app = typer.Typer(
    no_args_is_help=True, help="Show the former contents of entities, and purge them."
)

_Of = Annotated[
    str,
    typer.Argument(
        metavar="XID",
        help="An entity; of a resource its default version, with /meta the resource itself.",
    ),
]


@app.command("list")
def list_revisions(
    of: _Of,
    limit: Annotated[int, typer.Option(min=1, max=500, help="At most so many revisions.")] = 50,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """List the revisions of an entity, newest first, and whether their contents are kept.

    Example: concord revisions list /messagegroups/shop/messages/OrderPaid
    """
    from catalog.operations.changes import RevisionsQuery

    query = wanted(RevisionsQuery, of=of, limit=limit)
    answer = on_node(url, lambda client: client.revisions(query))
    if as_json:
        print_json(answer)
        return
    shown = table("epoch", "time", "what", "content", "who", title=answer.of)
    for each in answer.revisions:
        what, content = each.action, each.content
        row = (each.epoch, format_time(each.time), what, content, who_in(each))
        shown.add_row(*map(cell, row))
    out.print(shown if answer.revisions else "The log has no changes of it.")


@app.command()
def show(
    of: _Of,
    epoch: Annotated[int, typer.Argument(min=0, help="The epoch of the content.")],
    document: Annotated[
        bool, typer.Option("--document", help="Print the document alone, as it was.")
    ] = False,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Show the content that an entity had at an epoch.

    `concord compare XID --from-epoch N --to-epoch M` compares two of them.

    Example: concord revisions show /schemagroups/shop/schemas/Order 3 --document
    """
    from base64 import b64decode

    from catalog.operations.changes import RevisionQuery

    query = wanted(RevisionQuery, of=of)
    answer = on_node(url, lambda client: client.revision(epoch, query))
    if document:
        if answer.document is None and answer.documentbase64 is None:
            fail("This content has no document.")
        text = (answer.document or "").encode()
        encoded = answer.documentbase64
        sys.stdout.buffer.write(text if encoded is None else b64decode(encoded))
    elif as_json:
        print_json(answer)
    else:
        by = "" if answer.change is None else who_in(answer.change)
        out.print(
            f"{cell(answer.of)}, epoch {answer.epoch}, "
            f"{cell(format_time(answer.modifiedat))}{f', by {cell(by)}' if by else ''}"
        )
        dumped = orjson.dumps(answer.attributes, option=orjson.OPT_INDENT_2).decode()
        out.print(cell_lines(dumped))
        if answer.document is not None:
            out.print(cell_lines(answer.document))


def cell_lines(text: str) -> str:
    """A text of several lines, without markup."""
    return "\n".join(cell(line) if line else "" for line in printable_json(text).splitlines())


@app.command()
def purge(
    of: Annotated[
        str, typer.Argument(metavar="XID", help="An entity, with what is or was below it.")
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Purge without asking.")] = False,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Empty the former contents of an entity, after a secret was written by mistake.

    First write the entity without the secret, or delete it: the present content stays. The log
    tells of the changes without contents from then on, and the audit of the purge. Admins of the
    catalog may purge, and admins of a group what is in the group.

    Example: concord revisions purge /messagegroups/shop/messages/OrderPaid
    """
    from catalog.operations.changes import PurgeQuery

    query = wanted(PurgeQuery, of=of)
    if not yes:
        if not sys.stdin.isatty():
            fail("Nothing was done: without a terminal, a purge needs --yes.")
        typer.confirm(f"Empty all former contents of {of} and below it?", abort=True, err=True)
    answer = on_node(url, lambda client: client.purge_revisions(query))
    if as_json:
        print_json(answer)
        return
    out.print(f"Emptied {answer.purged} former contents of {cell(answer.of)}.")
    if answer.isheld:
        out.print("Its present content stays: write it without the secret, if it is there, too.")
    out.print("Not reached:")
    for place in answer.unreached:
        out.print(f"- {cell(place)}")
