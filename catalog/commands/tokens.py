"""The commands `token add`, `list`, `show`, `remove`, and `whoami`."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from catalog.commands.console import (
    DEFAULT_URL,
    NO,
    AsJson,
    CommandError,
    Url,
    cell,
    err,
    fail,
    on_node,
    out,
    print_json,
    run,
    span_from,
    table,
    wanted,
)
from catalog.commands.nodedatabase import (
    BY_COMMAND,
    DatabaseUrl,
    DataDir,
    NodeUrl,
    in_audited_transaction,
    in_database,
    settings_of,
)

if TYPE_CHECKING:
    from catalog.model.caller import Author
    from catalog.operations.access import NewToken, PathGrant, Token
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
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    as_json: AsJson = False,
    url: NodeUrl = None,
) -> None:
    """Make a token and print it once; the node stores only a digest of the token.

    Example: export CONCORD_TOKEN=$(concord token add --role admin --name me --expires 90d)

    Example: concord token add --role writer --group '/schemagroups/contoso.*' --name contoso
    """
    from catalog.operations.access import NewToken

    paths = group or ["/"]
    grants = [{"role": each, "path": path} for each in role for path in paths]
    end = None if expires is None else _end(expires)
    token = wanted(NewToken, name=name, grants=grants, expiresat=end)
    if url is not None:
        made = on_node(url, lambda client: client.create_token(token))
    else:
        settings = settings_of(data_dir, database_url)
        made = run(
            lambda: in_audited_transaction(
                settings,
                "concord token add",
                lambda connection, operator: _create(connection, operator, token),
            )
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
def list_(
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    as_json: AsJson = False,
    url: NodeUrl = None,
) -> None:
    """List the tokens of a node with the time of the last use, to the minute.

    Example: concord token list
    """
    if url is not None:
        tokens = on_node(url, lambda client: client.tokens())
    else:
        settings = settings_of(data_dir, database_url)
        tokens = run(lambda: in_database(settings, _list))
    if as_json:
        print_json(tokens)
        return
    columns = ("id", "name", "roles", "created", "expires", "last used")
    shown = table(*columns)
    for token in tokens:
        times = map(_time, (token.createdat, token.expiresat, token.usedat))
        shown.add_row(*map(cell, (token.id, token.name, _roles(token.grants), *times)))
    out.print(shown if tokens else "There are no tokens; make one with `concord token add`.")


@app.command()
def show(
    id: TokenId,
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    as_json: AsJson = False,
    url: NodeUrl = None,
) -> None:
    """Show a token with its roles in up to 1,000 groups, but without the secret.

    Example: concord token show 3f0c9d51aa
    """
    if url is not None:
        token = on_node(url, lambda client: client.token(id))
    else:
        settings = settings_of(data_dir, database_url)
        token = run(lambda: in_database(settings, lambda connection: _show(connection, id)))
    if as_json:
        print_json(token)
        return
    used = _time(token.usedat) or "never"
    end = _time(token.expiresat) or "no end"
    out.print(cell(f"{token.id} {token.name}".rstrip()))
    out.print(f"Created {_time(token.createdat)}, expires: {end}, last used: {used}.")
    for grant in token.grants:
        place = "" if grant.path == "/" else f" in {grant.path}"
        out.print(cell(f"{grant.role}{place}"))
    if token.more:
        out.print("There are more roles than a node tells at once.")


@app.command()
def remove(
    id: TokenId,
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    url: NodeUrl = None,
) -> None:
    """Revoke a token; the node refuses the token after two seconds at the latest.

    Example: concord token remove 3f0c9d51aa
    """
    if url is not None:
        on_node(url, lambda client: client.revoke_token(id))
    else:
        settings = settings_of(data_dir, database_url)
        is_revoked = run(
            lambda: in_audited_transaction(
                settings,
                "concord token remove",
                lambda connection, operator: _revoke(connection, operator, id),
            )
        )
        if not is_revoked:
            fail(f"There is no token {id!r}.", "See `concord token list`.", code=NO)
    out.print(f"Token [bold]{cell(id)}[/] is revoked.")


@single.command()
def whoami(as_json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """Show the identity and the roles that you have at a node.

    Example: concord whoami --url http://127.0.0.1:8080
    """
    found = on_node(url, lambda client: client.whoami())
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
    from catalog.model.errors import XRegistryError

    try:
        made = await add_token(connection, token, by=BY_COMMAND)
    except XRegistryError as error:
        raise CommandError(error.title, error.detail) from error
    operator.name_target(f"/access/tokens/{made.id}")
    return made


async def _list(connection: Connection) -> list[Token]:
    from catalog.access.administration import read_tokens

    return await read_tokens(connection)


async def _show(connection: Connection, id: str) -> Token:
    from catalog.access.administration import read_token

    found = await read_token(connection, id)
    if found is None:
        fail(f"There is no token {id!r}.", "See `concord token list`.", code=NO)
    return found


async def _revoke(connection: Connection, operator: Author, id: str) -> bool:
    from catalog.access.owntokens import end_token

    operator.name_target(f"/access/tokens/{id}")
    return await end_token(connection, id) is not None
