"""The commands `trust add`, `list` and `remove`."""

from __future__ import annotations

from typing import Annotated

import typer

from catalog.commands.console import (
    DEFAULT_URL,
    AsJson,
    Url,
    cell,
    json_of,
    on_node,
    out,
    print_json,
    table,
    wanted,
)

app = typer.Typer(
    no_args_is_help=True,
    help=(
        "Keys of other authorities. Of an authority with a key here, a node takes nothing, by "
        "whatever link or push, that the key or one that it stands for has not signed."
    ),
)

Authority = Annotated[str, typer.Argument(metavar="URI", help="The authority.")]


@app.command()
def add(
    authority: Authority,
    key: Annotated[
        str,
        typer.Argument(metavar="KEY", help="Its key, as `concord signing show` prints it there."),
    ],
    url: Url = DEFAULT_URL,
) -> None:
    """Trust a key of an authority, and refuse unsigned copies of the authority from now on.

    Get the key from the operator of the catalog, by a way that you trust. Existing copies stay;
    `concord signing verify` checks them.

    Example: concord trust add https://eu.example.com ed25519:1:S0mEkEy…
    """
    from catalog.operations.signing import NewTrust

    asked = wanted(NewTrust, authority=authority, key=key)
    trusted = on_node(url, lambda client: client.trust(asked))
    ids = ", ".join(each.id for each in trusted.keys if each.revokedat is None)
    out.print(f"Of {cell(authority)}, only what these keys sign is taken: [bold]{cell(ids)}[/].")


@app.command("list")
def list_(as_json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """List the keys that a node trusts, with the reason of each.

    `named`: by `concord trust add` or a link; `first`: the source showed the key at the first
    contact; `endorsed`: another trusted key has signed the key.

    Example: concord trust list
    """
    found = on_node(url, lambda client: client.trusted())
    if as_json:
        print_json(found)
        return
    shown = table("authority", "key", "reason", "since", "revoked")
    for each in found:
        for key in map(json_of, each.keys):
            values = key["key"], key["reason"], key["trustedat"], key.get("revokedat")
            shown.add_row(cell(each.authority), *map(cell, values))
    out.print(shown if found else "This node trusts no keys, and takes what is not signed.")


@app.command()
def remove(authority: Authority, url: Url = DEFAULT_URL) -> None:
    """Forget the keys of an authority, and accept its unsigned copies again.

    A link that was added with `--trust first` trusts again the next keys that its source shows.

    Example: concord trust remove https://eu.example.com
    """
    from catalog.operations.signing import AuthorityQuery

    query = wanted(AuthorityQuery, authority=authority)
    on_node(url, lambda client: client.distrust(query))
    out.print(f"Of {cell(authority)}, anything is taken again, signed or not.")
