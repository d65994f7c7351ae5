"""The commands `token add`, `list`, `show`, `remove`, and `whoami`."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, NoReturn

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
    out,
    print_json,
    print_rows,
    span_from,
    wanted,
)
from catalog.commands.nodedatabase import BY_COMMAND, NodePlace, node_place
from catalog.commands.optionsets import with_options

if TYPE_CHECKING:
    from catalog.model.caller import Author
    from catalog.operations.access import NewToken, PathGrant, Token, Tokens
    from catalog.store.database import Connection

_MOST_SHOWN = 10

TokenId = Annotated[
    str, typer.Argument(help="The id of the token, as `concord token list` has it.")
]

app = typer.Typer(
    no_args_is_help=True,
    help=(
        "Tokens by which a node knows machines and people. On the node's machine, the commands use "
        "its database, whether it runs or not; with --url or CONCORD_URL, they ask the node, which "
        "takes the token of an admin."
    ),
)
single = typer.Typer()


@app.command()
@with_options(place=node_place)
def add(
    role: Annotated[
        list[str],
        typer.Option(
            "--role",
            help="What the token permits: reader, writer (reads, too), replicator (reads, and "
            "brings or pushes copies) or admin (everything). Repeatable.",
            metavar="ROLE",
        ),
    ],
    place: NodePlace,
    name: Annotated[str, typer.Option(help="What the token is for.")] = "",
    group: Annotated[
        list[str] | None,
        typer.Option(
            help="Give the role in this group only, as /schemagroups/contoso, with * for any "
            "characters: /*/contoso.*. Repeatable; `concord access` changes it later.",
            metavar="PATH",
        ),
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option(
            help="When it ends: after a time (12h, 90d, 52w) or at a date. Else it has no end.",
            metavar="WHEN",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a token and print it once; the node stores only a digest of the token.

    Example: export CONCORD_TOKEN=$(concord token add --role admin --name me --expires 90d)

    Example: concord token add --role writer --group '/schemagroups/contoso.*' --name contoso
    """
    from catalog.operations.access import CREATE_TOKEN, NewToken

    paths = group or ["/"]
    grants = [{"role": each, "path": path} for each in role for path in paths]
    end = None if expires is None else _end(expires)
    token = wanted(NewToken, name=name, grants=grants, expiresat=end)
    made = place.call_or_work(
        CREATE_TOKEN, token, work=lambda connection, operator: _create(connection, operator, token)
    )
    if as_json:
        print_json(made)
        return
    told = _time(made.expiresat) or "no end; --expires gives it one"
    roles = _roles(made.grants)
    err.print(f"Token [bold]{cell(made.id)}[/] ({cell(roles)}, {cell(told)}), not shown again:")
    # The token is alone on the standard output, not folded or coloured, for use in `$(...)`.
    sys.stdout.write(f"{made.token}\n")


@app.command("list")
@with_options(place=node_place)
def list_(place: NodePlace, as_json: AsJson = False) -> None:
    """List the tokens of a node with the time of the last use, to the minute.

    Example: concord token list
    """
    from catalog.operations.access import LIST_TOKENS

    print_rows(
        place.call_or_work(LIST_TOKENS, work=_list).tokens,
        ("id", "name", "roles", "created", "expires", "last used"),
        lambda token: (
            *(token.id, token.name, _roles(token.grants)),
            *map(_time, (token.createdat, token.expiresat, token.usedat)),
        ),
        nothing="There are no tokens; make one with `concord token add`.",
        as_json=as_json,
    )


@app.command()
@with_options(place=node_place)
def show(id: TokenId, place: NodePlace, as_json: AsJson = False) -> None:
    """Show a token with its roles in up to 1,000 groups, but without the secret.

    Example: concord token show 3f0c9d51aa
    """
    from catalog.operations.access import GET_TOKEN

    token = place.call_or_work(GET_TOKEN, id=id, work=lambda connection, _: _show(connection, id))
    if as_json:
        print_json(token)
        return
    used = _time(token.usedat) or "never"
    end = _time(token.expiresat) or "no end"
    out.print(cell(f"{token.id} {token.name}".rstrip()))
    out.print(f"Created {_time(token.createdat)}, expires: {end}, last used: {used}.")
    for grant in token.grants:
        where = "" if grant.path == "/" else f" in {grant.path}"
        out.print(cell(f"{grant.role}{where}"))
    if token.more:
        out.print("There are more roles than a node tells at once.")


