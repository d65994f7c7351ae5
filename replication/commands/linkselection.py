"""The options for the selection, the names and the addresses of a link, and `link set`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from catalog.commands.console import DEFAULT_URL, Url, cell, fail, on_node, out, wanted
from catalog.commands.optionsets import with_options
from replication.commands.linkcontrol import LinkId

app = typer.Typer()

Scope = Annotated[
    list[str] | None,
    typer.Option(
        help="Bring only the entities at or below this xid at their authority. Repeatable.",
        metavar="XID",
    ),
]
Types = Annotated[
    list[str] | None,
    typer.Option(
        "--type",
        help="Bring only groups of this type, as endpoints, or resources of this type with their "
        "groups, as messagegroups/messages. Repeatable.",
        metavar="TYPE",
    ),
]
Labels = Annotated[
    list[str] | None,
    typer.Option(
        "--label",
        help="Bring only groups with this label, and resources whose default version has it. "
        "Repeatable: all labels have to be there.",
        metavar="NAME[=VALUE]",
    ),
]
Prefix = Annotated[
    str | None,
    typer.Option(help="Put this before the id of each group here.", metavar="TEXT"),
]
Names = Annotated[
    list[str] | None,
    typer.Option(
        "--map",
        help="Call one group otherwise here, as messagegroups/shop=messagegroups/eu-shop. "
        "Repeatable.",
        metavar="THERE=HERE",
    ),
]
Addresses = Annotated[
    list[str] | None,
    typer.Option(
        "--address",
        help="Show this beginning of endpoints' addresses otherwise here, as "
        "amqp://broker.a:5672=amqp://bridge.b:5673. Repeatable.",
        metavar="THERE=HERE",
    ),
]
_PAIRS = {
    "map": "--map messagegroups/shop=messagegroups/eu-shop",
    "addresses": "--address amqp://broker.a:5672=amqp://bridge.b:5673",
}


def labels_in(label: Labels = None) -> dict[str, Any]:
    """The member of a link's definition for `--label`; an empty text removes all labels."""
    return {} if label is None else {"labels": [each for each in label if each]}


def selection_in(
    scope: Scope = None,
    types: Types = None,
    prefix: Prefix = None,
    names: Names = None,
    addresses: Addresses = None,
) -> dict[str, Any]:
    """The members of a link's definition for the given options.

    An empty text removes the former values of an option.
    """
    given: dict[str, Any] = {"scope": scope, "types": types, "prefix": prefix}
    given |= {"map": names, "addresses": addresses}
    selection = {name: value for name, value in given.items() if value is not None}
    for name in selection.keys() - {"prefix"}:
        selection[name] = [each for each in selection[name] if each]
    for name in selection.keys() & _PAIRS:
        selection[name] = dict(_pair(each, _PAIRS[name]) for each in selection[name])
    return selection


@app.command("set")
@with_options(selection=selection_in, labels=labels_in)
def set_(
    id: LinkId,
    selection: dict[str, Any],
    labels: dict[str, Any],
    pin: Annotated[
        str | None,
        typer.Option(help="The authority that the source of the link speaks for.", metavar="URI"),
    ] = None,
    source: Annotated[
        str | None, typer.Option(help="The URL that the catalog of the link has moved to.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Do not ask --source whether it is the same catalog.")
    ] = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Change the selection and the names of a link; options that are not given stay.

    Each option replaces the former values of the link, but --map and --address add pairs; an empty
    value (--type '') removes all values. Entities that are no longer selected leave. Only missing
    entities are fetched. Groups with a new name are renamed, and endpoints get their new addresses
    in place. ID may also be an id of `concord accept list`. `concord link credential` changes the
    credential of a link.

    --source is for a catalog with a new URL (for a link that pushes, the target): if the same node
    answers there, the link continues from its cursor.

    --pin sets a new authority of the source, and copies the entities of the new authority. The
    replicas of the former authority stay; `concord link reset --drop` drops replicas.

    Example: concord link set eu --type messagegroups --prefix eu-
    """
    selection |= labels
    if not (selection or source or pin):
        fail("Nothing is to be changed.", "See `concord link set --help`.")
    from catalog.operations.links import LinkChanges, LinkSelection

    before = on_node(url, lambda client: client.link(id))
    for name in _PAIRS:
        if selection.get(name):
            selection[name] = {**getattr(before, name), **selection[name]}
    if source:
        selection["target" if before.target else "source"] = source
    changes = wanted(LinkChanges, **selection, authority=pin)
    link = on_node(url, lambda client: client.change_link(id, changes, force=force))
    members = LinkSelection.model_fields
    shown = ", ".join(f"{name}: {cell(getattr(link, name) or None)}" for name in members)
    out.print(f"Link [bold]{cell(id)}[/] is changed. {shown}.")
    if pin:
        out.print(f"It is pinned to {cell(link.authority)}.")
    if source:
        out.print(f"It goes on at {cell(source)}.")


def _pair(text: str, example: str) -> tuple[str, str]:
    there, _, here = text.partition("=")
    if not here:
        fail(f'"{text}" is no pair.', f"Write {example}.")
    return there, here
