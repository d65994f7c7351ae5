"""The commands `changes`, `revisions` and `compare`: what changed, and former contents."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import orjson
import typer

from catalog.commands.console import (
    DEFAULT_URL,
    NO,
    AsJson,
    Url,
    Yes,
    call_node,
    cell,
    confirm,
    fail,
    out,
    print_answer,
    print_json,
    print_rows,
    span_from,
    table,
    wanted,
)
from catalog.model.masking import printable_json
from catalog.model.timestamps import format_time, parse_time

if TYPE_CHECKING:
    from collections.abc import Iterable

    from catalog.operations.changes import ChangeEntry, DiffAnswer, DiffLine

app = typer.Typer()

_TIME = "An RFC 3339 time, or an age: 12h, 7d, 2w."

revisions_app = typer.Typer(
    no_args_is_help=True, help="Show the former contents of entities, and purge them."
)
_Of = Annotated[
    str,
    typer.Argument(
        metavar="XID",
        help="An entity; of a resource its default version, with /meta the resource itself.",
    ),
]
_STYLES = {"-": "red", "+": "green"}


@app.command()
def changes(
    path: Annotated[
        str | None,
        typer.Argument(metavar="[PATH]", help="Only this entity or collection, and below it."),
    ] = None,
    since: Annotated[
        str | None, typer.Option(help=f"From this time on. {_TIME}", metavar="TIME")
    ] = None,
    until: Annotated[
        str | None, typer.Option(help=f"Before this time. {_TIME}", metavar="TIME")
    ] = None,
    who: Annotated[
        str | None,
        typer.Option(
            "--who",
            help="Of this author: a name, a kind (anonymous, token, jwt, certificate, link, "
            "operator, node), or KIND:NAME.",
            metavar="WHO",
        ),
    ] = None,
    authority: Annotated[
        str | None,
        typer.Option("--authority", help="Only entities of this authority.", metavar="URI"),
    ] = None,
    parents: Annotated[
        bool, typer.Option("--parents", help="Also entities of which only children changed.")
    ] = False,
    show: Annotated[
        str | None,
        typer.Option(help="Show the difference that one change made.", metavar="SEQUENCE"),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="At most so many changes.")] = 50,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Show what changed, when and by whom, newest first.

    Readers see the changes of what they may see. The author is told to admins of the catalog and of
    the group, and to all readers of entities whose authority publishes its authors.

    Example: concord changes /endpoints/orders --since 7d

    Example: concord changes --show 0000000000000000835.0000000000000000023
    """
    if show is not None:
        _show(url, show, as_json=as_json)
        return
    from catalog.operations.changes import LIST_CHANGES, CatalogChangesQuery

    query = wanted(
        CatalogChangesQuery,
        path=path,
        since=time_from(since),
        until=time_from(until),
        who=who,
        authority=authority,
        parents=parents or None,
        limit=limit,
    )
    found = call_node(url, LIST_CHANGES, query=query).changes
    print_rows(
        found,
        ("time", "what", "entity", "changed", "who", "sequence"),
        _columns,
        nothing="There are no such changes.",
        as_json=as_json,
    )


def time_from(text: str | None) -> str | None:
    """The time of a text, as an age or a timestamp; another text ends the command."""
    if text is None:
        return None
    age = span_from(text)
    try:
        return format_time(parse_time(text) if age is None else datetime.now(UTC) - age)
    except (OverflowError, ValueError):
        fail(f"{text} is no time.", "Write it as 2030-12-19T06:00:00Z, or as an age: 12h, 7d, 2w.")


def _columns(entry: ChangeEntry) -> tuple[str, str, str, str, str, str]:
    time, who = format_time(entry.time), who_in(entry)
    return time, entry.action, entry.xid, ", ".join(entry.essence), who, entry.sequence


def who_in(entry: ChangeEntry) -> str:
    """The author of a change as `KIND:NAME`; empty if the reader may not know."""
    who = entry.who
    return "" if who is None else ":".join(filter(None, (who.kind, who.name)))


def _show(url: str, sequence: str, *, as_json: bool) -> None:
    from catalog.operations.changes import READ_CHANGE

    answer = call_node(url, READ_CHANGE, sequence=sequence)
    if as_json:
        print_json(answer)
        return
    change = answer.change
    who = who_in(change)
    out.print(
        f"{cell(format_time(change.time))}  {change.action} {cell(change.xid)}, epoch "
        f"{change.epoch}{f', by {cell(who)}' if who else ''}"
    )
    if answer.difference is None:
        out.print("The contents before and after it are no longer kept, or were purged.")
        return
    print_lines(answer.difference.text or ())
    print_difference(answer.difference)


@revisions_app.command("list")
def list_revisions(
    of: _Of,
    limit: Annotated[int, typer.Option(min=1, max=500, help="At most so many revisions.")] = 50,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """List the revisions of an entity, newest first, and whether their contents are kept.

    Example: concord revisions list /messagegroups/shop/messages/OrderPaid
    """
    from catalog.operations.changes import LIST_REVISIONS, RevisionsQuery

    query = wanted(RevisionsQuery, of=of, limit=limit)
    answer = call_node(url, LIST_REVISIONS, query=query)
    if as_json:
        print_json(answer)
        return
    shown = table("epoch", "time", "what", "content", "who", title=answer.of)
    for each in answer.revisions:
        what, content = each.action, each.content
        row = (each.epoch, format_time(each.time), what, content, who_in(each))
        shown.add_row(*map(cell, row))
    out.print(shown if answer.revisions else "The log has no changes of it.")


@revisions_app.command()
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

    from catalog.operations.changes import READ_REVISION, RevisionQuery

    query = wanted(RevisionQuery, of=of)
    answer = call_node(url, READ_REVISION, query=query, epoch=str(epoch))
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


@revisions_app.command()
def purge(
    of: Annotated[
        str, typer.Argument(metavar="XID", help="An entity, with what is or was below it.")
    ],
    yes: Yes = False,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Empty the former contents of an entity, after a secret was written by mistake.

    First write the entity without the secret, or delete it: the present content stays. The log
    tells of the changes without contents from then on, and the audit of the purge. Admins of the
    catalog may purge, and admins of a group what is in the group.

    Example: concord revisions purge /messagegroups/shop/messages/OrderPaid
    """
    from catalog.operations.changes import PURGE_REVISIONS, PurgeQuery

    query = wanted(PurgeQuery, of=of)
    confirm(f"Empty all former contents of {of} and below it?", yes=yes)
    answer = call_node(url, PURGE_REVISIONS, query=query)
    told = [f"Emptied {answer.purged} former contents of {cell(answer.of)}."]
    if answer.isheld:
        told.append("Its present content stays: write it without the secret, if it is there, too.")
    places = (f"- {cell(place)}" for place in answer.unreached)
    print_answer(answer, *told, "Not reached:", *places, as_json=as_json)


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

    With epochs, two contents of one entity are compared. The present content of the entity stands
    for an epoch that is not given.

    Attributes are compared, and documents by line and by field. Of Avro, JSON Schema and Protobuf
    the compatibility is told: backward, if readers with the newer schema can read older data;
    forward, if readers with the older schema can read newer data.

    Example: concord compare /schemagroups/shop/schemas/Order/versions/1 2

    Example: concord compare /schemagroups/shop/schemas/Order --from-epoch 3

    Exit codes: 0 equal; 1 different; 2 the command could not do its work.
    """
    from catalog.operations.changes import READ_DIFF, DiffQuery

    query = wanted(DiffQuery, of=of, to=to, ofepoch=from_epoch, toepoch=to_epoch)
    answer = call_node(url, READ_DIFF, query=query)
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