@app.command()
@with_options(place=node_place)
def remove(id: TokenId, place: NodePlace) -> None:
    """Revoke a token; the node refuses the token after two seconds at the latest.

    Example: concord token remove 3f0c9d51aa
    """
    from catalog.operations.access import DELETE_TOKEN

    place.call_or_work(
        DELETE_TOKEN, id=id, work=lambda connection, operator: _revoke(connection, operator, id)
    )
    out.print(f"Token [bold]{cell(id)}[/] is revoked.")


@single.command()
def whoami(as_json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """Show the identity and the roles that you have at a node.

    Example: concord whoami --url http://127.0.0.1:8080
    """
    from catalog.operations.access import WHOAMI

    found = call_node(url, WHOAMI)
    if as_json:
        print_json(found)
        return
    if found.open:
        out.print(f"{cell(url)} is open: everybody who reaches it may do everything.")
        return
    name = found.name or "nobody in particular"
    vouched = f", vouched for by {found.issuer}" if found.issuer else ""
    out.print(cell(f"You are {name} ({found.kind}{vouched})."))
    out.print(f"Roles: {cell(_roles(found.grants) or 'none')}")
    if found.more:
        out.print("There are more than a node tells at once.")


def _time(moment: datetime | None) -> str | None:
    from catalog.model.timestamps import format_time

    return None if moment is None else format_time(moment)


def _roles(grants: list[PathGrant]) -> str:
    """Roles as text, each with the groups of the role: writer in /schemagroups/a, reader."""
    groups: dict[str, list[str]] = {}
    for grant in grants:
        groups.setdefault(grant.role, []).append(grant.path)
    return "; ".join(
        role if "/" in paths else f"{role} in {', '.join(paths[:_MOST_SHOWN])}{_rest(paths)}"
        for role, paths in groups.items()
    )


def _rest(paths: list[str]) -> str:
    more = len(paths) - _MOST_SHOWN
    return f" and {more} more" if more > 0 else ""


def _end(text: str) -> str:
    """The expiry time of a token, in the format of the API."""
    from catalog.model.timestamps import format_time, parse_time

    now = datetime.now(UTC)
    if (span := span_from(text)) is not None:
        return format_time((now + span).replace(microsecond=0))
    try:
        end = parse_time(text if "T" in text.upper() else f"{text}T00:00:00Z")
    except ValueError:
        fail(f"{text!r} is no time.", "Write it as 90d, 12h, 2030-12-19 or 2030-12-19T06:00:00Z.")
    if end <= now:
        fail(f"{text} has passed already.")
    return format_time(end)


async def _create(connection: Connection, operator: Author, token: NewToken) -> Token:
    from catalog.access.administration import add_token

    made = await add_token(connection, token, by=BY_COMMAND)
    operator.name_target(f"/access/tokens/{made.id}")
    return made


async def _list(connection: Connection, _: Author) -> Tokens:
    from catalog.access.administration import read_tokens
    from catalog.operations.access import Tokens

    return Tokens(tokens=await read_tokens(connection))


async def _show(connection: Connection, id: str) -> Token:
    from catalog.access.administration import read_token

    found = await read_token(connection, id)
    if found is None:
        _fail_unknown(id)
    return found


async def _revoke(connection: Connection, operator: Author, id: str) -> None:
    from catalog.access.owntokens import end_token

    operator.name_target(f"/access/tokens/{id}")
    if await end_token(connection, id) is None:
        _fail_unknown(id)


def _fail_unknown(id: str) -> NoReturn:
    fail(f"There is no token {id!r}.", "See `concord token list`.", code=NO)
